"""Patterns that may not occur. Each finds its planted lines and leaves their neighbours alone."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from sources import Source, repository

CODE = r"\.(rs|py|pyi|toml|sh|html|css|js)$|^Makefile$|^\.ci/run$"
PRODUCT = r"^python/kvmark/.*\.py$"


@dataclass(frozen=True)
class Rule:
    """A pattern, the files in which it may not occur, and examples."""

    name: str
    pattern: str
    files: str
    planted: tuple[str, ...]
    healthy: tuple[str, ...]
    #: Files in which it may occur.
    exempt: str = r"^$"
    #: Whether it may occur in Rust's comments and tests.
    product_only: bool = False


RULES = (
    Rule(
        "a line has at most 100 columns",
        r"^.{101,}$",
        r"\.rs$|^Makefile$",
        ("a" * 101,),
        ("a" * 100,),
    ),
    Rule(
        "unfinished work belongs in an issue",
        r"\b(TODO|FIXME|XXX|HACK)\b",
        rf"{CODE}|\.md$",
        ("let a = 1; /* TODO: b */",),
        ("todo!()",),
    ),
    Rule(
        "no path or package host of one machine",
        r"(?<![\w.])/(root|work|home/\w+|Users/\w+|opt/wheels)(/|\b)"
        r"|(index|static)\.crates\.io|pypi\.org|pythonhosted\.org|maven\.org|goproxy",
        rf"{CODE}|\.(md|ya?ml|json|lock|txt)$",
        ("path: /root/x", "path: /home/someone/x", "host: pypi.org"),
        ("https://example.org/work", "./work/x"),
    ),
    Rule(
        "the vocabulary has `rate`, `engine`, `driver`, `study` and `repetition` for this",
        r"(?i:(?<![a-z])(qps|rps|tps)(?![a-z])|\bharness|\badapter|\bcampaign|\btrials?\b)",
        r"\.(rs|pyi?|md)$",
        ("50 qps", "an adapter", "ten trials"),
        ("trialled", "chapters"),
        # What redis-benchmark and resp-benchmark print.
        exempt=r"^bench/(redis/peers|tap/__main__)\.py$|^(python/kvmark|tests)/imports/",
    ),
    Rule(
        "`expect` states the invariant",
        r"\.expect\((?!\s*\"[^\"]{8})",
        r"\.rs$",
        ('a.expect("");', "a.expect(reason);"),
        ('a.expect("a phase ends");', 'a.expect(\n    "it is so",\n)', '/// a.expect("")'),
        product_only=True,
    ),
    Rule(
        "a driver reads no clock: the engine stamps its calls",
        r"\b(Instant::now|SystemTime|quanta|minstant|tokio::time|UNIX_EPOCH)\b",
        r"^crates/driver.*\.rs$",
        ("let t = Instant::now();",),
        ("use std::time::Duration;", "/// Instant::now"),
        # Connecting, and the crate behind the CQL driver, need a runtime's timers.
        exempt=r"^crates/driver-server/src/timers\.rs$",
        product_only=True,
    ),
    Rule(
        "the engine names no system",
        r"(?i:rocksdb|redis|cassandra(?![-_]?stress)|scylla|yugabyte)",
        r"^crates/engine/.*\.rs$",
        ("RocksDb",),
        ("StderrRule::CassandraStress",),
        product_only=True,
    ),
    Rule(
        "a plan has no default",
        r"serde\(default|impl Default|derive\([^)]*\bDefault\b",
        r"^crates/plan/.*\.rs$",
        ("#[derive(Clone, Default)]", "#[serde(default)]"),
        ("#[serde(deny_unknown_fields)]",),
        product_only=True,
    ),
    Rule(
        "a crate includes no file from outside its folder",
        r'include(_str|_bytes)?!\(\s*"(\.\./){2,}',
        r"^crates/.*\.rs$",
        ('include_str!("../../../plan.json")',),
        ('include_str!("../plan.json")',),
    ),
    Rule(
        "kvmark.removal removes files, after it proved whose they are",
        r"\.(unlink|rmdir)\(",
        PRODUCT,
        ("path.unlink()", "folder.rmdir()"),
        ("rows.remove(a)", "links.link()"),
        exempt=r"^python/kvmark/removal\.py$",
    ),
    Rule(
        "kvmark.outputs writes files, after it checked what they replace",
        r"\.write_(bytes|csv|parquet|text)\((?!\))|(?<!devnull\))\.open\([\"'][wax]",
        r"^python/kvmark/(cli|report)/",
        ("a.write_text(b)", 'a.open("w")', "c.write_csv(a)"),
        ('a.open("rb")', "c.write_csv()", 'Path(os.devnull).open("w")'),
    ),
    Rule(
        "a testbed's data.py removes records; run/existing.py alone calls it",
        r"[\"'](?:(?i:flush_?(db|all))[\"']|(DROP|TRUNCATE)\b)",
        PRODUCT,
        ('a("FLUSHDB")', 'a("flush_all")', 'a(f"DROP TABLE {b}")', 'a("TRUNCATE b")'),
        ('a("Empty it instead of DROP.")', 'a("DROPPED")'),
        exempt=r"^python/kvmark/testbed/\w+/data\.py$",
    ),
    Rule(
        "kvmark.stats makes an Estimate; elsewhere use its put() or alone()",
        r"(?<![\w.])Estimate\(",
        PRODUCT,
        ("a = Estimate(1, 0, 2, 5, 's', '')",),
        ("b = Estimate.alone(1, 's', '')", "b: Estimate"),
        exempt=r"^python/kvmark/stats/",
    ),
)
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
