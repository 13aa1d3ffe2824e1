"""Files and logs of Cassandra's nodes, fetching it, and finding Java. No server is needed."""

import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from kvmark.errors import SystemUnderTestError, UsageError
from kvmark.secret import Secret
from kvmark.testbed import cassandra
from kvmark.testbed.cassandra import CassandraOptions
from kvmark.testbed.cassandra.artifacts import Artifacts, Java, exact_version, fetch, find_java
from kvmark.testbed.cassandra.server import counted, fingerprint, reason_in, refusal
from kvmark.testbed.launch import Certificates, PortTakenError
from kvmark.testbed.state import Node, Testbed
from kvmark.testbed.system import NO_COUNTERS
from programs import script

MIB, GIB = 2**20, 2**30
BATCH = {"commitlog_sync": "batch", "commitlog_sync_period": None}
HOSTS = ("127.0.0.1", "127.0.0.2", "127.0.0.3")


def planned(hosts: tuple[str, ...] = HOSTS, cores: tuple[int, ...] = ()) -> Testbed:
    nodes = [
        Node(
            name=f"node-{index + 1}", role="peer", host=host, port=9042, command=(),
            more_ports=(7000, 9501), cores=cores,
        )
        for index, host in enumerate(hosts)
    ]  # fmt: skip
    return Testbed(
        name="cassandra", system="cassandra", version="", created="", url="", nodes=tuple(nodes),
        facts={"cluster_name": "kvmark 1234"}, folder=Path("/testbeds/cassandra"),
    )  # fmt: skip


def settings(
    index: int = 0,
    certificates: Certificates | None = None,
    hosts: tuple[str, ...] = HOSTS,
    **options: Any,
) -> dict[str, Any]:
    made = planned(hosts)
    text = cassandra.settings_text(
        CassandraOptions(**options), made, made.nodes[index], certificates
    )
    found: dict[str, Any] = YAML(typ="safe", pure=True).load(text)
    return found


def accord(policy: str, **more: object) -> dict[str, Any]:
    """Settings with which a killed node of Cassandra 6 may start again."""
    journal = {"stop_marker_failure_policy": policy}
    return {"accord": {"enabled": True, "journal": journal, **more}}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {"commitlog_sync_period": "10000ms", "authenticator": None}),
        ({"settings": [("commitlog_sync", "batch")]}, BATCH),
        ({"password": Secret("sesame")}, {"authenticator": "PasswordAuthenticator"}),
        ({"version": "6.0"}, accord("REBOOTSTRAP")),
        ({"version": "6.0", "hosts": HOSTS[:1]}, accord("ALLOW_UNSAFE_STARTUP")),
        ({"version": "6.0", "settings": [("accord.x", "2")]}, accord("REBOOTSTRAP", x=2)),
    ],
)
def test_options_become_settings(options: dict[str, Any], expected: dict[str, Any]) -> None:
    found = settings(**options)
    assert {name: found.get(name) for name in expected} == expected
    assert "sesame" not in repr(found)


def test_each_node_listens_on_its_own_address_and_has_an_equal_part_of_the_ring() -> None:
    assert [settings(index)["rpc_address"] for index in range(3)] == list(HOSTS)
    assert [settings(index)["initial_token"] for index in range(3)] == [
        "-9223372036854775808",
        "-3074457345618258603",
        "3074457345618258602",
    ]
    for nodes in (1, 2, 5, 64):
        ends = [cassandra.token(index, nodes) for index in range(nodes)]
        after = [*ends[1:], ends[0]]
        parts = [(b - a) % 2**64 or 2**64 for a, b in zip(ends, after, strict=True)]
        assert sum(parts) == 2**64
        assert max(parts) - min(parts) <= 1


def test_every_node_is_a_seed_so_that_any_can_start_again() -> None:
    (provider,) = settings(1)["seed_provider"]
    assert provider["parameters"] == [{"seeds": "127.0.0.1:7000,127.0.0.2:7000,127.0.0.3:7000"}]


def test_settings_are_nested_by_dots_and_read_as_yaml() -> None:
    trie = {"trie": {"class_name": "TrieMemtable"}}
    found = cassandra.settings_tree(
        (
            ("auto_snapshot", "off"),
            ("memtable.configurations", "{trie: {class_name: TrieMemtable}}"),
            ("tls.protocol", "TLS"),
            ("tls.reads", "64"),
            ("tls.suites", "[A, B]"),
        )
    )
    assert found == {
        "auto_snapshot": False,
        "memtable": {"configurations": trie},
        "tls": {"protocol": "TLS", "reads": 64, "suites": ["A", "B"]},
    }


