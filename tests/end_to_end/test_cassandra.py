"""A real Cassandra node from the words a user types."""

import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from command_line import Kvmark

from kvmark import catalog
from kvmark.testbed import cassandra
from kvmark.testbed.control import take_down
from kvmark.testbed.state import Testbed

READY = sorted(name for name in catalog.names() if name.startswith("cql/"))


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Testbed]:
    """One node, which all tests of this file use."""
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} isn't installed")
    root = tmp_path_factory.mktemp("testbeds")
    yield cassandra.up(cassandra.Wanted(), root, lambda _: None)
    take_down(root)


def outcomes(manifest: dict[str, Any]) -> set[str]:
    return {total["outcome"] for total in manifest["engine"]["totals"]}


def test_the_whole_sequence_of_ycsb_runs_on_its_own_table(user: Kvmark, node: Testbed) -> None:
    words = ("--records", "200", "--repetitions", "1", "--report", "none", "-q", "--json")
    document = user("ycsb", "--system", node.url, *words).json
    assert next(row["case"]["workload"] for row in document["rows"]) == "load"
    for run in document["runs"]:
        manifest = user.manifest(run)
        assert outcomes(manifest) == {"ok"}, run
        assert manifest["engine"]["system"]["system"] == "Cassandra"
        assert manifest["testbed"]["observed"] is True


@pytest.mark.parametrize("name", READY)
def test_every_ready_workload_does_what_it_says(user: Kvmark, node: Testbed, name: str) -> None:
    words = ("--operations", "300", "--records", "100", "-q", "--json")
    document = user("run", name, "--system", node.url, *words).json
    manifest = user.manifest(document["run"])
    assert outcomes(manifest) <= {"ok", "miss"}, name
    misses = [one for one in manifest["engine"]["totals"] if one["outcome"] == "miss"]
    assert not misses or name == "cql/time-series"


def test_every_acknowledged_row_is_there_when_it_is_read_back(user: Kvmark, node: Testbed) -> None:
    words = ("--operations", "500", "--records", "100", "--load", "always", "--verify")
    words = (*words, "-q", "--json")
    sweep = user("run", "cql/kv", "--system", node.url, *words).json["summary"]["sweep"]
    assert (sweep["records"], sweep["intact"]) == (100, 100)


@pytest.fixture
def user(kvmark: Kvmark, node: Testbed) -> Kvmark:
    """Someone who knows where the testbeds are."""
    kvmark.more["KVMARK_TESTBEDS"] = str(node.folder.parent)
    return kvmark
