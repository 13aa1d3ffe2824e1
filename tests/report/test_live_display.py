from __future__ import annotations

import contextlib
import io
import re

import pytest

from kvmark.cli.live import LiveDisplay, Update


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    """Seconds that pass when told to."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def update(elapsed_s: float, *, expected_s: float | None = 10.0, errors: int = 0) -> Update:
    return Update(
        phase="measure",
        phase_elapsed_s=elapsed_s,
        phase_expected_s=expected_s,
        completed=int(elapsed_s * 50_000),
        expected_operations=None,
        rate_per_s=50_123.4,
        response_ns_p99=95_012,
        errors=errors,
        misses=0,
        backlog=None,
    )


def shown(stream: io.StringIO, *, steps: int = 3, quiet: bool = False, every_s: float = 0.5) -> str:
    """Steps of ten seconds each, an interval every half second."""
    clock = Clock()
    with LiveDisplay(quiet=quiet, stream=stream, clock=clock) as display:
        for step in range(1, steps + 1):
            display.step(f"step {step}", step, steps)
            for interval in range(1, int(10 / every_s) + 1):
                clock.now_s += every_s
                display.interval(update(interval * every_s))
    return stream.getvalue()


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")


def test_away_from_a_terminal_there_are_plain_lines() -> None:
    text = shown(io.StringIO())
    assert "\x1b" not in text
    assert "\r" not in text
    assert text.splitlines()[0] == (
        "[1/3] step 1  measure 20%, 50,123 ops/s, response p99 95.0 µs, errors 0"
    )


def test_a_line_comes_every_two_seconds_and_one_per_finished_step() -> None:
    lines = shown(io.StringIO()).splitlines()
    assert len(lines) == 3 * (5 + 1)
    assert [line for line in lines if "done" in line] == [
        "[1/3] step 1  done in 10 s, about 20 s left",
        "[2/3] step 2  done in 10 s, about 10 s left",
        "[3/3] step 3  done in 10 s",
    ]


def test_the_time_left_of_many_steps_comes_from_the_finished_ones() -> None:
    lines = shown(io.StringIO()).splitlines()
    assert "left" not in lines[0]
    assert lines[6].endswith("about 18 s left")


def test_the_time_left_of_a_single_step_comes_from_its_phase() -> None:
    assert shown(io.StringIO(), steps=1).splitlines()[0].endswith("about 8 s left")


def test_a_phase_that_ends_by_count_knows_its_share() -> None:
    by_count = Update("load", 5.0, None, 250, 1_000, 50.0, None, 0, 0, None)
    assert by_count.done == 0.25
    assert by_count.left_s == 15.0


def test_without_an_end_there_is_no_share_and_no_time_left() -> None:
    endless = update(5.0, expected_s=None)
    assert endless.done is None
    assert endless.left_s is None


def test_a_terminal_gets_a_block_that_is_gone_at_the_end() -> None:
    text = shown(Terminal())
    assert "step 2 of 3" in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    assert text.endswith(("\x1b[2K", "\x1b[?25h"))
    assert "\x1b[?25h" in text


def test_a_block_fits_into_eighty_columns() -> None:
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown(Terminal()))
    assert max(len(line) for line in re.split(r"[\r\n]", text)) <= 80


def test_no_color_means_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    colours = re.findall(r"\x1b\[(?:[0-9;]*;)?(?:3[0-7]|9[0-7]|38;[0-9;]+)m", shown(Terminal()))
    assert colours == []


def test_a_dumb_terminal_gets_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    assert "done in 10 s" in shown(Terminal())


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()], ids=["pipe", "terminal"])
def test_quiet_says_nothing(stream: io.StringIO) -> None:
    assert shown(stream, quiet=True) == ""


def test_everything_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    with LiveDisplay() as display:
        display.step("ycsb/a", 1, 1)
        display.interval(update(1.0))
    output = capsys.readouterr()
    assert output.out == ""
    assert "ycsb/a" in output.err


def test_errors_are_told_when_a_step_is_done() -> None:
    stream, clock = io.StringIO(), Clock()
    with LiveDisplay(stream=stream, clock=clock) as display:
        display.step("a", 1, 1)
        display.interval(update(10.0, errors=7))
    assert "errors 7" in stream.getvalue()


def test_an_interrupted_step_is_not_called_done() -> None:
    stream = io.StringIO()
    with contextlib.suppress(KeyboardInterrupt), LiveDisplay(stream=stream) as display:
        display.step("a", 1, 1)
        raise KeyboardInterrupt
    assert "done" not in stream.getvalue()


def test_a_title_cannot_command_the_terminal() -> None:
    stream, clock = io.StringIO(), Clock()
    with LiveDisplay(stream=stream, clock=clock) as display:
        display.step("a\x1b[2Jb [bold]c[/]", 1, 1)
        clock.now_s += 1
    assert "\x1b" not in stream.getvalue()
    assert "[bold]c[/]" in stream.getvalue()
