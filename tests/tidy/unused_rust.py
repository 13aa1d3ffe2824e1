"""Public items of crates that no code outside tests uses.

The compiler takes every public item for used. Here an item is used if its name occurs outside its
definition, outside the `impl` blocks of its type, and outside `use`. Items with equal names count
as one. Tests are users of the crate that supports tests.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from sources import Source

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


def unused(sources: Sequence[Source]) -> Iterator[str]:
    """Each public item without a use, with its place."""
    examples = [source.text for source in sources if "/examples/" in source.path]
    by_product = uses([*(source.product_text() for source in sources), *examples])
    by_all = uses([source.text for source in sources])
    for source in sources:
        if source.path.startswith(ENTRY) or "/src/" not in source.path:
            continue
        used = by_all if source.path.startswith(FOR_TESTS) else by_product
        text = source.product_text()
        for match in DEFINED.finditer(text):
            if match["public"] and used[match["name"]] <= 0:
                line = text.count("\n", 0, match.start("public")) + 1
                yield f"{source.path}:{line}: {match['name']}"
