"""Draws the pictures of the documents from runs of the simulated driver, whose clock is virtual.

That makes a picture the same whenever and wherever it is drawn.
"""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from rich.console import Console, RenderableType
from rich.terminal_theme import TerminalTheme

from kvmark import catalog
from kvmark.analysis.summary.imported import Curve
from kvmark.analysis.summary.run import quantile_curve
from kvmark.cli.live import LiveDisplay
from kvmark.cli.run_options import parse_run
from kvmark.plan.compile import compile_run
from kvmark.records import Records, Run, RunFolder, TimeName, close_run, files
from kvmark.records.watch import Watch
from kvmark.report.views.figures import course_figures, quantile_figure
from kvmark.report.views.gather import run_answer, with_figures
from kvmark.report.views.run import charts_text
from kvmark.run.context import RunContext
from kvmark.run.execution import execute
from kvmark.run.generator import LocalGenerator
from kvmark.spec.run import RunSpec
from kvmark.spec.url import parse_system_url

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "method" / "coordinated-omission.svg"
SYSTEM = "sim:?clock=virtual&service=constant&mean_us=100&stall=4+1"
TIMES: tuple[TimeName, ...] = ("response", "service")

TERMINAL = ROOT / "docs" / "guide" / "terminal"
"""Where pictures of the terminal are."""
SHOWN = (
    "ycsb/a --system sim:?clock=virtual&mean_us=800&servers=8&miss_share=0.01&stall=18+1.3"
    "&outage=40+2 --clients 32 --rate 6000 --arrival poisson --duration 60s --load never"
    " --workers 1"
)
"""A simulated store that stands still for a while, and later refuses its clients."""
RECOVERY: Final = ROOT / "docs" / "guide" / "recover.svg"
SPIKE: Final = (
    "ycsb/c --system sim:?clock=virtual&mean_us=1000 --retry 3,timeout=100ms --clients 1080"
    " --rate steps:450/10s,1800/5s,450/30s --arrival poisson --duration 45s --load never"
    " --interval 200ms --workers 1 --stall-limit off"
)
"""What `kvmark recover --rate 450` executes on a server that completes 1,000 requests a second."""
LOOKED_AT_S: Final = 45
WIDTH: Final = 80
FONTS: Final = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"
_NS_PER_S: Final = 10**9
_LIGHT: Final = TerminalTheme(
    (255, 255, 255),
    (29, 33, 38),
    [
        (29, 33, 38), (178, 34, 34), (0, 122, 82), (156, 102, 0),
        (0, 90, 160), (140, 60, 120), (0, 114, 178), (89, 97, 107),
    ],
)  # fmt: skip


def executed(spec: RunSpec, folder: Path) -> RunFolder:
    """A run that has ended and isn't closed."""
    plan = compile_run(spec)
    with LocalGenerator() as generator:
        setting = RunContext((), generator, Records(folder), host={}, versions={})
        return execute(plan, spec.as_json(), setting, lambda *_: None).folder


def stalled(folder: Path) -> Run:
    """1000 operations a second for ten seconds, one in flight at most, with a stall of a second."""
    spec = RunSpec(
        workload=catalog.load("ycsb/c"),
        system=parse_system_url(SYSTEM),
        clients=1,
        rate=1000,
        duration_ns=10 * _NS_PER_S,
        load="never",
        drain_limit_ns=_NS_PER_S,
    )
    return close_run(executed(spec, folder).path)


def coordinated_omission(folder: Path) -> None:
    """Draws response and service time of a run with a stall."""
    run = stalled(folder)
    (reads,) = run.totals(run.counted[0].index)
    counts = {time: run.times(reads, time) for time in TIMES}
    curves = [
        Curve("A second of standstill in ten", time, quantile_curve(counts[time])) for time in TIMES
    ]
    quantile_figure(curves, "A stall of one second in ten.").save(PICTURE)


def terminal(folder: Path, pictures: Path = TERMINAL) -> None:
    """Draws what a terminal shows of one run: in its middle and at its end."""
    pictures.mkdir(exist_ok=True)
    ended = executed(parse_run(shlex.split(SHOWN)).spec, folder)
    save_terminal(pictures / "live.svg", display_of(ended.path, folder).block())
    answer = run_answer(close_run(ended.path), text_width=WIDTH)
    save_terminal(pictures / "end.svg", charts_text(answer, WIDTH))


def recovery(folder: Path) -> None:
    """Draws attempts and goodput around a spike that a queue doesn't recover from."""
    run = close_run(executed(parse_run(shlex.split(SPIKE)).spec, folder).path)
    answer = with_figures(run_answer(run), run, page_runs=1)
    drawn = (figure for figure in course_figures(answer) if figure.name == "attempts")
    next(drawn).save(RECOVERY)


def display_of(run: Path, folder: Path) -> LiveDisplay:
    """The live display as it was when the run's logs went as far as the second to look at."""
    until_ns = LOOKED_AT_S * _NS_PER_S
    lines = files.whole_lines(run / files.INTERVAL_LOG).splitlines(keepends=True)
    rows = [row for row in map(json.loads, lines) if row["end_ns"] <= until_ns + _NS_PER_S // 100]
    cut = folder / "cut"
    cut.mkdir()
    (cut / files.INTERVAL_LOG).write_text("".join(json.dumps(row) + "\n" for row in rows))
    (cut / files.EVENTS).write_bytes(files.whole_lines(run / files.EVENTS))
    seen = Watch(cut).look()
    display = LiveDisplay(stream=io.StringIO(), clock=lambda: 0.0)
    display.step("ycsb/a", 1, 1)
    display.interval(progress_of(rows), seen)
    return display


def progress_of(rows: Iterable[Mapping[str, Any]]) -> Mapping[str, Any]:
    """What the engine tells at the end of these intervals."""
    totals = [row for row in rows if row["operation"] == "TOTAL"]
    single = [row for row in rows if row["operation"] != "TOTAL" and not row["part"]]
    ended = {
        name: sum(row["count"] for row in single if row["outcome"] == name)
        for name in {row["outcome"] for row in single}
    }
    return {
        "phase_name": "measure",
        "elapsed_ns": totals[-1]["end_ns"] - totals[0]["start_ns"],
        "expected_ns": 60 * _NS_PER_S,
        "completed": sum(ended.values()),
        "expected_operations": None,
        "rate_per_s": 0.0,
        "response_ns_p99": None,
        "failed": sum(count for name, count in ended.items() if name not in ("ok", "miss")),
        "missed": ended.get("miss", 0),
        "backlog": totals[-1]["backlog"],
        "silent_ns": None,
    }


def save_terminal(path: Path, shown: RenderableType) -> None:
    """Saves what a terminal of 80 columns shows as a picture that refers to nothing outside."""
    console = Console(
        record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor"
    )
    console.print(shown)
    title = f"kvmark run {SHOWN.partition(' ')[0]}"
    svg = console.export_svg(title=title, theme=_LIGHT, unique_id=f"kvmark-{path.stem}")
    svg = re.sub(r"@font-face\s*\{.*?\}\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<!--.*?-->\s*", "", svg, flags=re.DOTALL)
    path.write_text(re.sub(r"font-family: [^;]+;", f"font-family: {FONTS};", svg), "utf-8")


def main() -> int:
    """Draws every picture."""
    # The terminal that this runs in is not the one that is shown.
    os.environ["COLUMNS"] = str(WIDTH)
    for draw in (coordinated_omission, terminal, recovery):
        with tempfile.TemporaryDirectory(prefix="kvmark-") as folder:
            draw(Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
