"""Runs all tests, Rust's then Python's, and lists the skipped ones with their reasons.

With `--everyday` it leaves out those that need Java, a cluster, a browser or minutes. In CI a
skipped test is a failure, unless `tests/may_be_skipped.toml` allows it.
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import needs
import progress
import with_cassandra

ROOT = Path(__file__).resolve().parent.parent
ALLOWED = ROOT / "tests" / "may_be_skipped.toml"
MOST_ALLOWED = 4
# With the extension, which has no tests, its dependencies have the same features as in the product.
CARGO = (sys.executable, str(ROOT / "scripts" / "cargo.py"),
         "test", "--release", "--locked", "--workspace")  # fmt: skip
# Two tests a core: they wait half of the time.
AT_ONCE = str(2 * len(os.sched_getaffinity(0)))
PYTEST = (sys.executable, "-m", "pytest", "-n", AT_ONCE, "-o", "junit_family=xunit1")
EVERYDAY = ("-m", "not heavy")
# Without examples, which only tests with valgrind use, and tests of documents, of which there are
# none: each is another link.
EVERYDAY_TARGETS = ("--tests",)
SLOWEST = ("--durations", "10")
MANY_FILES = "needs redis-server and 12,000 open files"
CASSANDRA = "needs a node of Cassandra"
# The reasons for which tests in Rust are ignored, and the program that each of them needs.
PROGRAMS = {
    "needs redis-server": "redis-server",
    MANY_FILES: "redis-server",
    "needs memcached": "memcached",
    "needs postgres": "postgres",
    "needs npm": "npm",
    "needs ferretdb": "ferretdb",
    "needs strace": "strace",
    "needs valgrind": "valgrind",
}
LEFT_OUT = ("needs valgrind", MANY_FILES, CASSANDRA)
"""What everyday tests in Rust don't have."""
# `Running tests/cql/main.rs (/…/deps/cql-0123456789abcdef)`, and the line of a test.
PROGRAM = re.compile(r"^ +Running .*?([\w-]+)-[0-9a-f]+\)$")
TEST = re.compile(r"^test (.+?)(?: - should panic)? \.\.\. (\w+)(?:, (.*))?$")


class Missing(Exception):
    """A test needs something that isn't available."""


class WrongList(Exception):
    """The list of tests that may be skipped has an error."""


@dataclass(frozen=True)
class Skip:
    """A skipped test."""

    test: str
    why: str


@dataclass(frozen=True)
class Allowed:
    """Tests that CI may skip: a pattern of names, and a part of the reason."""

    test: str
    says: str
    because: str

    def covers(self, skip: Skip) -> bool:
        """Whether this allows it."""
        return fnmatchcase(skip.test, self.test) and self.says in skip.why


@contextmanager
def provided(reason: str) -> Iterator[Mapping[str, str]]:
    """The variables for tests with this need. Raises Missing if it can't be provided."""
    if reason == CASSANDRA:
        print("starting a node of Cassandra for the tests in Rust", flush=True)
        try:
            with with_cassandra.node(os.environ) as variables:
                # For the tests in Python, too.
                os.environ |= variables
                yield variables
        except with_cassandra.NoNode as problem:
            raise Missing(str(problem)) from None
        return
    program = PROGRAMS[reason]
    if not needs.has_program(program):
        package = {"postgres": "postgresql"}.get(program, program)
        advice = f"install it with `sudo apt-get install {package}`"
        raise Missing({"ferretdb": "build it (docs/guide/mongodb.md)"}.get(program, advice))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if reason == MANY_FILES:
        if hard != resource.RLIM_INFINITY and hard < 12_000:
            raise Missing(f"`ulimit -Hn` is {hard}")
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 12_000), hard))
    yield {}
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def program(command: Sequence[str], **more: Any) -> Iterator[subprocess.Popen[str]]:
    """Starts a program and waits until it ends; the terminal interrupts both."""
    running = subprocess.Popen(command, cwd=ROOT, text=True, **more)
    try:
        yield running
    except KeyboardInterrupt:
        running.communicate()
        raise
    running.wait()


def cargo_test(
    words: Sequence[str], more: Mapping[str, str]
) -> tuple[int, dict[tuple[str, str], tuple[str, str]]]:
    """Runs tests in Rust, and prints their output.

    Returns the exit code, and the result and its reason by program and test.
    """
    seen: dict[tuple[str, str], tuple[str, str]] = {}
    tested = ""
    both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    variables = {"RUST_TEST_THREADS": AT_ONCE, **os.environ, **more}
    with program([*CARGO, *words], env=variables, **both) as running:
        for line in running.stdout or ():
            print(line, end="", flush=True)
            if begins := PROGRAM.match(line):
                tested = begins[1]
            elif ended := TEST.match(line):
                seen[tested, ended[1]] = (ended[2], ended[3] or "it gives no reason")
    return running.returncode, seen


