"""The ``kube-netlab`` command's way in and out: signals and streams first, then the command, then one exit status.

Signals wait while all that the command is made of is imported: Ctrl-C shows no traceback, however early it comes.
"""

from __future__ import annotations

import sys
from typing import NoReturn

from netlab.cli import interrupts


def main() -> NoReturn:
    """Run the command; every error becomes one message and an exit status."""
    interrupts.hold()
    try:
        status = _run()
    except interrupts.Interrupted as interrupt:
        from netlab.cli.output import print_interrupted

        print_interrupted()
        status = interrupt.exit_status
    finally:
        # What comes now comes too late: the command has its status.
        interrupts.hold()
    sys.exit(status)


def _run() -> int:
    from netlab.cli import streams

    streams.prepare()
    from netlab.cli.faults import as_error
    from netlab.cli.output import print_error
    from netlab.model.errors import NetlabError

    try:
        from netlab.cli.app import run

        interrupts.release()
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
