"""Writes the references that are generated from the source, or checks that they are current.

.venv/bin/python scripts/references.py [--check]

The templates in scripts/references/ have the texts; this program reads the values from the source.
"""

from __future__ import annotations

import ast
import inspect
import json
import os
import re
import subprocess
import sys
import textwrap
import tomllib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Final, Literal, NamedTuple, get_args, get_origin

import typer
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from pydantic.fields import FieldInfo

from kvmark import _engine
from kvmark.cli.documents import json_schema
from kvmark.cli.registry import COMMANDS, GROUPS, CompleteGroup, options_by_heading
from kvmark.drivers import schemes
from kvmark.spec import faults, laws, statements, workload
from kvmark.spec.yaml_file import Count, Duration, Size, Strict

ROOT: Final = Path(__file__).resolve().parent.parent
TEMPLATES: Final = ROOT / "scripts" / "references"
REFERENCE: Final = ROOT / "docs" / "reference"
PAGES: Final = REFERENCE / "commands"
PLAN_SCHEMA: Final = ROOT / "python" / "kvmark" / "plan" / "plan.schema.json"
PRINT_PLAN_SCHEMA: Final = (
    sys.executable, "scripts/cargo.py", "run", "--quiet", "--release", "--locked",
    "-p", "kvmark-plan", "--example", "schema",
)  # fmt: skip
GUIDES: Final = tomllib.loads((TEMPLATES / "guides.toml").read_text())
EVERYTHING: Final = CompleteGroup()
SHARED_FROM: Final = 6
"""An option of as many commands is described on the page of shared options."""
ARTICLE: Final = re.compile(r"^(an?|the|one of) (whole number from )?(path of a )?")
QUANTITIES: Final = {
    id(get_args(kind)[1]): name
    for kind, name in ((Count, "count"), (Duration, "duration"), (Size, "size"))
}
"""The names of quantities, by the function that reads them."""
PLAIN: Final = {str: "text", int: "number", float: "number"}


class Described(NamedTuple):
    """An option or argument as the help describes it."""

    names: str
    text: str


class Command(NamedTuple):
    """A command's words, purpose, usage and parameters; its options are below headings."""

    words: str
    text: str
    usage: str
    arguments: Sequence[Described]
    options: Mapping[str, Sequence[Described]]


class StoreOption(NamedTuple):
    """An option of a store's URL, as its driver describes it."""

    name: str
    accepts: str
    default: str | None
    meaning: str


def read_command(words: str) -> Command:
    """A command as the program defines it."""
    command: Any = EVERYTHING
    for word in words.split():
        command = command.commands[word]
    context = typer.Context(command, info_name=f"kvmark {words}")
    described = {
        one: Described(
            names.partition(" <")[0] if names[0].isupper() else names,
            text.removesuffix("[required]").rstrip().replace("  [", " ["),
        )
        for one in command.get_params(context)
        for names, text in filter(None, [one.get_help_record(context)])
        if one.name != "help"
    }
    options = [one for one in described if one.param_type_name == "option"]
    return Command(
        words,
        inspect.cleandoc(command.help),
        command.get_usage(context).partition(": ")[2],
        [text for one, text in described.items() if one not in options],
        {key: [described[one] for one in found] for key, found in options_by_heading(options)},
    )


def all_options(command: Command) -> list[Described]:
    """The options of a command in the order of the help."""
    return [option for options in command.options.values() for option in options]


def own_options(command: Command, others: Collection[Described]) -> dict[str, list[Described]]:
    """The options of a command by heading, without those that other pages describe."""
    parts = {
        heading: [option for option in options if option not in others]
        for heading, options in command.options.items()
    }
    return {heading: options for heading, options in parts.items() if options}


def meanings_of(model: type[Strict]) -> dict[str, str]:
    """The texts below the fields of a model and of those it inherits from."""
    found: dict[str, str] = {}
    for one in reversed(model.__mro__):
        if not (issubclass(one, Strict) and one is not Strict):
            continue
        tree = ast.parse(textwrap.dedent(inspect.getsource(one))).body[0]
        for field, text in pairwise(ast.iter_child_nodes(tree)):
            match field, text:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(said))),
                ):
                    found[name] = " ".join(said.split())
    return found


