"""``python -m bench [NAME…] [--smoke]``: measure, and print each figure beside its limit.

Exit status 1 if a figure is over its limit. ``--smoke``: fewer rounds, too few to judge by: exit status 0.
"""

from __future__ import annotations

import argparse
import sys

from bench import app, building, capturing, microvm, programming, scaling, walking
from bench.figures import Figure, show

BENCHMARKS = {
    "building": building.run,
    "walking": walking.run,
    "capturing": capturing.run,
    "programming": programming.run,
    "scaling": scaling.run,
    "microvm": microvm.run,
    "app": app.run,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHMARKS))
    parser.add_argument("--smoke", action="store_true", help="fewer rounds, and no verdict")
    options = parser.parse_args()
    figures: list[Figure] = []
    for name in options.names or BENCHMARKS:
        if name not in BENCHMARKS:
            parser.error(f"no benchmark {name!r}; there are {', '.join(BENCHMARKS)}")
        figures += BENCHMARKS[name](smoke=options.smoke)
    print(show(figures))
    return 0 if options.smoke or all(each.good for each in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