def test_further_settings_are_merged_into_those_of_encryption(tmp_path: Path) -> None:
    made = Certificates(tmp_path)
    made.keystore_password.write_text("word")
    more = (("client_encryption_options.require_client_auth", "false"),)
    found = settings(certificates=made, settings=more)["client_encryption_options"]
    assert (found["enabled"], found["require_client_auth"]) == (True, False)


def test_the_virtual_machine_gets_the_heap_and_quoted_paths(tmp_path: Path) -> None:
    folder = tmp_path / 'a "b" c'
    (folder / "lib").mkdir(parents=True)
    for name in ("cassandra-all-5.0.9.jar", "jamm-0.4.0.jar"):
        (folder / "lib" / name).touch()
    artifacts, free, bound = Artifacts(folder, "5.0.9"), planned(), planned(cores=(0, 1))
    lines = cassandra.jvm_text(free, free.nodes[1], artifacts, 3 * 2**29).splitlines()
    assert {'"-Xms1536M"', '"-Xmx1536M"', "-XX:+UseG1GC"} <= set(lines)
    assert lines[-1] == "org.apache.cassandra.service.CassandraDaemon"
    assert r"a \"b\" c/lib/cassandra-all-5.0.9.jar:" in lines[-2]
    assert not any("ActiveProcessorCount" in line for line in lines)
    assert '"-XX:ActiveProcessorCount=2"' in cassandra.jvm_text(bound, bound.nodes[1], artifacts, 1)
    assert any("127.0.0.2:9501:/testbeds/cassandra/node-2/jmx-exporter.yaml" in x for x in lines)


def test_the_heap_follows_the_machine_and_the_number_of_nodes() -> None:
    heaps_mib = {(24, 1): 6144, (24, 3): 2048, (16, 3): 1344, (8, 1): 2048, (8, 3): 1024,
                 (4, 3): 640, (2, 3): 512}  # fmt: skip
    found = {key: cassandra.heap_of(key[0] * GIB, key[1]) / MIB for key in heaps_mib}
    assert found == heaps_mib


def test_too_little_memory_or_too_small_a_bound_is_refused_with_the_figures() -> None:
    cassandra.check_memory(512 * MIB, 3, 4 * GIB)
    with pytest.raises(UsageError, match=r"3 nodes .* 512 MiB .* need 2796 MiB .* 2048 MiB are"):
        cassandra.check_memory(512 * MIB, 3, 2 * GIB)
    with pytest.raises(UsageError, match="heap: 128 MiB are too little for Cassandra"):
        cassandra.check_memory(128 * MIB, 1, 24 * GIB)
    cassandra.check_bound(GIB, 512 * MIB)
    with pytest.raises(UsageError, match=r"512 MiB .* doesn't fit in 900 MiB: give at least 932M"):
        cassandra.check_bound(900 * MIB, 512 * MIB)


@pytest.mark.parametrize(("taken", "starts"), [(0, 1), (2, 3), (9, 3)])
def test_other_ports_are_tried_when_a_program_takes_one_while_nodes_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken: int, starts: int
) -> None:
    calls: list[set[int]] = []

    def launch(made: Testbed, *_: object) -> str:
        (node,) = made.nodes
        calls.append({node.port, *node.more_ports})
        if len(calls) <= taken:
            raise PortTakenError(Node(name="node-1", role="peer", host="h", port=1, command=()))
        return "up"

    monkeypatch.setattr(cassandra, "find_java", lambda: Java("java", "17.0.1"))
    monkeypatch.setattr(cassandra, "fetch", lambda *_: None)
    monkeypatch.setattr(cassandra, "check_memory", lambda *_: None)
    monkeypatch.setattr(cassandra, "launch", launch)
    monkeypatch.setattr("kvmark.testbed.network.is_free", lambda *_: True)
    fails = pytest.raises(UsageError, match=r"a port of h \(1\) was taken")
    with fails if taken >= starts else nullcontext():
        assert cassandra.up(CassandraOptions(), tmp_path) == "up"
    assert len(calls) == starts
    # Two that start side by side would meet at the usual ports again and again.
    usual = {9042, 7000, 9501}
    assert calls[0] == usual
    assert not any(ports & usual for ports in calls[1:])


