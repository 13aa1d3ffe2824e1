"""One class name, one meaning: who reads a name need not look up which of several is meant."""

import ast
from collections.abc import Iterator, Mapping
from typing import Final

from findings import Finding, Source

PLANNED: Final = "as a user writes it, and as the plan has it decided"
OF_A_SYSTEM: Final = "one of each system of the testbed, where each means the same"
ALLOWED: Final = {
    "Place": OF_A_SYSTEM,
    "Wanted": f"{OF_A_SYSTEM}; and what a command is to do",
    "Again": PLANNED,
    "Exponential": PLANNED,
    "Head": PLANNED,
    "Hotspot": PLANNED,
    "Latest": PLANNED,
    "Newest": PLANNED,
    "RatePoint": PLANNED,
    "Sequential": PLANNED,
    "YcsbZipfian": PLANNED,
    "Zipfian": PLANNED,
    "Asked": "what is asked of one kind of experiment",
    "Case": "a study's by its levels, and any by what repetitions have in common",
    "Level": "of a factor, of a figure and of a verdict's reason: three fields' own word",
    "Line": "of cassandra-stress's output, and what of it is shown",
    "Share": "of a machine in a run, as the plan has it and as it is carried out",
    "System": "as a plan names it, and as a testbed starts it",
    "Word": "of a grammar: cassandra-stress's, and that of a testbed's wishes",
}


def repeated(sources: list[Source], allowed: Mapping[str, str]) -> Iterator[Finding]:
    """Public classes that have another's name, and allowances without a need."""
    first: dict[str, str] = {}
    again = set()
    for source in sources:
        for node in ast.walk(ast.parse(source.text)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                if node.name in first:
                    again.add(node.name)
                    if node.name not in allowed:
                        yield source.find(node.lineno, f"{first[node.name]} has `{node.name}` too")
                first.setdefault(node.name, source.path)
    for name in sorted(set(allowed) - again):
        yield Finding("tests/tidy/class_names.py", 1, f"`{name}` needs no allowance")
