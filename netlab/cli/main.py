"""The ``kube-netlab`` command's way in and out: signals and streams first, then the command, then one exit status.

Next to nothing is imported before the signals are dealt with: Ctrl-C shows no traceback, however early it comes.
"""

from __future__ import annotations

import sys

from netlab.cli import interrupts


def main() -> None:
    """Run the command; every error becomes one message and an exit status."""
    try:
        interrupts.install()
        status = _run()
    except interrupts.Interrupted:
        from netlab.cli.output import print_interrupted

        status = print_interrupted()
    sys.exit(status)


def _run() -> int:
    from netlab.cli import streams

    streams.prepare()
    from netlab.cli.faults import as_error
    from netlab.cli.output import print_error
    from netlab.model.errors import NetlabError

    try:
        from netlab.cli.app import run

        status = run(sys.argv[1:])
        sys.stdout.flush()
    except NetlabError as error:
        print_error(error)
        return error.exit_status
    except Exception as error:
        fault = as_error(error)
        print_error(fault)
        return fault.exit_status
    return status
