"""A real Redis server from the words a user types: measured, watched, broken, and unharmed."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from command_line import Going, Kvmark, run_folders

from kvmark.secret import Secret
from kvmark.testbed import redis
from kvmark.testbed.console import connect
from kvmark.testbed.state import Testbed
from waiting import wait_until

SECRET = "Ov3rh4rd"
SMALL = ("--records", "200", "--repetitions", "1", "--report", "none", "-q")
STEPS = ("load", "A", "B", "C", "F", "D", "delete", "reload", "E")


def up(user: Kvmark, **wishes: Any) -> Testbed:
    """Starts a server on a free loopback port."""
    return redis.up(redis.RedisOptions(**wishes), Path(user.more["KVMARK_TESTBEDS"]))


def again(testbed: Testbed) -> Testbed:
    """The testbed as it is now."""
    return Testbed.read(testbed.folder)


def keys(testbed: Testbed) -> object:
    return connect(testbed, testbed.nodes[0]).ask("DBSIZE")


def measured(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    """The totals of the phase that measures."""
    phases = manifest["engine"]["phases"]
    index = next(one["index"] for one in phases if one["name"] == "measure")
    return [total for total in manifest["engine"]["totals"] if total["phase"] == index]


def reasons(user: Kvmark) -> dict[str, str]:
    shown = user("show", "last", "--json").json
    return {reason["code"]: reason["level"] for reason in shown["verdict"]["reasons"]}


def faults(user: Kvmark) -> list[dict[str, Any]]:
    log = run_folders(user.runs)[-1] / "events.jsonl"
    events = [json.loads(line) for line in log.read_text().splitlines()]
    return [event for event in events if event["kind"] == "fault"]


def test_what_a_run_loaded_is_there_after_down_and_up(user: Kvmark) -> None:
    words = ("run", "ycsb/c", "--system", "up:redis", "--records", 200, "--operations", 200, "-q")
    root = Path(user.more["KVMARK_TESTBEDS"])
    user("up", "redis", "--appendonly", "yes")
    user(*words)
    loaded = keys(Testbed.read(root / "redis"))
    user("down", "redis")
    assert "is down; bring it back with kvmark up redis" in user(*words, exits=2).err
    assert "is up again as 'redis'" in user("up", "redis").out
    assert keys(Testbed.read(root / "redis")) == loaded != 0
    user(*words, "--load", "never")
    manifest = json.loads((run_folders(user.runs)[-1] / "manifest.json").read_text())
    assert {total["outcome"] for total in measured(manifest)} == {"ok"}


def test_the_whole_sequence_runs_and_loses_nothing(user: Kvmark) -> None:
    testbed = up(user)
    document = user("ycsb", "--system", testbed.url, *SMALL, "--json").json
    assert [row["case"]["workload"] for row in document["rows"]] == list(STEPS)
    for run in document["runs"]:
        manifest = user.manifest(run)
        assert {total["outcome"] for total in manifest["engine"]["totals"]} == {"ok"}, run
        assert manifest["engine"]["system"]["system"] == "Redis"
        assert manifest["testbed"]["observed"] is True
    # The last load, the inserts of workload E, and the sorted set that scans need.
    assert int(str(keys(testbed))) > 200


def test_a_sequence_is_repeated_on_an_empty_database_each_time(user: Kvmark) -> None:
    testbed = up(user)
    words = ("--records", "100,50", "--workloads", "load,c", "--repetitions", "2")
    words = (*words, "--report", "none", "-q")
    # Two repetitions of so little may be imprecise, which is no.
    user("ycsb", "--system", testbed.url, *words, exits=(0, 1))
    assert len(run_folders(user.runs)) == 8
    # What a smaller load would have left of a larger one is gone.
    # Records, their index, and the mark that they are the sequence's own.
    assert keys(testbed) in (52, 102)


def test_records_that_are_there_are_not_loaded_over_unasked(user: Kvmark) -> None:
    testbed = up(user)
    connect(testbed, testbed.nodes[0]).ask("SET", "mine", "dear")
    words = ("ycsb", "--system", testbed.url, "--workloads", "load", *SMALL)
    sentence = user.refuses(*words)
    assert "already holds 1 keys" in sentence
    assert "--on-existing" in sentence
    user(*words, "--on-existing", "keep")
    assert keys(testbed) == 202
    user(*words, "--on-existing", "remove")
    assert keys(testbed) == 201


def test_one_run_takes_every_option(user: Kvmark) -> None:
    url = f"{up(user).url}/2?connections=1&pipeline_parts=true&protocol=3"
    words = ("--clients", "4", "--rate", "2000", "--arrival", "poisson", "--duration", "1200ms")
    words = (*words, "--warmup", "100ms", "--interval", "100ms", "--timeout", "1m", "--workers")
    words = (*words, "1", "--records", "100", "--tag", "all", "-q")
    # How well it was measured depends on the machine.
    user("run", "ycsb/a", "--system", url, *words, exits=(0, 1))
    manifest = user.manifest()
    assert manifest["plan"]["system"]["options"]["database"] == "2"
    assert manifest["engine"]["capabilities"]["speedups"] == []
    assert {total["outcome"] for total in measured(manifest)} == {"ok"}


def test_a_sequence_names_the_option_that_makes_its_scans_quicker(user: Kvmark) -> None:
    words = ("--records", "1000", "--workloads", "load,c,e", "--repetitions", "1")
    done = user("ycsb", "--system", up(user).url, *words, "--report", "none")
    told = " ".join(done.out.split())
    assert "% of the time of a repetition. pipeline_parts=true in the URL of the system" in told


def test_each_server_is_watched_beside_the_generator(user: Kvmark) -> None:
    testbed = up(user, replicas=1, settings=(("maxmemory", "100mb"),))
    user("run", "ycsb/a", "--system", testbed.url, "--duration", "1500ms", "-q")
    manifest, folder = user.manifest(), run_folders(user.runs)[-1]
    assert manifest["testbed"]["settings"]["maxmemory"] == str(100 * 2**20)
    assert [node["role"] for node in manifest["testbed"]["nodes"]] == ["primary", "replica"]
    rows = pl.read_parquet(folder / "resources.parquet")
    assert set(rows["node"]) == {"coordinator", "generator", "primary-1", "replica-1"}
    server = rows.filter(pl.col("node") == "primary-1").sort("at_wall_ns")
    for counter in ("cpu_user_s", "network_received_bytes", "network_sent_bytes"):
        # A server that is late with its answer is not waited for.
        known = server[counter].drop_nulls()
        assert known[-1] > known[0]
    assert server["resident_bytes"].min() > 2**20


def test_a_server_elsewhere_is_measured_and_not_watched(user: Kvmark, tmp_path: Path) -> None:
    testbed = up(user)
    user.more["KVMARK_TESTBEDS"] = str(tmp_path / "none")
    words = ("--system", testbed.url, "--operations", "500", "-q")
    user("run", "ycsb/a", *words)
    seen = user.manifest()["testbed"]
    assert seen["observed"] is False
    assert testbed.nodes[0].address in seen["reason"]
    assert "kvmark up" in user.refuses(
        "run", "ycsb/a", *words, "--fault", "0s kill primary-1 for 1s"
    )


def test_a_testbed_goes_by_its_name(user: Kvmark) -> None:
    up(user, name="mine", password=Secret("hush"))
    for word in ("up:mine", "up:", "up:mine?protocol=3"):
        user("run", "ycsb/c", "--system", word, "--operations", "100", "-q")
    options = user.manifest()["plan"]["system"]["options"]
    assert "password_file" in options
    assert options["protocol"] == "3"


@pytest.mark.parametrize("who", [f":{SECRET}", f"default:{SECRET}"])
def test_a_password_stands_in_no_record_and_no_list_of_processes(
    user: Kvmark, going: Callable[..., Going], who: str
) -> None:
    testbed = up(user, password=Secret(SECRET))
    url = f"redis://{who}@{testbed.nodes[0].address}/0"
    run = going("ycsb/a", "--system", url, "--duration", "1h", "--interval", "50ms")
    run.wait_for_intervals(3)
    seen = Path(f"/proc/{run.process.pid}/cmdline").read_bytes()
    assert b"--system" in seen
    assert SECRET.encode() not in seen
    run.interrupt()
    result = run.finish(exits=130)
    assert SECRET not in result.out + result.err
    for path in user.folder.rglob("*"):
        own = path.is_relative_to(testbed.folder)
        assert own or not path.is_file() or SECRET.encode() not in path.read_bytes(), path
    words = ("ycsb", "--system", url, "--workloads", "load", *SMALL)
    assert SECRET not in user.refuses(*words)
    user(*words, "--on-existing", "remove")


def test_a_wrong_password_is_one_sentence_without_it(user: Kvmark) -> None:
    address = up(user, password=Secret("hush")).nodes[0].address
    words = ("--system", f"redis://:{SECRET}@{address}", "-q")
    assert SECRET not in user.refuses("run", "ycsb/a", *words, exits=3)
    assert SECRET not in user.refuses("ycsb", *words, exits=3)


def until_the_fault_is_over(run: Going) -> None:
    """Interrupts a run of an hour when what was broken in it is whole again."""
    log = run.folder / "events.jsonl"
    wait_until(lambda: log.exists() and '"ended"' in log.read_text(), "the fault is over")
    run.interrupt()
    run.finish(exits=130)


def test_a_pause_shows_in_the_response_time_and_is_no_doubt(
    user: Kvmark, going: Callable[..., Going]
) -> None:
    testbed = up(user)
    words = ("--rate", "500", "--clients", "64", "--duration", "1h", "--interval", "100ms")
    fault = ("--fault", "300ms pause primary-1 for 400ms", "--records", "100", "-q")
    until_the_fault_is_over(going("ycsb/c", "--system", testbed.url, *words, *fault))
    begun, ended = faults(user)
    assert (begun["state"], ended["state"]) == ("begun", "ended")
    manifest = user.manifest()
    phase = next(one for one in manifest["engine"]["phases"] if one["name"] == "measure")
    assert begun["at_ns"] >= phase["start_ns"] + 300_000_000
    assert ended["at_ns"] >= phase["start_ns"] + 700_000_000
    assert max(total["response"]["max"] for total in measured(manifest)) >= 350_000_000
    assert manifest["spec"]["faults"][0]["node"] == "primary-1"
    assert not {"errors", "errors_during_faults", "fault_not_carried_out"} & set(reasons(user))
    user("runs", "report", "last", "-o", "fault.html")
    assert "pause primary-1" in (user.folder / "fault.html").read_text()


def test_failures_while_a_server_is_killed_are_expected(
    user: Kvmark, going: Callable[..., Going]
) -> None:
    testbed = up(user, appendonly=True, appendfsync="always")
    (user.folder / "faults.yaml").write_text(
        "faults:\n  - {at: 300ms, do: kill, node: primary-1, for: 200ms}\n"
    )
    words = ("--clients", "4", "--rate", "500", "--duration", "1h", "--interval", "100ms")
    words = (*words, "--timeout", "1m", "--records", "100", "--faults", "faults.yaml", "-q")
    until_the_fault_is_over(going("ycsb/a", "--system", testbed.url, *words))
    assert [event["state"] for event in faults(user)] == ["begun", "ended"]
    assert {total["outcome"] for total in measured(user.manifest())} > {"ok"}
    found = reasons(user)
    assert found["errors_during_faults"] == "NOTE"
    assert not {"errors", "misses", "fault_not_carried_out"} & set(found)
    assert keys(again(testbed)) == 101


def test_an_interrupted_run_leaves_its_servers_as_they_were(
    user: Kvmark, going: Callable[..., Going]
) -> None:
    testbed = up(user)
    words = ("--duration", "1h", "--drain-limit", "1h", "--interval", "50ms", "-q")
    fault = ("--fault", "0s pause primary-1")
    run = going("ycsb/c", "--system", testbed.url, "--records", "10", *words, *fault)
    log = run.folder / "events.jsonl"
    wait_until(lambda: log.exists() and '"begun"' in log.read_text(), "the fault has begun")
    run.interrupt()
    run.finish(exits=130)
    assert [event["state"] for event in faults(user)] == ["begun", "ended"]
    assert keys(testbed) == 11


def test_a_fault_of_a_server_that_is_not_there_is_refused(user: Kvmark) -> None:
    testbed = up(user)
    words = ("--system", testbed.url, "--duration", "1h", "--fault", "1s kill primary-2")
    sentence = user.refuses("run", "ycsb/a", *words)
    assert "has no node 'primary-2'; it has primary-1" in sentence
    assert keys(testbed) == 0


def test_evicted_records_make_a_run_suspect(user: Kvmark) -> None:
    testbed = up(user, settings=(("maxmemory", "3mb"), ("maxmemory-policy", "allkeys-random")))
    words = ("--system", testbed.url, "--records", "4000", "-q")
    user("run", "ycsb/load", *words, exits=(0, 1))
    assert reasons(user)["evictions"] == "SUSPECT"
