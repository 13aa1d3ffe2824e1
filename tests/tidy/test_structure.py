"""The structure that ARCHITECTURE.md describes, as far as no tool checks it."""

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sources import Source, repository

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
    "embedded": "driver",
    "driver-*": "driver-server embedded",
    "engine": "workload record driver trace",
    "testing": "embedded",
    "tap": "trace driver-server",
    "pyext": "engine driver-* tap",
}
REGISTRY = "crates/pyext/src/registry.rs"
NAMES_DRIVERS = ("Cargo.toml", "Cargo.lock", "crates/pyext/Cargo.toml", REGISTRY)
# Python that is about one system: imitated tools, other tools' results, testbeds.
ABOUT_ONE_SYSTEM = re.compile(
    r"python/kvmark/(frontends|imports|catalog|testbed/\w+)/"
    r"|python/kvmark/testbed/(dynamodb|embedded|memcached|mongodb|postgres|system)\.py"
)
FOR_TESTS = "crates/testing/"
ENTRY = "crates/pyext/"
HANDED_ON = re.compile(r"^ *(pub(\([^)]*\))? )?use [^;]*;", re.MULTILINE)
RENAMED = re.compile(r"\b(\w+) as (\w+)\b")
DEFINED = re.compile(
    r"^ *(?P<public>pub )?(?:pub\([^)]*\) )?(?:(?:const|async|unsafe) )*"
    r"(?:fn|struct|enum|trait|type|const|static) (?:mut )?(?P<name>\w+)",
    re.MULTILINE,
)
IMPLEMENTED = re.compile(
    r"^impl\b(?:<.*>)? ?(?:[^{]* for )?&?(\w+).*?(?:^\}|\{\}$)", re.MULTILINE | re.DOTALL
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
    systems = {*re.findall(r'About::new\(\s*"(\w+)"', code), *folders} - {"proxy", "sources"}
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


def uses(texts: Sequence[str]) -> Counter[str]:
    """How often each name occurs where it is used."""
    code = [HANDED_ON.sub("", text) for text in texts]
    found = Counter(word for text in code for word in re.findall(r"\b[A-Za-z_]\w*\b", text))
    for text in texts:
        for name, alias in RENAMED.findall(text):
            found[name] += found[alias]
    for text in code:
        found.subtract(match["name"] for match in DEFINED.finditer(text))
        for block in IMPLEMENTED.finditer(text):
            found[block[1]] -= len(re.findall(rf"\b{block[1]}\b", block[0]))
    return found


def unused(files: Sequence[Source]) -> Iterator[str]:
    """Each public item of crates that no code outside tests uses, with its place.

    The compiler takes every public item for used. Here an item is used if its name occurs outside
    its definition, outside the `impl` blocks of its type, and outside `use`. Items with equal names
    count as one. Tests are users of the crate that supports tests.
    """
    examples = [source.text for source in files if "/examples/" in source.path]
    by_product = uses([*(source.product_text() for source in files), *examples])
    by_all = uses([source.text for source in files])
    for source in files:
        if source.path.startswith(ENTRY) or "/src/" not in source.path:
            continue
        used = by_all if source.path.startswith(FOR_TESTS) else by_product
        text = source.product_text()
        for match in DEFINED.finditer(text):
            if match["public"] and used[match["name"]] <= 0:
                line = text.count("\n", 0, match.start("public")) + 1
                yield f"{source.path}:{line}: {match['name']}"


def test_rust_code_outside_tests_uses_every_public_item() -> None:
    assert not list(unused(sources(r"^crates/.*\.rs$")))


def test_a_public_item_that_only_tests_use_is_found() -> None:
    offered = """\
pub struct Used(u32);
impl Used {
    pub fn new() -> Self { Self(LIMIT) }
    pub fn only_tested(&self) -> u32 { self.0 }
}
pub const LIMIT: u32 = 5;
/// Names itself, and `renamed` in a comment.
pub struct Pause;
impl Pause {
    fn end(self) -> Pause { self }
}
pub fn renamed() {}
#[cfg(test)]
mod tests {
    fn a_pause_ends() { Pause.end(); }
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
        "crates/engine/src/lib.rs:4: only_tested",
        "crates/engine/src/lib.rs:8: Pause",
        "crates/testing/src/lib.rs:3: helps_nothing",
    ]
