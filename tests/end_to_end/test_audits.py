"""Audits of a scripted client with sins, of redis-benchmark, and of commands that don't work."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from command_line import Kvmark, levels
from real_servers import redis_up
from scripted_store import store

import programs
from kvmark.testbed.state import Testbed
from waiting import wait_until

CLIENT = Path(__file__).with_name("scripted_client.py")
ROOT = Path(__file__).resolve().parents[2]
SECRET = "S3CRETaudit"
LATTE = Path.home() / ".cache" / "kvmark" / "latte-cli-0.29.0" / "bin" / "latte"
"""Built by `make bench-cql`, which takes minutes."""
STALL_S = 1.5, 2.4
ANSWERS_S = {"open": (0.002, 0.03), "paced": (0.01, 0.06)}
"""That differ by more than what a busy machine adds, so that a schedule shows in the pauses."""
OF_A_BUSY_MACHINE = {
    "generator_pause", "coordinated_omission", "schedule_late", "not_stationary", "too_short",
}  # fmt: skip
"""Reasons that other programs can cause; tests/analysis/test_audits.py has the time to itself."""


def script(sin: str, seconds: float = 4) -> tuple[str, ...]:
    """The words of the scripted client."""
    return (sys.executable, str(CLIENT), "{host}", "{port}", str(seconds), sin)


@pytest.mark.parametrize(
    ("sin", "options", "model", "code"),
    [
        ("none", "", "closed", None),
        ("paced", "--rate 100", "paced", None),
        ("open", "--rate 500 --clients 10", "open", None),
        ("misses", "", "closed", "misses"),
        ("hot", "", "closed", "one_hot_key"),
        ("two", "", "closed", "unused_connections"),
        ("pause", "", "closed", "generator_pause"),
        ("stall", "", "closed", "coordinated_omission"),
        ("saturated", "", "closed", "generator_saturated"),
        ("paced", "--rate 200", "paced", "wrong_pace"),
        ("none", "--records 5000", "closed", "fewer_keys"),
    ],
)
def test_a_sin_of_a_real_client_gives_its_reason(
    user: Kvmark, sin: str, options: str, model: str, code: str | None
) -> None:
    began: list[float] = []

    def before_answer() -> None:
        began.append(time.monotonic())
        since_s = began[-1] - began[0]
        stalls = sin == "stall" and STALL_S[0] <= since_s < STALL_S[1]
        usual_s = random.choice(ANSWERS_S.get(sin, (0.01,)))
        time.sleep(STALL_S[1] - since_s if stalls else usual_s)

    # A tap's cost is measured by PING.
    with store(before_answer, pings=False) as server:
        server.values.update({b"key%d" % number: b"value" for number in range(500)})
        words = f"audit --to redis://127.0.0.1:{server.port} {options} -q --json --"
        document = user(words, *script(sin), exits=(0, 1)).json
    assert document["audit"]["pace"]["model"] == model, document
    found = {code for code, level in levels(document["verdict"]).items() if level != "NOTE"}
    assert found - OF_A_BUSY_MACHINE <= {code}, document
    assert code is None or code in found, document


def test_redis_benchmark_is_audited_and_its_figures_stand_beside_the_tap_s(user: Kvmark) -> None:
    url = redis_up(user).url
    command = "redis-benchmark -h {host} -p {port} -t set,get -n 40000 -r 1000 -c 8 --csv"
    result = user(f"audit --to {url} --name theirs -- {command}", exits=(0, 1))
    assert result.out.startswith("redis-benchmark's "), result
    assert len(result.out.splitlines()) <= 40
    manifest = user.manifest()
    assert manifest["tags"] == ["audit"]
    audit = manifest["imported"]["audit"]
    assert audit["sent"]["operations"] == pytest.approx(80_000, abs=50)
    assert audit["sent"]["mix"]["GET"] == pytest.approx(0.5, abs=0.01)
    assert (audit["sent"]["key_law"], audit["sent"]["keys"]) == ("uniform", 1000)
    assert audit["pace"]["model"] == "closed"
    figures = {one["name"]: one for one in audit["figures"]}
    for name in ("GET", "SET"):
        assert figures[name]["rate"] == pytest.approx(figures[name]["own_rate"], rel=0.3)
    assert audit["tap"]["direct_ns"] > 0
    listed = user("runs --json").json["runs"]
    assert [one["entry"]["name"] for one in listed] == ["theirs"]
    user("runs report last -o a.html")
    pages = [user("show").out, user("show --notes").out, (user.folder / "a.html").read_text()]
    assert all("audit of redis-benchmark" in page for page in pages[1:])
    assert pages[0] == result.out
    # The printed command measures the same.
    same = audit["counterpart"]
    assert same[:2] == ["kvmark", "run"]
    user(*same[1:], "--duration", "1s", exits=(0, 1))


def cassandra_stress(folder: Path) -> Path:
    """A script of cassandra-stress, which Maven fetches and which leaves logs where it runs."""
    find = "import shlex; from bench.cql.peers import find_cassandra_stress as find"
    words = [sys.executable, "-c", f"{find}; print(shlex.join(find()))"]
    found = subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True)
    text = f'cd {folder} && exec {found.stdout.strip()} "$@"'
    return programs.script(folder / "cassandra-stress", text)


def test_the_law_and_the_pace_of_benchmarks_of_cql_are_found(user: Kvmark, node: Testbed) -> None:
    rest = "-mode native cql3 -node {host} -port native={port} -schema keyspace=audited"
    cases = (
        ("write n=4000 cl=ONE no-warmup -rate threads=8", "closed", "each once", "UPDATE"),
        (
            "read n=1500 cl=ONE no-warmup -pop dist=uniform(1..300) -rate threads=8 fixed=100/s",
            "paced", "uniform", "SELECT",
        ),
    )  # fmt: skip
    stress = cassandra_stress(user.folder)
    for load, model, law, verb in cases:
        words = [str(stress), *load.split(), *rest.split()]
        audit = user(f"audit --to {node.url} --json -q --", *words, exits=(0, 1)).json["audit"]
        assert audit["sent"]["mix"] == {verb: 1}, audit
        assert (audit["pace"]["model"], audit["sent"]["key_law"]) == (model, law), audit
        assert (audit["sent"]["failed"], audit["sent"]["missed"]) == (0, 0)
        assert audit["connections"]["clients"] <= 8
    assert audit["announced"]["rate"] == 100
    assert audit["sent"]["population"] == pytest.approx(300, rel=0.02)
    assert audit["pace"]["interval_ns"] == pytest.approx(1e7, rel=0.02)
    if not LATTE.exists():
        return
    reads = f"run {ROOT}/bench/cql/reads.yaml --system {node.url}/ycsb --records 200"
    user(reads, "--operations", "1", "-q", exits=(0, 1))
    latte = f"{LATTE} run {ROOT}/bench/cql/reads.rn {{host}}:{{port}} --concurrency 8 --rate=100"
    latte += " --duration 8s --warmup 0 -P records=200 --quiet --output=latte.json"
    audit = user(f"audit --to {node.url} --json -q -- {latte}", exits=(0, 1)).json["audit"]
    assert (audit["sent"]["mix"], audit["sent"]["key_law"]) == ({"SELECT": 1}, "uniform")
    assert audit["announced"]["rate"] == 100
    assert audit["pace"]["interval_ns"] == pytest.approx(1e7, rel=0.05)
    assert audit["figures"][0]["own_rate"] == pytest.approx(audit["figures"][0]["rate"], rel=0.1)


def test_a_command_that_cannot_be_audited_is_refused_with_a_sentence(user: Kvmark) -> None:
    with store() as server:
        begin = f"audit --to redis://127.0.0.1:{server.port}"
        for words, exits, sentence in (
            (f"{begin} -- nowhere {{port}}", 2, "there is no program nowhere"),
            (f"{begin} -- true", 2, "true doesn't use {port}"),
            (f"{begin} --clients 0 -- true {{port}}", 2, "--clients: must be at least 1"),
            (f"{begin} --records 0 -- true {{port}}", 2, "--records: must be at least 1"),
            (f"{begin} --rate max -- true {{port}}", 2, "max is no announced rate"),
            ("audit --to redis://127.0.0.1:1 -- true {port}", 3, "can't use the server"),
            (f"{begin} -q -- true {{port}}", 3, "true sent nothing"),
            (f"{begin} -q -- sh -c 'echo no luck >&2; exit 7' {{port}}", 3,
             "sh sent nothing to {host}:{port} and ended with 7: no luck"),
        ):  # fmt: skip
            assert sentence in user.refuses(words, exits=exits)


def test_a_command_that_fails_is_reported_with_what_it_sent(user: Kvmark) -> None:
    with store() as server:
        fails = f"exec {sys.executable} {CLIENT} {{host}} {{port}} 0.3 none; exit 3"
        words = f"audit --to redis://127.0.0.1:{server.port} -q --"
        result = user(words, "sh", "-c", fails.removeprefix("exec "), exits=3)
    assert "command_failed" in result.out
    assert "sh ended with 3" in result.err


def test_passwords_of_a_command_are_neither_stored_nor_printed(user: Kvmark) -> None:
    user.variables["REDISCLI_AUTH"] = SECRET
    with store() as server:
        leaks = f"{sys.executable} {CLIENT} {{host}} {{port}} 0.5 none; echo {SECRET}; exit 4"
        words = f"audit --to redis://127.0.0.1:{server.port} --report a.html --"
        inner = f"API_KEY={SECRET} sh -c '{leaks}' -a {SECRET} --pass={SECRET}"
        result = user(words, "sh", "-c", inner, exits=3)
    assert SECRET not in result.out + result.err
    places = [user.folder / "a.html", *user.folder.rglob("*"), *user.runs.rglob("*")]
    files = [path for path in places if path.is_file()]
    assert len(files) > 3
    assert [path for path in files if SECRET.encode() in path.read_bytes()] == []


def children(words: str) -> list[psutil.Process]:
    found = psutil.process_iter(["cmdline"])
    return [one for one in found if words in " ".join(one.info["cmdline"] or [])]


@pytest.mark.parametrize("how", ["interrupt", "kill"])
def test_the_command_ends_with_kvmark(user: Kvmark, how: str) -> None:
    mark = f"{user.folder}/mark"
    with store(lambda: time.sleep(0.01)) as server:
        # A child in a child, and one in the background.
        inner = f"sleep 1000 {mark} & {sys.executable} {CLIENT} {{host}} {{port}} 1000 none {mark}"
        words = f"audit --to redis://127.0.0.1:{server.port} --"
        started = user.start(words, "sh", "-c", inner)
        assert started.process.stderr is not None
        assert "sh runs through 127.0.0.1:" in started.process.stderr.readline()
        wait_until(lambda: server.values, "the client has written")
        if how == "interrupt":
            result = started.interrupt(exits=130)
            assert "interrupted" in result.out
            assert "sh sent until then is run" in result.err
        else:
            started.process.kill()
            started.process.communicate()
        wait_until(lambda: not children(mark), "no process of the command is left")
