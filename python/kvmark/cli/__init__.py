"""The command line. Answers go to standard output, everything else to standard error."""

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
    # After the program's command, nothing is left to interrupt.
    with interrupts.listening(then=signal.SIG_IGN if arguments is None else None) as asked:
        # Ctrl-C may come while this loads.
        from kvmark.cli.program import run_program

        code = run_program(arguments)
    if not asked.count or code == interrupts.EXIT_CODE:
        return code
    print("kvmark: interrupted", file=sys.stderr)
    return interrupts.EXIT_CODE
