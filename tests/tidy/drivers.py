"""A system is named in its own places: its crate, its testbed's folder and their registrations."""

import ast
import re
from collections.abc import Iterator

from findings import Finding, Source

ENTRY = re.compile(r"entry!\(kvmark_(driver_\w+)::")
NAME = re.compile(r'About::new\(\s*"(\w+)"')
# What is about one system by its nature: other tools' grammars, their applications and protocols,
# the system that is measured where none is named; and testbeds.
ABOUT_ONE = re.compile(
    r"python/kvmark/(frontends|imports|catalog)/"
    r"|python/kvmark/testbed/rocksdb\.py|python/kvmark/testbed/\w+/"
)
# Where a crate may be named beside its own folder.
REGISTERED = ("Cargo.toml", "Cargo.lock", "crates/pyext/Cargo.toml", "crates/pyext/src/registry.rs")


def crates(registry: Source) -> list[str]:
    """The drivers that have a crate of their own."""
    return [name.replace("_", "-") for name in ENTRY.findall(registry.text)]


def names(files: list[Source], crate: str) -> set[str]:
    """What plans call the driver of a crate."""
    own = (file for file in files if file.path.startswith(f"crates/{crate}/"))
    return {name for file in own for name in NAME.findall(file.text)}


def named_crate(source: Source, crate: str) -> Iterator[Finding]:
    """A crate of a driver named where it isn't registered."""
    if source.path in REGISTERED or source.path.startswith(f"crates/{crate}/"):
        return
    spelt = re.compile(rf"kvmark[-_]{crate.replace('-', '[-_]')}\b")
    for number, line in enumerate(source.lines, 1):
        if spelt.search(line):
            yield source.find(number, f"{crate} may only be named in {', '.join(REGISTERED)}")


def named_system(source: Source, known: set[str]) -> Iterator[Finding]:
    """A text that is a driver's or a testbed's name, outside what is about that system."""
    if ABOUT_ONE.match(source.path):
        return
    for node in ast.walk(ast.parse(source.text)):
        if isinstance(node, ast.Constant) and node.value in known:
            yield source.find(node.lineno, f"'{node.value}' belongs into its driver or its testbed")
