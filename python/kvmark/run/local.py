"""One plan on this machine: folder, engine, sampler, manifest."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kvmark import _engine, errors
from kvmark.errors import Interrupted, KvmarkError
from kvmark.plan.model import Plan
from kvmark.records import Header, Records, Run
from kvmark.run.embedded import created_on_demand
from kvmark.run.sampler import Sampler
from kvmark.run.setting import Setting

__all__ = ["Carried", "Progress", "carry_out"]

Progress = Callable[[Mapping[str, Any]], object]
"""Takes the engine's progress about once per interval."""


@dataclass(frozen=True, slots=True)
class Carried:
    """A closed run, and why it ended early if it did."""

    run: Run
    failure: KvmarkError | None


def carry_out(
    plan: Plan,
    spec: Mapping[str, Any],
    records: Records,
    setting: Setting,
    progress: Progress,
) -> Carried:
    """Carries out a plan and closes its run.

    Raises:
        KvmarkError: the run couldn't begin, and then no folder is left, or its records couldn't be
            written, and then its logs are kept if something was measured.
    """
    plan = created_on_demand(plan)
    folder = records.new(plan.name)
    header = Header(
        command=setting.command,
        spec=spec,
        plan=plan.model_dump(mode="json"),
        host=setting.host,
        versions=setting.versions,
        tags=setting.tags,
    )
    folder.begin(header)
    try:
        with Sampler(folder):
            answer = _engine.run(
                plan.to_json(), folder.path, lambda text: progress(json.loads(text))
            )
        result = json.loads(answer)
        run = folder.close(result["record"])
    except BaseException:
        folder.abandon()
        raise
    return Carried(run, _failure(result, run))


def _failure(result: Mapping[str, Any], run: Run) -> KvmarkError | None:
    failure = result["failure"]
    if result["record"]["interrupted"]:
        return Interrupted(f"interrupted: what was measured until then is kept as run {run.id}")
    if failure is None:
        return None
    kind: type[KvmarkError] = getattr(errors, failure["kind"])
    return kind(f"{failure['message']}; the run is kept as {run.id}")
