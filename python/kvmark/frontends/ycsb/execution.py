"""Executes a YCSB sequence, reports its progress and prints its table."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kvmark.analysis.verdict.cases import SEQUENCE_SOURCE, SequenceRow
from kvmark.cli.output import print_answer, print_json, save_report, terminal_width
from kvmark.cli.session import execute_design, named_system, open_journal
from kvmark.drivers import drivers, is_embedded, schemes
from kvmark.errors import AnswerIsNo, SpecError, UsageError
from kvmark.experiment.journal import tag
from kvmark.experiment.judging import close_and_judge
from kvmark.frontends.ycsb import scheduling
from kvmark.frontends.ycsb.options import YcsbOptions
from kvmark.frontends.ycsb.sequence import SEQUENCE, SHORT_SEQUENCE, YcsbSequence, YcsbStudy
from kvmark.frontends.ycsb.workloads import YcsbProperties, read_ycsb
from kvmark.outputs import check_output
from kvmark.plan.names import key_names
from kvmark.records import Judgement, Manifest, Records, Run
from kvmark.report.model import units
from kvmark.report.views.gather import sequence_answer
from kvmark.report.views.screen import sequence_screen
from kvmark.run.existing import (
    DatasetClaim,
    OnExisting,
    check_existing,
    check_loaded,
    make_room,
)
from kvmark.spec.url import SystemName, SystemUrl
from kvmark.testbed.embedded import scratch_folder

if TYPE_CHECKING:
    from kvmark.cli.commands.study import StudyOptions
    from kvmark.cli.documents import Answers
    from kvmark.experiment.journal import Journal

_PATH: Final = "scratch"
"""The folder in the URL of a database that is made for the sequence, until it has one."""
_MEMORY_BYTES: Final = 256 << 20
"""For the caches and buffers of each of several embedded engines."""
_OVERRIDES: Final = ("clients", "pin", "duration_ns", "interval_ns", "timeout_ns")
"""Options that are fields of `RunSpec`."""
_LEAST_MEMORY_BYTES: Final = 4 << 20
_BUDGET_S: Final = 600.0
_SCRATCH_BUDGET_S: Final = (90.0, 60.0)
"""Without a system: of the only engine, and of each of several."""
_UNTIL_PRECISE: Final = scheduling.RepetitionPolicy(budget_s=_BUDGET_S)


@dataclass(frozen=True, slots=True)
class SequenceDefaults:
    """What a sequence is where neither options nor properties say it."""

    records: tuple[int, ...] = (100_000,)
    steps: tuple[str, ...] = SHORT_SEQUENCE
    duration_ns: int | None = None
    policy: scheduling.RepetitionPolicy = _UNTIL_PRECISE


PUBLISHED: Final = SequenceDefaults((1000, 3000, 6000, 10000), SEQUENCE)
"""The sizes and repetitions of the published comparison of Redis and RocksDB."""
_NEXT: Final = """\
Next:
  kvmark run ycsb/a --system rocksdb:db --rate 20k --slo 'p99<1ms'    latency at a rate
  kvmark up redis && kvmark ycsb --system up:redis --system lmdb:     Redis beside LMDB
  kvmark serve                                                        all runs in a browser"""
_COUNTING: Final = frozenset({"operationcount", "maxexecutiontime"})
"""Properties that end a workload."""
_LARGE_SHARE: Final = 0.5
"""A workload with a larger share of the time is named."""
_LONG_S: Final = 10.0
"""Repetitions that take less time need no advice."""
_STEADY_S: Final = 3.0
"""The rate of a step is extrapolated from this time on."""
_MOST_NAMES: Final = 4


@dataclass(frozen=True, slots=True)
class Systems:
    """The systems of a sequence by their names."""

    urls: Mapping[str, SystemUrl]
    #: Those whose database is made for the sequence, and removed after it.
    scratch: frozenset[str]

    def placed(self, folder: Path) -> Systems:
        """The same with databases in a folder."""

        def place(url: SystemUrl) -> SystemUrl:
            path = str(folder / url.driver)
            return replace(url, options={**url.options, "path": path}, text=f"{url.driver}:{path}")

        placed = {name: place(self.urls[name]) for name in self.scratch}
        return Systems(
            {name: placed.get(name, url) for name, url in self.urls.items()}, self.scratch
        )


def read_systems(names: Sequence[SystemName], memory_bytes: int | None) -> Systems:
    """The named systems; without a name, all embedded engines of this build.

    An embedded engine without a folder, such as `lmdb:`, gets one for the sequence. Several
    embedded engines have the same memory.

    Raises:
        SpecError: a URL is wrong, a system is named twice, or none has caches to limit.
    """
    engines = [name for name, one in schemes().items() if is_embedded(one.driver.name)]
    names = names or [SystemName(f"{name}:") for name in engines]
    urls, scratch = dict[str, SystemUrl](), list[str]()
    for given in names:
        name = str(given).removesuffix(":")
        if name in urls:
            raise SpecError(f"system: {name} is named twice")
        scheme, colon, rest = given.reveal().partition(":")
        has_folder = scheme not in engines or not colon or rest[:1] not in ("", "?")
        if not has_folder:
            scratch.append(name)
        urls[name] = named_system(given if has_folder else SystemName(f"{scheme}:{_PATH}{rest}"))
    embedded = [name for name, url in urls.items() if is_embedded(url.driver)]
    if memory_bytes is not None and not embedded:
        raise SpecError("memory: only embedded engines have this limit; leave it out")
    if memory_bytes is not None and memory_bytes < _LEAST_MEMORY_BYTES:
        raise SpecError("memory: an engine needs 4MiB at least")
    if memory_bytes is None and len(embedded) > 1:
        memory_bytes = _MEMORY_BYTES
    if memory_bytes is not None:
        urls |= {name: _within(urls[name], memory_bytes) for name in embedded}
    return Systems(urls, frozenset(scratch))


def _within(url: SystemUrl, memory_bytes: int) -> SystemUrl:
    """An embedded engine with caches and buffers of this size; options of the URL win."""
    shares = drivers()[url.driver].memory
    sizes = {name: str(memory_bytes * share // 100) for name, share in shares.items()}
    return replace(url, options={**sizes, **url.options})


def _defaults(
    properties: YcsbProperties, options: YcsbOptions, systems: Systems
) -> SequenceDefaults:
    """Slices of a second, the same number of each, unless something counts operations."""
    counts = options.operations is not None or bool(options.property_files)
    count = len(systems.urls)
    if counts or not properties.dotransactions or _COUNTING & properties.given.keys():
        return SequenceDefaults(policy=scheduling.RepetitionPolicy(budget_s=_BUDGET_S * count))
    only_s, each_s = (_BUDGET_S, _BUDGET_S) if options.systems else _SCRATCH_BUDGET_S
    policy = scheduling.RepetitionPolicy(5, 5, None, only_s if count == 1 else each_s * count)
    return SequenceDefaults(duration_ns=10**9, policy=policy)


def _make_study(
    properties: YcsbProperties, options: YcsbOptions, systems: Systems, defaults: SequenceDefaults
) -> YcsbStudy:
    """The study that options and properties describe, checked.

    Workloads that a system doesn't support are left out with a message, unless an option names
    them.
    """
    if options.records is not None and 0 in options.records:
        raise SpecError("records: must be at least 1, not 0")
    count = properties.recordcount
    loads = not properties.dotransactions
    # A load by YCSB's flag is run once, to leave its data.
    repetitions = 1 if options.repetitions is None and loads else options.repetitions
    policy = defaults.policy
    if repetitions is not None:
        if repetitions < 1:
            raise SpecError(f"repetitions: must be at least 1, not {repetitions}")
        policy = scheduling.RepetitionPolicy(repetitions, repetitions, None)
    if options.budget_s is not None:
        policy = replace(policy, budget_s=options.budget_s)
    steps = defaults.steps
    if loads:
        steps = ("load",)
    elif "dotransactions" in properties.given:
        steps = ("run",)
    elif options.property_files:
        steps = ("load", "run")
    overrides = {name: getattr(options, name) for name in _OVERRIDES}
    overrides["duration_ns"] = options.duration_ns or defaults.duration_ns
    study = YcsbStudy(
        systems=_titled(systems),
        properties=properties,
        records=options.records or (defaults.records if count is None else (count,)),
        operations=options.operations,
        workloads=options.workloads or steps,
        targets=options.targets or (None,),
        policy=policy,
        seed=options.seed,
        overrides={name: value for name, value in overrides.items() if value is not None},
    )
    if options.workloads is None and (unsupported := study.unsupported()):
        for workload, (driver, kind) in unsupported.items():
            message = f"{workload} is left out: {driver} has no {kind} operations"
            print(message, file=sys.stderr)
        left = tuple(name for name in study.workloads if name not in unsupported)
        study = replace(study, workloads=left)
    study.check()
    return study


def _titled(systems: Systems) -> Mapping[str, SystemUrl]:
    """The systems by their names in titles."""
    return systems.urls if len(systems.urls) > 1 else {"": next(iter(systems.urls.values()))}


def execute_sequence(
    properties: YcsbProperties, options: YcsbOptions, defaults: SequenceDefaults | None = None
) -> None:
    """Executes a sequence and prints its table.

    Without systems it uses a scratch database of each embedded engine; without `defaults`, those of
    the options and properties.

    Raises:
        KvmarkError: an option is wrong, a step can't be executed, failed or was interrupted, or a
            case is INVALID.
    """
    systems = read_systems(options.systems, options.memory_bytes)
    study = _make_study(
        properties, options, systems, defaults or _defaults(properties, options, systems)
    )
    label = study.properties.label
    options = replace(options, tags=(*options.tags, *([label] if label else ())))
    if options.report is not None:
        check_output(options.report, "report: ")
    with _placed(systems, options.open_records()) as placed:
        sequence = YcsbSequence(study=replace(study, systems=_titled(placed)), names=[*placed.urls])
        if not options.resume:
            _check_systems(sequence.study, placed, options.on_existing)
        journal = open_journal(sequence, options)
        sequence.prepare = partial(_prepare, sequence.study, placed, options.on_existing, journal)
        sequence.watch = ProgressMessages(sequence, journal.records).watch
        with execute_design(sequence, options, journal) as problem:
            # Runs that ended before a failed one are judged, too.
            ended = [one.run for one in sequence.outcomes if one.run is not None]
            runs = [close_and_judge(journal.records, run).run for run in ended]
            if problem is not None:
                runs = [run for run in runs if not run.manifest.engine.interrupted]
                if not runs:
                    raise problem
            more = "see the report" if options.report else f"kvmark runs report {tag(journal.id)}"
            summary = sequence.scheduler.summary()
            rows = _print_table(runs, summary, options, more, is_timed=study.is_timed)
            if problem is not None:
                raise problem
            if not options.systems and not (options.json or options.quiet):
                print(_NEXT, file=sys.stderr)
            _check_valid(rows)


def _check_systems(study: YcsbStudy, systems: Systems, on_existing: OnExisting) -> None:
    """Refuses systems with records before a first load, and those without before other steps."""
    loads = any(step.fresh for step in study.first_steps())
    advice = f"write --workloads load,{','.join(study.workloads)}"
    for name, url in systems.urls.items():
        if loads:
            check_existing(url, on_existing)
        elif name in systems.scratch:
            raise UsageError(f"{name}: a new database has no records: {advice}")
        else:
            check_loaded(url, on_existing, advice)


def _prepare(
    study: YcsbStudy, systems: Systems, on_existing: OnExisting, journal: Journal, title: str
) -> None:
    """Empties the system of this title for a fresh load."""
    name = title or next(iter(systems.urls))
    # Records in a scratch database need no proof of origin.
    choice: OnExisting = "remove" if name in systems.scratch else on_existing
    steps = [step for step in study.first_steps() if step.system == title]
    claim = DatasetClaim(journal.claim(), lambda: key_names(map(study.plan, steps)))
    make_room(systems.urls[name], choice, claim)


@contextmanager
def _placed(systems: Systems, records: Records) -> Iterator[Systems]:
    """The systems, with a folder for scratch databases where there are some."""
    if not systems.scratch:
        yield systems
        return
    with scratch_folder(records.root) as folder:
        yield systems.placed(folder)


def run_study(name: str, options: StudyOptions) -> None:
    """Executes the sequence with the sizes and repetitions of the published comparison.

    Raises:
        KvmarkError: as `execute_sequence`, or an option isn't one of this study.
    """
    others = ("through", "scale", "only", "cases", "text")
    if given := [one for one in others if getattr(options, one)]:
        raise SpecError(f"{given[0]}: {name} has no such option; see kvmark ycsb --help")
    shared = {one.name for one in fields(YcsbOptions)} & {one.name for one in fields(options)}
    values = {one: getattr(options, one) for one in shared}
    seed = 1 if options.seed is None else options.seed
    system = options.system or SystemName("rocksdb:")
    wanted = YcsbOptions(**{**values, "seed": seed, "systems": (system,)})
    execute_sequence(read_ycsb([], []), wanted, PUBLISHED)


def documents() -> Mapping[str, Answers]:
    """The JSON documents of the command, by their kinds."""
    from kvmark.cli.documents import Answers

    fields = {
        "rows": tuple[SequenceRow, ...],
        "published_source": str,
        "runs": tuple[str, ...],
        "report": Path | None,
        "repetitions": scheduling.SequenceRepetitions,
        "said": tuple[str, ...],
    }
    purpose = "YCSB's sequence, a row for each workload and size."
    return {"sequence": Answers(fields, ("ycsb",), purpose)}


def _print_table(
    runs: Sequence[Run],
    summary: scheduling.SequenceRepetitions,
    options: YcsbOptions,
    more: str,
    *,
    is_timed: bool,
) -> Sequence[SequenceRow]:
    """Prints the table, writes the report, and returns the rows."""
    # The time that a workload takes is a result only where it isn't the user's choice.
    manifests = None if is_timed else [run.manifest for run in runs]
    notes = closing_notes(summary, manifests)
    answer = replace(sequence_answer(runs), remarks=notes)
    if options.json:
        document = {
            "rows": answer.rows,
            "published_source": SEQUENCE_SOURCE,
            "runs": [run.id for run in runs],
            "report": options.report,
            "repetitions": summary,
            "said": (*filter(None, [answer.caution]), *notes),
        }
        print_json("sequence", document)
    else:
        print_answer(sequence_screen(answer, terminal_width(), more))
    save_report(lambda page: page.sequence_page(answer), options.report, quiet=options.json)
    return answer.rows


def _check_valid(rows: Sequence[SequenceRow]) -> None:
    """Raises AnswerIsNo if a row is INVALID."""
    invalid = sum(row.figures.verdict.judgement is Judgement.INVALID for row in rows)
    if invalid:
        cases = f"{invalid} of {len(rows)} cases {'is' if invalid == 1 else 'are'}"
        raise AnswerIsNo(f"{cases} INVALID, for the reasons above")


class ProgressMessages:
    """Messages on the duration of a sequence while it is executed, each once."""

    def __init__(self, sequence: YcsbSequence, records: Records) -> None:
        self._sequence, self._scheduler, self._records = sequence, sequence.scheduler, records
        self._has_cost = False
        self._stage = 0
        self._reported: scheduling.StepLimit | None = None

    def watch(
        self, step: scheduling.Step, limit: scheduling.StepLimit | None, say: Callable[[str], None]
    ) -> None:
        """Called when a step begins, without its limit, and after each of its intervals."""
        for message in self._at_begin() if limit is None else self._at_interval(step, limit):
            say(message)

    def _at_begin(self) -> Iterator[str]:
        summary = self._scheduler.summary()
        if self._stage == 0:
            yield announcement(self._sequence.study, summary)
        if not self._has_cost and self._scheduler.has_costs:
            self._has_cost = True
            once_s, limit_s = sum(case.once_s for case in summary.cases), summary.budget_s
            is_short = limit_s is not None and once_s * summary.first_stage > limit_s
            longest = _longest(summary, self._manifests())
            if once_s >= _LONG_S and (is_short or longest):
                about = f"One repetition of each case takes about {units.span(once_s)}."
                yield f"{about} {longest}".rstrip()
        if self._stage not in (0, self._scheduler.stage):
            more = sum(case.wanted > summary.first_stage for case in summary.cases)
            left_s, _ = self._scheduler.time_left() or (0.0, False)
            yield (
                f"The first stage took {units.span(summary.used_s)};"
                f" {_needs_more(more, summary)}: about {units.span(left_s)}."
            )
        self._stage = self._scheduler.stage

    def _at_interval(self, step: scheduling.Step, limit: scheduling.StepLimit) -> Iterator[str]:
        if limit is self._reported or limit.elapsed_s < _STEADY_S or not limit.exceeds_budget:
            return
        self._reported = limit
        endless = limit.projected_s == math.inf
        duration = "never end" if endless else f"take {units.span(limit.projected_s)}"
        plan = self._sequence.study.plan(step).model_dump(mode="json")
        advice = _advice(self._manifests(), plan)
        yield (
            f"{step.title}: at {units.significant(limit.rate_per_s)} ops/s it would {duration},"
            f" which exceeds the rest of the budget. It ends after {units.span(limit.share_s)};"
            f" --budget none lets it finish.{advice}"
        )

    def _manifests(self) -> list[Manifest]:
        return [
            self._records.open(one.run).manifest if one.carried is None else one.carried.manifest
            for one in self._sequence.outcomes
            if one.run is not None
        ]


def announcement(study: YcsbStudy, summary: scheduling.SequenceRepetitions) -> str:
    """Number of cases and repetitions, and their time limit."""
    count = len(summary.cases)
    cases = f"{count} cases, each" if count > 1 else "One case,"
    message = f"{cases} {_times(summary.first_stage)}"
    if summary.within is not None:
        most = _times(summary.most)
        message += f", then up to {most} until its throughput is within {_precision(summary)}"
    if summary.budget_s is None:
        return f"{message}; no time limit."
    message += f"; time limit {units.span(summary.budget_s)} (--budget)."
    timed = sum(case.workload not in scheduling.WHOLE for case in summary.cases)
    once_s = (study.overrides.get("duration_ns") or 0) / 1e9 * timed
    if once_s > summary.budget_s:
        once = units.span(once_s)
        message += f" With --duration, one repetition takes {once}: each case runs once."
    return message


def closing_notes(
    summary: scheduling.SequenceRepetitions, manifests: Sequence[Manifest] | None
) -> tuple[str, ...]:
    """Sentences on repetitions that the budget left out, and on the slowest workload.

    Without manifests, the user chose the duration of workloads, and none is the slowest.
    """
    notes, reasons = [], []
    cut = [case for case in summary.cases if case.cut]
    if cut:
        notes.append(
            f"The budget ended {_names(cut)} before all operations were done: throughput, times"
            " and runtime are those of the completed part."
        )
    few = [case for case in summary.cases if case.repetitions < summary.first_stage]
    fewer = [case for case in summary.cases if case.repetitions < case.wanted and case not in few]
    if few:
        counts = sorted({case.repetitions for case in few})
        ran = _times(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]} times"
        reasons.append(
            f"{_names(few)} ran {ran} instead of {summary.first_stage}, so their ± is wide or that"
            " of a single run"
        )
    if fewer:
        reasons.append(_needs_more(len(fewer), summary))
    if summary.budget_s is not None and reasons:
        minutes = math.ceil((summary.used_s + summary.lacking_s) * 1.1 / 60)
        enough = f"{minutes}m" if minutes < 120 else f"{math.ceil(minutes / 60)}h"
        notes.append(
            f"The budget of {units.span(summary.budget_s)} was too short: {'; '.join(reasons)};"
            f" --budget {enough} is enough."
        )
    if manifests is not None:
        notes.append(_longest(summary, manifests))
    return tuple(filter(None, notes))


def _longest(summary: scheduling.SequenceRepetitions, manifests: Sequence[Manifest]) -> str:
    """The workload that takes most of the time, and the option that would help."""
    seconds: dict[str, float] = {}
    for case in summary.cases:
        seconds[case.workload] = seconds.get(case.workload, 0.0) + case.once_s
    name = max(seconds, key=seconds.__getitem__)
    share = seconds[name] / (sum(seconds.values()) or 1.0)
    if share <= _LARGE_SHARE or len(seconds) == 1:
        return ""
    own = [one for one in manifests if one.spec.get("sequence", {}).get("workload") == name]
    advice = _advice(manifests, own[-1].plan) if own else ""
    title = scheduling.workload_title(name)
    return f"{title} takes {100 * share:.0f} % of the time of a repetition.{advice}"


def _advice(manifests: Sequence[Manifest], plan: Mapping[str, Any]) -> str:
    """The driver's option that speeds up the most frequent operations, if it has one."""
    weights = Counter[str]()
    for phase in plan["phases"]:
        for active in phase["groups"] if phase["name"] == "measure" else ():
            for entry in plan["groups"][active["group"]]["mix"]:
                weights[entry["kind"]] += entry["weight"]
    kind = max(weights, key=weights.__getitem__, default="")
    capabilities = manifests[-1].engine.capabilities if manifests else None
    for speedup in capabilities.speedups if capabilities else ():
        if kind in speedup.kinds:
            return f" {speedup.option} in the URL of the system {speedup.meaning}."
    return ""


def _precision(summary: scheduling.SequenceRepetitions) -> str:
    return f"± {100 * (summary.within or 0):g} %"


def _needs_more(count: int, summary: scheduling.SequenceRepetitions) -> str:
    need = "one of {} cases needs" if count == 1 else f"{count} of {{}} cases need"
    return f"{need.format(len(summary.cases))} more repetitions for {_precision(summary)}"


def _names(cases: Sequence[scheduling.CaseRepetitions]) -> str:
    names = [_name(case) for case in cases[:_MOST_NAMES]]
    if len(cases) > _MOST_NAMES:
        names = [*names[: _MOST_NAMES - 1], f"{len(cases) - _MOST_NAMES + 1} more cases"]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _name(case: scheduling.CaseRepetitions) -> str:
    rate = "" if case.target is None else f" at {units.significant(case.target)} ops/s"
    place = f" on {case.system}" if case.system else ""
    name = scheduling.workload_title(case.workload) + place
    return f"{name} with {units.whole(case.records)} records{rate}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
