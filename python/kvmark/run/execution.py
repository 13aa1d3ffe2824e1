"""Executes one plan: folder, generator or fleet, sampler, faults, and the records of the run."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from kvmark import errors, interrupts
from kvmark.drivers import is_embedded
from kvmark.errors import GeneratorDied, Interrupted, KvmarkError, RunError
from kvmark.plan.model import Plan
from kvmark.records import Header, Manifest, ObservedServer, RunFolder
from kvmark.run.context import RunContext
from kvmark.run.existing import removed_if_refused
from kvmark.run.faults import Faults, ServerInfo, find_servers
from kvmark.run.generator import Caller
from kvmark.run.sampler import Sampler
from kvmark.secret import Secret
from kvmark.spec.faults import FaultSpec

INTERRUPTED: Final = "interrupted"
"""The beginning of the failure of a run that the user ended."""

Progress = Callable[[RunFolder, Mapping[str, Any]], object]
"""Takes the engine's progress and the current run, at most once a second."""


@dataclass(frozen=True, slots=True)
class ExecutedRun:
    """A run that has ended and isn't closed yet."""

    folder: RunFolder
    inserted: int
    """The number of records that its inserts left in the dataset."""
    failure: KvmarkError | None
    """The reason if it ended early."""
    manifest: Manifest

    def or_raise(self) -> ExecutedRun:
        """Itself, if the run came to its end.

        Raises:
            KvmarkError: the reason why it ended early. The run is kept.
        """
        if self.failure is not None:
            raise self.failure
        return self


def execute(
    plan: Plan,
    spec: Mapping[str, Any],
    context: RunContext,
    progress: Progress,
    faults: Sequence[FaultSpec] = (),
    may_go_on: Callable[[], bool] | None = None,
    password: Secret | None = None,
) -> ExecutedRun:
    """Executes a plan with its faults and keeps the engine's records.

    `may_go_on` is called only while the engine runs. False ends the run like an interrupt, but
    doesn't change the result of a run that came to its end. If the generator died, the run is
    recovered from its logs. A failure after the engine has returned is the failure of a kept run.

    The run has to be closed later, when nothing is measured any more.

    Raises:
        KvmarkError: the run couldn't begin, and then no folder is left; or its records couldn't be
            written, and then its logs are kept if it measured anything.
    """
    interrupts.check()
    plan = _with_own_values(_created_on_demand(context.applied_to(plan)))
    servers = find_servers(plan)
    servers.check_faults(faults)
    servers.check_names([one.name for one in context.observed])
    folder = context.records.new(plan.name)
    folder.begin(
        Header(
            command=context.command,
            spec=dict(spec),
            plan=plan.model_dump(mode="json"),
            host=dict(context.host),
            versions=dict(context.versions),
            tags=context.tags,
            commit=context.commit,
            testbed=None if servers.description is None else dict(servers.description),
            observed=tuple(ObservedServer(name=s.name, source=s.text) for s in context.observed),
        )
    )
    result: Mapping[str, Any] | None = None
    cores = _cores(plan, servers)
    try:
        caller = Caller(
            partial(progress, folder),
            may_go_on=may_go_on or (lambda: True),
            recording=context.recording,
            password=password,
            # Workers of stress share its connections.
            all_cores="stress" not in spec and spec.get("workers") is None and not plan.pin,
        )
        with (
            Sampler(folder, servers.testbeds, context.observed, context.generator.processes, cores),
            _with_faults(caller, plan, folder, servers, faults) as caller,
            removed_if_refused(plan),
            context.exporter.following(folder, plan) if context.exporter else nullcontext(),
        ):
            result = context.generator.generate(plan, folder, caller)
    except GeneratorDied as died:
        if folder.abandon():
            raise
        return _recovered(plan, folder, died)
    except BaseException as problem:
        if result is None or not isinstance(problem, Exception | KeyboardInterrupt):
            folder.abandon()
            raise
        # The engine had returned: the measurement is complete.
        return _kept(plan, folder, result, _failed_after(problem, result, folder.id))
    return _kept(plan, folder, result, _failure(result, folder.id))


