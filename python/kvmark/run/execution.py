"""One plan carried out from here: folder, engine or fleet, sampler, and what came of it kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from kvmark import errors, interrupts
from kvmark.drivers import is_embedded
from kvmark.errors import GeneratorDied, Interrupted, KvmarkError, RunError
from kvmark.plan.model import Plan
from kvmark.records import Header, Manifest, RunFolder
from kvmark.run.existing import removed_if_refused
from kvmark.run.faults import Faults, served_by
from kvmark.run.generator import Caller
from kvmark.run.sampler import Sampler
from kvmark.run.setting import Setting
from kvmark.secret import Secret
from kvmark.spec.faults import FaultSpec
from kvmark.testbed.observe import NodeExporter
from kvmark.testbed.state import Testbed

INTERRUPTED: Final = "interrupted"
"""How the failure of a run begins that the user has ended."""

Progress = Callable[[RunFolder, Mapping[str, Any]], object]
"""Takes the engine's progress and the run that goes, once a second at most."""


@dataclass(frozen=True, slots=True)
class Carried:
    """A run that has ended and isn't closed yet, and why it ended early if it did."""

    folder: RunFolder
    present: int
    """How many records its inserts left in the dataset; 0 where there were none."""
    failure: KvmarkError | None
    manifest: Manifest
    """What is known when the engine has returned."""

    def or_raise(self) -> Carried:
        """Itself, if the run came to its end.

        Raises:
            KvmarkError: what ended it early. The run is kept all the same.
        """
        if self.failure is not None:
            raise self.failure
        return self


def carry_out(
    plan: Plan,
    spec: Mapping[str, Any],
    setting: Setting,
    progress: Progress,
    faults: Sequence[FaultSpec] = (),
    exporters: Sequence[NodeExporter] = (),
    may_go_on: Callable[[], bool] | None = None,
    password: Secret | None = None,
) -> Carried:
    """Carries out a plan with its faults and keeps what the engine returned.

    `may_go_on` is asked while the engine is at work and at no other time: what it says ends the run
    as the user would, and never what is done with a run that came to its end. A process that
    generated the load and died leaves a run that is recovered from its logs. Whatever fails when
    the engine has returned is the failure of a run that is kept.

    The run is left to be closed later, when nothing is measured any more.

    Raises:
        KvmarkError: the run couldn't begin, and then no folder is left, or its records couldn't be
            written, and then its logs are kept if something was measured.
    """
    interrupts.check()
    plan = _created_on_demand(setting.applied_to(plan))
    served = served_by(plan)
    served.check_faults(faults)
    folder = setting.records.new(plan.name)
    folder.begin(_header(plan, spec, setting, served.description))
    generator = setting.generator
    result: Mapping[str, Any] | None = None
    try:
        with (
            _sampler(plan, folder, served.testbeds, exporters, generator.processes),
            _broken_as_planned(faults, served.testbed, folder, plan) as broken,
            removed_if_refused(plan),
            _followed(setting, folder, plan),
        ):
            caller = Caller(partial(progress, folder), None, may_go_on, recording=setting.recording)
            if broken is not None:
                caller = replace(caller, may_begin=broken.may_begin, is_disturbed=broken.acts)
            result = generator.generate(
                plan,
                folder,
                caller,
                password=password,
                # Those of stress share its connections.
                all_cores="stress" not in spec and spec.get("workers") is None and not plan.pin,
            )
    except KeyboardInterrupt:
        if result is None:
            folder.abandon()
            raise
        # The engine had returned: the run is whole, and the user wants nothing to follow it.
        return _kept(plan, folder, result, _interrupted(folder.id))
    except GeneratorDied as died:
        if folder.abandon():
            raise
        return _recovered(plan, folder, died)
    except Exception as problem:
        if result is None:
            folder.abandon()
            raise
        # What ends with the engine failed to end: what was measured before is whole.
        return _kept(plan, folder, result, _failed_after(problem, result, folder.id))
    except BaseException:
        folder.abandon()
        raise
    return _kept(plan, folder, result, _failure(result, folder.id))