def values_of(kind: Any, *metadata: Any) -> str:
    """The values that a key accepts; empty for a mapping, a list, or true and false."""
    for one in metadata:
        if id(one) in QUANTITIES:
            return QUANTITIES[id(one)]
    arguments = get_args(kind)
    if get_origin(kind) is Literal:
        return ", ".join(f"`{word}`" for word in arguments)
    if get_origin(kind) is Annotated:
        return values_of(*arguments)
    return values_of(arguments[0]) if NoneType in arguments else PLAIN.get(kind, "")


def default_of(field: FieldInfo) -> str:
    """The default as a file has it; empty if there is none."""
    match field.default:
        case bool(switch):
            return str(switch).lower()
        case laws.Constant(size=size):
            return str(size)
        case Strict() as law:
            inner = law.model_dump(exclude_unset=True, exclude_defaults=True)
            text = ", ".join(f"{name}: {value}" for name, value in inner.items())
            return f"{{{text}}}" if len(inner) > 1 else "".join(map(str, inner.values()))
        case other:
            return "" if field.is_required() or other in (None, (), {}) else str(other)


def models_of(union: Any) -> Iterator[type[Strict]]:
    """The models of a law or generator."""
    if isinstance(union, type) and issubclass(union, Strict):
        yield union
    for part in get_args(union):
        yield from models_of(part)


def pages() -> dict[Path, str]:
    """The texts of all pages."""
    templates = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=False,  # noqa: S701 - Markdown
        trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined,
    )  # fmt: skip
    commands = {words: read_command(words) for words in COMMANDS}
    uses = Counter(option for one in commands.values() for option in all_options(one))
    options = {
        driver: [StoreOption(**one) for one in found]
        for driver, found in json.loads(_engine.driver_options()).items()
    }
    templates.globals.update(
        groups=GROUPS, entries=COMMANDS, commands=commands,
        shared=[one for one, count in uses.items() if count >= SHARED_FROM],
        all_options=all_options, own_options=own_options, title_of=title_of,
        schemes=schemes().values(), options=options,
        without_article=lambda accepts: ARTICLE.sub("", accepts),
        faults=faults, laws=laws, statements=statements, workload=workload,
        meanings_of=meanings_of, values_of=values_of, default_of=default_of,
        models_of=models_of, get_args=get_args, getdoc=inspect.getdoc,
    )  # fmt: skip

    def text(template: str, **values: str | None) -> str:
        return templates.get_template(f"{template}.md.j2").render(values).strip() + "\n"

    return {
        REFERENCE / "stores.md": text("stores"),
        REFERENCE / "workloads.md": text("workloads"),
        PAGES / "README.md": text("index"),
        PAGES / "shared.md": text("shared"),
        **{
            PAGES / f"{name}.md": text(
                "command", name=name, purpose=entry.purpose, guide=GUIDES.get(name)
            )
            for group in GROUPS.values()
            for name, entry in group.items()
        },
    }


def title_of(guide: str) -> str:
    """The title of a page of the documents."""
    return (ROOT / "docs" / guide).read_text().partition("\n")[0].removeprefix("# ")


def main(arguments: list[str]) -> int:
    """Writes or checks them all and returns the exit code."""
    # The width and the colours of a terminal must not change the texts.
    os.environ |= {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}
    plan_schema = subprocess.check_output(PRINT_PLAN_SCHEMA, cwd=ROOT, text=True)
    schema = json.dumps(json_schema(), indent=1, ensure_ascii=False)
    schemas = {PLAN_SCHEMA: plan_schema.strip(), REFERENCE / "kvmark.schema.json": schema}
    texts = {path: f"{text}\n" for path, text in schemas.items()} | pages()
    stale = [path for path, text in texts.items() if not path.exists() or path.read_text() != text]
    stale += sorted(set(PAGES.glob("*.md")) - set(texts))
    if stale and arguments == ["--check"]:
        print(*stale, "no longer follow the source: run `make docs`.", file=sys.stderr)
        return 1
    for path in stale:
        if path in texts:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(texts[path])
        else:
            path.unlink()
        print("written:" if path in texts else "removed:", path.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
