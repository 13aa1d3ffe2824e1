"""The files of a crate use each other one way: no file is used by what it uses.

A file is a module. It uses what its paths lead to, whether they begin with `crate`, `super`,
`self` or the name of a child, and wherever they stand outside tests. A name that was imported on
the way leads on to the file it comes from, so that `lib.rs` and other parents may hand out what
their children hold; what a parent imports, or hands out and uses itself, it uses like any file.
"""

import itertools
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath

from findings import Finding, Source
from rust_rules import is_test_file, product_lines

Path = tuple[str, ...]
Uses = Mapping[Path, Mapping[Path, int]]
"""By module those that it uses, each with the first line where it does."""

LITERAL = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\\n]|\\.)\'', re.DOTALL)
PATH = re.compile(r"(?<![\w:.])\w+(?:::\w+)+")
TOKEN = re.compile(r"\w+|::|\S")
USE = re.compile(r"^(pub(?:\([^)]*\))? )?use ([^;]*);", re.MULTILINE)
INDENTED_USE = re.compile(r"^ +(?:pub(?:\([^)]*\))? )?use ([^;]*);", re.MULTILINE)
INNER = re.compile(r"^( *)(?:pub(?:\([^)]*\))? )?mod (\w+) \{$")


@dataclass
class Module:
    """A file, as far as its paths go."""

    source: Source
    path: Path
    #: Without comments, tests and what stands in quotes.
    text: str
    #: By the name it has here, where an imported item comes from.
    imports: dict[str, Path] = field(default_factory=dict)
    #: Modules of which all is imported.
    globs: list[Path] = field(default_factory=list)

    @property
    def name(self) -> str:
        """As paths in the crate call it."""
        return "::".join(self.path) or "lib"

    def has(self, name: str) -> bool:
        """Whether an item can be named through it."""
        return name in self.imports or self.defines(name)

    def defines(self, name: str) -> bool:
        """Whether it has an item of this name of its own."""
        words = "fn|struct|enum|union|trait|type|const|static|mod|macro_rules!"
        return re.search(rf"^ *[^/\n]*\b(?:{words}) {name}\b", self.text, re.MULTILINE) is not None


def circles(files: Sequence[Source]) -> Iterator[Finding]:
    """Circles between the files in the `src` of one crate."""
    modules = modules_of(files)
    uses = {path: used_by(module, modules) for path, module in modules.items()}
    told: set[frozenset[Path]] = set()
    for path in sorted(uses):
        for used in uses[path]:
            back = way(uses, used, path)
            if back and frozenset(back) not in told:
                told.add(frozenset(back))
                yield circle([path, *back], modules, uses)


def circle(round_trip: Sequence[Path], modules: Mapping[Path, Module], uses: Uses) -> Finding:
    """A circle with the lines that close it."""
    steps = list(itertools.pairwise(round_trip))
    names = " → ".join(modules[path].name for path in round_trip)
    lines = ", ".join(f"{modules[a].source.path}:{uses[a][b]}" for a, b in steps)
    first, second = steps[0]
    return modules[first].source.find(uses[first][second], f"a circle: {names} ({lines})")


def way(uses: Uses, start: Path, end: Path) -> list[Path]:
    """The shortest way from one module to another; empty when there is none."""
    before: dict[Path, Path | None] = {start: None}
    waiting = deque([start])
    while waiting:
        here = waiting.popleft()
        if here == end:
            steps: list[Path] = []
            step: Path | None = here
            while step is not None:
                steps.append(step)
                step = before[step]
            return steps[::-1]
        for used in uses[here]:
            if used not in before:
                before[used] = here
                waiting.append(used)
    return []


def modules_of(files: Sequence[Source]) -> dict[Path, Module]:
    """The files of a crate by their paths in it, with what they import."""
    modules = {}
    for source in files:
        if not is_test_file(source.path):
            lines = "\n".join(product_lines(source))
            text = LITERAL.sub(blank, lines)
            path = path_of(source.path)
            modules[path] = Module(source, path, text)
    for module in modules.values():
        for found in USE.finditer(module.text):
            for name, path in imported(TOKEN.findall(found[2]), module, modules):
                if name == "*":
                    module.globs.append(path)
                else:
                    module.imports[name] = path
    return modules


