"""`kvmark study` measures and compares cases; `kvmark workloads` lists what they measure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from kvmark import catalog
from kvmark.cli import completion, options
from kvmark.cli.options import ExperimentOptions, argument, flag, option, quantity, report_path
from kvmark.cli.output import print_json
from kvmark.errors import SpecError
from kvmark.frontends import front_ends
from kvmark.spec.url import SystemName, system_name

if TYPE_CHECKING:
    from kvmark.experiment.study.definition import Study
    from kvmark.spec.study import StudyFile

_NAME_WIDTH: Final = 20
"""Width of most names of workloads; longer ones move their descriptions."""
_SYSTEM = {"parser": system_name, "autocompletion": completion.system}


@dataclass(frozen=True, kw_only=True)
class StudyOptions(ExperimentOptions):
    """Options of `kvmark study`."""

    name: str | None = argument(
        "STUDY", "Name such as hcassandra, or YAML file.", None, autocompletion=completion.study
    )
    system: SystemName | None = option("URL", "System in place of the study's.", **_SYSTEM)
    through: tuple[SystemName, ...] = option(
        "URL",
        "Proxy to measure through as well: a URL or up:NAME, or LEVEL=URL to name its level;"
        " repeatable.",
        default=(),
        **_SYSTEM,
    )
    scale: float | None = option("X", "Factor for the counts and durations that the study scales.")
    only: tuple[str, ...] = option(
        "FACTOR=LEVEL,…",
        "Only cases with these levels, or published for cases with published figures; repeatable.",
        default=(),
    )
    repetitions: int | None = option("N", "Repetitions of each case (default: the study's).", min=1)
    seed: int | None = option("N", "Seed of order and runs (default: the study's).", min=0)
    pin: options.Pin = None
    on_existing: options.OnExisting = "refuse"
    cases: bool = flag("List the cases, and measure nothing.", "--cases")
    text: bool = flag("Print the study's file.", "--text")
    report: Path | None = quantity(
        report_path,
        "FILE",
        "Report, .html or .md, or none (default: kvmark-study.html).",
        "--report",
        default=Path("kvmark-study.html"),
    )


def study(options: StudyOptions) -> None:
    """Measures all cases of a study. Without a name, lists the ready studies."""
    name, scale = options.name, options.scale
    if name is None:
        _print_names(json=options.json)
        return
    for one in front_ends():
        if name in one.studies:
            one.run_study(name, options)
            return
    file = _read(name)
    if options.text:
        typer.echo(file.text, nl=False)
        return
    if scale is not None and not 0 < scale < float("inf"):
        raise SpecError(f"scale: must be above 0, not {scale:g}")
    if scale is not None and file.spec.scale is None:
        raise SpecError(
            f"scale: {file.spec.name} doesn't list values to scale; add the key 'scale'"
        )
    from kvmark.cli.session import named_system
    from kvmark.experiment.study.definition import Study, StudyRequest

    request = StudyRequest(
        options.system, scale, options.only, options.repetitions, options.seed, options.through,
        tuple(options.pin or ()),
    )  # fmt: skip
    if options.cases:
        _print_cases(Study(file, request, named_system), options)
        return
    # It takes a second to load, and usage errors come first.
    from kvmark.cli.commands.study_run import run_study

    run_study(file, request, options, options.report, on_existing=options.on_existing)


def _read(name: str) -> StudyFile:
    from kvmark.spec.study import load_study, parse_study

    if name.endswith((".yaml", ".yml")):
        return load_study(Path(name))
    return parse_study(catalog.study_text(name), f"{name}.yaml")


def _print_names(*, json: bool) -> None:
    specs = (_read(name).spec for name in catalog.study_names())
    questions = {one.name: one.question for one in specs}
    for front_end in front_ends():
        questions |= front_end.studies
    if json:
        studies = [{"name": name, "question": text} for name, text in sorted(questions.items())]
        print_json("studies", {"studies": studies})
        return
    for name, text in sorted(questions.items()):
        typer.echo(f"{name}: {' '.join(text.split())}")


def _print_cases(study: Study, options: StudyOptions) -> None:
    if options.json:
        print_json("study-cases", {"cases": [case.labels for case in study.cases]})
        return
    for case in study.cases:
        typer.echo(case.title)
    if not options.quiet:
        count = len(study.cases)
        runs = len(list(study.runs()))
        typer.echo(f"{count} {'case' if count == 1 else 'cases'}, {runs} runs", err=True)


def workloads(
    name: str | None = argument("NAME", "Workload.", None, autocompletion=completion.workload),
    json: options.Json = False,
) -> None:
    """Lists the ready workloads, or prints one."""
    if name and json:
        print_json("workload", {"name": name, "text": catalog.text(name)})
    elif name:
        typer.echo(catalog.text(name), nl=False)
    else:
        texts = {one: " ".join(catalog.load(one).description.split()) for one in catalog.names()}
        listed = [{"name": one, "description": text} for one, text in texts.items()]
        lines = (f"{one:<{_NAME_WIDTH}}  {text}" for one, text in texts.items())
        print_json("workloads", {"workloads": listed}) if json else typer.echo("\n".join(lines))
