from __future__ import annotations

import contextlib
import io
import re
from dataclasses import replace

import pytest
from rich.cells import cell_len
from rich.console import Console
from synthetic import assert_golden

from kvmark.cli.live import LiveDisplay, Update, run_lines
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


def shown(
    *intervals: Update,
    seen: SeenRun = SeenRun(),  # noqa: B008 - it is frozen
    title: str = "a",
    left: TimeLeft | None = None,
    passes_s: float = 3.0,
) -> list[str]:
    """The lines that a pipe gets of a step with these intervals, some time after each other."""
    stream, clock = io.StringIO(), Clock()
    with LiveDisplay(stream=stream, clock=clock) as display:
        display.step(title, 1, 1, left)
        for interval in intervals:
            clock.now_s += passes_s
            display.interval(interval, seen)
    return stream.getvalue().splitlines()


def three_steps(stream: io.StringIO, *, steps: int = 3, quiet: bool = False) -> str:
    """Steps of ten seconds each, an interval every half second."""
    clock = Clock()
    with LiveDisplay(quiet=quiet, stream=stream, clock=clock) as display:
        display.say("12 cases, each once.")
        for step in range(1, steps + 1):
            display.step(f"step {step}", step, steps)
            for interval in range(1, 21):
                clock.now_s += 0.5
                display.interval(update(interval / 2))
    return stream.getvalue()


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")


def test_a_pipe_gets_a_plain_line_every_two_seconds_and_one_per_finished_step() -> None:
    text = three_steps(io.StringIO())
    assert not {"\x1b", "\r"} & set(text)
    said, *lines = text.splitlines()
    assert said == "12 cases, each once."
    assert lines[0] == "[1/3] step 1  measure 20%, 50,123 ops/s, response p99 95.0 µs, errors 0"
    assert len(lines) == 3 * (5 + 1)
    # The time left of many steps comes from the finished ones.
    assert lines[6].endswith("about 18 s left")
    assert [line for line in lines if "done" in line] == [
        "[1/3] step 1  done in 10 s, about 20 s left",
        "[2/3] step 2  done in 10 s, about 10 s left",
        "[3/3] step 3  done in 10 s",
    ]


def test_the_time_left_of_a_single_step_comes_from_its_phase() -> None:
    lines = three_steps(io.StringIO(), steps=1).splitlines()
    assert lines[1].endswith("about 8 s left")


@pytest.mark.parametrize(
    ("interval", "done", "left_s"),
    [
        (Update("load", 5.0, None, 250, 1_000, 50.0, None, 0, 0, None), 0.25, 15.0),
        (update(5.0, expected_s=None), None, None),
    ],
    ids=["by count", "endless"],
)
def test_only_a_phase_with_an_end_has_a_share_and_a_time_left(
    interval: Update, done: float | None, left_s: float | None
) -> None:
    assert (interval.done, interval.left_s) == (done, left_s)


@pytest.mark.parametrize(
    ("left", "text"),
    [
        (TimeLeft(100.0, at_most=False), "about 1 min 36 s left"),
        (TimeLeft(100.0, at_most=True), "at most 1 min 36 s left"),
        # A step that takes longer than predicted has its own time left.
        (TimeLeft(5.0, at_most=False), "about 6 s left"),
    ],
)
def test_a_predicted_time_left_goes_down_with_the_clock(left: TimeLeft, text: str) -> None:
    assert shown(update(4.0), left=left, passes_s=4.0)[0].endswith(text)


@pytest.mark.parametrize(
    ("interval", "seen", "text"),
    [
        (replace(update(5.0), silent_s=12.3), SeenRun(), "no answer for 12 s"),
        (update(10.0, errors=7), SeenRun(), "errors 7"),
        (update(1.0, errors=540), replace(SEEN, faults=()),
         "errors 540 (500 timeout, 40 unavailable)"),
    ],
)  # fmt: skip
def test_a_pipe_gets_silence_and_errors_by_class(
    interval: Update, seen: SeenRun, text: str
) -> None:
    first, *others = shown(interval, seen=seen)
    assert text in first
    # The last line, too, has the errors of the step.
    assert ("errors" in others[-1]) == bool(interval.errors)


