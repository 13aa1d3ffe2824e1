"""YCSB's bindings as stores: operations, checks, errors, interrupts and garbage collections."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from command_line import Kvmark, levels, outcomes, phase
from real_servers import redis_up

from kvmark.cache import cache_folder
from programs import needs

pytestmark = pytest.mark.heavy
OWN = Path(__file__).parent / "bindings" / "MemoryBinding.java"
PROJECT = Path(__file__).parents[2] / "bench" / "ycsb"
SHORT = "--records 60 --clients 2 -q"
SECRET = "C4n4ryS1ngs"


@dataclass(frozen=True)
class Jars:
    """YCSB's core, and folders with bindings."""

    core: Path
    own: Path
    others: Path

    def url(self, name: str = "MemoryBinding", **properties: object) -> str:
        """A binding with properties, in which underscores are dots."""
        query = "".join(f"&{one.replace('__', '.')}={value}" for one, value in properties.items())
        return f"ycsb-binding:{name}?classpath={self.own}:{self.others}/*:{self.core}{query}"


@pytest.fixture(scope="session")
def jars(tmp_path_factory: pytest.TempPathFactory) -> Jars:
    """The bindings of the benchmarks, and one with faults."""
    needs("javac", "mvn")
    built = cache_folder() / "ycsb-bindings"
    maven = ["mvn", "-B", "-ntp", "-q", f"-Dbuild.folder={built}", "package"]
    subprocess.run(maven, cwd=PROJECT, check=True)
    [core] = (built / "lib").glob("core-*.jar")
    own = tmp_path_factory.mktemp("bindings")
    subprocess.run(["javac", "-cp", core, "-d", own, OWN], check=True)
    (own / "others").mkdir()
    for jar in (*(built / "lib").glob("*.jar"), *(built / "target").glob("*.jar")):
        (own / "others" / jar.name).symlink_to(jar)
    return Jars(core, own, own / "others")


@pytest.mark.parametrize("workload", ["ycsb/a", "ycsb/d", "ycsb/e", "ycsb/f", "ycsb/delete"])
def test_operations_of_a_binding_are_checked_like_those_of_a_store(
    kvmark: Kvmark, jars: Jars, workload: str
) -> None:
    count = "" if workload == "ycsb/delete" else "--operations 2000"
    sweep = kvmark.sweep(f"run {workload} --system {jars.url()} {count} {SHORT}")
    assert {name: sweep[name] for name in ("missing", "stale", "torn", "unread")} == {
        "missing": 0, "stale": 0, "torn": 0, "unread": 0,
    }  # fmt: skip
    manifest = kvmark.manifest()
    assert outcomes(manifest) == {"ok"}
    engine = manifest["engine"]
    assert engine["system"]["system"] == "MemoryBinding"
    assert engine["system"]["version"].startswith("YCSB 0.17.0, Java ")
    assert engine["capabilities"]["execution"] == "blocking"
    assert phase(manifest, "measure")["statistics"]["jvm_gc_ms"]["after"] >= 0


def test_writes_that_a_binding_loses_are_found(kvmark: Kvmark, jars: Jars) -> None:
    words = f"run ycsb/a --system {jars.url(fault='lose')} --operations 2000"
    sweep = kvmark.sweep(f"{words} {SHORT}", exits=1)
    assert sweep["stale"] > 0


def test_a_large_record_fits_and_collections_of_garbage_are_counted(
    kvmark: Kvmark, jars: Jars
) -> None:
    text = kvmark("workloads ycsb/a").out.replace("length: 100", "length: 100000")
    (kvmark.folder / "large.yaml").write_text(text)
    system = jars.url(jvm="-Xmx256m,-Xmn3m,-XX:+UseSerialGC")
    words = f"run large.yaml --system {system} --operations 300 {SHORT} --json"
    document = kvmark(words, exits=(0, 1)).json
    manifest = kvmark.manifest()
    assert outcomes(manifest) == {"ok"}
    counted = phase(manifest, "measure")["statistics"]["jvm_gc_count"]
    assert counted["after"] > counted["before"]
    assert "generator_garbage" in levels(document["verdict"])


@pytest.mark.parametrize(
    ("fault", "outcome", "said"),
    [
        ("throw", "storage", "EXCEPTION (java.lang.IllegalStateException: out of order"),
        ("unavailable", "unavailable", "SERVICE_UNAVAILABLE: read user"),
    ],
)
def test_a_failed_operation_has_its_status_and_the_last_printed_line(
    kvmark: Kvmark, jars: Jars, fault: str, outcome: str, said: str
) -> None:
    words = f"run ycsb/c --system {jars.url(fault=fault)} --operations 100 --load always"
    kvmark(f"{words} {SHORT}", exits=1)
    manifest = kvmark.manifest()
    assert outcome in outcomes(manifest)
    assert said in str(manifest["engine"]["notices"])


def test_the_secret_of_a_property_is_in_no_output_and_no_record(kvmark: Kvmark, jars: Jars) -> None:
    kvmark.variables["LOGIN"] = SECRET
    url = jars.url(login_env="LOGIN", fault="init")
    problem = kvmark.refuses(f"run ycsb/c --system {url} {SHORT}", exits=3)
    assert (
        "can't be initialised (site.ycsb.DBException: no such ***; it printed: user ***" in problem
    )
    kvmark(f"run ycsb/c --system {jars.url(login_env='LOGIN')} --operations 100 {SHORT}")
    files = [path for path in kvmark.folder.rglob("*") if path.is_file()]
    assert not [path for path in files if SECRET.encode() in path.read_bytes()]


