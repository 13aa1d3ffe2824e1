"""Observed servers: texts of exporters and of a kernel become samples, and silence an error."""

from base64 import b64encode
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from email.message import Message
from pathlib import Path
from typing import Any

import pytest

from http_server import http_server
from kvmark.errors import KvmarkError, SpecError, SystemUnderTestError, UsageError
from kvmark.spec.observe import SourceKind, parse_source
from kvmark.testbed import memcached
from kvmark.testbed.sources.exporter import ExporterSource
from kvmark.testbed.sources.opening import opened
from kvmark.testbed.sources.sample import ServerSample
from kvmark.testbed.sources.ssh import SshSource
from programs import needs, script
from redis_testbeds import Up
from waiting import wait_until

S = 1_000_000_000
NODE = """# HELP node_cpu_seconds_total Seconds the CPUs spent in each mode.
# TYPE node_cpu_seconds_total counter
node_cpu_seconds_total{cpu="0",mode="idle"} 1000
node_cpu_seconds_total{cpu="0",mode="user"} 10.5
node_cpu_seconds_total{cpu="0",mode="nice"} 0.5
node_cpu_seconds_total{cpu="0",mode="system"} 3
node_cpu_seconds_total{cpu="1",mode="user"} 20
node_cpu_seconds_total{cpu="1",mode="softirq"} 1
node_disk_read_bytes_total{device="sda"} 4096
node_disk_read_bytes_total{device="sda1"} 4096
node_disk_read_bytes_total{device="dm-0"} 4096
node_memory_MemTotal_bytes 1e+09
node_memory_MemAvailable_bytes 4e+08
node_network_transmit_bytes_total{device="eth0"} 700
node_network_transmit_bytes_total{device="lo"} 9999
process_cpu_seconds_total 5
"""
REDIS = """redis_cpu_user_seconds_total 7
redis_cpu_sys_seconds_total 2
redis_memory_used_rss_bytes 4096
redis_net_output_bytes_total 30
redis_evicted_keys_total 12
process_resident_memory_bytes 9
"""
MEMCACHED = """memcached_process_user_cpu_seconds_total 1.5
memcached_items_evicted_total{slab="1"} 4
memcached_items_evicted_total{slab="2"} 5
"""
JVM = """process_cpu_seconds_total 40
process_resident_memory_bytes 2.5e+09
jvm_gc_collection_seconds_count{gc="G1 Young Generation",} 10.0
jvm_gc_collection_seconds_sum{gc="G1 Young Generation",} 0.25
jvm_gc_collection_seconds_count{gc="G1 Old Generation",} 1.0
jvm_gc_collection_seconds_sum{gc="G1 Old Generation",} 0.5
org_apache_cassandra_metrics_Compaction_Value{name="CompletedTasks",} 17
org_apache_cassandra_metrics_Compaction_Value{name="PendingTasks",} 3
java_nothing NaN
"""
SCYLLA = """scylla_reactor_utilization{shard="0"} 100
scylla_reactor_utilization{shard="1"} 50
scylla_compaction_manager_completed_compactions{shard="0"} 2
"""


def source(text: str = "http://h:1") -> ExporterSource:
    return ExporterSource(parse_source(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # Partitions, layers above disks and the loopback device would count twice.
        (NODE, {"cores": 2, "cpu_user_s": 31.0, "cpu_system_s": 4.0, "resident_bytes": 600_000_000,
                "disk_read_bytes": 4096, "disk_written_bytes": None, "network_sent_bytes": 700}),
        (REDIS, {"cores": 1, "cpu_user_s": 7.0, "cpu_system_s": 2.0, "resident_bytes": 4096,
                 "network_sent_bytes": 30, "evicted_keys": 12, "gc_count": None}),
        (MEMCACHED, {"cores": None, "cpu_user_s": 1.5, "cpu_system_s": 0.0, "evicted_keys": 9}),
        (JVM, {"cores": None, "cpu_user_s": 40.0, "gc_count": 11, "gc_time_s": 0.75,
               "compactions": 17, "busiest_core": None}),
        (SCYLLA, {"cores": 2, "cpu_user_s": 0.0, "compactions": 2}),
    ],
)  # fmt: skip
def test_a_sample_has_the_sums_of_the_metrics_of_the_first_known_exporter(
    text: str, expected: dict[str, Any]
) -> None:
    sample = source().sample_of(text, S)
    assert {name: getattr(sample, name) for name in expected} == expected


