"""Rules for Rust, as rustfmt leaves it: a closing brace stands below the start of its item."""

import re
from collections.abc import Iterator

from findings import Finding, Source

LONGEST_FUNCTION = 70
FUNCTION = re.compile(r"^(?P<indent> *)(pub(\([^)]*\))? )?((const|async|unsafe) )*fn (?P<name>\w+)")
TEST_MODULE = re.compile(r"^#\[cfg\(test\)\]$")
COMMENT = re.compile(r"^\s*//.*|\s//\s.*$")
UNWRAP = re.compile(r"\.unwrap\(\)")
SILENT_EXPECT = re.compile(r"\.expect\((?!\s*\"[^\"]{8})")
CLOCK = re.compile(r"\b(Instant::now|SystemTime|quanta|minstant|tokio::time|UNIX_EPOCH)\b")
SYSTEM = re.compile(r"rocksdb|redis|cassandra(?![-_]?stress)|scylla|yugabyte", re.IGNORECASE)
DEFAULT = re.compile(r"serde\(default|impl Default|derive\([^)]*\bDefault\b")
OUTSIDE = re.compile(r'include(_str|_bytes)?!\(\s*"(\.\./){2,}')


def is_test_file(path: str) -> bool:
    """Whether a whole file is test or example code."""
    folders = path.split("/")
    return bool({"tests", "benches", "examples"} & set(folders)) or folders[-1] == "tests.rs"


def product_lines(source: Source) -> list[str]:
    """The lines with comments and test modules blanked out, so that numbers stay."""
    if is_test_file(source.path):
        return []
    lines = []
    in_tests = False
    for line in source.lines:
        in_tests = in_tests or bool(TEST_MODULE.match(line))
        lines.append("" if in_tests else COMMENT.sub("", line))
        in_tests = in_tests and line != "}" and not re.match(r"^mod \w+;$", line)
    return lines


def body_end(lines: list[str], start: int, indent: str) -> int:
    """Index of the line that ends the function that starts at an index."""
    for index in range(start, len(lines)):
        line = lines[index]
        if line == f"{indent}}}" or (index == start and line.endswith("}")):
            return index
        if line.endswith(";") and len(line) - len(line.lstrip()) <= len(indent):
            return index
    return start


def long_functions(source: Source) -> Iterator[Finding]:
    """Functions that don't fit on a screen."""
    lines = source.lines
    for index, line in enumerate(lines):
        if not (found := FUNCTION.match(line)):
            continue
        length = body_end(lines, index, found["indent"]) - index + 1
        if length > LONGEST_FUNCTION:
            problem = f"`{found['name']}` has {length} lines, at most {LONGEST_FUNCTION}"
            yield source.find(index + 1, problem)


def matches(source: Source, pattern: re.Pattern[str], problem: str) -> Iterator[Finding]:
    """Lines of product code that match."""
    for number, line in enumerate(product_lines(source), 1):
        if found := pattern.search(line):
            yield source.find(number, f"{found[0]}: {problem}")


def unwraps(source: Source) -> Iterator[Finding]:
    """Panics without a reason outside tests."""
    yield from matches(source, UNWRAP, "handle it, or state the invariant in `expect`")


def silent_expects(source: Source) -> Iterator[Finding]:
    """`expect` without the invariant as text."""
    text = "\n".join(product_lines(source))
    for found in SILENT_EXPECT.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        yield source.find(line, "`expect` must state the invariant as a text")


def clock_calls(source: Source) -> Iterator[Finding]:
    """A driver reads no clock: the engine stamps around it."""
    yield from matches(source, CLOCK, "a driver reads no clock")


def named_systems(source: Source) -> Iterator[Finding]:
    """The engine names no system."""
    yield from matches(source, SYSTEM, "the engine names no system")


def defaults(source: Source) -> Iterator[Finding]:
    """A plan holds no default."""
    yield from matches(source, DEFAULT, "a plan holds no default")


def outside_includes(source: Source) -> Iterator[Finding]:
    """Files included from beyond the crate: the shared target folder doesn't know of them."""
    for number, line in enumerate(source.lines, 1):
        if OUTSIDE.search(line):
            yield source.find(number, "a crate includes no file from outside its folder")
