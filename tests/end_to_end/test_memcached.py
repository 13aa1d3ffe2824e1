"""A real memcached from the words a user types: measured, watched, broken, behind a proxy."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import Kvmark

from kvmark.testbed import memcached
from kvmark.testbed.control import take_down
from kvmark.testbed.state import Testbed

SMALL = ("--records", "200", "--repetitions", "1", "--report", "none", "-q")
STEPS = ("load", "A", "B", "C", "F", "D", "delete", "reload")


@pytest.fixture
def user(kvmark: Kvmark, tmp_path: Path) -> Iterator[Kvmark]:
    """Someone with a place for testbeds of their own."""
    if shutil.which("memcached") is None:
        pytest.skip("memcached isn't installed: apt-get install memcached")
    kvmark.more["KVMARK_TESTBEDS"] = str(tmp_path / "testbeds")
    yield kvmark
    take_down(tmp_path / "testbeds")


def up(user: Kvmark, **wishes: Any) -> Testbed:
    """Starts servers on free loopback ports."""
    wanted = memcached.MemcachedOptions(memory_bytes=2**26, **wishes)
    return memcached.up(wanted, Path(user.more["KVMARK_TESTBEDS"]))


def outcomes(manifest: dict[str, Any]) -> set[str]:
    return {total["outcome"] for total in manifest["engine"]["totals"] if total["count"]}


def test_the_sequence_runs_but_for_scans_and_loses_nothing(user: Kvmark) -> None:
    testbed = up(user)
    said = user("ycsb", "--system", testbed.url, *SMALL, "--json")
    assert "e is left out: memcached has no scan operations" in said.err
    document = said.json
    assert [row["case"]["workload"] for row in document["rows"]] == list(STEPS)
    for run in document["runs"]:
        manifest = user.manifest(run)
        assert outcomes(manifest) == {"ok"}, run
        assert manifest["engine"]["system"]["system"] == "memcached"
        assert manifest["testbed"]["observed"] is True
    sentence = user.refuses("ycsb", "--system", testbed.url, "--workloads", "load", *SMALL)
    assert "already holds" in sentence
    user("ycsb", "--system", testbed.url, "--workloads", "load", *SMALL, "--on-existing", "remove")


def test_scans_are_refused_where_they_are_asked_for(user: Kvmark) -> None:
    testbed = up(user)
    sentence = user.refuses("ycsb", "--system", testbed.url, "--workloads", "load,e", *SMALL)
    expected = "workloads: memcached has no scan operations, which e needs: leave it out"
    assert sentence.endswith(expected)


def test_a_run_is_verified_counted_and_described(user: Kvmark) -> None:
    user("up", "memcached", "--nodes", 2, "--memory", "64M", "--threads", 1, "--password", "--tls")
    words = ("--records", 300, "--operations", 2000, "--clients", 4, "--verify", "-q")
    user("run", "ycsb/a", "--system", "up:memcached", *words, exits=(0, 1))
    manifest = user.manifest()
    assert outcomes(manifest) == {"ok"}
    assert manifest["engine"]["system"]["configuration"]["num_threads"] == "1"
    assert manifest["engine"]["system"]["configuration"]["servers"] == "2"
    assert [node["name"] for node in manifest["testbed"]["nodes"]] == ["node-1", "node-2"]
    phase = next(one for one in manifest["engine"]["phases"] if one["name"] == "measure")
    rose = {name: one["after"] - one["before"] for name, one in phase["statistics"].items()}
    # Each update reads the record, too.
    assert rose["get_hits"] >= 2000
    assert rose["cas_hits"] > 0
    assert phase["statistics"]["node_share_max"]["after"] < 0.7
    assert "memcached keeps its data in memory only" in again(user)


def again(user: Kvmark) -> str:
    """What is said when the servers are down and up again."""
    user("down", "memcached")
    return user("up", "memcached").out


def test_a_server_is_broken_on_purpose_and_comes_back_without_its_records(user: Kvmark) -> None:
    testbed = up(user)
    words = ("--clients", 4, "--duration", "3s", "--interval", "100ms", "-q")
    faults = ("--fault", "500ms pause node-1 for 300ms", "--fault", "1500ms kill node-1 for 300ms")
    user("run", "memcached/kv", "--system", testbed.url, *words, *faults, exits=1)
    found = outcomes(user.manifest())
    assert {"ok", "connection", "miss"} <= found <= {"ok", "connection", "miss"}


def test_gets_of_many_keys_and_commands_of_ones_own_run(user: Kvmark, tmp_path: Path) -> None:
    testbed = up(user, nodes=2)
    words = ("--records", 500, "--operations", 1000, "--clients", 4, "-q")
    user("run", "memcached/gets", "--system", testbed.url, *words, exits=(0, 1))
    assert outcomes(user.manifest()) == {"ok"}
    text = user("workloads", "memcached/kv").out.replace("GET {key}", "GTE {key}")
    (tmp_path / "mine.yaml").write_text(text)
    sentence = user.refuses("run", "./mine.yaml", "--system", testbed.url, *words)
    assert "there is no command GTE; did you mean GET?" in sentence


def test_a_proxy_stands_before_it(user: Kvmark) -> None:
    if shutil.which("haproxy") is None and not Path("/usr/sbin/haproxy").exists():
        pytest.skip("haproxy isn't installed: apt-get install haproxy")
    user("up", "memcached", "--memory", "64M")
    user("up", "proxy", "--kind", "haproxy", "--to", "up:memcached")
    words = ("--records", 200, "--operations", 1000, "--clients", 4, "-q")
    user("run", "ycsb/a", "--system", "up:haproxy", *words, exits=(0, 1))
    assert outcomes(user.manifest()) == {"ok"}
    sentence = user.refuses("up", "proxy", "--kind", "shotover", "--to", "up:memcached")
    assert "shotover doesn't speak what" in sentence