def test_the_busiest_core_and_utilisation_come_from_two_samples() -> None:
    node, scylla = source(), source()
    later = NODE.replace('"0",mode="system"} 3', '"0",mode="system"} 4.5')
    assert [node.sample_of(NODE, S).busiest_core, node.sample_of(later, 3 * S).busiest_core] == [
        None, 0.75,
    ]  # fmt: skip
    scylla.sample_of(SCYLLA, S)
    sample = scylla.sample_of(SCYLLA, 3 * S)
    assert (sample.cpu_user_s, sample.busiest_core) == (3.0, 1.0)


@pytest.mark.parametrize(
    ("typed", "name", "kind", "printed"),
    [
        ("http://db1:9100", "db1", SourceKind.PROMETHEUS, "http://db1:9100"),
        ("a=https://u:p@[::1]:9/m?name[]=x", "a", SourceKind.PROMETHEUS,
         "https://[::1]:9/m?name[]=x"),
        ("ssh:ann@db-2", "db-2", SourceKind.SSH, "ssh:ann@db-2"),
        ("b=ssh://ann@db:2222", "b", SourceKind.SSH, "ssh://db:2222"),
        ("redis://:pw@h:6380/1", "h-6380", SourceKind.STORE, "redis://h:6380/1"),
        ("m=memcached://h", "m", SourceKind.STORE, "memcached://h"),
    ],
)  # fmt: skip
def test_a_source_has_a_name_and_is_printed_without_credentials(
    typed: str, name: str, kind: SourceKind, printed: str
) -> None:
    found = parse_source(typed)
    assert (found.name, found.kind, str(found.place)) == (name, kind, printed)


@pytest.mark.parametrize(
    ("typed", "part"),
    [
        ("http://", "is no exporter's address"),
        ("x=http://h:port/", "is no exporter's address"),
        ("file:///etc/hostname", "unknown kind of system"),
        ("db1", "write http://HOST:9100/metrics, ssh:HOST"),
        ("rocksdb:/tmp/x", "is no server"),
        ("redis://a,b", "several servers"),
        ("ssh:-oProxyCommand=x", "takes a host"),
        ("ssh:u:hush@h", "takes a host without a password"),
        ("ssh://u:hush@h", "takes a host without a password"),
        ("_=ssh:h", "unknown kind of system"),
    ],
)
def test_what_is_no_source_is_refused(typed: str, part: str) -> None:
    with pytest.raises(SpecError, match=part) as refused:
        parse_source(typed)
    assert "hush" not in str(refused.value)


@pytest.fixture
def url() -> Iterator[str]:
    """A server with a node exporter's text for user u, and another text at /elsewhere."""

    def answer(path: str, headers: Message) -> tuple[int, bytes]:
        login = f"Basic {b64encode(b'u:hush').decode()}"
        is_user = headers.get("Authorization") in {None, login}
        return 200 if is_user else 401, (NODE if path == "/metrics" else "nothing 1\n").encode()

    with http_server(answer) as address:
        yield address


def test_an_endpoint_is_read_with_its_login(url: str) -> None:
    texts = [f"http://{url}", f"b=http://{url}/metrics", f"c=http://u:hush@{url}/"]
    with opened(list(map(parse_source, texts))) as sources:
        rows = [one.row() for one in sources]
    assert [row["node"] for row in rows if row] == ["127.0.0.1", "b", "c"]
    assert not any("hush" in one.text for one in sources)


@pytest.mark.parametrize(
    ("typed", "error", "part"),
    [
        (["http://{url}/elsewhere"], SystemUnderTestError, "has no metric that kvmark knows"),
        (["a=http://u:no@{url}"], SystemUnderTestError, "observe: a=http://127.*: Unauthorized"),
        (["http://127.0.0.1:1"], SystemUnderTestError, "doesn't answer: .*refused"),
        (["redis://127.0.0.1:1"], SystemUnderTestError, "observe: .* doesn't answer: "),
        (["a=http://{url}", "a=ssh:h"], UsageError, "given twice"),
        (["generator-1=http://{url}"], UsageError, "kvmark's own process"),
        (["postgres://{url}/x"], UsageError, "doesn't report its resources"),
    ],
)
def test_who_does_not_answer_is_refused_before_the_run(
    url: str, typed: list[str], error: type[KvmarkError], part: str
) -> None:
    sources = [parse_source(one.format(url=url)) for one in typed]
    with pytest.raises(error, match=part), opened(sources):
        pytest.fail("it was opened")


