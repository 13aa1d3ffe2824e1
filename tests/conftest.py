"""What all tests have in common: examples, interrupts, and documents that are as published."""

import json
import re
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from kvmark.records import Records

sys.path.insert(0, str(Path(__file__).parent))

settings.register_profile(
    "kvmark", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
# `make test-long`: other examples each time, from the seed that it prints.
settings.register_profile(
    "long", settings.get_profile("kvmark"), derandomize=False, max_examples=1000, database=None,
    print_blob=True,
)  # fmt: skip
settings.load_profile("kvmark")

# What is started in the background has interrupts ignored, and so would all that it starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


HEAVY_FIXTURES = frozenset({"browser", "cluster", "node", "nodes", "with_cassandra"})
"""Of tests with Java, a cluster of machines or a browser."""
STORES = frozenset({
    "fleet", "generator", "kvmark", "make_run", "program", "served", "simulated", "stress", "up",
    "user",
})  # fmt: skip
"""Fixtures of tests that measure, or that start a server or have a database on disk."""
HEAVY_FILES = frozenset({
    "boundary/test_what_can_be_taken_out.py", "commands/test_listing_runs.py",
    "end_to_end/test_experiments.py", "end_to_end/test_failing_systems.py",
    "end_to_end/test_interrupts.py", "end_to_end/test_ownership.py",
    "end_to_end/test_redis_faults.py", "end_to_end/test_secrets.py",
    "end_to_end/test_the_terminal.py", "end_to_end/test_traces.py",
    "end_to_end/test_verification.py", "experiment/test_resumed_studies.py",
    "fleet/test_wrong_use.py", "setup/test_two_clones.py", "simulation/test_equal_sides.py",
})  # fmt: skip
"""Files of tests that take minutes."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks each test as `unit`, `store` or `heavy`."""
    for item in items:
        names = frozenset(getattr(item, "fixturenames", ()))
        file = item.path.relative_to(Path(__file__).parent).as_posix()
        if names & HEAVY_FIXTURES or file in HEAVY_FILES:
            item.add_marker("heavy")
        elif "heavy" not in item.keywords:
            item.add_marker("store" if names & STORES else "unit")


class Scheduler(LoadScopeScheduling):
    """Gives a free process the next test, or all tests that share a fixture or the process list."""

    def _split_scope(self, nodeid: str) -> str:
        shared = r"/(browser|fleet)/|test_cassandra\w*\.py|_of_cassandra_|_list_of_processes_"
        found = re.search(shared, nodeid)
        return found[0] if found else nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduler:
    """The scheduler of tests in several processes."""
    return Scheduler(config, log)


@pytest.fixture
def records(tmp_path: Path) -> Records:
    """The folder of a test's runs."""
    return Records(tmp_path / "runs")


@pytest.fixture(autouse=True)
def documents_as_published(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that is called in a test's own process can't print another document."""
    from known_documents import checked
    from kvmark.cli import output

    as_text = output.json_text

    def text(name: str, fields: Mapping[str, object], indent: int | None = 2) -> str:
        written = as_text(name, fields, indent)
        checked(json.loads(written))
        return written

    monkeypatch.setattr(output, "json_text", text)
