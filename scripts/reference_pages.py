"""Prints a page of docs/reference/, stores.md or workloads.md, from the source.

.venv/bin/python scripts/reference_pages.py stores
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import sys
import textwrap
from collections.abc import Iterator
from itertools import pairwise
from types import NoneType
from typing import Annotated, Any, Final, Literal, NamedTuple, get_args, get_origin

from pydantic.fields import FieldInfo

from kvmark import _engine
from kvmark.drivers import schemes
from kvmark.spec import faults, laws, statements, workload
from kvmark.spec.yaml_file import Count, Duration, Size, Strict

STORES: Final = """\
# Options of stores

Options follow a system's URL: `redis://host:6379?protocol=3&connections=4`. Write special
characters as in any URL (`%40` is @). An unknown option or a wrong value is an error that lists
what is known. The value after `=` is the default. [Servers](#servers) share some options."""
ARTICLE: Final = re.compile(r"^(an?|the|one of) (whole number from )?(path of a )?")
TITLES: Final = {
    "rocksdb": "RocksDB",
    "redis": "Redis",
    "memcached": "memcached",
    "cql": "Cassandra and compatible servers",
}
WORKLOADS: Final = """\
# Workload files

A workload file is YAML. `kvmark workloads redis/kv > mine.yaml` prints a ready one to start from,
and `kvmark run ./mine.yaml` runs it; [custom commands](../guide/own-commands.md) explains
statements. An unknown key is an error. Counts are numbers or text such as `10k`, sizes such as
`1KiB`, durations such as `5ms`. The value after a key is the default."""
SECTIONS: Final[dict[str, type[Strict]]] = {
    "Workload": workload.WorkloadSpec,
    "`dataset`": workload.DatasetSpec,
    "`dataset.key`": workload.Key,
    "`dataset.fields`": workload.Fields,
    "`groups`": workload.GroupSpec,
    "`groups.key_range`": workload.KeyRange,
    "`groups.rate`, a list": workload.RatePoint,
    "`statements`": statements.StatementSpec,
    "`statements.check`": statements.CheckSpec,
    "`faults`": faults.FaultSpec,
}
VARIANTS: Final = {
    "Distributions of keys": (laws.Keys, "distribution"),
    "Distributions of lengths": (laws.Length, "distribution"),
    "Generators of arguments": (statements.ArgumentSpec.__value__, "generator"),
}
QUANTITIES: Final[dict[int, str]] = {
    id(get_args(kind)[1]): name
    for kind, name in ((Count, "count"), (Duration, "duration"), (Size, "size"))
}
"""The names of quantities, by the function that reads them."""
PLAIN: Final = {str: "text", int: "number", float: "number"}


def meanings(model: type[Strict]) -> dict[str, str]:
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


def values(kind: Any, *metadata: Any) -> str:
    """What a key accepts; empty for a mapping, a list, or true and false."""
    quantity = next((QUANTITIES[id(one)] for one in metadata if id(one) in QUANTITIES), None)
    if quantity is not None:
        return quantity
    arguments = get_args(kind)
    if get_origin(kind) is Literal:
        return ", ".join(f"`{word}`" for word in arguments)
    if get_origin(kind) is Annotated:
        return values(*arguments)
    if NoneType in arguments:
        return values(arguments[0])
    return PLAIN.get(kind, "")


def default(field: FieldInfo) -> str:
    """The default as a file has it."""
    if field.is_required():
        return "required"
    match field.default:
        case bool(switch):
            return f"`{str(switch).lower()}`"
        case None | () | {} | "":
            return ""
        case Strict() as part if not part.model_fields_set:
            return ""
        case laws.Constant(size=size):
            return f"`{size}`"
        case Strict() as law:
            inner = law.model_dump(exclude_defaults=True)
            text = ", ".join(f"{name}: {value}" for name, value in inner.items())
            return f"`{{{text}}}`" if len(inner) > 1 else f"`{''.join(map(str, inner.values()))}`"
        case other:
            return f"`{other}`"


def item(name: str, details: str, meaning: str) -> str:
    """An item of a list."""
    return f"- `{name}`{f' ({details})' if details else ''}: {meaning}"


def keys(model: type[Strict]) -> Iterator[str]:
    """An item for each key."""
    said = meanings(model)
    for name, field in model.model_fields.items():
        accepts = values(field.annotation, *field.metadata)
        value = default(field).strip("`")
        details = accepts
        if value == "required":
            details = f"{accepts}, {value}".removeprefix(", ")
            value = ""
        yield item(f"{field.alias or name}: {value}".removesuffix(": "), details, said[name])


def variants(union: Any, tag: str) -> Iterator[str]:
    """An item for each variant of a law or generator."""
    members: list[type[Strict]] = []

    def collect(kind: Any) -> None:
        if isinstance(kind, type) and issubclass(kind, Strict):
            members.append(kind)
        for part in get_args(kind):
            collect(part)

    collect(union)
    for model in members:
        names = ", ".join(f"`{word}`" for word in get_args(model.model_fields[tag].annotation))
        settings = []
        for name, field in model.model_fields.items():
            if name not in {tag, "each"}:
                value = default(field).strip("`").replace("required", "")
                settings.append(f"`{field.alias or name}: {value}`".replace(": `", "`"))
        purpose = " ".join((inspect.getdoc(model) or "").split("\n\n")[0].split())
        yield f"- {names}{': ' if settings else ''}{', '.join(settings)}. {purpose}"


def workloads() -> Iterator[str]:
    """The lines of workloads.md, from the models that read workload files."""
    yield WORKLOADS
    for title, model in SECTIONS.items():
        yield f"\n## {title}\n"
        yield from keys(model)
    for title, (union, tag) in VARIANTS.items():
        yield f"\n## {title}\n\nEach `{tag}` with its keys:\n"
        yield from variants(union, tag)


class StoreOption(NamedTuple):
    """An option of a store's URL, as its driver describes it."""

    name: str
    accepts: str
    default: str | None
    meaning: str

    def item(self, before: str = "", stores: str = "") -> str:
        """Its item in a list, after an option that accepts `before`."""
        again = self.accepts == before and before.startswith("one of ")
        accepts = "the same" if again else ARTICLE.sub("", self.accepts)
        name = f"{self.name}={self.default or ''}"
        known = [accepts] if accepts != "true or false" else []
        return item(name, "; ".join([*known, *([stores] if stores else [])]), self.meaning)


def stores() -> Iterator[str]:
    """The lines of stores.md: the options of every driver's URL, from its own table."""
    options = {
        driver: [StoreOption(**one) for one in found]
        for driver, found in json.loads(_engine.driver_options()).items()
    }
    users: dict[StoreOption, list[str]] = {}
    for driver, title in TITLES.items():
        for one in options[driver]:
            users.setdefault(one, []).append(title.partition(" ")[0])
    yield STORES
    for driver, title in TITLES.items():
        examples = ", ".join(
            f"`{one.example}`" for one in schemes().values() if one.driver.name == driver
        )
        yield f"\n## {title}\n\n{examples}\n"
        before = ""
        for one in options[driver]:
            if len(users[one]) == 1:
                yield one.item(before)
            before = one.accepts
    yield "\n## Servers\n"
    yield from (one.item(stores=", ".join(names)) for one, names in users.items() if len(names) > 1)


if __name__ == "__main__":
    print("\n".join({"stores": stores, "workloads": workloads}[sys.argv[1]]()))