@pytest.mark.parametrize(("missing", "outcome"), [("NOT_FOUND", "storage"), ("ERROR", "miss")])
def test_the_status_of_a_missing_record_can_be_named(
    kvmark: Kvmark, jars: Jars, missing: str, outcome: str
) -> None:
    url = jars.url(fault="absent", missing=missing)
    kvmark(f"run ycsb/c --system {url} --operations 100 --load never {SHORT}", exits=1)
    assert outcomes(kvmark.manifest()) == {outcome}


ERRORS = {
    "no class": ("Absent", "", "there is no class Absent on the class path"),
    "no binding": ("java.lang.String", "", "isn't a YCSB binding: it doesn't extend site.ycsb.DB"),
    "no jar": ("A", "?classpath=absent.jar", "option 'classpath': there is no absent.jar"),
    "no core": ("A", "?classpath=.", "option 'classpath': YCSB's core isn't there: add core-"),
    "no class path": ("A", "?a=b", "option 'classpath': YCSB's core isn't there: add core-"),
    "no secret": ("A", "&url_env=ABSENT", "option 'url_env': nothing can be read from ABSENT"),
    "refused option": ("MemoryBinding", "&jvm=-Xmx1x", "doesn't start"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_a_binding_that_cannot_be_loaded_is_explained(
    kvmark: Kvmark, jars: Jars, case: str
) -> None:
    name, options, expected = ERRORS[case]
    whole = f"ycsb-binding:{name}{options}" if "?" in options else jars.url(name) + options
    result = kvmark("run", "ycsb/c", "--system", whole, "--records", 60, exits=(2, 3))
    assert expected in result.err
    assert result.err.count("\n") == 1


@pytest.mark.parametrize(
    ("home", "expected"),
    [("", "there is no JDK on this machine"), ("jre", "has no javac: install")],
)
def test_a_missing_jdk_is_explained(kvmark: Kvmark, jars: Jars, home: str, expected: str) -> None:
    machine = kvmark.folder / "jre" / "lib" / "server" / "libjvm.so"
    machine.parent.mkdir(parents=True)
    machine.touch()
    kvmark.variables |= {"JAVA_HOME": str(kvmark.folder / (home or "absent"))}
    assert expected in kvmark.refuses(f"run ycsb/c --system {jars.url()}", exits=3)


def test_a_binding_that_fails_does_not_prevent_the_next(kvmark: Kvmark, jars: Jars) -> None:
    failing, working = jars.url("Absent"), jars.url(jvm="-Xmx300m")
    study = f"""
name: two
question: Which one?
workload: ycsb/c
run: {{operations: 100, records: 60, load: always}}
factors:
  system:
    levels:
      failing: {{system: "{failing}"}}
      working: {{system: "{working}"}}
"""
    (kvmark.folder / "two.yaml").write_text(study)
    kvmark("study two.yaml --repetitions 1 -q", exits=1)
    assert "ok" in outcomes(kvmark.manifest())


def test_an_interrupt_ends_a_run_whose_binding_hangs(kvmark: Kvmark, jars: Jars) -> None:
    words = f"run ycsb/a --system {jars.url(fault='hang')} --duration 1h --load always"
    run = kvmark.start(f"{words} --interval 50ms --drain-limit 1s {SHORT}")
    run.wait_for('"measure"', file="*/events.jsonl")
    assert "kept as run" in run.interrupt().err


@pytest.mark.parametrize("name", ["site.ycsb.BasicDB", "site.ycsb.BasicTSDB"])
def test_what_a_binding_prints_is_in_no_output(kvmark: Kvmark, jars: Jars, name: str) -> None:
    url = jars.url(name, basicdb__verbose="true")
    result = kvmark(
        f"run ycsb/b --system {url} --operations 100 --load always {SHORT}", exits=(0, 1)
    )
    assert "usertable" not in result.out + result.err
    assert phase(kvmark.manifest(), "load")["groups"][0]["issued"] == 60


def test_bindings_of_rocksdb_and_redis_read_what_drivers_wrote(user: Kvmark, jars: Jars) -> None:
    short = f"--operations 500 {SHORT}"
    testbed = redis_up(user)
    engine = {
        "rocksdb.path": f"{user.folder}/db", "rocksdb.block_cache_bytes": 1 << 20,
        "rocksdb.write_buffer_bytes": 1 << 20, "rocksdb.compression": "LZ4_COMPRESSION",
    }  # fmt: skip
    redis = {"redis.port": testbed.nodes[0].port}
    cases = (
        (f"rocksdb:{user.folder}/db", "RocksDbBinding", engine),
        (testbed.url, "RedisBinding", redis),
    )
    for store, name, properties in cases:
        user(f"run ycsb/a --system {store} {short}")
        url = jars.url(f"kvmark.peer.{name}", **properties)
        user(f"run ycsb/a --system {url} {short}")
        assert outcomes(user.manifest()) == {"ok"}
