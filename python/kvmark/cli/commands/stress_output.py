"""What `kvmark stress` prints beside its lines: settings, Results blocks, files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvmark.outputs import HISTOGRAMS_BY_KVMARK, write_output
from kvmark.plan.stress import GROUP, WARMING
from kvmark.records import Records
from kvmark.report.views.cassandra_stress import Line, ladder_table, results_text, side_by_side
from kvmark.spec.stress.command import StressSpec

if TYPE_CHECKING:
    from kvmark.analysis.external.cassandra_stress import StressResults
    from kvmark.records.run import Run

__all__ = ["StressAnswer", "ladder_text", "log_histograms", "results_of", "settings_text"]


@dataclass(frozen=True, slots=True)
class StressAnswer:
    """The runs of one command line, closed, and what came of them."""

    runs: tuple[Run, ...]
    results: tuple[StressResults, ...]
    errors: int
    invalid: str | None
    """The first run that is INVALID."""

    def print_json(self) -> None:
        """Prints one JSON document."""
        from kvmark.cli.output import print_json

        runs = zip(self.runs, self.results, strict=True)
        print_json(
            "stress", {"runs": [{"run": run.id, "results": asdict(one)} for run, one in runs]}
        )


def settings_text(spec: StressSpec) -> str:
    """What was asked for, defaults filled in."""
    lines = ["******************** Stress Settings ********************"]
    groups: dict[str, Any] = spec.as_json()["stress"]
    plain = {name: value for name, value in groups.items() if not isinstance(value, Mapping)}
    lines += ["Command:", *(_setting(name, value) for name, value in plain.items())]
    for name, value in groups.items():
        if isinstance(value, Mapping):
            lines.append(f"{name.replace('_', ' ').title()}:")
            lines += [_setting(inner, one) for inner, one in value.items()]
    return "\n".join([*lines, ""])


def _setting(name: str, value: Any) -> str:
    if isinstance(value, Mapping):
        value = ", ".join(f"{inner}={one}" for inner, one in value.items() if one not in (0, None))
    if isinstance(value, list):
        value = ", ".join(map(str, value))
    shown = "*not set*" if value in (None, "") else value
    return f"  {name.replace('_', ' ').title()}: {shown}"


def results_of(
    spec: StressSpec,
    ended: Sequence[str],
    records: Records,
    how: tuple[Any, Mapping[str, Callable[[int], int]], frozenset[str]],
    out: Callable[[str], None],
) -> StressAnswer:
    """Closes the runs, prints their Results blocks, and writes the page if it was asked for."""
    from kvmark.analysis import Judgement
    from kvmark.analysis.external.cassandra_stress import stress_results
    from kvmark.experiment.measured import measured

    judged = measured(ended, records)
    results = []
    for one in judged:
        figures = stress_results(one.run, *how)
        results.append(figures)
        out(results_text(figures))
        if spec.rate is not None:
            out(side_by_side(figures))
        _tell_failures(spec, one.run, out)
    if spec.log.graph_file is not None:
        _draw(judged[-1], spec.log.graph_file, out)
    invalid = [one.run.id for one in judged if one.verdict.judgement is Judgement.INVALID]
    return StressAnswer(
        runs=tuple(one.run for one in judged),
        results=tuple(results),
        errors=sum(one.total.errors for one in results),
        invalid=invalid[0] if invalid else None,
    )


def _tell_failures(spec: StressSpec, run: Run, out: Callable[[str], None]) -> None:
    if spec.log.level == "minimal":
        return
    for notice in run.manifest.engine.notices:
        if notice.code == "operations_failed" or spec.log.level == "verbose":
            out(notice.message)


def _draw(judged: Any, path: Path, out: Callable[[str], None]) -> None:
    """Writes the page, and prints the pictures of text that `kvmark show` has."""
    from kvmark.cli.output import terminal_width, write_report
    from kvmark.report.format.terminal import charts_text
    from kvmark.report.views.gather import run_answer

    answer = run_answer(judged.run, judged.verdict)
    write_report(lambda page: page.run_page(answer), path)
    if charts := charts_text(answer, terminal_width()):
        out(f"{charts.plain}\n")


def ladder_text(rows: Sequence[tuple[str, Line]]) -> str:
    """The ladder's table."""
    return ladder_table(rows)


def log_histograms(run: Run, path: Path) -> None:
    """Writes a run's histograms with the tags that cassandra-stress gives them, warm-up left out.

    Raises:
        RunError: the file can't be written.
    """
    from kvmark.records.export import as_hlog

    own, other = f"Tag={GROUP}.", f":{WARMING}"
    # Lines of a phase that isn't counted have its name and a colon before the group's.
    lines = (line for line in as_hlog(run).decode().splitlines() if other not in line)
    text = "".join(line.replace(own, "Tag=", 1) + "\n" for line in lines)
    write_output(path, f"{HISTOGRAMS_BY_KVMARK}\n{text}", page=True)
