"""What a terminal shows of a run, on a terminal that isn't there."""

import json
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Mapping
from dataclasses import dataclass
from fcntl import ioctl
from pathlib import Path

import pytest
from command_line import PROGRAM, Kvmark

from waiting import PATIENCE_S

SIM = "sim:?clock=real&mean_us=200&servers=2&outage=0.6+0.5"
# An interval a tenth of a second long, so that a short run has many.
WORDS = ("run", "ycsb/a", "--system", SIM, "--load", "never", "--rate", "500", "--clients", "4",
         "--duration", "3s", "--interval", "100ms")  # fmt: skip
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_COLOUR = re.compile(r"\x1b\[(?:[0-9;]*;)?(?:3[0-7]|9[0-7]|38;[0-9;]+)m")


@dataclass(frozen=True)
class Shown:
    """What a program wrote to its terminal, and its standard output where that was a pipe."""

    written: str
    out: str
    code: int

    @property
    def lines(self) -> list[str]:
        """Everything that ever stood on a line."""
        return re.split(r"[\r\n]+", _ESCAPE.sub("", self.written))


def on_terminal(
    folder: Path, columns: int, *words: str, more: Mapping[str, str] | None = None,
    out_too: bool = True,
) -> Shown:  # fmt: skip
    """Runs the program on a terminal of so many columns."""
    dropped = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR")
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    environment = {**kept, "KVMARK_RUNS": str(folder / "runs"), "TERM": "xterm-256color"}
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    process = subprocess.Popen(
        [str(PROGRAM), *words], cwd=folder, env={**environment, **(more or {})}, stdin=theirs,
        stdout=theirs if out_too else subprocess.PIPE, stderr=theirs,
    )  # fmt: skip
    os.close(theirs)
    written, deadline = b"", time.monotonic() + PATIENCE_S
    try:
        while time.monotonic() < deadline:
            if not select.select([ours], [], [], 1.0)[0]:
                continue
            try:
                written += os.read(ours, 1 << 16)
            except OSError:  # The last of those who had the terminal is gone.
                break
    finally:
        out, _ = process.communicate(timeout=PATIENCE_S)
        os.close(ours)
    return Shown(written.decode(), (out or b"").decode(), process.returncode)


@pytest.mark.parametrize("columns", [40, 80])
def test_a_run_is_watched_and_drawn_at_its_end(tmp_path: Path, columns: int) -> None:
    shown = on_terminal(tmp_path, columns, *WORDS)
    assert shown.code in (0, 1), shown
    assert "\x1b[?25h" in shown.written, "the cursor is there again"
    live = [line for line in shown.lines if line.startswith("ops/s  ")]
    assert any("▁" <= sign <= "█" for line in live for sign in line), shown.lines
    assert any(line.startswith("READ ") for line in shown.lines)
    assert any(re.match(r"errors [\d,]+ unavailable", line) for line in shown.lines)
    assert "Response time" in shown.lines
    assert "Timeline" in shown.lines
    drawn = shown.lines[shown.lines.index("Response time") :]
    own = [line for line in [*live, *drawn] if not line.startswith("kvmark: ")]
    assert max(map(len, own)) <= columns


def test_no_color_draws_without_colours(tmp_path: Path) -> None:
    shown = on_terminal(tmp_path, 80, *WORDS, more={"NO_COLOR": "1"})
    assert "Timeline" in shown.lines
    assert not _COLOUR.search(shown.written)


def test_a_dumb_terminal_gets_lines_and_no_escape_code(tmp_path: Path) -> None:
    shown = on_terminal(tmp_path, 80, *WORDS, more={"TERM": "dumb"})
    assert "Timeline" in shown.lines
    assert "\x1b" not in shown.written
    assert any(line.startswith("[1/1] ycsb/a  done in") for line in shown.lines)


def test_where_blocks_cannot_be_written_everything_is_drawn_all_the_same(tmp_path: Path) -> None:
    shown = on_terminal(tmp_path, 80, *WORDS, more={"PYTHONIOENCODING": "ascii"})
    assert shown.written.isascii()
    assert "Timeline" in shown.lines
    assert any(line.startswith("ops/s  ") for line in shown.lines)


def test_json_stays_one_document_beside_a_live_view(tmp_path: Path) -> None:
    shown = on_terminal(tmp_path, 80, *WORDS, "--json", out_too=False)
    assert set(json.loads(shown.out)) == {
        "schema", "run", "summary", "verdict", "objectives",
    }  # fmt: skip
    assert any(line.startswith("ops/s  ") for line in shown.lines)


def test_quiet_shows_nothing_while_it_goes(tmp_path: Path) -> None:
    shown = on_terminal(tmp_path, 80, *WORDS, "-q", "--json", out_too=False)
    # A run that can't be used still says so in a sentence.
    assert all(line.startswith("kvmark: ") or not line for line in shown.lines), shown
    assert json.loads(shown.out)


def test_a_pipe_gets_the_pictures_as_plain_text(kvmark: Kvmark) -> None:
    result = kvmark(*WORDS, exits=(0, 1))
    assert "\x1b" not in result.out + result.err
    assert "Timeline" in result.out
    assert kvmark("show").out == result.out
