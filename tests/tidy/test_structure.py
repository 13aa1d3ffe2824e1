"""The structure that ARCHITECTURE.md describes, as far as no tool checks it."""

import ast
import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from sources import Source, repository
from unused_rust import unused

LONGEST_FUNCTION = 70
# The crates that each crate may use, with all that those may use. Imports of Python: .importlinter.
CRATES = {
    "plan": "",
    "stress-rows": "plan",
    "workload": "stress-rows",
    "record": "plan",
    "trace": "plan",
    "driver": "plan",
    "wire": "plan",
    "driver-server": "driver wire",
    "driver-*": "driver-server",
    "engine": "workload record driver trace",
    "testing": "driver",
    "tap": "trace driver-server",
    "pyext": "engine driver-* tap",
}
REGISTRY = "crates/pyext/src/registry.rs"
NAMES_DRIVERS = ("Cargo.toml", "Cargo.lock", "crates/pyext/Cargo.toml", REGISTRY)
# Python that is about one system: imitated tools, other tools' results, testbeds.
ABOUT_ONE_SYSTEM = re.compile(
    r"python/kvmark/(frontends|imports|catalog|testbed/\w+)/"
    r"|python/kvmark/testbed/(rocksdb|system)\.py"
)


def sources(pattern: str) -> list[Source]:
    found = [source for source in repository() if re.search(pattern, source.path)]
    assert found, pattern
    return found


def below(crate: str) -> set[str]:
    """The crates that a crate may use."""
    direct = CRATES[crate].split()
    return {*direct, *(lower for used in direct for lower in below(used))}


def kind(crate: str) -> str:
    """The entry of a crate."""
    name = crate.removeprefix("kvmark-")
    return name if name in CRATES or not name.startswith("driver-") else "driver-*"


def wrong_dependencies(manifest: Mapping[str, Any]) -> list[str]:
    """The crates that a crate must not use."""
    used = {**manifest.get("dependencies", {}), **manifest.get("build-dependencies", {})}
    own = [name for name in used if name.startswith("kvmark-")]
    allowed = below(kind(str(manifest["package"]["name"])))
    return [name for name in own if kind(name) not in allowed]


def test_crates_depend_one_way() -> None:
    for source in sources(r"^crates/\w[\w-]*/Cargo\.toml$"):
        manifest = tomllib.loads(source.text)
        assert source.path.split("/")[1] == manifest["package"]["name"].removeprefix("kvmark-")
        assert not wrong_dependencies(manifest), source.path


def test_a_crate_that_uses_one_above_it_is_found() -> None:
    used = {"kvmark-engine": 1, "serde": 1}
    record = {"package": {"name": "kvmark-record"}, "dependencies": used}
    assert wrong_dependencies(record) == ["kvmark-engine"]
    pyext = {"package": {"name": "kvmark-pyext"}, "dependencies": {"kvmark-driver-x": 1}}
    assert wrong_dependencies({**pyext, "build-dependencies": {"kvmark-plan": 1}}) == []


def drivers() -> list[str]:
    """The crates of drivers, from the registry."""
    (registry,) = sources(re.escape(REGISTRY))
    crates = re.findall(r"entry!\(kvmark_(driver_\w+)::", registry.text)
    assert crates
    return [name.replace("_", "-") for name in crates]


def test_only_registrations_name_a_drivers_crate() -> None:
    files = [file for file in sources(r"^crates/.*\.(rs|toml)$") if file.path not in NAMES_DRIVERS]
    for crate in drivers():
        spelt = re.compile(rf"kvmark[-_]{crate.replace('-', '[-_]')}\b")
        outside = [file for file in files if not file.path.startswith(f"crates/{crate}/")]
        assert not [file.path for file in outside if spelt.search(file.text)]


def named_systems(source: Source, systems: set[str]) -> Iterator[str]:
    """Texts that are the name of a system, outside code that is about that system."""
    if not ABOUT_ONE_SYSTEM.match(source.path):
        for node in ast.walk(ast.parse(source.text)):
            if isinstance(node, ast.Constant) and node.value in systems:
                yield f"{source.path}:{node.lineno}: {node.value!r}"


def test_python_names_a_system_only_in_code_about_it() -> None:
    folders = {source.path.split("/")[3] for source in sources(r"^python/kvmark/testbed/\w+/")}
    crates = "|".join(drivers())
    code = "".join(source.text for source in sources(rf"^crates/({crates})/.*\.rs$"))
    systems = {*re.findall(r'About::new\(\s*"(\w+)"', code), *folders} - {"proxy"}
    files = sources(r"^python/.*\.py$")
    assert not [finding for file in files for finding in named_systems(file, systems)]


def test_a_system_named_elsewhere_is_found() -> None:
    text = 'a = ["redis", "redis server"]\n'
    elsewhere = Source("python/kvmark/records/a.py", text)
    assert list(named_systems(elsewhere, {"redis"})) == ["python/kvmark/records/a.py:1: 'redis'"]
    assert not list(named_systems(Source("python/kvmark/imports/a.py", text), {"redis"}))


def long_functions(source: Source) -> Iterator[str]:
    """Functions of more lines than fit on a screen. Clippy has this rule for Rust."""
    for node in ast.walk(ast.parse(source.text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or 0) - node.lineno + 1
            if length > LONGEST_FUNCTION:
                yield f"{source.path}:{node.lineno}: {node.name}"


def test_python_functions_have_at_most_70_lines() -> None:
    assert not [finding for file in sources(r"\.py$") for finding in long_functions(file)]


def test_a_function_of_71_lines_is_found_and_one_of_70_is_not() -> None:
    text = "def a():\n" + "    b\n" * 69 + "def c():\n" + "    d\n" * 70
    assert list(long_functions(Source("a.py", text))) == ["a.py:71: c"]


def test_rust_code_outside_tests_uses_every_public_item() -> None:
    assert not list(unused(sources(r"^crates/.*\.rs$")))


def test_a_public_item_that_only_tests_use_is_found() -> None:
    offered = """\
pub struct Used(u32);

impl Used {
    pub fn new() -> Self {
        Self(LIMIT)
    }

    pub fn only_tested(&self) -> u32 {
        self.0
    }
}

pub const LIMIT: u32 = 5;

/// Names itself, and `renamed` in a comment.
pub struct Pause;

impl Pause {
    fn end(self) -> Pause {
        self
    }
}

pub fn renamed() {}

#[cfg(test)]
mod tests {
    fn a_pause_ends() {
        Pause.end();
    }
}
"""
    files = [
        Source("crates/engine/src/lib.rs", offered),
        Source("crates/engine/src/a.rs", "pub use a::Pause;\nuse a::renamed as other;\n"),
        Source("crates/pyext/src/lib.rs", "fn run() {\n    Used::new();\n    other();\n}\n"),
        Source("crates/engine/tests/t.rs", "fn t() {\n    Used.only_tested();\n    helps();\n}\n"),
        Source("crates/testing/src/lib.rs", "pub fn helps() {}\n\npub fn helps_nothing() {}\n"),
    ]
    assert list(unused(files)) == [
        "crates/engine/src/lib.rs:8: only_tested",
        "crates/engine/src/lib.rs:16: Pause",
        "crates/testing/src/lib.rs:3: helps_nothing",
    ]
