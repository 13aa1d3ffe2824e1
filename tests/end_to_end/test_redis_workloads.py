"""Redis's own workloads, and what a server that is killed has lost of what it acknowledged."""

from pathlib import Path
from typing import Any

from command_line import Kvmark

from kvmark import catalog
from kvmark.testbed import redis
from kvmark.testbed.console import connect
from kvmark.testbed.state import Testbed

READY = sorted(name for name in catalog.names() if name.startswith("redis/"))
SHORT = ("--operations", "300", "--records", "200", "-q", "--json")
KILLED = ("--duration", "4s", "--rate", "5000", "--records", "5000", "--clients", "4", "--verify")


def up(user: Kvmark, **wishes: Any) -> Testbed:
    """Starts servers on free loopback ports."""
    return redis.up(redis.RedisOptions(**wishes), Path(user.more["KVMARK_TESTBEDS"]))


def outcomes(manifest: dict[str, Any]) -> set[str]:
    return {total["outcome"] for total in manifest["engine"]["totals"]}


def test_every_ready_workload_does_what_it_says(user: Kvmark) -> None:
    testbed = up(user)
    for name in READY:
        document = user("run", name, "--system", testbed.url, *SHORT).json
        manifest = user.manifest(document["run"])
        statements = {one["name"] for one in manifest["plan"]["statements"]}
        recorded = {total["operation"] for total in manifest["engine"]["totals"]}
        assert outcomes(manifest) == {"ok"}, name
        assert recorded <= statements, name
        assert not [one for one in document["verdict"]["reasons"] if one["code"] == "wrong_mix"]
        connect(testbed, testbed.nodes[0]).ask("FLUSHALL")


def test_a_pipeline_of_any_depth_is_one_operation_with_that_many_records(user: Kvmark) -> None:
    testbed = up(user)
    words = ("run", "redis/pipelined", "--system", testbed.url, *SHORT, "--pipeline-depth", "50")
    manifest = user.manifest(user(*words).json["run"])
    piped = [one for one in manifest["engine"]["totals"] if one["operation"] in ("GET", "SET")]
    assert sum(total["count"] for total in piped) == 300
    assert all(total["rows"] == 50 * total["count"] for total in piped)


def test_commands_of_the_users_own_run_from_a_file(user: Kvmark, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(
        "dataset: {records: 50, fields: {count: 1, length: 8}}\n"
        "arguments: {value: field}\n"
        "statements:\n"
        "  SETEX: {does: update, run: 'SET {{{key}}}:x {value} EX 60'}\n"
        "  TTL: {does: read, run: 'TTL {{{key}}}:x'}\n"
        "load: SETEX\n"
        "groups: [{mix: {SETEX: 1, TTL: 1}}]\n"
    )
    testbed = up(user)
    manifest = user.manifest(
        user("run", str(file), "--system", testbed.url, "--operations", "100", "-q", "--json").json[
            "run"
        ]
    )
    assert outcomes(manifest) == {"ok"}
    client = connect(testbed, testbed.nodes[0])
    keys = client.ask("KEYS", "*:x")
    assert len(keys) == 50
    assert all(str(key).startswith("{user") for key in keys)
    assert 0 < int(str(client.ask("TTL", str(keys[0])))) <= 60


def killed(user: Kvmark, testbed: Testbed) -> dict[str, Any]:
    """The sweep after the server was killed in the middle of writing and started again."""
    words = ("run", "redis/set", "--system", testbed.url, *KILLED)
    fault = ("--fault", "500ms kill primary-1 for 200ms")
    document: dict[str, Any] = user(*words, *fault, "-q", "--json", exits=(0, 1)).json
    sweep: dict[str, Any] = document["summary"]["sweep"]
    return sweep


def test_a_server_that_logs_its_writes_loses_none_when_it_is_killed(user: Kvmark) -> None:
    # With "everysec" a write that meets a sync may be acknowledged before it is written.
    sweep = killed(user, up(user, appendonly=True, appendfsync="no"))
    assert sweep["records"] == 5000
    assert (sweep["missing"], sweep["stale"], sweep["unread"]) == (0, 0, 0)
    assert sweep["intact"] == 5000


def test_a_server_without_a_log_loses_acknowledged_writes_and_it_is_seen(user: Kvmark) -> None:
    sweep = killed(user, up(user, appendonly=False))
    assert sweep["missing"] + sweep["stale"] > 0
    assert user("show", "last", "--json").json["verdict"]["judgement"] == "INVALID"


def test_a_redis_cluster_is_measured_through_any_of_its_servers(user: Kvmark) -> None:
    testbed = up(user, cluster=3)
    document = user("run", "redis/set", "--system", testbed.url, *SHORT, "--verify").json
    manifest = user.manifest(document["run"])
    assert outcomes(manifest) == {"ok"}
    assert document["summary"]["sweep"]["intact"] == 200
    nodes = {node["name"] for node in manifest["testbed"]["nodes"]}
    assert len(nodes) == 3
