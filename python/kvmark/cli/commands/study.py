"""`kvmark study`: many runs for one question."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kvmark import catalog
from kvmark.cli import completion, options
from kvmark.cli.experiment import ExperimentOptions, experiment_options
from kvmark.errors import SpecError
from kvmark.spec.url import SystemName, system_name

if TYPE_CHECKING:
    from kvmark.experiment.study.definition import Study
    from kvmark.spec.study import StudyFile

_Name = Annotated[
    str | None,
    typer.Argument(
        metavar="STUDY",
        autocompletion=completion.study,
        help="A name such as hcassandra, or a YAML file; without one, all names.",
    ),
]
_System = Annotated[
    SystemName | None,
    typer.Option(
        parser=system_name,
        metavar="URL",
        autocompletion=completion.system,
        help="Measure this system and not the one that the study names.",
    ),
]
_Through = Annotated[
    list[SystemName] | None,
    typer.Option(
        parser=system_name,
        metavar="URL",
        autocompletion=completion.system,
        help="Measure through this proxy too, a URL or up:NAME, LEVEL= before it for another name;"
        " repeatable.",
    ),
]
_Scale = Annotated[
    float | None,
    typer.Option(metavar="X", help="Multiply the counts and durations that the study says."),
]
_Only = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FACTOR=LEVEL,…",
        help="Only cases with these levels, or with published figures: published; repeatable.",
    ),
]
_Repetitions = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, help="How often each case is run; else as the study says."),
]
_Seed = Annotated[
    int | None,
    typer.Option(metavar="N", min=0, help="Fixes order and seeds; else as the study says."),
]
_Cases = Annotated[bool, typer.Option("--cases", help="List the cases and run none.")]
_Text = Annotated[bool, typer.Option("--text", help="Print the study's file, to copy and change.")]


_ENDINGS = (".yaml", ".yml")
_REPORT = Path("kvmark-study.html")


@experiment_options
def study(
    name: _Name = None,
    system: _System = None,
    through: _Through = None,
    scale: _Scale = None,
    only: _Only = None,
    repetitions: _Repetitions = None,
    seed: _Seed = None,
    pin: options.Pin = None,
    on_existing: options.OnExisting = "refuse",
    cases: _Cases = False,
    text: _Text = False,
    report: options.StudyReport = _REPORT,
    *,
    shared: ExperimentOptions,
) -> None:
    """Runs every case of a study and answers its question; lists the ready ones without a name."""
    if name is None:
        _list(json=shared.json)
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
    from kvmark.cli.session import named_system
    from kvmark.experiment.study.definition import Study, StudyRequest

    asked = StudyRequest(
        system, scale, tuple(only or ()), repetitions, seed, tuple(through or ()), tuple(pin or ())
    )
    if cases:
        told = Study(file, asked, named_system)
        _tell_cases(told, json=shared.json, quiet=shared.quiet)
        return
    # What follows takes a second to load, and a usage error is told before it.
    from kvmark.cli.commands.study_run import carry_study

    carry_study(file, asked, shared, report, on_existing=on_existing)


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
    runs = len(list(study.runs()))
    told = f"{count} {'case' if count == 1 else 'cases'}, {runs} runs"
    typer.echo(told, err=True)


def _print_json(name: str, fields: Mapping[str, object]) -> None:
    from kvmark.cli.output import print_json

    print_json(name, fields)
