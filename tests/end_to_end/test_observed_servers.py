"""Servers that kvmark didn't start: what they report is in records, reasons and reports."""

import time
from collections import Counter
from collections.abc import Iterator
from email.message import Message

import polars as pl
import pytest
from command_line import Kvmark, run_folders
from real_servers import redis_up

from http_server import http_server

RUN = "run ycsb/c --system sim: --duration 8s -q"
# What each path says after so many seconds: a machine of two cores and a virtual machine of Java,
# both busy, and a store that evicts. The last stops answering.
METRICS = {
    "/node": 'node_cpu_seconds_total{{cpu="0",mode="user"}} {0}\n'
    'node_cpu_seconds_total{{cpu="1",mode="user"}} {0}\n'
    "node_memory_MemTotal_bytes 8e9\nnode_memory_MemAvailable_bytes 2e9\n",
    "/java": 'process_cpu_seconds_total {0}\njvm_gc_collection_seconds_sum{{gc="G1"}} {1}\n',
    "/redis": "redis_evicted_keys_total {2}\nredis_cpu_user_seconds_total 1\n",
}
ANSWERS = 4


@pytest.fixture
def exporter() -> Iterator[str]:
    """The address of these endpoints."""
    begun_s, asked = time.monotonic(), Counter[str]()

    def answer(path: str, _: Message) -> tuple[int, bytes]:
        asked[path] += 1
        is_over = path == "/redis" and asked[path] > ANSWERS
        past_s = time.monotonic() - begun_s
        text = METRICS[path].format(past_s, past_s / 4, int(past_s * 10))
        return 503 if is_over else 200, text.encode()

    with http_server(answer) as address:
        yield f"http://{address}"


def test_what_exporters_say_is_recorded_and_judged(kvmark: Kvmark, exporter: str) -> None:
    names = {"machine": "node", "java": "java", "store": "redis"}
    options = [f"--observe={name}={exporter}/{path}" for name, path in names.items()]
    kvmark(RUN, *options, "--report", "r.html", exits=(0, 1))
    sources = [{"name": name, "source": f"{exporter}/{path}"} for name, path in names.items()]
    assert kvmark.manifest()["observed"] == sources
    rows = pl.read_parquet(run_folders(kvmark.runs)[-1] / "resources.parquet")
    assert set(rows["node"]) == {"coordinator", "generator", *names}
    assert rows.filter(pl.col("node") == "machine")["resident_bytes"].unique().to_list() == [
        6 * 10**9
    ]
    planted = {
        "server_saturated": "NOTE", "garbage_collection": "SUSPECT", "evictions": "SUSPECT",
        "server_unobserved": "NOTE",
    }  # fmt: skip
    assert kvmark.reasons().items() >= planted.items()
    assert "store didn't answer" in kvmark("show last --notes").out
    report = (kvmark.folder / "r.html").read_text()
    assert "Observed servers" in report
    assert f"{exporter}/java" in report


def test_a_redis_without_a_testbed_is_observed_by_its_own_commands(user: Kvmark) -> None:
    settings = (("maxmemory", "3mb"), ("maxmemory-policy", "allkeys-random"))
    testbed = redis_up(user, settings=settings)
    user.variables["KVMARK_TESTBEDS"] = str(user.folder / "none")
    study = f"""
name: observed
question: Does it evict?
system: {testbed.url}
observe: {{db: "{testbed.url}"}}
workload: ycsb/load
run: {{records: 4000}}
"""
    (user.folder / "s.yaml").write_text(study)
    user("study s.yaml --report none -q", exits=(0, 1))
    rows = pl.read_parquet(run_folders(user.runs)[-1] / "resources.parquet")
    server = rows.filter(pl.col("node") == "db")
    assert server["cores"].unique().to_list() == [1]
    assert server["evicted_keys"].max() > 0 == server["evicted_keys"].min()


@pytest.mark.parametrize(
    ("words", "exits", "part"),
    [
        ("--repetitions 2 --observe a=http://127.0.0.1:1", 3, "observe: a=http://127.0.0.1:1"),
        ("--observe db=http://127.0.0.1:1/metrics", 3, "observe: db=http://127.0.0.1:1/metrics"),
        ("--observe http://", 2, "is no exporter's address"),
        ("--observe a=ssh:h --observe a=ssh:i", 2, "the name a is given twice"),
    ],
)
def test_a_source_that_can_not_be_read_ends_the_command_before_the_load(
    kvmark: Kvmark, words: str, exits: int, part: str
) -> None:
    assert part in kvmark.refuses(f"{RUN} {words}", exits=exits)