def tests_in_rust(servers: ExitStack, *, everyday: bool) -> tuple[int, list[Skip]]:
    """The tests in Rust: first those without needs, then those whose need can be provided."""
    code, seen = cargo_test(EVERYDAY_TARGETS if everyday else (), {})
    ignored = {test: why for test, (how, why) in seen.items() if how == "ignored"}
    if everyday:
        ignored = {test: why for test, why in ignored.items() if why not in LEFT_OUT}
    for reason in (*PROGRAMS, CASSANDRA):
        waiting = [test for test, why in ignored.items() if why == reason]
        if code or not waiting:
            continue
        try:
            more = servers.enter_context(provided(reason))
        except Missing as missing:
            print(f"{len(waiting)} tests are skipped: {reason}: {missing}", flush=True)
            ignored.update(dict.fromkeys(waiting, f"{reason}: {missing}"))
            continue
        for tested in sorted({tested for tested, _ in waiting}):
            names = [name for other, name in waiting if other == tested]
            words = ("--test", tested, "--", "--ignored", "--exact", *names)
            failed, again = cargo_test(words, more)
            code = code or failed
            ignored = {test: why for test, why in ignored.items() if test not in again}
    return code, [Skip(f"{tested}::{name}", why) for (tested, name), why in ignored.items()]


def tests_in_python(*, everyday: bool) -> tuple[int, list[Skip]]:
    """The tests in Python; the ten slowest are listed."""
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder) / "tests.xml"
        words = (*PYTEST, *SLOWEST, *(EVERYDAY if everyday else ()), f"--junitxml={record}")
        with program(words) as running:
            pass
        return running.returncode, skipped(record.read_text()) if record.exists() else []


def skipped(record: str) -> list[Skip]:
    """The tests that pytest skipped, from its JUnit XML."""
    return [
        Skip(
            f"{case.get('file', 'tests')}::{case.get('name')}",
            " ".join(skip.get("message", "it gives no reason").split()),
        )
        for case in ElementTree.fromstring(record).iter("testcase")  # noqa: S314 - it is pytest's
        for skip in case.iter("skipped")
    ]


def read_allowed(text: str) -> list[Allowed]:
    """The list of tests that may be skipped. Raises WrongList if an entry is wrong or too many."""
    try:
        allowed = [Allowed(**entry) for entry in tomllib.loads(text).get("skip", [])]
    except (tomllib.TOMLDecodeError, TypeError) as problem:
        raise WrongList(f"{ALLOWED}: {problem}") from None
    if len(allowed) > MOST_ALLOWED:
        raise WrongList(f"{ALLOWED} has {len(allowed)} entries: at most {MOST_ALLOWED} may be")
    if any(not (entry.says.strip() and entry.because.strip()) for entry in allowed):
        raise WrongList(f"{ALLOWED}: `says` and `because` must be filled in")
    return allowed


def report(skips: Sequence[Skip], allowed: Sequence[Allowed]) -> tuple[int, list[str]]:
    """The number of skips that the list doesn't allow, and a line for each skip."""
    lines, more = [], 0
    for skip in skips:
        because = next((entry.because for entry in allowed if entry.covers(skip)), None)
        more += because is None
        ending = "" if because is None else f" [allowed: {because}]"
        lines.append(f"not tested: {skip.test}: {skip.why}{ending}")
    return more, lines or ["No test was skipped."]


def main() -> int:
    """Runs the tests and returns the exit code."""
    everyday = "--everyday" in sys.argv
    allowed = read_allowed(ALLOWED.read_text())
    with ExitStack() as servers:
        code, skips = tests_in_rust(servers, everyday=everyday)
        if code == 0:
            code, skips_in_python = tests_in_python(everyday=everyday)
            skips += skips_in_python
        else:
            skips.append(Skip("all tests in Python", "those in Rust failed"))
    more, lines = report(skips, allowed)
    print("", *lines, sep="\n")
    if everyday:
        print("Tests with Java, clusters and browsers are left out: make test-all runs them.")
    if more and needs.in_ci():
        print(f"CI runs every test; {more} tests above were skipped and aren't in {ALLOWED}.")
        return 1
    return 1 if code else 0


if __name__ == "__main__":
    sys.exit(progress.exit_code(main, WrongList))
