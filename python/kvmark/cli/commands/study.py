"""`kvmark study`: many runs for one question."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from kvmark import catalog
from kvmark.cli import options
from kvmark.cli.commands import study_options as words
from kvmark.cli.session import asked_fleet
from kvmark.errors import SpecError

if TYPE_CHECKING:
    from kvmark.experiment.designs.matrix.definition import Study
    from kvmark.spec.study import StudyFile

__all__ = ["study"]

_ENDINGS = (".yaml", ".yml")


def study(
    name: words.Name = None,
    system: words.System = None,
    through: words.Through = None,
    scale: words.Scale = None,
    only: words.Only = None,
    repetitions: words.Repetitions = None,
    seed: words.Seed = None,
    resume: options.Resume = False,
    cases: words.Cases = False,
    text: words.Text = False,
    tag: options.Tag = None,
    commit: options.Commit = None,
    prometheus: options.Prometheus = None,
    fleet: options.Fleet = None,
    machines: options.Machines = None,
    report: options.StudyReport = Path("kvmark-study.html"),
    folder: options.Runs = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Runs every case of a study and answers its question; lists the ready ones without a name."""
    if name is None:
        _list(json=json)
        return
    file = _read(name)
    if text:
        typer.echo(file.text, nl=False)
        return
    if scale is not None and not 0 < scale < float("inf"):
        raise SpecError(f"scale: must be above 0, not {scale:g}")
    if scale is not None and file.spec.scale is None:
        raise SpecError(
            f"scale: {file.spec.name} doesn't say what to multiply; add the key 'scale'"
        )
    from kvmark.cli.system import named_system
    from kvmark.experiment.designs.matrix.definition import Asked, Study

    asked = Asked(system, scale, tuple(only or ()), repetitions, seed, through=tuple(through or ()))
    if cases:
        _tell_cases(Study(file, asked, named_system), json=json, quiet=quiet)
        return
    shared_by = asked_fleet(fleet, machines)
    # What follows takes a second to load, and a usage error is told before it.
    from kvmark.cli.commands.study_run import carry_study
    from kvmark.records import Records

    more: dict[str, Any] = {"commit": commit, "prometheus": prometheus, "resume": resume}
    more |= {"json": json, "quiet": quiet}
    carry_study(file, asked, tuple(tag or ()), Records.at(folder), report, fleet=shared_by, **more)


def _read(name: str) -> StudyFile:
    from kvmark.spec.study import load_study, parse_study

    if name.endswith(_ENDINGS):
        return load_study(Path(name))
    return parse_study(catalog.study_text(name), f"{name}.yaml")


def _list(*, json: bool) -> None:
    files = [_read(name) for name in catalog.study_names()]
    if json:
        each = [{"name": one.spec.name, "question": one.spec.question} for one in files]
        _print_json("studies", {"studies": each})
        return
    for one in files:
        typer.echo(f"{one.spec.name}: {' '.join(one.spec.question.split())}")


def _tell_cases(study: Study, *, json: bool, quiet: bool) -> None:
    if json:
        _print_json("study-cases", {"cases": [case.labels for case in study.cases]})
        return
    for case in study.cases:
        typer.echo(case.title)
    if quiet:
        return
    count = len(study.cases)
    told = f"{count} {'case' if count == 1 else 'cases'}, {study.repetitions} runs of each"
    typer.echo(told, err=True)


def _print_json(name: str, fields: Mapping[str, object]) -> None:
    from kvmark.cli.output import print_json

    print_json(name, fields)
