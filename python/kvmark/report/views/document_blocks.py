"""What stands in a marked block of a document: made from the newest runs that may be used."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kvmark.analysis.compare.comparison import compare
from kvmark.analysis.compare.history import histories
from kvmark.analysis.compare.metrics import check_known
from kvmark.analysis.compare.published_claims import claims
from kvmark.analysis.compare.ranking import By, rankings
from kvmark.analysis.compare.selection import newest, runs_of, select, usable
from kvmark.errors import KvmarkError, SpecError
from kvmark.records import Records, Run
from kvmark.report.format import units
from kvmark.report.format.grid import escape_markdown, to_markdown
from kvmark.report.format.marks import MarkedBlock
from kvmark.report.views import sentences
from kvmark.report.views.comparison import comparison_markdown
from kvmark.report.views.gather import run_answer, sequence_answer
from kvmark.report.views.history import history_markdown
from kvmark.report.views.plan_words import listed
from kvmark.report.views.ranking import ranking_markdown
from kvmark.report.views.sequence import operations_grid, sequence_grid
from kvmark.spec.metric import parse_comparable

__all__ = ["KINDS", "content"]

_CHOOSE: Final = frozenset({"tag", "study", "workload", "system", "records"})
_BY: Final[tuple[By, ...]] = ("operation", "workload", "store")
_SHORT_COMMIT = 12


@dataclass(frozen=True, slots=True)
class _Asked:
    """A block's options and where its runs are."""

    records: Records
    options: Mapping[str, str]

    def runs(self, *, newest_only: bool = True) -> list[Run]:
        """The runs that the options choose.

        Raises:
            SpecError: there is none.
        """
        tags = [tag for tag in self.options.get("tag", "").split(",") if tag]
        if "study" in self.options:
            tags.append(f"study:{self.options['study']}")
        workloads = self.options.get("workload", "").split(",")
        system = self.options.get("system", "")
        entries = {
            entry.id
            for workload in workloads
            for entry in select(self.records, tags, workload.strip(), system)
        }
        found = usable(self.records, (self.records.open(run) for run in sorted(entries)))
        sizes = {int(size) for size in self.options.get("records", "").split(",") if size}
        if sizes:
            found = [run for run in found if _size(run) in sizes]
        if not found:
            asked = " ".join(f"{name}={value}" for name, value in self.options.items())
            raise SpecError(
                f"no valid run has {asked or 'been made'}: measure it, or mend the mark"
            )
        return newest(found) if newest_only else found


def content(block: MarkedBlock, records: Records) -> str:
    """The Markdown of a block.

    Raises:
        SpecError: the block asks for what isn't there; with its line.
    """
    if block.kind not in KINDS:
        raise SpecError(
            f"'{block.kind}' is no block: take one of {', '.join(KINDS)}", line=block.line
        )
    make, known = KINDS[block.kind]
    for name in block.options:
        if name not in known:
            raise SpecError(
                f"'{name}' is no option of {block.kind}: take one of {', '.join(sorted(known))}",
                line=block.line,
            )
    try:
        return make(_Asked(records, block.options))
    except SpecError as problem:
        raise problem.at(file=None, line=block.line) from None
    except (KvmarkError, ValueError) as problem:
        raise SpecError(str(problem), line=block.line) from problem


def _table(asked: _Asked) -> str:
    runs = asked.runs()
    answer = sequence_answer(runs)
    told = escape_markdown(sentences.sequence(answer))
    return "\n\n".join([to_markdown(sequence_grid(answer)).strip(), told, _source(runs)])


def _answer(asked: _Asked) -> str:
    runs = asked.runs()
    return f"{escape_markdown(sentences.sequence(sequence_answer(runs)))}\n\n{_source(runs)}"


def _operations(asked: _Asked) -> str:
    run = asked.runs()[-1]
    answer = run_answer(run)
    tables = [to_markdown(operations_grid(phase)).strip() for phase in answer.summary.phases]
    return "\n\n".join([escape_markdown(sentences.run(answer)), *tables, _source([run])])


def _compare(asked: _Asked) -> str:
    sides: list[list[Run]] = []
    for name in ("base", "candidate"):
        if name not in asked.options:
            raise SpecError("compare needs base=… and candidate=…, such as base=tag:before")
        runs = usable(asked.records, runs_of(asked.records, [asked.options[name]]))
        sides.append(newest(runs))
    allow = [word for word in asked.options.get("allow", "").split(",") if word]
    found = comparison_markdown(compare(*sides, allow=allow)).strip()
    return f"{found}\n\n{_source([run for side in sides for run in side])}"


def _order(asked: _Asked) -> str:
    runs, by = asked.runs(), asked.options.get("by", "operation")
    chosen = next((one for one in _BY if one == by), None)
    if chosen is None:
        raise SpecError(f"by: take one of {', '.join(_BY)}, not '{by}'")
    return f"{ranking_markdown(rankings(runs, chosen), claims(runs)).strip()}\n\n{_source(runs)}"


def _history(asked: _Asked) -> str:
    runs = asked.runs(newest_only=False)
    metric = parse_comparable(asked.options.get("metric", "throughput"))
    check_known([metric], runs)
    limit = int(asked.options.get("limit", "20"))
    told = [history_markdown(one, limit).strip() for one in histories(runs, metric)]
    return "\n\n".join(told)


def _provenance(asked: _Asked) -> str:
    return _source(asked.runs())


KINDS: Final[Mapping[str, tuple[Callable[[_Asked], str], frozenset[str]]]] = {
    "table": (_table, _CHOOSE),
    "answer": (_answer, _CHOOSE),
    "operations": (_operations, _CHOOSE),
    "compare": (_compare, frozenset({"base", "candidate", "allow"})),
    "order": (_order, _CHOOSE | {"by"}),
    "history": (_history, _CHOOSE | {"metric", "limit"}),
    "provenance": (_provenance, _CHOOSE),
}
"""Each kind of block, what makes it, and the options it knows."""


def _source(runs: Sequence[Run]) -> str:
    """Which runs a block is made of, where they ran and how they are made again."""
    first, last = runs[0], runs[-1]
    which = f"run {first.id}" if len(runs) == 1 else f"{len(runs)} runs, {first.id} to {last.id}"
    systems = dict.fromkeys(
        f"{run.manifest.engine.system.system} {run.manifest.engine.system.version}".strip()
        for run in runs
    )
    versions = dict.fromkeys(run.manifest.versions.get("kvmark", "unknown") for run in runs)
    commits = dict.fromkeys(run.manifest.commit for run in runs if run.manifest.commit)
    host = last.manifest.host
    memory = host.get("memory_bytes")
    machine = [f"{host.get('cores', '?')} cores of {host.get('processor', 'an unknown processor')}"]
    machine += [units.size(memory)] if isinstance(memory, int) else []
    told = [
        f"From {which}", listed(systems),
        *([f"commit {', '.join(one[:_SHORT_COMMIT] for one in commits)}"] if commits else []),
        f"kvmark {', '.join(versions)}", *machine,
    ]  # fmt: skip
    commands = dict.fromkeys(shlex.join(run.manifest.command) for run in runs)
    again = "" if len(commands) > 1 else f" Made by `{next(iter(commands))}`."
    return f"{escape_markdown('; '.join(told))}.{again}"


def _size(run: Run) -> int:
    sequence = run.manifest.spec.get("sequence", {})
    return int(sequence.get("records") or run.manifest.plan.get("dataset", {}).get("count", 0))