def blank(found: re.Match[str]) -> str:
    """Nothing in place of what was found, on as many lines."""
    return "\n" * found[0].count("\n")


def path_of(file: str) -> Path:
    """The module that a file of `crates/…/src/` is."""
    parts = PurePath(file).parts[3:]
    own = parts[-1].removesuffix(".rs")
    return parts[:-1] if own in {"mod", "lib", "main"} else (*parts[:-1], own)


def used_by(module: Module, modules: Mapping[Path, Module]) -> dict[Path, int]:
    """The other modules that a module uses, with the first line where it does."""
    found: dict[Path, int] = {}

    def add(path: Path, line: int) -> None:
        used = resolved(path, modules)
        if used != module.path:
            found[used] = min(line, found.get(used, line))

    rest = USE.sub(blank, module.text)
    for use in USE.finditer(module.text):
        line = module.text.count("\n", 0, use.start()) + 1
        for name, path in imported(TOKEN.findall(use[2]), module, modules):
            if not use[1] or re.search(rf"\b{re.escape(name)}\b", rest):
                add(path, line)
    for line, path in paths_in(rest, module, modules):
        add(path, line)
    return found


def resolved(
    path: Path, modules: Mapping[Path, Module], seen: frozenset[Path] = frozenset()
) -> Path:
    """The module that holds what a path of the crate leads to."""
    here: Path = ()
    for place, name in enumerate(path):
        if (*here, name) in modules:
            here = (*here, name)
            continue
        if path in seen or modules[here].defines(name):
            return here
        if name in modules[here].imports:
            onward = (*modules[here].imports[name], *path[place + 1 :])
            return resolved(onward, modules, seen | {path})
        for glob in modules[here].globs:
            if glob in modules and modules[glob].has(name):
                return resolved((*glob, *path[place:]), modules, seen | {path})
        return here
    return here


def imported(
    tokens: Sequence[str], module: Module, modules: Mapping[Path, Module]
) -> Iterator[tuple[str, Path]]:
    """Each import of a `use` from this crate: its name here, and its path."""
    for path in tree(tokens):
        *words, name = path
        alias = name
        if len(path) > 2 and path[-2] == "as":
            *words, name, _, alias = path
        if name == "self" and words:
            *words, name = words
            alias = name if alias == "self" else alias
        target = absolute((*words, *([] if name == "*" else [name])), module.path, modules)
        if target is not None:
            yield alias, target


def tree(tokens: Sequence[str]) -> Iterator[Path]:
    """The paths of a use tree, `as` and the alias as words of their own."""
    stack: list[list[str]] = [[]]
    here: list[str] = []
    for token in [*tokens, ","]:
        if token == "{":
            stack.append([*stack[-1], *here])
            here = []
        elif token in {",", "}"}:
            if here:
                yield (*stack[-1], *here)
            here = []
            if token == "}":
                stack.pop()
        elif token != "::":
            here.append(token)


def absolute(words: Path, here: Path, modules: Mapping[Path, Module]) -> Path | None:
    """A path as seen from the crate's root; none when it begins outside the crate."""
    first, rest = words[0], words[1:]
    if first == "crate":
        return rest
    if first == "self":
        return (*here, *rest)
    if first == "super":
        while rest and rest[0] == "super":
            here, rest = here[:-1], rest[1:]
        return (*here[:-1], *rest)
    return (*here, *words) if (*here, first) in modules else None


def paths_in(
    text: str, module: Module, modules: Mapping[Path, Module]
) -> Iterator[tuple[int, Path]]:
    """Paths into this crate that stand in code, or in a module within the file, by line."""
    inner: list[tuple[str, str]] = []
    for number, line in enumerate(INDENTED_USE.sub(spelled_out, text).split("\n"), 1):
        if found := INNER.match(line):
            inner.append((found[1], found[2]))
        elif inner and line == inner[-1][0] + "}":
            inner.pop()
        here = (*module.path, *(name for _, name in inner))
        for found in PATH.finditer(line):
            path = absolute(tuple(found[0].split("::")), here, modules)
            if path is not None:
                yield number, path


def spelled_out(use: re.Match[str]) -> str:
    """The paths of a `use` that is indented, one by one, on its first line."""
    paths = tree(TOKEN.findall(use[1]))
    return "  " + " ".join("::".join(path).replace("::as::", " as ") for path in paths) + blank(use)
