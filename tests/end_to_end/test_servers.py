"""Real Redis and memcached servers: sequences, workloads, runs, and what observers record."""

import re

import polars as pl
import pytest
from command_line import Kvmark, counts, levels, outcomes, phase, run_folders, totals
from real_servers import key_count, memcached_up, redis_up

from kvmark import catalog
from kvmark.secret import Secret
from kvmark.testbed.console import connect
from kvmark.testbed.state import Testbed
from programs import needs

SMALL = "--records 200 --operations 200 --repetitions 1 --report none -q"
STEPS = ["load", "A", "B", "C", "F", "D"]
PUBLISHED = [*STEPS, "delete", "reload", "E"]
SHORT = "--operations 300 --records 200"
OWN_COMMANDS = """
dataset: {records: 50, fields: {count: 1, length: 8}}
arguments: {value: field}
statements:
  SETEX: {does: update, run: 'SET {{{key}}}:x {value} EX 60'}
  TTL: {does: read, run: 'TTL {{{key}}}:x'}
load: SETEX
groups: [{mix: {SETEX: 1, TTL: 1}}]
"""


@pytest.mark.parametrize("system", ["Redis", "memcached"])
def test_the_complete_sequence_runs_without_errors(user: Kvmark, system: str) -> None:
    testbed = redis_up(user) if system == "Redis" else memcached_up(user)
    words = f"ycsb --system {testbed.url} {SMALL}"
    # The sequence of memcached leaves out what it can't do.
    steps = PUBLISHED if system == "Redis" else STEPS
    named = f" --workloads {','.join(steps).lower()}" if system == "Redis" else ""
    result = user(f"{words}{named} --json")
    assert [row["case"]["workload"] for row in result.json["rows"]] == steps
    for run in result.json["runs"]:
        manifest = user.manifest(run)
        assert outcomes(manifest) == {"ok"}, run
        assert manifest["engine"]["system"]["system"] == system
        assert manifest["testbed"]["observed"] is True
    if system == "Redis":
        # The last load, the inserts of workload E, and the sorted set that scans need.
        assert key_count(testbed) > 200
        return
    assert "e is left out: memcached has no scan operations" in result.err
    sentence = user.refuses(words, "--workloads", "load,e")
    expected = "workloads: memcached has no scan operations, which e needs: leave it out"
    assert sentence.endswith(expected)
    assert "already holds" in user.refuses(words, "--workloads", "load")
    user(words, "--workloads", "load", "--on-existing", "remove")


def test_valkey_is_started_like_redis_and_has_its_own_name(user: Kvmark) -> None:
    up = user("up valkey --appendonly yes")
    assert "is up as 'valkey'" in up.out
    user(f"run redis/kv --system up:valkey {SHORT} -q", exits=(0, 1))
    (manifest,) = user.manifests()
    assert manifest["engine"]["system"]["system"] == "Valkey"
    assert manifest["testbed"]["settings"]["appendonly"] == "yes"
    user("down valkey")
    assert "is up again as 'valkey'" in user("up valkey").out


def test_each_repetition_of_a_sequence_starts_with_an_empty_database(user: Kvmark) -> None:
    testbed = redis_up(user)
    words = "--records 100,50 --workloads load,c --repetitions 2 --report none -q"
    # Two short repetitions may be imprecise: exit code 1.
    user(f"ycsb --system {testbed.url} {words}", exits=(0, 1))
    assert len(run_folders(user.runs)) == 8
    # No record of a larger load remains: the records, their index, and the mark of ownership.
    assert key_count(testbed) in (52, 102)


def test_a_sequence_names_the_option_that_makes_its_scans_quicker(user: Kvmark) -> None:
    words = "--records 1000 --operations 1000 --workloads load,c,e --repetitions 1 --report none"
    out = " ".join(user(f"ycsb --system {redis_up(user).url} {words}").out.split())
    assert "% of the time of a repetition. pipeline_parts=true in the URL of the system" in out


def test_loaded_records_exist_after_down_and_up(user: Kvmark) -> None:
    needs("redis-server")
    words = "run ycsb/c --system up:redis --records 200 --operations 200 -q"
    user("up redis --appendonly yes")
    user(words)
    loaded = key_count(Testbed.read(user.testbeds / "redis"))
    user("down redis")
    assert "is down; bring it back with kvmark up redis" in user(words, exits=2).err
    assert "is up again as 'redis'" in user("up redis").out
    assert key_count(Testbed.read(user.testbeds / "redis")) == loaded != 0
    user(words, "--load", "never")
    assert {total["outcome"] for total in totals(user.manifest())} == {"ok"}


