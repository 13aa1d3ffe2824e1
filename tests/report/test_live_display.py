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
from kvmark.experiment.executor import TimeLeft
from kvmark.records.watch import Kind, Moment, SeenFault, SeenRun, SeenServer

SEEN = SeenRun(
    tuple(Moment(n * 10**9, (n + 1) * 10**9, 50_000 + n, 9, 95_000) for n in range(60)),
    (Kind("clients", "READ", 25_000.0, 15_000, 95_000), Kind("clients", "SCAN", 0.0, None, None)),
    {"timeout": 500, "unavailable": 40},
    (SeenFault("3s kill primary-1 for 2s", "begun", 3_000_000_000, ""),),
    (SeenServer("db", 7.8, 8), SeenServer("node-2", 0.4, None)),
)


BY_COUNT = {"expected_ns": None, "completed": 250, "expected_operations": 1_000}


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


def told(
    *intervals: tuple[float, dict[str, Any], SeenRun],
    title: str = "a step",
    left: TimeLeft | None = None,
) -> list[str]:
    """The lines about a step away from a terminal, with an interval after each of these times."""
    stream, clock = io.StringIO(), Clock()
    with LiveDisplay(stream=stream, clock=clock) as display:
        display.say("12 cases, each once.")
        display.step(title, 1, 1, left)
        for passed_s, figures, seen in intervals:
            clock.now_s += passed_s
            display.interval(figures, seen)
    first, *lines = stream.getvalue().splitlines()
    assert first == "12 cases, each once."
    return lines


def shown(stream: io.StringIO) -> str:
    """Three steps of ten seconds each, an interval every half second."""
    clock = Clock()
    with LiveDisplay(stream=stream, clock=clock) as display:
        for step in range(1, 4):
            display.step(f"step {step}", step, 3)
            for interval in range(1, 21):
                clock.now_s += 0.5
                display.interval(update(interval * 0.5))
    return stream.getvalue()


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")


def test_away_from_a_terminal_a_line_comes_every_two_seconds_and_one_per_finished_step() -> None:
    text = shown(io.StringIO())
    assert not {"\x1b", "\r"} & set(text)
    lines = text.splitlines()
    assert lines[0] == "[1/3] step 1  measure 20%, 50,123 ops/s, response p99 95.0 µs, errors 0"
    assert len(lines) == 3 * (5 + 1)
    assert [line for line in lines if "done" in line] == [
        "[1/3] step 1  done in 10 s, about 20 s left",
        "[2/3] step 2  done in 10 s, about 10 s left",
        "[3/3] step 3  done in 10 s",
    ]
    # The time left of many steps comes from the finished ones.
    assert lines[6].endswith("about 18 s left")


@pytest.mark.parametrize(
    ("changed", "part", "absent"),
    [
        # The time left of a single step comes from its phase.
        ({}, "measure 50%, .* about 5 s left$", "no answer for"),
        ({**BY_COUNT, "phase_name": "load"}, "load 25%, .* about 15 s left$", "no answer for"),
        ({"expected_ns": None}, "measure, ", "left"),
        ({"silent_ns": 1.9e9}, "measure 50%, ", "no answer for"),
        ({"silent_ns": 12.3e9}, "no answer for 12 s", "done"),
    ],
)
def test_a_line_shows_its_phase(changed: dict[str, Any], part: str, absent: str) -> None:
    line = told((5.0, update(5.0, **changed), SeenRun()))[0]
    assert re.search(part, line)
    assert absent not in line


def test_a_terminal_gets_a_block_that_is_gone_at_the_end() -> None:
    text = shown(Terminal())
    assert "step 2 of 3" in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    assert text.endswith(("\x1b[2K", "\x1b[?25h"))
    assert "\x1b[?25h" in text


def test_errors_are_told_when_a_step_is_done_and_by_class_where_that_is_known() -> None:
    assert "errors 7" in told((0.0, update(10.0, failed=7), SeenRun()))[-1]
    line = told((3.0, update(1.0, failed=540), replace(SEEN, faults=())))[0]
    assert "errors 540 (500 timeout, 40 unavailable)" in line


