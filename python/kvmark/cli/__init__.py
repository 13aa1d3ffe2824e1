"""The words a user types. Answers go to standard output, everything else to standard error."""

import signal
import sys
from collections.abc import Sequence

from kvmark import interrupts

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command line and returns its exit code.

    0 done, 1 the answer is no, 2 usage error, 3 the system under test failed, 130 interrupted, by
    Ctrl-C or by SIGTERM.
    """
    # Once the program's command is over, there is nothing left to be interrupted.
    with interrupts.listening(then=signal.SIG_IGN if arguments is None else None) as asked:
        # It takes a while to load, and Ctrl-C may come meanwhile.
        from kvmark.cli.program import run_program

        code = run_program(arguments)
    if not asked.count or code == interrupts.EXIT_CODE:
        return code
    print("kvmark: interrupted", file=sys.stderr)
    return interrupts.EXIT_CODE
