"""The proxies that a command names as ways to the system, and what was published of such ways."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Final

from kvmark.errors import SpecError, UsageError
from kvmark.spec.study import DIRECT, StudyFile, StudySpec, ThroughSpec
from kvmark.spec.suggest import shown
from kvmark.spec.url import SystemName
from kvmark.spec.yaml_file import read_text

__all__ = ["check_through", "named_proxies", "read_published_ways", "with_proxies"]

_NAMED: Final = re.compile(r"([a-z0-9][a-z0-9._-]*)=(?=[a-z]+:)(.+)", re.DOTALL)
_HOSTS: Final = re.compile(r"^[a-z]+://([^/?]+)")
_UP: Final = "up:"
_PLACE: Final = ("through", "published", "file")
_COLUMNS: Final = (
    "proxy", "build", "threads", "ops_per_s", "p50_ms", "p95_ms", "p99_ms", "p999_ms", "memory_mb",
)  # fmt: skip


def named_proxies(names: Sequence[SystemName]) -> Mapping[str, SystemName]:
    """Reads `URL`, `up:NAME` or `LEVEL=URL`, as they stand on a command line, by their level.

    Without a name a level is called as the testbed is, or by the proxy's host and port.

    Raises:
        SpecError: two have the same name, or one has that of the straight way.
    """
    found: dict[str, SystemName] = {}
    for one in names:
        named = _NAMED.fullmatch(one.reveal())
        url = SystemName(named[2]) if named else one
        name = named[1] if named else _name_of(str(one))
        if name in found or name == DIRECT:
            raise SpecError(
                f"through: two ways are called {shown(name)}; give one another name, as in"
                f" other={shown(str(url))}"
            )
        found[name] = url
    return found


def with_proxies(spec: StudySpec, names: Sequence[SystemName]) -> StudySpec:
    """The study with these proxies in place of those that its file names."""
    if not names:
        return spec
    through = spec.through or ThroughSpec()
    proxies = {"proxies": named_proxies(names)}
    return spec.model_copy(update={"through": through.model_copy(update=proxies)})


def check_through(spec: StudySpec, system: SystemName | None) -> None:
    """Makes sure that ways are named, and lead to a system that is there.

    Raises:
        UsageError: they aren't, or don't.
    """
    if spec.through is None:
        return
    if not spec.through.proxies:
        raise UsageError(
            f"study {spec.name} compares ways to a system: name a proxy before it with --through,"
            " such as up:haproxy for one that kvmark up proxy started"
        )
    if system is None and spec.testbed is not None:
        raise UsageError(
            f"study {spec.name} starts its own servers, before which no proxy can stand yet: name"
            " the system behind the proxy with --system"
        )


def read_published_ways(file: StudyFile) -> tuple[Mapping[str, str], ...]:
    """The rows of what was published of ways through proxies, the straight way first.

    Raises:
        SpecError: there is no such file, or a column or the straight way is missing.
    """
    asked = file.spec.through.published if file.spec.through else None
    if asked is None:
        return ()
    reader = csv.DictReader(_text(file, asked.file).splitlines())
    rows = sorted(reader, key=lambda row: bool(row.get("proxy")))
    missing = [name for name in _COLUMNS if name not in (reader.fieldnames or ())]
    if missing or not rows or rows[0]["proxy"]:
        what = f"column '{missing[0]}'" if missing else "row without a proxy"
        raise file.document.problem(f"{asked.file} has no {what}", *_PLACE)
    return tuple(rows)


def _text(file: StudyFile, name: str) -> str:
    if file.folder is not None and (file.folder / name).exists():
        return read_text(file.folder / name)
    try:
        return resources.files("kvmark").joinpath("published", name).read_text(encoding="utf-8")
    except (OSError, ValueError):
        sentence = f"there is no file {name} beside the study or among kvmark's own"
        raise file.document.problem(sentence, *_PLACE) from None


def _name_of(text: str) -> str:
    if text.startswith(_UP):
        return text.removeprefix(_UP).partition("?")[0] or "proxy"
    hosts = _HOSTS.match(text)
    return hosts[1] if hosts else text
