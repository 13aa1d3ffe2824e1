"""What all tests have in common: examples, interrupts, and documents that are as published."""

import json
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

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


HEAVY_FIXTURES = frozenset({"node", "nodes", "cluster", "browser"})
"""Of tests with Java, a cluster of machines or a browser."""
HEAVY_FILES = frozenset({
    "boundary/test_what_can_be_taken_out.py",
    "commands/test_listing_runs.py",
    "end_to_end/test_experiments.py",
    "end_to_end/test_failing_systems.py",
    "end_to_end/test_interrupts.py",
    "end_to_end/test_ownership.py",
    "end_to_end/test_redis_faults.py",
    "end_to_end/test_secrets.py",
    "end_to_end/test_traces.py",
    "end_to_end/test_verification.py",
    "experiment/test_executed_studies.py",
    "experiment/test_resumed_studies.py",
    "fleet/test_wrong_use.py",
    "simulation/test_queues.py",
})  # fmt: skip
"""Files of tests that take minutes."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests that `make test` leaves out."""
    for item in items:
        names = frozenset(getattr(item, "fixturenames", ()))
        file = item.path.relative_to(Path(__file__).parent).as_posix()
        if names & HEAVY_FIXTURES or file in HEAVY_FILES:
            item.add_marker(pytest.mark.heavy)


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