def test_every_ready_workload_executes_its_statements(user: Kvmark) -> None:
    testbed = redis_up(user)
    for name in sorted(name for name in catalog.names() if name.startswith("redis/")):
        document = user(f"run {name} --system {testbed.url} {SHORT} --json").json
        manifest = user.manifest(document["run"])
        statements = {one["name"] for one in manifest["plan"]["statements"]}
        assert outcomes(manifest) - {"miss"} == {"ok"}, name
        assert ("miss" in outcomes(manifest)) == (name == "redis/cache-aside"), name
        assert counts(manifest).keys() <= statements, name
        assert "wrong_mix" not in levels(document["verdict"])
        connect(testbed, testbed.nodes[0]).ask("FLUSHALL")


def test_pipelines_and_the_users_commands_have_a_row_for_each_command(user: Kvmark) -> None:
    testbed = redis_up(user)
    user(f"run redis/pipelined --system {testbed.url} {SHORT} --pipeline-depth 50")
    totals = user.manifest()["engine"]["totals"]
    piped = [one for one in totals if one["operation"] in ("GET", "SET")]
    assert sum(total["count"] for total in piped) == 300
    assert all(total["rows"] == 50 * total["count"] for total in piped)
    (user.folder / "mine.yaml").write_text(OWN_COMMANDS)
    user(f"run mine.yaml --system {testbed.url} --operations 100 -q")
    assert outcomes(user.manifest()) == {"ok"}
    client = connect(testbed, testbed.nodes[0])
    keys = client.ask("KEYS", "*:x")
    assert len(keys) == 50
    assert all(str(key).startswith("{user") for key in keys)
    assert 0 < int(str(client.ask("TTL", str(keys[0])))) <= 60


CACHE = """
dataset: {records: 50, fields: {count: 1, length: 8}}
arguments: {value: field}
statements:
  SET: {does: update, run: 'SET {key} {value}'}
  GET: {does: read, run: 'GET {key}', expect: [value]}
probe: GET
groups: [{mix: {GET: 1}, on_miss: SET}]
"""


def test_a_cache_is_filled_after_each_miss_and_then_has_the_records(user: Kvmark) -> None:
    url = redis_up(user).url
    (user.folder / "cache.yaml").write_text(CACHE)
    words = f"run cache.yaml --system {url} --records 50 --operations 2000"
    assert user.sweep(words)["intact"] == 50
    found = {(one["operation"], one["outcome"]): one for one in totals(user.manifest())}
    assert {name: one["count"] for name, one in found.items()} == {
        ("GET", "ok"): 1950, ("GET", "miss"): 50, ("SET", "ok"): 50,
    }  # fmt: skip
    assert [name for name, one in found.items() if one["part"]] == [("SET", "ok")]
    shown = user("show last --notes")
    assert "97.50 %" in shown.out
    assert "Indented: writes after a miss" in shown.out
    assert "misses" not in user.reasons()
    user("runs report last -o cache.html")
    assert "Hit ratio over time" in (user.folder / "cache.html").read_text()
    user(words, "-q", exits=(0, 1))
    assert {one["outcome"] for one in totals(user.manifest())} == {"ok"}


def test_a_fill_is_no_attempt_to_read_again(user: Kvmark) -> None:
    (user.folder / "fills.yaml").write_text(
        "dataset: {loaded: false}\ngroups: [{mix: {read: 1}, on_miss: insert}]\n"
    )
    words = "run fills.yaml --system sim:?clock=virtual&store=memory --operations 2000 --retry 3"
    user(words, "-q", exits=(0, 1))
    shown = user("show last").out
    assert re.search(r"Attempts +1\.00 per operation, 0 failed", shown), shown
    assert re.search(r"^  INSERT +\d+", shown, re.MULTILINE), shown