def _header(
    plan: Plan,
    spec: Mapping[str, Any],
    setting: Setting,
    servers: Mapping[str, Any] | None,
) -> Header:
    return Header(
        command=setting.command,
        spec=spec,
        plan=plan.model_dump(mode="json"),
        host=setting.host,
        versions=setting.versions,
        tags=setting.tags,
        commit=setting.commit,
        testbed=servers,
    )


def _sampler(
    plan: Plan,
    folder: RunFolder,
    testbeds: Sequence[Testbed],
    exporters: Sequence[NodeExporter],
    processes: Mapping[str, int],
) -> Sampler:
    """Looks how fast those cores are that servers are bound to, or an embedded store's workers."""
    bound = {core for testbed in testbeds for node in testbed.nodes for core in node.cores}
    own = plan.pin if is_embedded(plan.system.driver) else ()
    return Sampler(folder, testbeds, exporters, processes, sorted(bound) or own)


def _recovered(plan: Plan, folder: RunFolder, died: GeneratorDied) -> Carried:
    """The run as its logs tell it."""
    # Tables bring Polars, which nobody needs whose generator lives.
    from kvmark.records.recovery import recover  # noqa: PLC0415

    _check_place(folder)
    manifest = recover(folder.path).manifest
    reason = GeneratorDied(f"{died}; what it had written is kept as run {folder.id}")
    return Carried(folder, _present(plan, manifest), reason, manifest)


def _kept(
    plan: Plan, folder: RunFolder, result: Mapping[str, Any], failure: KvmarkError | None
) -> Carried:
    """The run with what the engine returned on the disk."""
    _check_place(folder)
    try:
        manifest = folder.end(result["record"])
    except BaseException:
        folder.abandon()
        raise
    return Carried(folder, _present(plan, manifest), failure, manifest)


def _check_place(folder: RunFolder) -> None:
    """Says what became of a folder that the user moved or removed while it was written."""
    if not folder.path.is_dir():
        raise RunError(
            f"run {folder.id} isn't in {folder.path.parent} any more: if the folder was moved, what"
            " was measured is in it, and kvmark reads it where --runs says that it is now"
        )


def _followed(setting: Setting, folder: RunFolder, plan: Plan) -> AbstractContextManager[object]:
    return setting.exporter.following(folder, plan) if setting.exporter else nullcontext()


def _broken_as_planned(
    faults: Sequence[FaultSpec], testbed: Testbed | None, folder: RunFolder, plan: Plan
) -> AbstractContextManager[Faults | None]:
    if testbed is None or not faults:
        return nullcontext()
    limits_ns = (phase.duration_ns for phase in plan.phases if phase.name == "measure")
    return Faults(faults, testbed, folder, next(limits_ns, None))


def _present(plan: Plan, manifest: Manifest) -> int:
    """How far inserts came; 0 where there were none."""
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


def _failed_after(problem: Exception, result: Mapping[str, Any], run: str) -> KvmarkError:
    """What went wrong when the engine had returned, behind what the engine says of itself."""
    kind = type(problem) if isinstance(problem, KvmarkError) else RunError
    told = str(problem) if isinstance(problem, KvmarkError) else repr(problem)
    failed = _failure(result, run)
    if failed is not None:
        found: KvmarkError = type(failed)(f"{failed}; after it: {told}")
    else:
        found = kind(f"{told}; what was measured before is whole and kept as run {run}")
    found.__cause__ = problem
    return found


def _interrupted(run: str) -> Interrupted:
    return Interrupted(f"{INTERRUPTED}: what was measured until then is kept as run {run}")


def _created_on_demand(plan: Plan) -> Plan:
    """The plan, with its system made where there is none, if the plan puts records in it."""
    if not is_embedded(plan.system.driver) or "create" in plan.system.options:
        return plan
    if not (plan.dataset.count == 0 or any(phase.name == "load" for phase in plan.phases)):
        return plan
    options = {**plan.system.options, "create": "true"}
    return plan.model_copy(update={"system": plan.system.model_copy(update={"options": options})})
