"""Rules for Python, read from its syntax tree."""

import ast
import re
from collections.abc import Iterator

from findings import Finding, Source

LONGEST_FUNCTION = 70
FLEET = "python/kvmark/run/fleet.py"
WORKER = "python/kvmark/run/worker.py"
REMOVAL = "python/kvmark/removal.py"
REMOVING_FILES = {"removedirs", "rmdir", "rmtree", "unlink"}
ANSWERING = re.compile(r"python/kvmark/(cli|report)/.*")
WRITING = {"write_bytes", "write_csv", "write_parquet", "write_text"}
REMOVING_RECORDS = re.compile(r"(?i:flush_?db|flush_?all)$|(?:DROP|TRUNCATE)\b")
STORES = re.compile(r"python/kvmark/testbed/\w+/data\.py")
FILE_MODULES = {"io", "os", "pathlib", "shutil", "subprocess", "tempfile"}
FILE_CALLS = {"open", "read_csv", "read_json", "read_parquet", "read_text", "scan_parquet"}
NUMERIC_MODULES = {"numpy", "scipy", "statistics"}


def long_functions(source: Source) -> Iterator[Finding]:
    """Functions that don't fit on a screen."""
    for node in ast.walk(ast.parse(source.text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > LONGEST_FUNCTION:
                problem = f"`{node.name}` has {length} lines, at most {LONGEST_FUNCTION}"
                yield source.find(node.lineno, problem)


def imported(source: Source) -> Iterator[tuple[int, str]]:
    """Line and full name of each imported module; `from a import b` names `a.b`."""
    package = source.path.removeprefix("python/").removesuffix(".py").split("/")
    for node in ast.walk(ast.parse(source.text)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: -node.level] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)


def ray_outside_the_fleet(source: Source) -> Iterator[Finding]:
    """Ray is imported in one file."""
    for line, name in imported(source):
        if name.split(".")[0] == "ray" and source.path != FLEET:
            yield source.find(line, f"ray is imported in {FLEET} only")


def engine_outside_the_worker(source: Source) -> Iterator[Finding]:
    """Load comes from the process that does nothing else."""
    for node in ast.walk(ast.parse(source.text)):
        if not isinstance(node, ast.Attribute) or source.path == WORKER:
            continue
        if ast.unparse(node) == "_engine.run":
            yield source.find(node.lineno, f"the engine carries out plans in {WORKER} only")


def files_removed(source: Source) -> Iterator[Finding]:
    """Files and folders are removed in one module, which proves whose they are."""
    for node in ast.walk(ast.parse(source.text)):
        if not isinstance(node, ast.Attribute) or source.path == REMOVAL:
            continue
        if node.attr in REMOVING_FILES or ast.unparse(node) == "os.remove":
            yield source.find(node.lineno, f"{node.attr}: files are removed in {REMOVAL} only")


def outputs_written(source: Source) -> Iterator[Finding]:
    """What answers are written to is written in one module, which looks at what is there."""
    if not ANSWERING.fullmatch(source.path):
        return
    for node in ast.walk(ast.parse(source.text)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        first = node.args[0] if node.args else None
        mode = first.value if isinstance(first, ast.Constant) else ""
        is_opened = node.func.attr == "open" and str(mode).startswith(("w", "a", "x"))
        is_opened = is_opened and "devnull" not in ast.unparse(node.func)
        if is_opened or (node.func.attr in WRITING and first is not None):
            yield source.find(node.lineno, f"{node.func.attr}: files are written by kvmark.outputs")


def records_removed(source: Source) -> Iterator[Finding]:
    """Records are removed by the stores' own modules, which `run/existing.py` alone calls."""
    if STORES.fullmatch(source.path):
        return
    constants = (n for n in ast.walk(ast.parse(source.text)) if isinstance(n, ast.Constant))
    for node in sorted(constants, key=lambda node: node.lineno):
        if isinstance(node.value, str) and REMOVING_RECORDS.match(node.value):
            problem = f"{node.value!r}: records are removed in testbed/*/data.py only"
            yield source.find(node.lineno, problem)


def file_access(source: Source) -> Iterator[Finding]:
    """`stats` reads no file."""
    for line, name in imported(source):
        if name.split(".")[0] in FILE_MODULES:
            yield source.find(line, f"{name}: stats reads no file")
    for node in ast.walk(ast.parse(source.text)):
        if isinstance(node, ast.Call):
            called = getattr(node.func, "id", None) or getattr(node.func, "attr", None)
            if called in FILE_CALLS:
                yield source.find(node.lineno, f"{called}: stats reads no file")


def numeric_imports(source: Source) -> Iterator[Finding]:
    """`report` computes no number."""
    for line, name in imported(source):
        if name.split(".")[0] in NUMERIC_MODULES or name.startswith("kvmark.stats"):
            yield source.find(line, f"{name}: report draws answers and computes none")


def estimates_made(source: Source) -> Iterator[Finding]:
    """An interval is made in `stats`: elsewhere an `Estimate` is put into other terms, or alone."""
    for node in ast.walk(ast.parse(source.text)):
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "Estimate":
            problem = "an Estimate is made in kvmark.stats; elsewhere use its put() or alone()"
            yield source.find(node.lineno, problem)
