"""Whether the studies of the catalogue still ask for what was measured: the same plans, run by run.

A record is of the commit that it was measured at. What the engine does follows from the plan alone,
and each run keeps its own: where today's code makes the same plan, it would do the same.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from kvmark import catalog
from kvmark.errors import KvmarkError
from kvmark.experiment.designs.matrix.contents import run_spec
from kvmark.experiment.designs.matrix.definition import Asked, Study
from kvmark.plan.compile import compile_run
from kvmark.spec.study import parse_study
from kvmark.spec.url import SystemUrl, parse_system_url

_DESIGN: Final = "matrix"


def planned_otherwise(archive: Path) -> tuple[int, int] | None:
    """How many runs of studies today's code plans otherwise, and how many there are.

    Returns:
        None where the record is of no study.
    """
    definitions = list(_documents(archive, "study.json"))
    studies = {one["id"]: one for one in definitions if one["design"] == _DESIGN}
    runs = [one for one in _documents(archive, "manifest.json") if _study_of(one) in studies]
    same = sum(_is_planned_so(run, studies[_study_of(run)]) for run in runs)
    return (len(runs) - same, len(runs)) if runs else None


def _study_of(run: Mapping[str, Any]) -> str:
    return str((run["spec"].get("study") or {}).get("id"))


def _is_planned_so(run: Mapping[str, Any], definition: Mapping[str, Any]) -> bool:
    """Whether the study that the catalogue has by this name plans a run as it was planned."""
    asked, system = run["spec"], parse_system_url(run["spec"]["system"])
    place = asked["study"]
    try:
        file = parse_study(catalog.study_text(definition["name"]), f"{definition['name']}.yaml")
        # Its systems are long gone, and only of which kind they are is asked for.
        kind = SystemUrl(system.driver, {}, system.text)
        study = Study(file, Asked.of_json(definition["asked"]), lambda _: kind)
        (case,) = (one for one in study.cases if one.title == place["case"])
        repetition, lengthened = place["repetition"], place["lengthened"]
        spec = run_spec(study, case, system, repetition, asked["load"], lengthened)
    except (KvmarkError, ValueError):
        return False
    plan = compile_run(spec, run["host"]["cores"])
    return bool(json.loads(plan.to_json()) == run["plan"])


def _documents(archive: Path, name: str) -> Iterator[dict[str, Any]]:
    with tarfile.open(archive) as opened:
        for member in opened:
            file = opened.extractfile(member) if Path(member.name).name == name else None
            if file is not None:
                yield json.load(file)
