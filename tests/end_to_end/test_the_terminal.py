"""The display of a run on a pseudo-terminal."""

import json
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from dataclasses import dataclass
from fcntl import ioctl

import pytest
from command_line import PROGRAM, Kvmark, split

from waiting import PATIENCE_S

SIM = "sim:?clock=real&mean_us=200&servers=2&outage=0.6+0.5"
# An interval a tenth of a second long, so that a short run has many.
WORDS = (
    f"run ycsb/a --system {SIM} --load never --rate 500 --clients 4 --duration 3s --interval 100ms"
)
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@dataclass(frozen=True)
class Shown:
    """The output of a program to its terminal, and to a pipe as its standard output."""

    written: str
    out: str
    code: int

    @property
    def lines(self) -> list[str]:
        """Each state of each line."""
        return re.split(r"[\r\n]+", _ESCAPE.sub("", self.written))


def on_terminal(
    kvmark: Kvmark, *words: str, command: str = WORDS, columns: int = 80, **variables: str
) -> Shown:
    """Runs the program on a terminal; with --json, standard output is a pipe."""
    dropped = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR")
    inherited = {name: value for name, value in kvmark.environment().items() if name not in dropped}
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    process = subprocess.Popen(
        [str(PROGRAM), *split((command, *words))],
        cwd=kvmark.folder,
        env={**inherited, "TERM": "xterm-256color", **variables},
        stdin=theirs,
        stdout=subprocess.PIPE if "--json" in words else theirs,
        stderr=theirs,
    )
    os.close(theirs)
    written, deadline = b"", time.monotonic() + PATIENCE_S
    try:
        while time.monotonic() < deadline:
            if not select.select([ours], [], [], 1.0)[0]:
                continue
            try:
                written += os.read(ours, 1 << 16)
            except OSError:  # No process has the terminal any more.
                break
    finally:
        out, _ = process.communicate(timeout=PATIENCE_S)
        os.close(ours)
    return Shown(written.decode(), (out or b"").decode(), process.returncode)


@pytest.mark.parametrize("columns", [40, 80])
def test_a_run_has_a_live_display_and_charts_that_fit(kvmark: Kvmark, columns: int) -> None:
    shown = on_terminal(kvmark, columns=columns)
    assert shown.code in (0, 1), shown
    assert "\x1b[?25h" in shown.written, "the cursor is visible again"
    live = [line for line in shown.lines if line.startswith("ops/s  ")]
    assert any("▁" <= sign <= "█" for line in live for sign in line), shown.lines
    assert any(line.startswith("READ ") for line in shown.lines)
    assert any(re.match(r"errors [\d,]+ unavailable", line) for line in shown.lines)
    charts = on_terminal(kvmark, command="show last --charts", columns=columns).lines
    charts = charts[charts.index("Response time") :]
    assert "Timeline" in charts
    assert max(map(len, [*live, *charts])) <= columns


# A variable, what the output of a terminal then lacks, and the start of one of its lines.
DISPLAYS = {
    "NO_COLOR=1": (r"\x1b\[(?:[0-9;]*;)?(?:3[0-7]|9[0-7]|38;[0-9;]+)m", "Verdict "),
    "TERM=dumb": ("\x1b", "[1/1] ycsb/a  done in"),
    "PYTHONIOENCODING=ascii": ("[^\0-\x7f]", "ops/s  "),
}


@pytest.mark.parametrize("variable", DISPLAYS)
def test_output_fits_the_terminal(kvmark: Kvmark, variable: str) -> None:
    absent, start = DISPLAYS[variable]
    shown = on_terminal(kvmark, **dict([variable.split("=")]))
    charts = on_terminal(kvmark, command="show last --charts", **dict([variable.split("=")]))
    assert not re.search(absent, shown.written + charts.written)
    assert "Timeline" in charts.lines
    assert any(line.startswith(start) for line in shown.lines)


def test_a_live_display_leaves_json_one_document(kvmark: Kvmark) -> None:
    shown = on_terminal(kvmark, "--json")
    fields = {"schema", "run", "summary", "verdict", "objectives"}
    assert set(json.loads(shown.out)) == fields
    assert any(line.startswith("ops/s  ") for line in shown.lines)


def test_quiet_has_no_live_display(kvmark: Kvmark) -> None:
    shown = on_terminal(kvmark, "-q", "--json")
    # An INVALID run still prints one sentence.
    assert all(line.startswith("kvmark: ") or not line for line in shown.lines), shown
    assert json.loads(shown.out)


def test_a_pipe_gets_charts_as_plain_text(kvmark: Kvmark) -> None:
    result = kvmark(WORDS, exits=(0, 1))
    assert "\x1b" not in result.out + result.err
    assert kvmark("show").out == result.out
    charts = kvmark("show --charts").out
    assert "\x1b" not in charts
    assert "Timeline" in charts
