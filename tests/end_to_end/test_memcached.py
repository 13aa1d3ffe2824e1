"""A real memcached: measured, observed, broken on purpose, and behind a proxy."""

import shutil
from pathlib import Path

import pytest
from command_line import Kvmark, outcomes, phase
from real_servers import memcached_up, require

SMALL = "--records 200 --repetitions 1 --report none -q"
STEPS = ["load", "A", "B", "C", "F", "D", "delete", "reload"]


def test_the_sequence_runs_without_scans_and_without_errors(user: Kvmark) -> None:
    testbed = memcached_up(user)
    result = user(f"ycsb --system {testbed.url} {SMALL} --json")
    assert "e is left out: memcached has no scan operations" in result.err
    assert [row["case"]["workload"] for row in result.json["rows"]] == STEPS
    for run in result.json["runs"]:
        manifest = user.manifest(run)
        assert outcomes(manifest) == {"ok"}, run
        assert manifest["engine"]["system"]["system"] == "memcached"
        assert manifest["testbed"]["observed"] is True
    words = f"ycsb --system {testbed.url} --workloads load {SMALL}"
    assert "already holds" in user.refuses(words)
    user(words, "--on-existing", "remove")


def test_requested_scans_are_refused(user: Kvmark) -> None:
    words = f"ycsb --system {memcached_up(user).url} --workloads load,e {SMALL}"
    expected = "workloads: memcached has no scan operations, which e needs: leave it out"
    assert user.refuses(words).endswith(expected)


def test_a_run_is_verified_counted_and_described(user: Kvmark) -> None:
    require("memcached")
    user("up memcached --nodes 2 --memory 64M --threads 1 --password --tls")
    words = "run ycsb/a --system up:memcached --records 300 --operations 2000 --clients 4"
    user(f"{words} --verify -q", exits=(0, 1))
    manifest = user.manifest()
    assert outcomes(manifest) == {"ok"}
    configuration = manifest["engine"]["system"]["configuration"]
    assert (configuration["num_threads"], configuration["servers"]) == ("1", "2")
    assert [node["name"] for node in manifest["testbed"]["nodes"]] == ["node-1", "node-2"]
    statistics = phase(manifest)["statistics"]
    increases = {name: one["after"] - one["before"] for name, one in statistics.items()}
    # Each update reads the record, too.
    assert increases["get_hits"] >= 2000
    assert increases["cas_hits"] > 0
    assert statistics["node_share_max"]["after"] < 0.7
    user("down memcached")
    assert "memcached keeps its data in memory only" in user("up memcached").out


def test_a_killed_server_comes_back_without_its_records(user: Kvmark) -> None:
    words = f"run memcached/kv --system {memcached_up(user).url} --clients 4 --duration 3s"
    faults = ("--fault", "500ms pause node-1 for 300ms", "--fault", "1500ms kill node-1 for 300ms")
    user(words, "--interval", "100ms", "-q", *faults, exits=1)
    assert outcomes(user.manifest()) == {"ok", "connection", "miss"}


def test_gets_of_many_keys_run_and_an_unknown_command_is_refused(user: Kvmark) -> None:
    words = f"--system {memcached_up(user, nodes=2).url} --records 500 --operations 1000"
    user(f"run memcached/gets {words} --clients 4 -q", exits=(0, 1))
    assert outcomes(user.manifest()) == {"ok"}
    text = user("workloads memcached/kv").out.replace("GET {key}", "GTE {key}")
    (user.folder / "mine.yaml").write_text(text)
    sentence = user.refuses(f"run ./mine.yaml {words} --clients 4 -q")
    assert "there is no command GTE; did you mean GET?" in sentence


def test_a_proxy_before_memcached_is_measured(user: Kvmark) -> None:
    if shutil.which("haproxy") is None and not Path("/usr/sbin/haproxy").exists():
        pytest.skip("haproxy isn't installed: apt-get install haproxy")
    require("memcached")
    user("up memcached --memory 64M")
    user("up proxy --kind haproxy --to up:memcached")
    words = "--records 200 --operations 1000 --clients 4 -q"
    user(f"run ycsb/a --system up:haproxy {words}", exits=(0, 1))
    assert outcomes(user.manifest()) == {"ok"}
    sentence = user.refuses("up proxy --kind shotover --to up:memcached")
    assert "shotover doesn't speak what" in sentence
