"""The command line. Answers go to standard output, everything else to standard error."""

import signal
import sys
from collections.abc import Sequence
from contextlib import suppress

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command line and returns its exit code.

    0 done, 1 the answer is no, 2 usage error, 3 the system under test failed, 130 interrupted, by
    Ctrl-C or by SIGTERM.
    """
    if arguments is None and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # Nothing is done yet that an interrupt must undo.
        with suppress(ValueError):  # not in the main thread
            signal.signal(signal.SIGINT, signal.SIG_DFL)
    from kvmark import interrupts

    # After the program's command, nothing is left to interrupt.
    with interrupts.listening(then=signal.SIG_IGN if arguments is None else None) as asked:
        # Ctrl-C may come while this loads.
        from kvmark.cli.program import run_program

        code = run_program(arguments)
    if not asked.count or code == interrupts.EXIT_CODE:
        return code
    print("kvmark: interrupted", file=sys.stderr)
    return interrupts.EXIT_CODE