STARTS = "INFO  [main] 2026-01-01 00:00:00,000 CassandraDaemon.java:629 - Hostname: here:9042\n"
REFUSED = (
    "Exception (org.apache.cassandra.exceptions.ConfigurationException) encountered during"
    " startup: "
)
ERROR = "ERROR [main] 2026-01-01 00:00:00,000 Here.java:1 - no luck\n"
PORT = "/127.0.0.1:7000 is in use by another process.  Change listen_address:storage_port"
MEMORY = "Terminating due to java.lang.OutOfMemoryError: Java heap space"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", None),
        ("\n\n", None),
        # A failed start comes before the lines of its trace.
        (f"one\n{REFUSED}reads must be at least 2\n\tat h\n", (2, "reads must be at least 2")),
        # A taken port is the reason of a fatal error.
        (f"{STARTS}{ERROR}org.apache.cassandra.exceptions.ConfigurationException: {PORT}\n"
         "\tat here\nINFO  [a] 2026-01-01 00:00:00,000 B.java:1 - bye\n", (3, PORT)),
        # An error before the last start is none.
        (f"{ERROR}{STARTS}INFO  fine\n", (3, "INFO  fine")),
        (f"{STARTS}{ERROR}INFO  fine\n", (2, "no luck")),
        # Exhausted memory causes later errors.
        (f"{STARTS}{MEMORY}\n{ERROR}", (2, MEMORY)),
    ],
)  # fmt: skip
def test_a_log_has_the_reason(server_log: Path, text: str, reason: tuple[int, str] | None) -> None:
    server_log.write_text(text)
    assert reason_in(server_log) == reason