Ssh = Callable[[str], SshSource]
PROC = """cpu  900 0 0 0 0 0 0 0 0 0
cpu0 300 20 100 9 9 1 2 0 0 0
cpu1 100 0 0 9 9 0 0 0 0 0
intr 5 1 1 1 1 1 1 1 1 1 1 1 1
MemTotal:  1000 kB
MemAvailable:  400 kB
   8  0 sda 1 2 16 4 5 6 8 7 8 9 10
   8  1 sda1 1 2 16 4 5 6 8 7 8 9 10
    lo: 99 0 0 0 0 0 0 0 99 0 0 0 0 0 0 0
  eth0:50 0 0 0 0 0 0 0 70 0 0 0 0 0 0 0
"""


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ssh:
    """A source with this script in place of ssh, which gets the loop as its last argument."""

    def make(text: str) -> SshSource:
        script(tmp_path / "bin" / "ssh", text)
        monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
        return SshSource(parse_source("db=ssh:db1"))

    return make


def test_the_files_of_a_kernel_become_a_sample(ssh: Ssh) -> None:
    sample = ssh("").sample_of(PROC, S)
    expected = {
        "cores": 2, "cpu_user_s": 4.2, "cpu_system_s": 1.03, "resident_bytes": 600 * 1024,
        "disk_read_bytes": 16 * 512, "disk_written_bytes": 8 * 512, "network_received_bytes": 50,
        "network_sent_bytes": 70,
    }  # fmt: skip
    assert {name: getattr(sample, name) for name in expected} == pytest.approx(expected)


def test_ssh_answers_until_its_input_closes(ssh: Ssh, tmp_path: Path) -> None:
    """The script runs the loop here; behind it, a line shows that the loop has ended."""
    over = tmp_path / "over"
    words = f'echo "$*" > {tmp_path}/words; for last; do :; done'
    source = ssh(f'{words}; (eval "$last"); echo > {over}')
    first, second = source.read(), source.read()
    assert second.at_wall_ns > first.at_wall_ns
    assert (first.cores or 0) >= 1
    assert (first.resident_bytes or 0) > 2**20
    assert not over.exists()
    source.close()
    assert over.exists()
    assert "-o BatchMode=yes" in (tmp_path / "words").read_text()


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("echo 'a: Permission denied (publickey).' >&2; exit 255", "Permission denied .publickey."),
        ("exit 1", "ssh has ended"),
        ("while read -r n; do echo nothing; echo kvmark $n; done", "no /proc/stat"),
        ("while read -r n; do echo cpu0 a b c d e f g; echo kvmark $n; done", "something else"),
    ],
)
def test_an_ssh_that_fails_says_why(ssh: Ssh, text: str, part: str) -> None:
    source = ssh(text)
    with pytest.raises(SystemUnderTestError, match=part):
        source.read()
    source.close()


def test_a_source_that_is_closed_ends_a_read_in_another_thread(ssh: Ssh, tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    source = ssh(f"read -r n; echo > {asked}; exec cat > /dev/null")
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(source.row)
        wait_until(asked.exists, "it is asked")
        source.close()
        assert reading.result() is None


@pytest.mark.parametrize("value", ["inf", "nan", "1e400"])
def test_an_impossible_number_is_no_sample(value: str) -> None:
    with pytest.raises(SystemUnderTestError, match="impossible number"):
        ServerSample.of(S, {"resident_bytes": float(value)})


def test_a_redis_reports_itself(up: Up) -> None:
    testbed = up(settings=(("maxmemory-policy", "allkeys-random"),), io_threads=2)
    with opened([parse_source(f"r={testbed.url}")]) as (source,):
        sample = source.read()
    assert (sample.cores, sample.evicted_keys, sample.gc_count) == (2, 0, None)
    assert (sample.resident_bytes or 0) > 2**20
    assert sample.cpu_user_s is not None


def test_a_memcached_reports_itself(root: Path) -> None:
    needs("memcached")
    testbed = memcached.up(memcached.MemcachedOptions(threads=2), root)
    with opened([parse_source(f"m={testbed.url}")]) as (source,):
        sample = source.read()
    assert (sample.cores, sample.evicted_keys, sample.resident_bytes) == (2, 0, None)
    assert (sample.network_received_bytes or 0) > 0