@pytest.mark.parametrize("silent_s", [None, 1.9])
def test_a_system_that_is_silent_for_less_than_two_seconds_is_not_reported(
    silent_s: float | None,
) -> None:
    assert "no answer for" not in shown(replace(update(5.0), silent_s=silent_s))[0]


def test_a_pipe_gets_a_line_for_each_fault_at_once() -> None:
    first, *others = shown(*[update(1.0, errors=540)] * 3, seen=SEEN, title="x", passes_s=0.5)
    assert first == "[1/1] x  fault 3s kill primary-1 for 2s: begun at 3.00 s of the measurement"
    assert not [line for line in others if "fault" in line]


def test_a_title_cannot_command_the_terminal() -> None:
    text = "".join(shown(update(1.0), title="a\x1b[2Jb [bold]c[/]"))
    assert "\x1b" not in text
    assert "[bold]c[/]" in text


def test_a_terminal_gets_a_block_of_eighty_columns_that_is_gone_at_the_end() -> None:
    text = three_steps(Terminal())
    assert text.endswith(("\x1b[2K", "\x1b[?25h"))
    assert "\x1b[?25h" in text
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    assert "step 2 of 3" in text
    assert max(len(line) for line in re.split(r"[\r\n]", text)) <= 80


def test_no_color_means_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    text = three_steps(Terminal())
    assert re.findall(r"\x1b\[(?:[0-9;]*;)?(?:3[0-7]|9[0-7]|38;[0-9;]+)m", text) == []


def test_a_dumb_terminal_gets_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    assert "done in 10 s" in three_steps(Terminal())


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()], ids=["pipe", "terminal"])
def test_quiet_says_nothing(stream: io.StringIO) -> None:
    assert three_steps(stream, quiet=True) == ""


def test_everything_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    with LiveDisplay() as display:
        display.step("ycsb/a", 1, 1)
        display.interval(update(1.0))
    output = capsys.readouterr()
    assert (output.out, "ycsb/a" in output.err) == ("", True)


def test_an_interrupted_step_is_not_called_done() -> None:
    stream = io.StringIO()
    with contextlib.suppress(KeyboardInterrupt), LiveDisplay(stream=stream) as display:
        display.step("a", 1, 1)
        raise KeyboardInterrupt
    assert "done" not in stream.getvalue()


def block(
    width: int, monkeypatch: pytest.MonkeyPatch, stream: io.StringIO | None = None
) -> list[str]:
    """The lines that are drawn of a run with all there is to see, without colours."""
    monkeypatch.setenv("COLUMNS", str(width))
    with LiveDisplay(stream=stream or Terminal(), clock=Clock()) as display:
        display.step("redis/set", 1, 1)
        display.interval(update(5.0, errors=540), SEEN)
        console = Console(width=width, file=io.StringIO(), record=True, color_system=None)
        console.print(display.block())
        return console.export_text().splitlines()


@pytest.mark.parametrize("width", [20, 40, 80, 160])
def test_every_line_of_a_block_fits(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert max(map(cell_len, block(width, monkeypatch))) <= width


def test_a_block_has_the_last_minute_and_every_kind_error_and_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert_golden("block_80.txt", "\n".join(block(80, monkeypatch)))
    # A narrow terminal has a minute of longer cells.
    (rate,) = [line for line in block(40, monkeypatch) if line.startswith("ops/s")]
    assert rate.count("█") == 20


def test_groups_are_named_where_there_are_several() -> None:
    kinds = (Kind("writers", "INSERT", 1.0, 1, 1), Kind("readers", "READ", 2.0, 1, 1))
    lines = [line.plain for line in run_lines(replace(SEEN, kinds=kinds), 80)]
    assert [line.split()[:2] for line in lines[4:6]] == [["writers", "INSERT"], ["readers", "READ"]]


def test_many_kinds_do_not_fill_the_terminal() -> None:
    kinds = tuple(Kind("clients", f"Q{n}", 1.0, 1, 1) for n in range(30))
    lines = [line.plain for line in run_lines(SeenRun(kinds=kinds), 80)]
    assert (len(lines), lines[-1]) == (10, "and 22 more")


def test_where_blocks_cannot_be_written_plain_signs_stand(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Ascii(Terminal):
        encoding = "ascii"

    lines = block(80, monkeypatch, Ascii())
    assert f"ops/s  {'#' * 60} 0-50,059" in lines
    assert all(line.isascii() for line in lines if "━" not in line)