@contextmanager
def _with_faults(
    caller: Caller, plan: Plan, folder: RunFolder, servers: ServerInfo, faults: Sequence[FaultSpec]
) -> Iterator[Caller]:
    """The caller of a run during which these faults act."""
    if not faults:
        yield caller
        return
    limits_ns = (phase.duration_ns for phase in plan.phases if phase.name == "measure")
    with Faults(faults, servers.testbed, folder, next(limits_ns, None)) as broken:
        yield replace(caller, may_begin=broken.may_begin, is_disturbed=broken.acts)


def _cores(plan: Plan, servers: ServerInfo) -> Sequence[int]:
    """The cores of servers, or of an embedded store's workers."""
    bound = {core for each in servers.testbeds for node in each.nodes for core in node.cores}
    return sorted(bound) or (plan.pin if is_embedded(plan.system.driver) else ())


def _recovered(plan: Plan, folder: RunFolder, died: GeneratorDied) -> ExecutedRun:
    """The run, recovered from its logs."""
    # It imports Polars, which other runs don't need.
    from kvmark.records.recovery import recover_run  # noqa: PLC0415

    _check_place(folder)
    manifest = recover_run(folder.path).manifest
    reason = GeneratorDied(f"{died}; its records are kept as run {folder.id}")
    return ExecutedRun(folder, _inserted(plan, manifest), reason, manifest)


def _kept(
    plan: Plan, folder: RunFolder, result: Mapping[str, Any], failure: KvmarkError | None
) -> ExecutedRun:
    """The run, with the engine's records written."""
    _check_place(folder)
    try:
        manifest = folder.end(result["record"])
    except BaseException:
        folder.abandon()
        raise
    return ExecutedRun(folder, _inserted(plan, manifest), failure, manifest)


def _check_place(folder: RunFolder) -> None:
    """Reports a folder that the user moved or removed while it was written."""
    if not folder.path.is_dir():
        raise RunError(
            f"run {folder.id} isn't in {folder.path.parent} any more: if the folder was moved, it"
            " has the records; give its new place to --runs"
        )


def _inserted(plan: Plan, manifest: Manifest) -> int:
    """The number of records up to the last insert; 0 without inserts."""
    frontiers = [group.frontier or 0 for phase in manifest.engine.phases for group in phase.groups]
    return max([0, *(frontier - plan.dataset.start for frontier in frontiers)])


def _failure(result: Mapping[str, Any], run: str) -> KvmarkError | None:
    failure = result["failure"]
    if result["record"]["interrupted"]:
        return _interrupted(run)
    if failure is None:
        return None
    kind: type[KvmarkError] = getattr(errors, failure["kind"])
    return kind(f"{failure['message']}; the run is kept as {run}")


def _failed_after(
    problem: Exception | KeyboardInterrupt, result: Mapping[str, Any], run: str
) -> KvmarkError:
    """The error after the engine had returned, following the engine's own failure."""
    if isinstance(problem, KeyboardInterrupt):
        return _interrupted(run)
    own = problem if isinstance(problem, KvmarkError) else RunError(repr(problem))
    failure = _failure(result, run)
    if failure is not None:
        combined: KvmarkError = type(failure)(f"{failure}; after it: {own}")
    else:
        combined = type(own)(f"{own}; what was measured before is whole and kept as run {run}")
    combined.__cause__ = problem
    return combined


def _interrupted(run: str) -> Interrupted:
    return Interrupted(f"{INTERRUPTED}: what was measured until then is kept as run {run}")


def _with_own_values(plan: Plan) -> Plan:
    """The plan, with values that no other run writes if losses are looked for.

    Else a lost update would leave what a run with the same seed wrote before, and not be seen.
    Values that reads compare in full must be those of the load.
    """
    is_verified = any(phase.name == "verify" for phase in plan.phases)
    if not is_verified or any(group.check_values == "full" for group in plan.groups):
        return plan
    seeds = plan.seeds.model_copy(update={"values": secrets.randbits(63)})
    return plan.model_copy(update={"seeds": seeds})


def _created_on_demand(plan: Plan) -> Plan:
    """The plan, with an option to create its embedded system if it loads records."""
    if not is_embedded(plan.system.driver) or "create" in plan.system.options:
        return plan
    if not (plan.dataset.count == 0 or any(phase.name == "load" for phase in plan.phases)):
        return plan
    options = {**plan.system.options, "create": "true"}
    return plan.model_copy(update={"system": plan.system.model_copy(update={"options": options})})
