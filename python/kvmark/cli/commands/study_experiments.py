"""A study of experiments of any design: each is carried out as its own command would."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from contextlib import nullcontext, redirect_stdout
from dataclasses import dataclass
from typing import Any

import typer

from kvmark.cli.experiment import Shared
from kvmark.cli.output import print_json
from kvmark.cli.registry import loaded
from kvmark.errors import AnswerIsNo, Interrupted, KvmarkError, NotBegun, SystemUnderTestError
from kvmark.spec.study_experiments import ExperimentsFile
from kvmark.spec.url import SystemName

__all__ = ["carry_experiments", "check_experiments"]


@dataclass(frozen=True, slots=True)
class _Ended:
    """How an experiment ended."""

    problem: KvmarkError | None
    #: Its JSON document, where that is wanted and it gave one.
    answer: Any

    @property
    def exit_code(self) -> int:
        """That of its command."""
        return 0 if self.problem is None else self.problem.exit_code


def check_experiments(file: ExperimentsFile, system: SystemName | None) -> None:
    """Checks the words of every experiment before the first begins, as far as options go.

    Raises:
        SpecError: an option isn't there or its value is none; says where.
    """
    for title in file.experiments:
        name, *words = file.words(title, system)
        try:
            loaded(name).make_context(f"kvmark {name}", list(words))
        except typer.TyperException as problem:
            raise file.problem(title, problem.format_message().rstrip(".")) from problem
        except KvmarkError as problem:
            raise file.problem(title, str(problem)) from problem


def carry_experiments(file: ExperimentsFile, system: SystemName | None, shared: Shared) -> None:
    """Carries out one after the other; one that fails is a result, and the study goes on.

    Raises:
        AnswerIsNo: an experiment failed, or its answer is no.
        SystemUnderTestError: all of them failed.
        Interrupted: the user stopped it.
    """
    check_experiments(file, system)
    ended: dict[str, _Ended] = {}
    for title in file.experiments:
        if not shared.json:
            typer.echo(f"{file.shown(title)}\n")
        one = _carried(file, title, system, shared)
        ended[title] = one
        if isinstance(one.problem, Interrupted):
            break
        if not shared.json:
            if one.problem is not None:
                typer.echo(f"{title}: {one.problem}", err=True)
            typer.echo()
    if shared.json:
        print_json("experiments", _document(file, ended))
    _raise(file, ended)


def _raise(file: ExperimentsFile, ended: Mapping[str, _Ended]) -> None:
    problems = {title: one.problem for title, one in ended.items() if one.problem is not None}
    if not problems:
        return
    title, last = list(problems.items())[-1]
    if isinstance(last, Interrupted):
        raise Interrupted(f"interrupted in {title}: go on with the same command and --resume")
    title, first = next(iter(problems.items()))
    told = (
        f"{len(problems)} of {len(file.experiments)} experiments failed or say no: {title}: {first}"
    )
    failed = [one for one in ended.values() if one.exit_code not in (0, AnswerIsNo.exit_code)]
    if len(failed) == len(ended):
        raise SystemUnderTestError(told)
    raise AnswerIsNo(told)


def _carried(
    file: ExperimentsFile, title: str, system: SystemName | None, shared: Shared
) -> _Ended:
    """Carries out one experiment, from where it was left if that is wanted."""
    name, *words = file.words(title, system)
    tags = (*shared.tags, f"{file.name}:{title}")
    told = _options(shared, tags)
    call = _caller(name, words, told)
    caught = io.StringIO()
    problem: KvmarkError | None = None
    with redirect_stdout(caught) if shared.json else nullcontext():
        try:
            try:
                call(resume=shared.resume)
            except NotBegun:
                if not shared.resume:
                    raise
                call(resume=False)
        except KvmarkError as ended:
            problem = ended
        except KeyboardInterrupt:
            problem = Interrupted("interrupted")
    text = caught.getvalue()
    return _Ended(problem, json.loads(text) if text.strip() else None)


def _caller(name: str, words: list[str], told: list[str]) -> Callable[..., None]:
    def call(*, resume: bool) -> None:
        own = [*told, *(["--resume"] if resume else [])]
        # Where the grammar is another tool's, kvmark's own options come first.
        placed = [*own, *words] if name == "stress" else [*words, *own]
        loaded(name).main(args=placed, prog_name=f"kvmark {name}", standalone_mode=False)

    return call


def _options(shared: Shared, tags: tuple[str, ...]) -> list[str]:
    """What the study was told, as its experiments are told it."""
    words = [part for tag in tags for part in ("--tag", tag)]
    words += ["--json"] if shared.json else []
    words += ["--quiet"] if shared.quiet else []
    valued = {"--commit": shared.commit, "--prometheus": shared.prometheus, "--runs": shared.folder}
    if shared.fleet is not None:
        valued |= {"--fleet": shared.fleet.address, "--machines": shared.fleet.machines}
    for option, value in valued.items():
        words += [] if value is None else [option, str(value)]
    return words


def _document(file: ExperimentsFile, ended: Mapping[str, _Ended]) -> dict[str, Any]:
    experiments = {
        title: {
            "exit_code": one.exit_code,
            "problem": None if one.problem is None else str(one.problem),
            "answer": one.answer,
        }
        for title, one in ended.items()
    }
    return {"study": file.name, "question": file.question, "experiments": experiments}
