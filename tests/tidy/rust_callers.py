"""What no Rust code calls: a public item that only tests know has no place in a crate.

The compiler finds private items without a use, and takes each public one for used. Here an item is
used when what runs leads to it: the door from Python, programs, and from there whatever their
bodies name. Names are compared as words, so that of several items with one name each counts as
used. What a crate hands on (`use`, `mod`) is no use. Of the crate for tests, tests are users.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from findings import Finding, Source
from rust_rules import COMMENT, is_test_file, product_lines

DOOR = "crates/pyext/"
FOR_TESTS = "crates/testing/"
WORD = re.compile(r"\b[A-Za-z_]\w*\b")
HANDED_ON = re.compile(r"^(pub(\([^)]*\))? )?(use|mod|extern crate)\b")
RENAMED = re.compile(r"\b(\w+) as (\w+)\b")
ITEM = re.compile(
    r"^ *(?P<public>pub )?(pub\([^)]*\) )?((const|async|unsafe) )*"
    r"(fn|struct|enum|trait|type|const|static) (mut )?(?P<name>\w+)"
)
IMPL = re.compile(r"^(unsafe )?impl\b(<.*?>)? ?(?P<trait>.* for )?(?P<type>.*?)( where| \{|$)")


@dataclass(frozen=True)
class Item:
    """A piece of code: what it is called, whose it is, and the words in it."""

    source: Source
    line: int
    name: str
    #: The type without which it isn't used.
    owner: str
    is_public: bool
    words: frozenset[str]


def pieces(lines: list[str], indent: str) -> Iterator[tuple[int, list[str]]]:
    """What stands side by side at an indent, by the index of its first line."""
    first = 0
    for index, line in enumerate(lines):
        ends = line.startswith(indent) and not line.startswith(indent + " ")
        if ends and (line.endswith((";", "}")) or line.strip() in ("", ")", "];")):
            yield first, lines[first : index + 1]
            first = index + 1
    yield first, lines[first:]


def items(source: Source) -> Iterator[Item]:
    """The items of a file; methods apart from their type."""
    is_test = is_test_file(source.path)
    lines = [COMMENT.sub("", line) for line in source.lines] if is_test else product_lines(source)
    for first, piece in pieces(lines, ""):
        heads = [line for line in piece if line and not line.startswith(("#", " ", ")", "]"))]
        head = heads[0] if heads else ""
        if HANDED_ON.match(head):
            continue
        own = IMPL.match(head)
        if own and not own["trait"]:
            inner = pieces(piece[piece.index(head) + 1 : -1], "    ")
            start = first + piece.index(head) + 1
            for offset, method in inner:
                yield item(source, start + offset, method, "".join(WORD.findall(own["type"])[:1]))
        elif own:
            # What a type does for a trait is used with it.
            owner = "".join(WORD.findall(own["type"])[:1])
            words = frozenset(WORD.findall("\n".join(piece)))
            yield Item(source, first + 1, "", owner, is_public=False, words=words)
        else:
            yield item(source, first, piece, "")


def item(source: Source, first: int, piece: list[str], owner: str) -> Item:
    """A piece by its first line that names something; without a name it is used with its owner."""
    found = ((offset, ITEM.match(line)) for offset, line in enumerate(piece))
    offset, head = next(((offset, head) for offset, head in found if head), (0, None))
    words = frozenset(WORD.findall("\n".join(piece)))
    name = head["name"] if head else ""
    is_public = bool(head and head["public"])
    return Item(source, first + offset + 1, name, owner, is_public, words)


def is_tests(path: str) -> bool:
    """Whether a file is of tests only: examples are programs."""
    return is_test_file(path) and "examples" not in path.split("/")


def always_runs(one: Item) -> bool:
    """Whether nobody has to name it: the door from Python, programs, what stands without a name."""
    path = one.source.path
    return path.startswith(DOOR) or "/src/" not in path or not (one.name or one.owner)


def reached(found: list[Item], begun: Iterable[Item], meanings: dict[str, set[str]]) -> set[Item]:
    """What some items lead to: by the names in them, and for methods by their type's too."""
    by_name: dict[str, list[Item]] = defaultdict(list)
    by_owner: dict[str, list[Item]] = defaultdict(list)
    for one in found:
        (by_name[one.name] if one.name else by_owner[one.owner]).append(one)
        if one.name and one.owner:
            by_owner[one.owner].append(one)
    names: set[str] = set()
    seen: set[Item] = set()
    waiting = list(begun)
    while waiting:
        one = waiting.pop()
        if one in seen:
            continue
        seen.add(one)
        new = {meaning for word in one.words for meaning in (word, *meanings.get(word, ()))} - names
        names |= new
        for name in new:
            near = [*by_name[name], *by_owner[name]]
            waiting.extend(
                other
                for other in near
                if (not other.name or other.name in names)
                and (not other.owner or other.owner in names)
            )
    return seen


def uncalled(sources: list[Source]) -> Iterator[Finding]:
    """Public items of crates that nothing leads to but tests."""
    found = [one for source in sources for one in items(source)]
    meanings: dict[str, set[str]] = defaultdict(set)
    for source in sources:
        for own, other in RENAMED.findall(source.text):
            meanings[other].add(own)
    product = [one for one in found if not is_tests(one.source.path)]
    used = reached(product, filter(always_runs, product), meanings)
    used_by_tests = reached(found, (one for one in found if is_tests(one.source.path)), meanings)
    for one in found:
        users = used_by_tests if one.source.path.startswith(FOR_TESTS) else used
        if one.is_public and one not in users and not is_tests(one.source.path):
            yield one.source.find(one.line, f"`{one.name}` has no caller but tests")
