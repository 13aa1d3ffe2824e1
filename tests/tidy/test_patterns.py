"""Patterns that may not occur. Each finds its planted lines and leaves their neighbours alone."""

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from sources import Source, repository


@dataclass(frozen=True)
class Rule:
    """A pattern, the files in which it may not occur, and examples."""

    name: str
    pattern: str
    files: str
    planted: list[str]
    healthy: list[str]
    #: Files in which it may occur.
    exempt: str = r"^$"
    #: Whether it may occur in Rust's comments and tests.
    product_only: bool = False


RULES = [
    Rule(**rule)
    for rule in tomllib.loads(Path(__file__).with_name("patterns.toml").read_text())["rule"]
]
EACH_RULE = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)


def findings(rule: Rule, source: Source) -> Iterator[str]:
    text = source.product_text() if rule.product_only else source.text
    for match in re.finditer(rule.pattern, text, re.MULTILINE):
        line = text.count("\n", 0, match.start()) + 1
        yield f"{source.path}:{line}: {match[0].strip()}"


@EACH_RULE
def test_nothing_in_the_repository_matches(rule: Rule) -> None:
    chosen = [source for source in repository() if re.search(rule.files, source.path)]
    checked = [source for source in chosen if not re.search(rule.exempt, source.path)]
    assert checked
    found = [finding for source in checked for finding in findings(rule, source)]
    assert not found, f"{rule.name}:\n" + "\n".join(found)


@EACH_RULE
def test_planted_lines_match_and_their_neighbours_do_not(rule: Rule) -> None:
    for text in rule.planted:
        assert list(findings(rule, Source("a.rs", f"\n{text}\n"))), text
    for text in rule.healthy:
        assert not list(findings(rule, Source("a.rs", f"\n{text}\n"))), text


def test_tests_and_comments_are_not_product_code() -> None:
    text = "a(); // b\n#[cfg(test)]\nmod tests {\n    c();\n}\n/// d\ne();\n"
    assert Source("crates/x/src/lib.rs", text).product_text() == "a();\n\n\n\n\n\ne();\n"
    assert Source("crates/x/tests/x.rs", text).product_text() == ""