def test_an_interrupted_step_is_not_called_done() -> None:
    stream = io.StringIO()
    with contextlib.suppress(KeyboardInterrupt), LiveDisplay(stream=stream) as display:
        display.step("a", 1, 1)
        raise KeyboardInterrupt
    assert "done" not in stream.getvalue()


def test_a_title_cannot_command_the_terminal() -> None:
    (line,) = told(title="a\x1b[2Jb [bold]c[/]")
    assert "\x1b" not in line
    assert "[bold]c[/]" in line


def block(width: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The lines that are drawn of a run with all there is to see, without colours."""
    monkeypatch.setenv("COLUMNS", str(width))
    with LiveDisplay(stream=Terminal(), clock=Clock()) as display:
        display.step("redis/set", 1, 1)
        display.interval(update(5.0, failed=540), SEEN)
        console = Console(width=width, file=io.StringIO(), record=True, color_system=None)
        console.print(display.block())
        return console.export_text().splitlines()


@pytest.mark.parametrize("width", [20, 40, 80, 160])
def test_every_line_of_a_block_fits(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert max(map(cell_len, block(width, monkeypatch))) <= width


def test_a_block_has_rates_kinds_errors_and_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = block(80, monkeypatch)
    # A cell is a second.
    assert {f"ops/s  {'█' * 60} 0–50,059", f"p99    {'█' * 60} 0–95.0 µs"} <= set(lines)
    words = [line.split() for line in lines]
    assert ["READ", "25,000", "15.0", "µs", "95.0", "µs"] in words
    # One that stands still, too.
    assert ["SCAN", "0", "–", "–"] in words
    text = "\n".join(lines)
    assert "errors 500 timeout, 40 unavailable" in text
    assert "cpu    db 7.80 of 8 cores, node-2 0.40 cores" in text
    assert "fault  3s kill primary-1 for 2s: begun at 3.00 s of the measurement" in text
    # A narrow terminal has longer cells.
    (rate,) = [line for line in block(40, monkeypatch) if line.startswith("ops/s")]
    assert rate.count("█") == 20


def test_groups_are_named_where_there_are_several() -> None:
    kinds = (Kind("writers", "INSERT", 1.0, 1, 1), Kind("readers", "READ", 2.0, 1, 1))
    lines = [line.plain for line in run_lines(replace(SEEN, kinds=kinds), 80)]
    assert [line.split()[:2] for line in lines[4:6]] == [["writers", "INSERT"], ["readers", "READ"]]


def test_many_kinds_do_not_fill_the_terminal() -> None:
    kinds = tuple(Kind("clients", f"Q{n}", 1.0, 1, 1) for n in range(30))
    lines = [line.plain for line in run_lines(SeenRun(kinds=kinds), 80)]
    assert len(lines) == 10
    assert lines[-1] == "and 22 more"


def test_away_from_a_terminal_a_fault_has_a_line_of_its_own_at_once() -> None:
    first, *others = told(*[(0.5, update(1.0, failed=540), SEEN)] * 3, title="redis/set")
    assert first == (
        "[1/1] redis/set  fault 3s kill primary-1 for 2s: begun at 3.00 s of the measurement"
    )
    assert not [line for line in others if "fault" in line]


@pytest.mark.parametrize(
    ("left", "end"),
    [
        # It goes down with the clock.
        (TimeLeft(100.0, at_most=False), "about 1 min 36 s left"),
        (TimeLeft(100.0, at_most=True), "at most 1 min 36 s left"),
        # A step that takes longer has its own time left.
        (TimeLeft(5.0, at_most=False), "about 6 s left"),
    ],
)
def test_the_time_left_that_is_told_stands_for_the_step_s_own(left: TimeLeft, end: str) -> None:
    assert told((4.0, update(4.0), SeenRun()), left=left)[0].endswith(end)
