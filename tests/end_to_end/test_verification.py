"""What `--verify` finds on a real Redis from which somebody takes data while a run goes on."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import Kvmark, run_folders

from kvmark.testbed import redis
from kvmark.testbed.console import Console, connect
from waiting import wait_until

PIPELINES = """
dataset: {{records: 16, fields: {{count: 1, length: 20}}, key: {{prefix: "k", order: ordered}}}}
arguments: {{value: field}}
statements:
  WRITE: {{does: update, run: "{write}", commands: 16}}
  LOAD: {{does: insert, run: "{load}"}}
  LOOK: {{does: read, run: "{look}", expect: [value]}}
load: LOAD
probe: LOOK
groups: [{{mix: {{WRITE: 1}}, keys: sequential}}]
"""
"""Each operation updates all 16 records."""


def server(user: Kvmark) -> tuple[str, Console]:
    testbed = redis.up(redis.RedisOptions(), Path(user.more["KVMARK_TESTBEDS"]))
    return testbed.url, connect(testbed, testbed.nodes[0])


def commands(console: Console, name: str) -> int:
    """How often the server carried out a command."""
    lines = str(console.ask("INFO", "commandstats")).splitlines()
    found = (line for line in lines if line.startswith(f"cmdstat_{name}:calls="))
    return sum(int(line.partition("=")[2].partition(",")[0]) for line in found)


def read_back(
    user: Kvmark,
    words: tuple[object, ...],
    measures: Callable[[], bool],
    damage: Callable[[], None],
) -> dict[str, Any]:
    """What a run found whose data were damaged while it measured."""
    started = user.start("run", *words, "--duration", "8s", "--verify", "-q", "--json")
    wait_until(measures, "the run measures")
    damage()
    document = user.finish(started, exits=(0, 1)).json
    sweep: dict[str, Any] = document["summary"]["sweep"]
    lost = sweep["records"] - sweep["intact"]
    codes = [reason["code"] for reason in document["verdict"]["reasons"]]
    assert ("lost_writes" in codes) == (lost > 0)
    return sweep


def test_acknowledged_fields_and_records_that_are_gone_are_lost(user: Kvmark) -> None:
    url, console = server(user)
    words = ("ycsb/c", "--system", url, "--records", 1000, "--rate", 500)

    def damage() -> None:
        keys = sorted(str(key) for key in console.ask("KEYS", "user*"))
        for number, key in enumerate(keys[:58]):
            assert console.ask("HDEL", key, f"field{number % 10}") == 1
        assert console.ask("DEL", *keys[58:65]) == 7
        for key in keys[65:70]:
            assert console.ask("HSET", key, "field3", "something else") == 0

    sweep = read_back(user, words, lambda: commands(console, "hgetall") > 100, damage)
    found = {name: sweep[name] for name in ("records", "incomplete", "missing", "stale")}
    assert found == {"records": 1000, "incomplete": 58, "missing": 7, "stale": 5}
    assert sweep["intact"] == 930


def pipelines(user: Kvmark, url: str, **commands: str) -> Path:
    """A workload whose 16 records are loaded."""
    file = user.folder / "pipelines.yaml"
    file.write_text(PIPELINES.format(**commands))
    user("run", file, "--system", url, "--operations", 1, "-q", "--json")
    return file


def test_commands_beside_one_that_was_not_carried_out_are_verified(user: Kvmark) -> None:
    url, console = server(user)
    write, load, look = "SET {key} {value} XX", "SET {key} {value}", "GET {key}"
    file = pipelines(user, url, write=write, load=load, look=look)
    keys = sorted(str(key) for key in console.ask("KEYS", "k*"))
    # One command of each pipeline is answered with nil from now on.
    assert console.ask("DEL", keys[0]) == 1
    before = commands(console, "set")
    words = (file, "--system", url, "--load", "never", "--rate", 50)

    def damage() -> None:
        assert console.ask("DEL", *keys[11:]) == 5

    sweep = read_back(user, words, lambda: commands(console, "set") > before + 32, damage)
    found = {name: sweep[name] for name in ("records", "intact", "missing")}
    assert found == {"records": 15, "intact": 10, "missing": 5}


def test_commands_beside_one_that_was_refused_are_verified(user: Kvmark) -> None:
    url, console = server(user)
    write, look = "HSET {key} f {value}", "HGET {key} f"
    file = pipelines(user, url, write=write, load=write, look=look)
    console.ask("SET", sorted(str(key) for key in console.ask("KEYS", "k*"))[0], "of another type")
    words = ("--load", "never", "--operations", 5, "--verify", "-q", "--json")
    document = user("run", file, "--system", url, *words, exits=(0, 1, 3)).json
    sweep = document["summary"]["sweep"]
    assert (sweep["records"], sweep["intact"]) == (15, 15)


def test_a_set_that_returns_what_was_there_is_a_write(user: Kvmark) -> None:
    url, _ = server(user)
    file = pipelines(user, url, write="SET {key} {value} GET", load="SET {key} {value}",
                     look="GET {key}")  # fmt: skip
    text = file.read_text().replace("groups:", "  GONE: {does: delete, run: 'DEL {key}'}\ngroups:")
    text = text.replace(
        "load: LOAD\nprobe: LOOK\n  GONE: {does: delete, run: 'DEL {key}'}\n",
        "  GONE: {does: delete, run: 'DEL {key}'}\nload: LOAD\nprobe: LOOK\n",
    )
    file.write_text(text.replace("WRITE: 1", "WRITE: 1, GONE: 1"))
    words = ("--operations", 400, "--verify", "-q", "--json")
    sweep = user("run", file, "--system", url, *words, exits=(0, 1)).json["summary"]["sweep"]
    assert sweep["records"] == sweep["intact"] == 16


@pytest.mark.parametrize("verb", ["APPEND", "DEL"])
def test_a_value_that_is_changed_and_not_replaced_can_not_be_verified(
    user: Kvmark, verb: str
) -> None:
    file = user.folder / "changed.yaml"
    write, load = f"{verb} {{key}} {{value}}", "SET {key} {value}"
    file.write_text(PIPELINES.format(write=write, load=load, look="GET {key}"))
    told = user.refuses("run", file, "--system", "redis://127.0.0.1:1", "--verify")
    assert f"{verb} in WRITE" in told


WRONG: dict[str, Callable[[str], str | None]] = {
    "another record's value": lambda value: "0" * 8 + value[8:],
    "a byte short": lambda value: value[:-1],
    "empty": lambda _: "",
    "gone": lambda _: None,
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_a_read_that_returns_something_else_than_the_record_is_a_mismatch(
    user: Kvmark, wrong: Callable[[str], str | None]
) -> None:
    url, console = server(user)
    words = ("run", "ycsb/c", "--system", url, "--records", 10, "--operations", 2000, "-q")
    user(*words, exits=(0, 1))
    assert mismatches(user) == 0
    key = min(str(key) for key in console.ask("KEYS", "user*"))
    value = wrong(str(console.ask("HGET", key, "field3")))
    if value is None:
        console.ask("HDEL", key, "field3")
    else:
        console.ask("HSET", key, "field3", value)
    document = user(*words, "--json", exits=(0, 1)).json
    assert 0 < mismatches(user) < 2000
    assert "mismatches" in [reason["code"] for reason in document["verdict"]["reasons"]]
    assert document["verdict"]["judgement"] == "INVALID"


def test_what_another_tool_loaded_is_checked_by_number_and_length_alone(user: Kvmark) -> None:
    url, console = server(user)
    words = ("run", "ycsb/c", "--system", url, "--records", 10, "--operations", 2000, "-q")
    user(*words, exits=(0, 1))
    keys = [str(key) for key in console.ask("KEYS", "user*")]
    for key in keys:
        for field in range(10):
            console.ask("HSET", key, f"field{field}", "x" * 100)
    user(*words, exits=(0, 1))
    assert mismatches(user) == 0
    events = (run_folders(user.runs)[-1] / "events.jsonl").read_text()
    assert events.count("values_untagged") == 1
    console.ask("HSET", keys[0], "field0", "x" * 99)
    user(*words, exits=(0, 1))
    assert mismatches(user) > 0


def test_only_records_whose_tags_prove_them_ours_are_loaded_with_another_length(
    user: Kvmark,
) -> None:
    url, console = server(user)
    words = ("--system", url, "--records", 10, "--operations", 500, "-q")
    user("run", "ycsb/c", *words, exits=(0, 1))
    shorter = user.folder / "shorter.yaml"
    shorter.write_text("dataset: {fields: {length: 50}}\ngroups: [{mix: {read: 1}}]\n")
    user("run", shorter, *words, exits=(0, 1))
    keys = [str(key) for key in console.ask("KEYS", "user*")]
    assert mismatches(user) == 0
    assert {console.ask("HSTRLEN", key, "field0") for key in keys} == {50}
    # Values too short for a tag may be anybody's.
    for key in keys:
        for field in range(10):
            console.ask("HSET", key, f"field{field}", "x")
    user("run", shorter, *words, exits=1)
    assert mismatches(user) == 500
    assert {str(console.ask("HGET", key, "field0")) for key in keys} == {"x"}


def mismatches(user: Kvmark) -> int:
    """How many reads of the newest run returned something else."""
    totals = user.manifest()["engine"]["totals"]
    return sum(total["count"] for total in totals if total["outcome"] == "mismatch")
