"""The results of a study: the runs of each case, judged, with effects and notes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from kvmark.analysis.path_costs import path_costs, published_costs
from kvmark.analysis.study import (
    CaseRuns,
    EffectAsked,
    ProxyCosts,
    PublishedFigures,
    StudyResults,
    effect,
    study_rows,
)
from kvmark.analysis.summary.sums import disk_bytes_per_operation
from kvmark.analysis.verdict.judge import Verdict, known_verdict
from kvmark.analysis.verdict.rules import Reason
from kvmark.analysis.verdict.run_conditions import cold_runs, unlike_machines
from kvmark.errors import KvmarkError, RecordsError, UsageError
from kvmark.experiment.executor import BestAttempts, best_attempts
from kvmark.experiment.journal import Journal, every
from kvmark.experiment.judging import Usability
from kvmark.experiment.study.cases import Case, matches
from kvmark.experiment.study.definition import Study, StudyRequest, published_for
from kvmark.experiment.study.published import PublishedCase, read_published_ways
from kvmark.records import Records, Run
from kvmark.run.execution import INTERRUPTED
from kvmark.spec.study import DIRECT, THROUGH, EffectSpec, parse_study
from kvmark.spec.url import SystemName, SystemUrl, parse_system_url

_SHARED = "The nodes shared one machine's cores: the table says nothing about scaling over nodes."
_MISSING = "not run"
_KILLED = "the run was killed before its end"

CommandsCount = Callable[[Run], Mapping[str, int]]


def stored_request(journal: Journal) -> StudyRequest:
    """The stored request of a study."""
    return StudyRequest.of_json(journal.definition.get("asked", {}))


def newest_with_cases(records: Records, name: str, only: tuple[str, ...]) -> Journal | None:
    """The newest study of a name with this choice of cases."""
    return next((one for one in every(records, name) if stored_request(one).only == only), None)


def stored_study(journal: Journal) -> Study:
    """A study as stored in its journal, without access to its systems.

    Raises:
        RecordsError: the journal isn't a study's.
        SpecError: this version can't read the study's file.
    """
    definition = journal.definition
    if "text" not in definition or "asked" not in definition:
        raise RecordsError(f"{journal.id} isn't a study of cases: name one that is")
    file = parse_study(str(definition["text"]), f"{definition.get('name')}.yaml")

    def resolve(name: SystemName) -> SystemUrl:
        try:
            return parse_system_url(name.reveal())
        except UsageError:
            # The testbed is gone or credentials are missing: only the driver matters.
            made = (attempt.run for attempt in journal.attempts() if attempt.run is not None)
            run = next(made, None)
            if run is None:
                raise RecordsError(f"study {journal.id} has no run: measure it first") from None
            driver = journal.records.open(run).manifest.plan["system"]["driver"]
            return SystemUrl(str(driver), {}, str(name))

    return Study(file, StudyRequest.of_json(definition["asked"]), resolve)


def study_results(
    study: Study, journal: Journal, commands_per_operation: CommandsCount
) -> StudyResults:
    """The results of the runs so far.

    `commands_per_operation` gives the operations counted per operation of each group, if not one.

    Raises:
        RecordsError: a run's files can't be read.
    """
    best = best_attempts(journal)
    cases = [
        _case(study, case, best, journal.records, commands_per_operation) for case in study.cases
    ]
    cold = cold_runs({each: case.runs[each] for each in sorted(case.usable)} for case in cases)
    # Runs on cold servers are excluded from effects.
    slow = [{each for each in case.usable if case.runs[each].id in cold} for case in cases]
    cases = [replace(case, cold=frozenset(one)) for case, one in zip(cases, slow, strict=True)]
    in_records = study.spec.measure == "records"
    published = {tuple(sorted(one.levels.items())): _figures(one) for one in study.published}
    runs_made = tuple(run for case in cases for run in case.runs.values())
    beside = (cold, unlike_machines(case.runs.values() for case in cases))
    through, proxies = study.spec.through, None
    if through is not None:
        source = through.published.source if through.published else ""
        their_costs = published_costs(read_published_ways(study.file))
        proxies = ProxyCosts(path_costs(cases, THROUGH, DIRECT), their_costs, source)
    return StudyResults(
        spec=study.spec,
        factors=study.factors,
        repetitions=study.repetitions,
        rows=study_rows(cases, partial(_judged, journal.records, beside), records=in_records),
        effects=tuple(
            effect(
                EffectAsked(one.title, one.from_, one.to, dict(one.within), one.of),
                cases,
                published,
                records=in_records,
            )
            for one in study.spec.effects
            if one.to.keys() <= set(study.factors) and _has_cases(study, one)
        ),
        runs=runs_made,
        usable=frozenset(case.runs[number].id for case in cases for number in case.usable),
        notes=tuple(_notes(study, runs_made)),
        missing=sum(case.failures.count(_MISSING) for case in cases),
        proxies=proxies,
    )


def _figures(case: PublishedCase) -> PublishedFigures:
    return PublishedFigures(**case.figures, table=case.table)


def _case(
    study: Study,
    case: Case,
    best: BestAttempts,
    records: Records,
    commands_per_operation: CommandsCount,
) -> CaseRuns:
    """The runs of a case, and the reasons for missing ones."""
    runs: dict[int, Run] = {}
    whole, cut, failures = set(), set(), []
    for repetition in range(study.repetitions_of(case)):
        if (case.title, repetition) not in best:
            failures.append(_MISSING)
            continue
        attempt, worth = best[case.title, repetition]
        reason = attempt.failure
        if attempt.run is not None:
            try:
                runs[repetition] = run = records.open(attempt.run)
                reason = reason or (_KILLED if run.manifest.closed_by == "recovered" else None)
            except KvmarkError as problem:
                reason = str(problem)
        if reason is not None and (reason == _KILLED or reason.startswith(INTERRUPTED)):
            cut.add(repetition)
        if worth is not Usability.AGAIN:
            reason = reason or _from_cache(study, case, runs[repetition])
        if worth is Usability.USABLE and reason is None:
            whole.add(repetition)
        if reason is not None:
            failures.append(reason)
    figures = published_for(case.labels, study.published)
    return CaseRuns(
        levels=case.labels,
        # An interrupted run is no repetition beside one that came to its end, INVALID or not.
        runs={each: run for each, run in runs.items() if each not in cut or runs.keys() <= cut},
        usable=frozenset(whole),
        failures=tuple(failures),
        published=None if figures is None else _figures(figures),
        commands=commands_per_operation(next(iter(runs.values()))) if runs else {},
    )


def _judged(records: Records, beside: Sequence[Mapping[str, Reason]], run: Run) -> Verdict:
    """The verdict on a run, with reasons from the comparison with other runs."""
    verdict = known_verdict(records, run)
    more = [found[run.id] for found in beside if run.id in found]
    return Verdict.of([*verdict.reasons, *more]) if more else verdict


def _from_cache(study: Study, case: Case, run: Run) -> str | None:
    """The reason why a run says nothing about disks, where the study requires it."""
    asked = study.spec.from_disk
    if asked is None or not matches(case.labels, asked.cases):
        return None
    read_bytes = disk_bytes_per_operation([run])
    if read_bytes is not None and read_bytes >= asked.least:
        return None
    read = "an unknown number of bytes" if read_bytes is None else f"{read_bytes:,.0f} bytes"
    return (
        f"the servers read {read} from their disks for an operation, and {asked.least:,} at the"
        " least were asked for: give more records, or the nodes less memory"
    )


def _has_cases(study: Study, spec: EffectSpec) -> bool:
    """Whether the selected cases include both sides of an effect."""
    sides = ({**spec.within, **{name: (label,) for name, label in side.items()}}
             for side in (spec.from_, spec.to))  # fmt: skip
    return all(any(matches(case.labels, side) for case in study.cases) for side in sides)


def _notes(study: Study, runs: tuple[Run, ...]) -> list[str]:
    # Notes about the study's own servers don't apply to another system.
    notes = [] if study.asked.system is not None else [*study.spec.notes]
    if any(len((run.manifest.testbed or {}).get("nodes") or ()) > 1 for run in runs):
        notes.append(_SHARED)
    if study.scale != 1:
        scaled = " and ".join(study.spec.scale.of) if study.spec.scale else ""
        notes.append(f"Scale {study.scale:g}: {scaled} are multiplied by it.")
    same = "is the same for all cases on this system: left out."
    return [*notes, *(f"The factor {name} {same}" for name in study.without_effect)]
