"""A study of experiments of any design: each is carried out as its own command would."""

from __future__ import annotations

import io
import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import typer

from kvmark import interrupts
from kvmark.cli.command_line import command_line, kept_words
from kvmark.cli.experiment import SCOPE, Shared
from kvmark.cli.output import print_json
from kvmark.cli.registry import loaded
from kvmark.errors import (
    AnswerIsNo,
    Interrupted,
    KvmarkError,
    NotBegun,
    RunError,
    SystemUnderTestError,
    UsageError,
)
from kvmark.experiment.journal import Journal, begin, find
from kvmark.spec.study_experiments import EXPERIMENTS, ExperimentsFile, experiments_of
from kvmark.spec.url import SystemName
from kvmark.spec.yaml_file import read_document, read_text

__all__ = ["carry_experiments", "check_experiments", "shown_experiment"]


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
        if name == "study" and any(_holds_experiments(word) for word in words):
            raise file.problem(title, "a study of experiments can't hold another: name a study")
        try:
            loaded(name).make_context(f"kvmark {name}", list(words))
        except typer.TyperException as problem:
            raise file.problem(title, problem.format_message().rstrip(".")) from problem
        except KvmarkError as problem:
            raise file.problem(title, str(problem)) from problem


def _holds_experiments(word: str) -> bool:
    path = Path(word)
    if path.suffix not in {".yaml", ".yml"} or not path.is_file():
        return False
    return experiments_of(read_document(read_text(path), word)) is not None


def shown_experiment(file: ExperimentsFile, title: str) -> str:
    """An experiment in words, without passwords."""
    return f"{title}: {shlex.join(kept_words(file.experiments[title]))}"


def carry_experiments(file: ExperimentsFile, system: SystemName | None, shared: Shared) -> None:
    """Carries out one after the other; one that fails is a result, and the study goes on.

    Raises:
        AnswerIsNo: an experiment failed, or its answer is no.
        SystemUnderTestError: all of them failed.
        Interrupted: the user stopped it.
    """
    check_experiments(file, system)
    journal = _journal(file, shared)
    with journal.alone():
        _carry(file, system, shared, journal)


def _journal(file: ExperimentsFile, shared: Shared) -> Journal:
    """The study of which the experiments are parts: one of this name is gone on with, or begun."""
    records = shared.records
    if not shared.resume:
        titles = list(file.experiments)
        asked = {"design": EXPERIMENTS, "command": list(command_line()), "titles": titles}
        return begin(records, file.name, asked)
    journal = find(records, file.name)
    if journal is None or journal.definition.get("design") != EXPERIMENTS:
        raise NotBegun(f"no study {file.name} was begun in {records.root}; leave --resume out")
    return journal


def _carry(
    file: ExperimentsFile, system: SystemName | None, shared: Shared, journal: Journal
) -> None:
    ended: dict[str, _Ended] = {}
    for title in file.experiments:
        if not shared.json:
            typer.echo(f"{shown_experiment(file, title)}\n")
        scoped = (*shared.tags, f"{SCOPE}{journal.id}:{title}", f"{file.name}:{title}")
        one = _carried(file, title, system, replace(shared, tags=scoped))
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
    """Carries out one experiment, from where it was left if that is wanted.

    None begins once the user has asked to stop, however the one before ended.
    """
    if interrupts.requested():
        return _Ended(Interrupted("interrupted"), None)
    name, *words = file.words(title, system)
    call = _caller(name, words, _options(shared, name, words))
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
        except typer.TyperException as wrong:
            problem = UsageError(wrong.format_message().rstrip("."))
        except OSError as failed:
            problem = RunError(f"{failed.filename} can't be used because {failed.strerror}")
        except KeyboardInterrupt:
            problem = Interrupted("interrupted")
    try:
        answer = json.loads(caught.getvalue() or "null")
    except ValueError:
        answer, problem = None, problem or UsageError("its words measure nothing: leave it out")
    return _Ended(problem, answer)


def _caller(name: str, words: list[str], told: list[str]) -> Callable[..., None]:
    def call(*, resume: bool) -> None:
        own = [*told, *(["--resume"] if resume else [])]
        # Where the grammar is another tool's, kvmark's own options come first.
        placed = [*own, *words] if name == "stress" else [*words, *own]
        code = loaded(name).main(args=placed, prog_name=f"kvmark {name}", standalone_mode=False)
        if code == Interrupted.exit_code:
            raise Interrupted("interrupted")

    return call


def _options(shared: Shared, name: str, own: Sequence[str]) -> list[str]:
    """What the study was told, as its experiments are told it; their own words stand."""
    said = {word.partition("=")[0] for word in own} if name != "stress" else set()
    words = [part for tag in shared.tags for part in ("--tag", tag)]
    words += ["--json"] if shared.json and "--json" not in said else []
    words += ["--quiet"] if shared.quiet and "--quiet" not in said else []
    valued: dict[str, object] = {
        "--commit": shared.commit,
        "--prometheus": shared.prometheus,
        "--runs": shared.folder,
    }
    if shared.fleet is not None:
        valued |= {"--fleet": shared.fleet.address, "--machines": shared.fleet.machines}
        words += ["--insecure-fleet"] if shared.fleet.insecure else []
    for option, value in valued.items():
        words += [] if value is None or option in said else [option, str(value)]
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
