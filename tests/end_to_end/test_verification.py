"""`--verify` and the check of reads on a real Redis whose data change during a run."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import Kvmark, levels, run_folders
from real_servers import command_counts, redis_up

from kvmark.testbed.console import Console, connect
from waiting import wait_until

PIPELINES = """
dataset: {{records: 16, fields: {{count: 1, length: 20}}, key: {{prefix: "k", order: ordered}}}}
arguments: {{value: field}}
statements:
  WRITE: {{does: update, run: "{write}", commands: 16}}
  LOAD: {{does: insert, run: "{load}"}}
  LOOK: {{does: read, run: "{look}", expect: [value]}}
  GONE: {{does: delete, run: "DEL {{key}}"}}
load: LOAD
probe: LOOK
groups: [{{mix: {{WRITE: 1{mix}}}, keys: sequential}}]
"""
"""Each write updates all 16 records."""
SET, GET = "SET {key} {value}", "GET {key}"


class Server:
    """A Redis server, and a connection with it."""

    def __init__(self, user: Kvmark) -> None:
        testbed = redis_up(user)
        self.url, self.port = testbed.url, testbed.nodes[0].port
        self.console: Console = connect(testbed, testbed.nodes[0])

    def record_keys(self) -> list[str]:
        return sorted(str(key) for key in self.console.ask("KEYS", "*[0-9]"))

    def calls(self, name: str) -> int:
        return command_counts(self.port).get(name, 0)


@pytest.fixture
def server(user: Kvmark) -> Server:
    return Server(user)


def sweep_after(
    user: Kvmark, command: str, measures: Callable[[], bool], damage: Callable[[], None]
) -> dict[str, Any]:
    """The result of reading back after damage during the measurement."""
    started = user.start(command, "--duration", "8s", "--verify", "-q", "--json")
    wait_until(measures, "the run measures")
    damage()
    document = user.finish(started, exits=(0, 1)).json
    sweep: dict[str, Any] = document["summary"]["sweep"]
    lost = sweep["records"] - sweep["intact"]
    assert ("lost_writes" in levels(document["verdict"])) == (lost > 0)
    return sweep


def test_removed_fields_and_records_are_lost_writes(user: Kvmark, server: Server) -> None:
    ask = server.console.ask

    def damage() -> None:
        keys = server.record_keys()
        for number, key in enumerate(keys[:58]):
            assert ask("HDEL", key, f"field{number % 10}") == 1
        assert ask("DEL", *keys[58:65]) == 7
        for key in keys[65:70]:
            assert ask("HSET", key, "field3", "something else") == 0

    command = f"run ycsb/c --system {server.url} --records 1000 --rate 500"
    sweep = sweep_after(user, command, lambda: server.calls("hgetall") > 100, damage)
    names = ("records", "incomplete", "missing", "stale", "intact")
    assert [sweep[name] for name in names] == [1000, 58, 7, 5, 930]


def pipelines(user: Kvmark, url: str, write: str, load: str, look: str, mix: str = "") -> Path:
    """A workload whose 16 records are loaded."""
    file = user.folder / "pipelines.yaml"
    file.write_text(PIPELINES.format(write=write, load=load, look=look, mix=mix))
    user(f"run {file} --system {url} --operations 1 -q --json")
    return file


def test_commands_after_a_miss_in_a_pipeline_are_verified(user: Kvmark, server: Server) -> None:
    file = pipelines(user, server.url, f"{SET} XX", SET, GET)
    keys = server.record_keys()
    # From now on the response to one command of each pipeline is null.
    assert server.console.ask("DEL", keys[0]) == 1
    before = server.calls("set")

    def damage() -> None:
        assert server.console.ask("DEL", *keys[11:]) == 5

    command = f"run {file} --system {server.url} --load never --rate 50"
    sweep = sweep_after(user, command, lambda: server.calls("set") > before + 32, damage)
    assert [sweep[name] for name in ("records", "intact", "missing")] == [15, 10, 5]


def test_commands_after_an_error_in_a_pipeline_are_verified(user: Kvmark, server: Server) -> None:
    write = "HSET {key} f {value}"
    file = pipelines(user, server.url, write, write, "HGET {key} f")
    server.console.ask("SET", server.record_keys()[0], "of another type")
    words = f"run {file} --system {server.url} --load never --operations 5 --verify -q --json"
    sweep = user(words, exits=(0, 1, 3)).json["summary"]["sweep"]
    assert (sweep["records"], sweep["intact"]) == (15, 15)


def test_a_set_that_returns_the_previous_value_is_a_write(user: Kvmark, server: Server) -> None:
    file = pipelines(user, server.url, f"{SET} GET", SET, GET, mix=", GONE: 1")
    words = f"run {file} --system {server.url} --operations 400 --verify -q --json"
    sweep = user(words, exits=(0, 1)).json["summary"]["sweep"]
    assert sweep["records"] == sweep["intact"] == 16


@pytest.mark.parametrize("verb", ["APPEND", "DEL"])
def test_a_value_changed_in_place_is_not_verifiable(user: Kvmark, verb: str) -> None:
    file = user.folder / "changed.yaml"
    file.write_text(PIPELINES.format(write=f"{verb} {{key}} {{value}}", load=SET, look=GET, mix=""))
    sentence = user.refuses(f"run {file} --system redis://127.0.0.1:1 --verify")
    assert f"{verb} in WRITE" in sentence


WRONG: dict[str, Callable[[str], str | None]] = {
    "another record's value": lambda value: "0" * 8 + value[8:],
    "a byte short": lambda value: value[:-1],
    "empty": lambda _: "",
    "removed": lambda _: None,
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_a_read_that_returns_something_else_than_the_record_is_a_mismatch(
    user: Kvmark, server: Server, wrong: Callable[[str], str | None]
) -> None:
    words = f"run ycsb/c --system {server.url} --records 10 --operations 2000 -q"
    user(words, exits=(0, 1))
    assert mismatches(user) == 0
    key = server.record_keys()[0]
    value = wrong(str(server.console.ask("HGET", key, "field3")))
    if value is None:
        server.console.ask("HDEL", key, "field3")
    else:
        server.console.ask("HSET", key, "field3", value)
    verdict = user(words, "--json", exits=(0, 1)).json["verdict"]
    assert 0 < mismatches(user) < 2000
    assert "mismatches" in levels(verdict)
    assert verdict["judgement"] == "INVALID"


def replace_values(server: Server, value: str) -> None:
    """Replaces all fields of all records."""
    for key in server.record_keys():
        for field in range(10):
            server.console.ask("HSET", key, f"field{field}", value)


def test_fields_of_another_tool_are_counted_and_measured(user: Kvmark, server: Server) -> None:
    words = f"run ycsb/c --system {server.url} --records 10 --operations 2000 -q"
    user(words, exits=(0, 1))
    replace_values(server, "x" * 100)
    user(words, exits=(0, 1))
    assert mismatches(user) == 0
    events = (run_folders(user.runs)[-1] / "events.jsonl").read_text()
    assert events.count("values_untagged") == 1
    server.console.ask("HSET", server.record_keys()[0], "field0", "x" * 99)
    user(words, exits=(0, 1))
    assert mismatches(user) > 0


def test_only_records_with_our_tags_are_reloaded(user: Kvmark, server: Server) -> None:
    words = f"--system {server.url} --records 10 --operations 500 -q"
    user(f"run ycsb/c {words}", exits=(0, 1))
    shorter = user.folder / "shorter.yaml"
    shorter.write_text("dataset: {fields: {length: 50}}\ngroups: [{mix: {read: 1}}]\n")
    user(f"run {shorter} {words}", exits=(0, 1))
    assert mismatches(user) == 0
    assert {server.console.ask("HSTRLEN", key, "field0") for key in server.record_keys()} == {50}
    # A value without room for a tag may come from another tool.
    replace_values(server, "x")
    user(f"run {shorter} {words}", exits=1)
    assert mismatches(user) == 500
    values = {str(server.console.ask("HGET", key, "field0")) for key in server.record_keys()}
    assert values == {"x"}


def mismatches(user: Kvmark) -> int:
    """The mismatches among the reads of the newest run."""
    totals = user.manifest()["engine"]["totals"]
    return sum(total["count"] for total in totals if total["outcome"] == "mismatch")