def test_a_redis_cluster_is_measured_through_any_of_its_servers(user: Kvmark) -> None:
    words = f"run redis/set --system {redis_up(user, cluster=3).url} {SHORT}"
    assert user.sweep(words, exits=0)["intact"] == 200
    manifest = user.manifest()
    assert outcomes(manifest) == {"ok"}
    assert len({node["name"] for node in manifest["testbed"]["nodes"]}) == 3


def test_one_run_takes_every_option(user: Kvmark) -> None:
    url = f"{redis_up(user).url}/2?connections=1&pipeline_parts=true&protocol=3"
    words = (
        f"run ycsb/a --system {url} --clients 4 --rate 2000 --arrival poisson --duration 1200ms"
        " --warmup 100ms --interval 100ms --timeout 1m --workers 1 --records 100 --tag all -q"
    )
    # The verdict depends on the machine.
    user(words, exits=(0, 1))
    manifest = user.manifest()
    assert manifest["plan"]["system"]["options"]["database"] == "2"
    assert manifest["engine"]["capabilities"]["speedups"] == []
    assert {total["outcome"] for total in totals(manifest)} == {"ok"}


def test_each_server_is_observed_next_to_the_generator(user: Kvmark) -> None:
    testbed = redis_up(user, replicas=1, settings=(("maxmemory", "100mb"),))
    user(f"run ycsb/a --system {testbed.url} --duration 1500ms -q")
    manifest, folder = user.manifest(), run_folders(user.runs)[-1]
    assert manifest["testbed"]["settings"]["maxmemory"] == str(100 * 2**20)
    assert [node["role"] for node in manifest["testbed"]["nodes"]] == ["primary", "replica"]
    rows = pl.read_parquet(folder / "resources.parquet")
    assert set(rows["node"]) == {"coordinator", "generator", "primary-1", "replica-1"}
    server = rows.filter(pl.col("node") == "primary-1").sort("at_wall_ns")
    for counter in ("cpu_user_s", "network_received_bytes", "network_sent_bytes"):
        # An observer doesn't wait for a late answer.
        values = server[counter].drop_nulls()
        assert values[-1] > values[0]
    assert server["resident_bytes"].min() > 2**20


def test_a_server_without_a_testbed_is_measured_and_not_observed(user: Kvmark) -> None:
    testbed = redis_up(user)
    user.variables["KVMARK_TESTBEDS"] = str(user.folder / "none")
    words = f"run ycsb/a --system {testbed.url} --operations 500 -q"
    user(words)
    described = user.manifest()["testbed"]
    assert described["observed"] is False
    assert testbed.nodes[0].address in described["reason"]
    assert "kvmark up" in user.refuses(words, "--fault", "0s kill primary-1 for 1s")


def test_a_testbed_is_found_by_its_name(user: Kvmark) -> None:
    redis_up(user, name="mine", password=Secret("hush"))
    for name in ("up:mine", "up:", "up:mine?protocol=3"):
        user(f"run ycsb/c --system {name} --operations 100 -q")
    options = user.manifest()["plan"]["system"]["options"]
    assert "password_file" in options
    assert options["protocol"] == "3"


def test_evicted_records_make_a_run_suspect(user: Kvmark) -> None:
    settings = (("maxmemory", "3mb"), ("maxmemory-policy", "allkeys-random"))
    url = redis_up(user, settings=settings).url
    user(f"run ycsb/load --system {url} --records 4000 -q", exits=(0, 1))
    assert user.reasons()["evictions"] == "SUSPECT"


def test_a_run_on_memcached_is_verified_counted_and_described(user: Kvmark) -> None:
    needs("memcached")
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


def test_a_killed_memcached_comes_back_without_its_records(user: Kvmark) -> None:
    faults = "--fault '500ms pause node-1 for 300ms' --fault '1500ms kill node-1 for 300ms'"
    words = f"run memcached/kv --system {memcached_up(user).url} --clients 4 --duration 3s"
    user(f"{words} --interval 100ms -q {faults}", exits=1)
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
    needs("haproxy", "memcached")
    user("up memcached --memory 64M")
    user("up proxy --kind haproxy --to up:memcached")
    words = "--records 200 --operations 1000 --clients 4 -q"
    user(f"run ycsb/a --system up:haproxy {words}", exits=(0, 1))
    assert outcomes(user.manifest()) == {"ok"}
    sentence = user.refuses("up proxy --kind shotover --to up:memcached")
    assert "shotover doesn't speak what" in sentence
