"""What nobody calls: a name that only tests know has no place in the product.

A name is used when what runs leads to it: the statements of a module, functions that a decorator
keeps, commands, what `kvmark` itself exports, programs of the repository, and from there whatever
their bodies name. So functions that only call each other are found too. That a package's
`__init__` hands a name on is no use of it.
"""

import ast
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from findings import Finding, Source

PRODUCT = "kvmark"
# What these hand on and define is for users; the second is where the installed command begins.
EXPORTED = {"kvmark", "kvmark.cli"}
# This module looks names up that it holds as texts, in its package.
COMMANDS = "kvmark.cli.registry"
DOTTED = re.compile(r"[A-Za-z_][\w.]*")
# These only change how a function is called; others keep what they are given and call it later.
WRAPPERS = {"cache", "contextmanager", "asynccontextmanager", "overload"}
Function = ast.FunctionDef | ast.AsyncFunctionDef

ALLOWED = {
    "kvmark.analysis.verdict.rules.reasons_markdown": "docs/method/verdict.md is held against it",
}


@dataclass
class Module:
    """A file: what it defines, what its names stand for, and the statements that always run."""

    source: Source
    name: str
    defined: dict[str, ast.stmt] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    running: list[ast.AST] = field(default_factory=list)


def defined_by(statement: ast.stmt) -> list[str]:
    """The names that a statement of a module gives a meaning."""
    if isinstance(statement, Function | ast.ClassDef):
        return [statement.name]
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AnnAssign):
        targets = [statement.target]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def is_kept(statement: ast.stmt) -> bool:
    """Whether Python or a decorator calls the function: a hook of a module, a route of a server."""
    if not isinstance(statement, Function):
        return False
    texts = (ast.unparse(decorator) for decorator in statement.decorator_list)
    names = {text.partition("(")[0].split(".")[-1] for text in texts}
    return statement.name.startswith("__") or not names <= WRAPPERS


def imports(tree: ast.Module, package: list[str]) -> Iterator[tuple[str, str]]:
    """What names stand for that a file imports, wherever it does."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield (alias.asname, alias.name) if alias.asname else (alias.name, alias.name)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield from (
                (alias.asname or alias.name, f"{base}.{alias.name}") for alias in node.names
            )


def taken_apart(source: Source) -> Module:
    """A file by its statements."""
    tree = ast.parse(source.text)
    inside = source.path.removeprefix("python/").removesuffix(".py")
    parts = inside.removesuffix("/__init__").split("/")
    module = Module(source, ".".join(parts))
    package = parts if inside.endswith("/__init__") else parts[:-1]
    module.aliases.update(imports(tree, package))
    for statement in tree.body:
        names = defined_by(statement)
        if is_kept(statement) or not names:
            module.running.append(statement)
        elif names != ["__all__"]:
            module.defined.update(dict.fromkeys(names, statement))
    return module


def named(code: ast.AST) -> Iterator[str]:
    """Names, dotted ones whole, that a piece of code has, as texts too."""
    for part in ast.walk(code):
        text = part.value if isinstance(part, ast.Constant) else None
        if isinstance(part, ast.Name | ast.Attribute):
            text = ast.unparse(part)
        if isinstance(text, str) and DOTTED.fullmatch(text):
            yield text


class Reached:
    """Which definitions the code that runs leads to, by full name."""

    def __init__(self, modules: Iterable[Module]) -> None:
        self.modules = {module.name: module for module in modules}
        self.names: set[str] = set()
        # A module that is an argument is usually called by its own name.
        self.called = {
            name.split(".")[-1]: name for name in self.modules if name.startswith(PRODUCT)
        }

    def meaning(self, dotted: str) -> tuple[Module, str] | None:
        """The definition that a full name stands for, followed through packages."""
        parts = dotted.split(".")
        for length in range(len(parts) - 1, 0, -1):
            module = self.modules.get(".".join(parts[:length]))
            if module is not None:
                name = parts[length]
                if name in module.defined:
                    return module, name
                alias = module.aliases.get(name, dotted)
                return None if alias == dotted else self.meaning(alias)
        return None

    def follow(self, module: Module, code: ast.AST) -> None:
        """Marks what a piece of code names, and what that names."""
        waiting = [(module, code)]
        while waiting:
            within, code = waiting.pop()
            for text in named(code):
                first, dot, rest = text.partition(".")
                own = f"{within.name}.{first}" if first in within.defined else first
                whole = within.aliases.get(first, self.called.get(first, own) if dot else own)
                found = self.meaning(whole + dot + rest)
                if found and ".".join((found[0].name, found[1])) not in self.names:
                    self.names.add(".".join((found[0].name, found[1])))
                    waiting.append((found[0], found[0].defined[found[1]]))


def beginnings(modules: list[Module]) -> Iterator[tuple[Module, ast.AST]]:
    """The code that runs without being called from Python code."""
    (words,) = (set(named(ast.parse(one.source.text))) for one in modules if one.name == COMMANDS)
    for module in modules:
        yield from ((module, code) for code in module.running)
        if module.name.split(".")[0] != PRODUCT:
            yield from ((module, code) for code in module.defined.values())
        if module.name in EXPORTED:
            offered = (name for name in module.defined if not name.startswith("_"))
            yield from ((module, ast.parse(name)) for name in (*module.aliases, *offered))
        if module.name.startswith(COMMANDS.rpartition(".")[0]):
            looked_up = (name for name in module.defined if name.rstrip("_") in words)
            yield from ((module, ast.parse(name)) for name in looked_up)


def uncalled(sources: list[Source], allowed: Collection[str]) -> Iterator[Finding]:
    """Functions, classes and constants that nothing leads to, and allowances without a need."""
    modules = [taken_apart(source) for source in sources]
    reached = Reached(modules)
    for module, code in beginnings(modules):
        reached.follow(module, code)
    needed = set(allowed) - reached.names
    for name in needed:
        reached.follow(modules[0], ast.parse(name))
    for module in (one for one in modules if one.name.startswith(PRODUCT)):
        for name, statement in module.defined.items():
            if f"{module.name}.{name}" not in reached.names and not name.startswith("__"):
                yield module.source.find(statement.lineno, f"`{name}` has no caller but tests")
    for name in sorted(set(allowed) - (needed & reached.names)):
        yield Finding("tests/tidy/callers.py", 1, f"`{name}` needs no allowance")
