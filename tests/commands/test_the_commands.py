"""The list of commands, their shared options and headings in `--help`, and their JSON documents."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import resolve_name
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from known_documents import PUBLISHED, checked
from kvmark.cli import main, output
from kvmark.cli.documents import documents, json_schema
from kvmark.cli.registry import (
    COMMANDS,
    OPTION_HEADINGS,
    CompleteGroup,
    function_of,
    options_by_heading,
)
from kvmark.records import Records

HEAVY = {"altair", "jinja2", "numpy", "polars", "psutil", "pydantic", "ray", "rich", "scipy"}

WITHOUT_RUNS = {
    "workloads",
    "fleet example",
    "up",
    "down",
    "trace import",
    "trace record",
    "trace show",
}
"""Commands that neither make nor read runs."""
SILENT = {
    "compare", "down", "doctor", "fleet example", "import", "runs compare", "runs export",
    "runs history", "runs show", "show", "trace import", "trace show", "workloads",
}  # fmt: skip
"""Commands without messages on standard error."""


def walked(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    under = getattr(command, "commands", None)
    if under is None:
        yield path.strip(), command
    for name, one in (under or {}).items():
        yield from walked(one, f"{path} {name}")


EVERY = dict(walked(CompleteGroup(), ""))


def words_of(command: str) -> set[str]:
    if command == "app":  # Its flags are the applications' own.
        from kvmark.frontends.yugabyte_apps.flags import FLAGS

        return {f"--{name}" for name in FLAGS}
    return {word for one in EVERY[command].params for word in one.opts}


@pytest.mark.parametrize(("option", "commands"), [
    ("--stall-limit", {
        "run", "replay", "ycsb", "stress", "app", "ab", "capacity", "recover", "study",
    }),
    ("--retry", {"run", "replay", "capacity", "recover"}),
    ("--runs", EVERY.keys() - WITHOUT_RUNS),
    ("--quiet", EVERY.keys() - SILENT),
    ("-q", EVERY.keys() - SILENT - {"app"}),
    ("--json", EVERY.keys() - {"app", "fleet example", "stress"}),
])  # fmt: skip
def test_every_command_of_a_kind_has_their_option(option: str, commands: set[str]) -> None:
    assert [name for name in sorted(commands) if option not in words_of(name)] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_has_the_first_paragraph_of_their_help(name: str) -> None:
    said = function_of(name).__doc__.strip().split("\n\n")[0]
    assert " ".join(said.split()) == COMMANDS[name].purpose


def test_every_command_that_answers_with_json_has_a_schema() -> None:
    with_json = {name for name in EVERY if "--json" in words_of(name)}
    said = {command for one in documents().values() for command in one.commands}
    assert said == with_json | {"app"}


def test_the_words_of_all_commands_are_there_without_a_library_that_takes_long(
    fresh: Callable[..., tuple[str, set[str]]],
) -> None:
    modules = sorted({one.module for one in COMMANDS.values()})
    imports = [f"import {resolve_name(module, 'kvmark.cli.commands')}" for module in modules]
    assert HEAVY.isdisjoint(fresh("; ".join(imports))[1])


@pytest.mark.parametrize("words", [
    ("runs", "report", "last", "-o", "report.md"),
    ("doc", "page.md"),
    ("runs",),
    ("runs", "prune", "--keep", "0", "--dry-run"),
    ("runs", "rm", "last", "--yes"),
])  # fmt: skip
def test_a_quiet_command_prints_nothing_on_standard_error(
    make_run: Callable[[], str],
    records: Records,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
) -> None:
    make_run()
    page = records.root.parent / "page.md"
    page.write_text("<!-- kvmark: screen -->\n<!-- /kvmark -->\n")
    assert main([*words, "-q"]) == 0
    assert capsys.readouterr().err == ""


def test_all_commands_are_those_of_the_list() -> None:
    assert set(EVERY) == set(COMMANDS)


def test_the_word_runs_alone_lists_as_its_word_list_does(
    make_run: Callable[[], str], capsys: pytest.CaptureFixture[str]
) -> None:
    ids = [make_run(), make_run(1)]
    listed = []
    for words in (["runs"], ["runs", "list"]):
        assert main([*words, "-q", "--limit", "1"]) == 0
        listed.append(capsys.readouterr().out)
    assert listed[0] == listed[1]
    assert ids[0][-4:] in listed[0]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("rnus",), "no such command 'rnus' — did you mean 'runs'?"),
        (("runz",), "no such command 'runz' — did you mean 'run', 'runs'?"),
        (("report",), "no such command 'report': write kvmark runs report"),
        (("run", "ycsb/a", "null:"), "'null:' is one word too many; give it with --system"),
        (("run", "ycsb/a", "--seed", "x"), "'--seed' must be a valid integer"),
        (("runs", "lst"), "no such command 'lst' — did you mean 'list'?"),
        (("runs", "-q", "rm"), "'rm' is one word too many; see kvmark runs list --help"),
        (("runs", "scaling"), "missing argument 'RUN'; see kvmark runs scaling --help"),
        (("trace", "show"), "missing argument 'TRACE'; see kvmark trace show --help"),
        (("ab",), "ab needs arguments of kvmark run for both sides: 'ycsb/a --system URL'"),
        (
            ("ab", "ycsb/c --system null: --runs ."),
            "base: --runs is not for a part of a command: give it to the whole",
        ),
    ],
)
def test_wrong_arguments_are_reported_with_the_command_s_help(
    words: tuple[str, ...], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert capsys.readouterr().err == f"kvmark: {sentence}\n"


def test_a_closed_standard_output_is_no_error() -> None:
    program = Path(sys.executable).with_name("kvmark")
    done = subprocess.run(
        f"'{program}' workloads >&-", shell=True, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_interrupted_output_names_the_stored_run(
    records: Records, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("kvmark.cli.commands.run._answer", interrupted)
    words = ("--system", "null:", "--operations", "10", "--records", "10", "--quiet")
    assert main(["run", "ycsb/c", *words]) == 130
    (run,) = records.ids()
    assert f"kept as run {run}; kvmark show prints it" in capsys.readouterr().err


def options_of(name: str) -> list[Any]:
    """The options of a command."""
    return [one for one in EVERY[name].params if one.param_type_name == "option"]


@pytest.mark.parametrize("name", ["run", "ycsb", "study", "up", "compare"])
def test_every_option_has_one_heading(name: str) -> None:
    options = options_of(name)
    listed = [one for _, found in options_by_heading(options) for one in found]
    assert sorted(map(id, listed)) == sorted(map(id, options))


def test_run_begins_with_the_ten_everyday_options() -> None:
    shown = options_by_heading(options_of("run"))
    heading, first = next(shown)
    assert heading == "Everyday options"
    assert [one.opts[0].lstrip("-") for one in first] == OPTION_HEADINGS["Everyday options"]
    assert [heading for heading, _ in shown] == list(OPTION_HEADINGS)[1:]


SCHEMA = json_schema()


def test_the_published_schema_is_that_of_the_source() -> None:
    assert json.loads(PUBLISHED.read_text()) == SCHEMA
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_the_page_on_documents_lists_their_commands() -> None:
    page = PUBLISHED.with_name("json.md").read_text()
    for name, one in documents().items():
        assert f"| `{name}` | {', '.join(f'`kvmark {each}`' for each in one.commands)} |" in page


def test_a_value_without_a_json_form_is_an_error() -> None:
    with pytest.raises(TypeError, match="has no form in JSON"):
        output.print_json("serve", {"address": object()})


@pytest.mark.parametrize("words", [
    ("runs", "show", "last"),
    ("runs", "history"),
    ("runs", "scaling", "{0}"),
    ("study",),
    ("up",),
    ("down",),
])  # fmt: skip
def test_documents_of_commands_have_the_published_schema(
    words: tuple[str, ...], make_run: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    ids = [make_run(), make_run(1)]
    assert main([*(word.format(*ids) for word in words), "--json"]) == 0
    assert checked(json.loads(capsys.readouterr().out))
