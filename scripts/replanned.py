"""Whether the studies of the catalogue still ask for what was measured: the same plans, run by run.

A record is of the commit that it was measured at. What the engine does follows from the plan alone,
and each run keeps its own: where today's code makes the same plan, it would do the same.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from kvmark import catalog
from kvmark.errors import KvmarkError
from kvmark.experiment.designs.matrix.cases import Case
from kvmark.experiment.designs.matrix.contents import run_spec
from kvmark.experiment.designs.matrix.definition import Asked, Study
from kvmark.plan.compile import compile_run
from kvmark.spec.study import parse_study
from kvmark.spec.url import parse_system_url

_DESIGN: Final = "matrix"


def planned_otherwise(archive: Path) -> tuple[int, int] | None:
    """How many runs of studies today's code asks for or plans otherwise, and how many there are.

    Returns:
        None where the record is of no study.
    """
    found = list(documents(archive, "study.json", "manifest.json"))
    studies = {one["id"]: one for one in found if one.get("design") == _DESIGN}
    runs = [one for one in found if _study_of(one) in studies]
    same = sum(_is_planned_so(run, studies[_study_of(run)]) for run in runs)
    return (len(runs) - same, len(runs)) if runs else None


def documents(archive: Path, *names: str) -> Iterator[dict[str, Any]]:
    """The files of a record that have one of these names."""
    with tarfile.open(archive) as opened:
        for member in opened:
            file = opened.extractfile(member) if Path(member.name).name in names else None
            if file is not None:
                yield json.load(file)


@cache
def _study(name: str, asked: str, url: str) -> tuple[Mapping[str, Case], Study]:
    """The catalogue's study, and its cases by title, of which all systems are of this URL's kind.

    Raises:
        KvmarkError: there is none, or it can't be asked for so.
    """
    file = parse_study(catalog.study_text(name), f"{name}.yaml")
    # Its systems are long gone, and only of which kind they are is asked for.
    study = Study(file, Asked.of_json(json.loads(asked)), lambda _: parse_system_url(url))
    return {case.title: case for case in study.cases}, study


def _study_of(run: Mapping[str, Any]) -> str:
    return str((run.get("spec", {}).get("study") or {}).get("id"))


def _is_planned_so(run: Mapping[str, Any], definition: Mapping[str, Any]) -> bool:
    """Whether the study that the catalogue has by this name asks for a run and plans it as it was.

    Options of the system are the study's to give; faults are asked for and in no plan.
    """
    asked, place = run["spec"], run["spec"]["study"]
    url = asked["system"].partition("?")[0]
    try:
        cases, study = _study(definition["name"], json.dumps(definition["asked"]), url)
        case, system = cases[place["case"]], parse_system_url(url)
        repetition, lengthened = place["repetition"], place["lengthened"]
        spec = run_spec(study, case, system, repetition, asked["load"], lengthened)
    except (KvmarkError, KeyError):
        return False
    plan = compile_run(spec, run["host"]["cores"])
    made = {**json.loads(json.dumps(spec.as_json())), "study": place}
    return (made, json.loads(plan.to_json())) == (asked, run["plan"])