def test_lines_of_a_long_log_are_counted(server_log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert reason_in(server_log) is None
    monkeypatch.setattr("kvmark.testbed.cassandra.server._MOST_LOG_BYTES", 60)
    server_log.write_text("a line of some twenty\n" * 9 + "Error: the end\n")
    assert reason_in(server_log) == (10, "the end")


def test_a_refused_setting_or_a_value_of_the_wrong_type_is_reported(server_log: Path) -> None:
    assert refusal(server_log) is None
    server_log.write_text(f"one\n{REFUSED}reads must be at least 2\n\tat here\n")
    assert refusal(server_log) == "Cassandra refused a setting: reads must be at least 2"
    server_log.write_text(
        f"{REFUSED}Invalid yaml: file:/cassandra.yaml\n"
        "Caused by: x.ConstructorException: Cannot create property=memtable for JavaBean=a\n"
        "Caused by: x.ConstructorException: Cannot create property=configurations for JavaBean=b\n"
        'Caused by: java.lang.NumberFormatException: For input string: "many"\n'
    )
    setting = 'memtable.configurations: For input string: "many"'
    assert refusal(server_log) == f"Cassandra refused a setting: {setting}"


def test_counters_are_added_up_over_collectors_clients_and_peers() -> None:
    page = """\
# TYPE jvm_gc_collection_seconds summary
jvm_gc_collection_seconds_count{gc="G1 Old Generation"} 1
jvm_gc_collection_seconds_sum{gc="G1 Old Generation"} 0.5
jvm_gc_collection_seconds_count{gc="G1 Young Generation"} 12
jvm_gc_collection_seconds_sum{gc="G1 Young Generation"} 0.25
cassandra_client_bytes{direction="Received"} 1000.0
cassandra_client_bytes{direction="Sent"} 1.0E7
cassandra_internode_sent_bytes{kind="SmallMessageCompletedBytes",peer="127.0.0.2_7000"} 30.0
cassandra_internode_sent_bytes{kind="LargeMessageCompletedBytes",peer="127.0.0.3_7000"} 4.0
cassandra_internode_received_bytes{peer="127.0.0.2_7000"} 7.0
"""
    assert list(counted(page).values()) == [10_000_034, 1007, 13, 0.75]
    assert counted("") == NO_COUNTERS


def test_the_fingerprint_includes_settings_heap_and_bound_but_no_places() -> None:
    here = {"concurrent_reads": "32", "listen_address": "127.0.0.1", "cluster_name": "a"}
    there = {**here, "listen_address": "127.0.0.2", "cluster_name": "b"}
    plain = fingerprint(here, 1)
    assert fingerprint(there, 1) == fingerprint(here, 1, None) == plain
    others = (({**here, "concurrent_reads": "64"}, 1), (here, 2), (here, 1, 2**30))
    assert plain not in {fingerprint(*other) for other in others}


MAVEN = """\
echo run >> {runs}
for word in "$@"; do case "$word" in -DoutputDirectory=*) lib=${{word#*=}} ;; esac; done
mkdir -p "$lib"
for jar in cassandra-all-5.0.9.jar jamm-0.4.0.jar jmx_prometheus_javaagent-1.0.1.jar; do
    echo "$jar" > "$lib/$jar"
    echo "[INFO] Downloaded from central: http://registry/some/$jar (5 kB at 9 kB/s)"
done
{more}
"""


@dataclass(frozen=True)
class Programs:
    """A folder that alone is on the search path of programs, beside those of the system."""

    folder: Path

    def add(self, name: str, text: str) -> Path:
        return script(self.folder / name, text)

    def maven(self, more: str = "") -> None:
        self.add("mvn", MAVEN.format(runs=self.folder / "runs", more=more))

    @property
    def times(self) -> int:
        return len((self.folder / "runs").read_text().splitlines())


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    folder = tmp_path / "programs"
    monkeypatch.setenv("PATH", f"{folder}:/bin:/usr/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr("kvmark.testbed.cassandra.artifacts._INSTALLED", folder / "none")
    return Programs(folder)


def test_only_an_incomplete_version_is_fetched(programs: Programs, tmp_path: Path) -> None:
    programs.maven()
    progress: list[str] = []
    found = fetch("5.0.9", progress.append)
    assert found.folder == tmp_path / "kvmark" / "cassandra-5.0.9"
    assert [path.name for path in found.jars] == ["cassandra-all-5.0.9.jar", "jamm-0.4.0.jar"]
    assert found.exporter.exists()
    assert progress[0] == "Fetching Cassandra 5.0.9 with Maven"
    assert progress[-1].endswith("with Maven: 3 files, jmx_prometheus_javaagent-1.0.1.jar")
    (programs.folder / "mvn").unlink()
    assert fetch("5.0.9", progress.append) == found
    assert found.is_complete
    assert programs.times == 1
    programs.maven()
    found.jars[0].unlink()
    assert fetch("5.0.9", print).is_complete
    found.jars[0].write_text("cut")
    assert fetch("5.0.9", print).is_complete
    assert programs.times == 3


def test_a_fetch_that_was_cut_off_is_never_used(programs: Programs, tmp_path: Path) -> None:
    programs.maven("kill -9 $$")
    with pytest.raises(SystemUnderTestError, match=r"Maven could not fetch Cassandra 5\.0\.9"):
        fetch("5.0.9", print)
    assert [path.name for path in (tmp_path / "kvmark").iterdir()] == ["cassandra-5.0.9.lock"]
    half = tmp_path / "kvmark" / "cassandra-5.0.9.part"
    half.mkdir()
    programs.maven()
    assert fetch("5.0.9", print).is_complete
    assert not half.exists()


def test_two_at_once_fetch_once(programs: Programs) -> None:
    programs.maven()
    with ThreadPoolExecutor(2) as pool:
        found = pool.map(fetch, ["5.0.9"] * 2, [print] * 2)
    assert [one.is_complete for one in found] == [True, True]
    assert programs.times == 1


@pytest.mark.parametrize(
    ("line", "error", "sentence"),
    [
        ("find artifact org.apache.cassandra:cassandra-all:jar:5.0.9 in x", UsageError,
         "version: Maven's registry has no Cassandra 5.0.9; give 5.0 or 6.0"),
        ("transfer artifact x: Connection refused -> [Help 1]", SystemUnderTestError,
         "look at the network and at Maven's settings.xml: Could not transfer artifact x: "
         "Connection refused"),
    ],
)  # fmt: skip
def test_an_error_of_maven_is_one_sentence(
    programs: Programs, line: str, error: type[Exception], sentence: str
) -> None:
    programs.maven(f"echo '[ERROR] Could not {line}'; echo '[ERROR] Re-run Maven'; exit 1")
    with pytest.raises(error, match=f"{re.escape(sentence)}$"):
        fetch("5.0.9", print)


def test_a_missing_program_is_named(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(programs.folder))
    with pytest.raises(UsageError, match=r"Maven, .* is missing: .*apt-get install maven"):
        fetch("5.0.9", print)
    with pytest.raises(UsageError, match=r"Java is missing: .* openjdk-17-jre-headless"):
        find_java()


def test_versions_stand_for_exact_ones() -> None:
    exact = map(exact_version, ("5.0", "6.0", "5.0.8"))
    assert [*exact] == ["5.0.9", "6.0-alpha2", "5.0.8"]


def java(version: str) -> str:
    return f"echo 'openjdk version \"{version}\" 2025-04-15' >&2\n"


def test_the_right_java_is_found(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    on_the_path = programs.add("java", java("17.0.2"))
    assert find_java().program == str(on_the_path)
    programs.add("home/bin/java", java("17.0.9"))
    monkeypatch.setenv("JAVA_HOME", str(programs.folder / "home"))
    assert find_java().version == "17.0.9"
    programs.add("home/bin/java", java("21.0.1"))
    assert find_java().version == "17.0.2"


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.2", "21.0.1"])
def test_another_java_is_refused(programs: Programs, version: str) -> None:
    programs.add("java", java(version))
    sentence = rf"^Cassandra needs Java 17 and not {version} \(.* openjdk-17-jre-headless"
    with pytest.raises(UsageError, match=sentence):
        find_java()
