from __future__ import annotations

import contextlib
import io
import re
from dataclasses import replace
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from kvmark.cli.live import LiveDisplay, run_lines
from kvmark.experiment.design import TimeLeft
from kvmark.records.watch import Kind, Moment, SeenFault, SeenRun

SEEN = SeenRun(
    tuple(Moment(n * 10**9, (n + 1) * 10**9, 50_000 + n, 9, 95_000) for n in range(60)),
    (Kind("clients", "READ", 25_000.0, 15_000, 95_000), Kind("clients", "SCAN", 0.0, None, None)),
    {"timeout": 500, "unavailable": 40},
    (SeenFault("3s kill primary-1 for 2s", "begun", 3_000_000_000, ""),),
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    """Seconds that pass when told to."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def update(elapsed_s: float, **changed: Any) -> dict[str, Any]:
    """The engine's progress in a phase of ten seconds."""
    return {
        "phase_name": "measure",
        "elapsed_ns": elapsed_s * 1e9,
        "expected_ns": 10e9,
        "completed": int(elapsed_s * 50_000),
        "expected_operations": None,
        "rate_per_s": 50_123.4,
        "response_ns_p99": 95_012,
        "failed": 0,
        "missed": 0,
        "backlog": None,
        "silent_ns": None,
        **changed,
    }


def line_after_5_s(**changed: Any) -> str:
    """The line about a step of five seconds until now."""
    stream, clock = io.StringIO(), Clock()
    with LiveDisplay(stream=stream, clock=clock) as display:
        display.step("a step", 1, 1)
        clock.now_s += 5.0
        display.interval(update(5.0, **changed))
    return stream.getvalue().splitlines()[0]


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
    line = line_after_5_s(
        phase_name="load", expected_ns=None, completed=250, expected_operations=1_000
    )
    assert "load 25%, " in line
    assert line.endswith("about 15 s left")


@pytest.mark.parametrize(("silent_s", "told"), [(None, ""), (1.9, ""), (12.3, "12 s")])
def test_a_system_that_is_silent_for_two_seconds_is_told(silent_s: float | None, told: str) -> None:
    line = line_after_5_s(silent_ns=None if silent_s is None else silent_s * 1e9)
    assert ("no answer for" in line) == bool(told)
    assert f"no answer for {told}" in line or not told


def test_without_an_end_there_is_no_share_and_no_time_left() -> None:
    line = line_after_5_s(expected_ns=None)
    assert "measure, " in line
    assert "left" not in line


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
        display.interval(update(10.0, failed=7))
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


def block(width: int, monkeypatch: pytest.MonkeyPatch, stream: io.StringIO | None = None) -> str:
    """The lines that are drawn of a run with all there is to see, without colours."""
    monkeypatch.setenv("COLUMNS", str(width))
    target = Terminal() if stream is None else stream
    with LiveDisplay(stream=target, clock=Clock()) as display:
        display.step("redis/set", 1, 1)
        display.interval(update(5.0, failed=540), SEEN)
        console = Console(width=width, file=io.StringIO(), record=True, color_system=None)
        console.print(display.block())
        return console.export_text()


@pytest.mark.parametrize("width", [20, 40, 80, 160])
def test_every_line_of_a_block_fits(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert max(map(cell_len, block(width, monkeypatch).splitlines())) <= width


def test_the_last_minute_is_a_block_a_second_on_eighty_columns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = block(80, monkeypatch).splitlines()
    (rate,) = [line for line in lines if line.startswith("ops/s")]
    assert rate == f"ops/s  {'█' * 60} 0–50,059"
    (p99,) = [line for line in lines if line.startswith("p99")]
    assert p99 == f"p99    {'█' * 60} 0–95.0 µs"


def test_a_narrow_terminal_has_a_minute_of_longer_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = block(40, monkeypatch).splitlines()
    (rate,) = [line for line in lines if line.startswith("ops/s")]
    assert rate.count("█") == 20


def test_each_kind_has_a_line_even_when_it_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [line.split() for line in block(80, monkeypatch).splitlines()]
    assert ["READ", "25,000", "15.0", "µs", "95.0", "µs"] in lines
    assert ["SCAN", "0", "–", "–"] in lines


def test_errors_are_told_by_class_and_faults_as_they_happen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = block(80, monkeypatch)
    assert "errors 500 timeout, 40 unavailable" in text
    assert "fault  3s kill primary-1 for 2s: begun at 3.00 s of the measurement" in text


def test_groups_are_named_where_there_are_several() -> None:
    kinds = (Kind("writers", "INSERT", 1.0, 1, 1), Kind("readers", "READ", 2.0, 1, 1))
    lines = [line.plain for line in run_lines(replace(SEEN, kinds=kinds), 80)]
    assert [line.split()[:2] for line in lines[4:6]] == [["writers", "INSERT"], ["readers", "READ"]]


def test_many_kinds_do_not_fill_the_terminal() -> None:
    kinds = tuple(Kind("clients", f"Q{n}", 1.0, 1, 1) for n in range(30))
    lines = [line.plain for line in run_lines(SeenRun(kinds=kinds), 80)]
    assert len(lines) == 10
    assert lines[-1] == "and 22 more"


def test_where_blocks_cannot_be_written_plain_signs_stand(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Ascii(Terminal):
        encoding = "ascii"

    text = block(80, monkeypatch, Ascii())
    assert f"ops/s  {'#' * 60} 0-50,059" in text
    drawn = [line for line in text.splitlines() if "━" not in line]
    assert all(line.isascii() for line in drawn)


def test_away_from_a_terminal_a_fault_has_a_line_of_its_own_at_once() -> None:
    stream, clock = io.StringIO(), Clock()
    with LiveDisplay(stream=stream, clock=clock) as display:
        display.step("redis/set", 1, 1)
        for _ in range(3):
            clock.now_s += 0.5
            display.interval(update(1.0, failed=540), SEEN)
    first, *others = stream.getvalue().splitlines()
    assert first == (
        "[1/1] redis/set  fault 3s kill primary-1 for 2s: begun at 3.00 s of the measurement"
    )
    assert not [line for line in others if "fault" in line]


def test_away_from_a_terminal_errors_are_told_by_class() -> None:
    stream, clock = io.StringIO(), Clock()
    with LiveDisplay(stream=stream, clock=clock) as display:
        display.step("redis/set", 1, 1)
        clock.now_s += 3
        display.interval(update(1.0, failed=540), replace(SEEN, faults=()))
    assert "errors 540 (500 timeout, 40 unavailable)" in stream.getvalue()


def lines_with(left: TimeLeft | None, *, goes_on_s: float = 4.0) -> list[str]:
    """A step that is told how much time is left, and an interval of it."""
    clock, stream = Clock(), io.StringIO()
    with LiveDisplay(stream=stream, clock=clock) as display:
        display.say("12 cases, each once.")
        display.step("E", 1, 9, left)
        clock.now_s += goes_on_s
        display.interval(update(goes_on_s), SeenRun((), (), {}, ()))
    return stream.getvalue().splitlines()


def test_the_time_left_that_is_told_goes_down_with_the_clock() -> None:
    assert lines_with(TimeLeft(100.0, at_most=False))[1].endswith("about 1 min 36 s left")


def test_a_time_that_may_also_be_less_is_called_the_most() -> None:
    assert lines_with(TimeLeft(100.0, at_most=True))[1].endswith("at most 1 min 36 s left")


def test_a_step_that_takes_longer_than_was_told_has_its_own_time_left() -> None:
    assert lines_with(TimeLeft(5.0, at_most=False))[1].endswith("about 6 s left")


def test_what_is_worth_knowing_stands_in_a_line_of_its_own() -> None:
    assert lines_with(None)[0] == "12 cases, each once."
    quiet = io.StringIO()
    with LiveDisplay(quiet=True, stream=quiet) as display:
        display.say("12 cases, each once.")
    assert quiet.getvalue() == ""
