"""Traces made of files and of MONITOR, and what `trace` prints about them."""

import re
import subprocess

import pytest
from command_line import Kvmark
from real_servers import command_counts, monitored, redis_cli, redis_up
from trace_files import twitter


@pytest.fixture
def traced(kvmark: Kvmark) -> Kvmark:
    """The program with t.trace."""
    (kvmark.folder / "t.csv").write_text(twitter(5000, 100))
    out = kvmark.import_trace("t.csv", "t.trace").out
    assert "t.csv is twitter/cache-trace, now t.trace: 5,000 operations of 7 clients" in out
    return kvmark


def test_a_trace_is_described_as_text(traced: Kvmark) -> None:
    out = traced("trace show t.trace").out
    assert "5,000 operations of 7 clients" in out
    assert "Instants were whole seconds" in out
    assert re.search(r"get \{key\} +4,000 +80\.00", out)
    assert re.search(r"set \{key\} \{value\} \{ttl\} +1,000 +20\.00", out)
    assert "An LRU cache's hit ratio of reads" in out


def test_a_trace_is_described_as_json_and_as_a_page(traced: Kvmark) -> None:
    answer = traced("trace show t.trace --json --report t.html").json["answer"]
    assert answer["operations"] == 5000
    assert answer["rate"]["mean"] == pytest.approx(100, rel=0.02)
    assert answer["keys"] == len({number * number % 37 for number in range(5000)})
    page = (traced.folder / "t.html").read_text()
    assert "Hit ratio of an LRU cache" in page
    assert "Rate over time" in page
    info = traced.import_trace("t.csv", "u.trace", "--json").json["info"]
    assert (info["operations"], info["clients"], info["keys"]) == (5000, 7, "hashed")


def test_a_run_can_offer_the_rates_of_a_trace(traced: Kvmark) -> None:
    traced("trace show t.trace --rates r.csv --every 5s")
    header, *lines = (traced.folder / "r.csv").read_text().splitlines()
    assert header == "seconds,rate"
    assert lines == [f"{5 * slot},100" for slot in range(10)]
    system = "--system sim:?clock=virtual --load never --clients 64 --duration 20s -q --json"
    run = traced(f"run ycsb/c --rate file:r.csv?hold {system}")
    (measured,) = run.json["summary"]["phases"]
    assert measured["throughput"]["value"] == pytest.approx(100, rel=0.01)


def test_a_trace_does_not_contain_keys(traced: Kvmark) -> None:
    content = b"".join(path.read_bytes() for path in (traced.folder / "t.trace").iterdir())
    assert b"key1" not in content


def test_wrong_use_is_refused(traced: Kvmark) -> None:
    (traced.folder / "short").write_bytes(b"12345")
    (traced.folder / "bad.csv").write_text("at,key,kind\n1,a,get\nx,a,get\n")
    for words, part in (
        ("trace import t.csv", "missing option '--output' / '-o'"),
        ("trace import t.csv -o t.trace", "t.trace is there already; remove it"),
        ("trace import t.csv -o t", "t doesn't end in .trace"),
        ("trace import no.csv -o n.trace", "no.csv can't be read: No such file"),
        ("trace import bad.csv -o n.trace", "bad.csv line 3: the time is 'x', and not"),
        ("trace import t.csv -o n.trace --hash-key short", "short has 5 bytes and not"),
        ("trace import t.csv -o n.trace --columns at", "isn't a name and a column"),
        ("trace show t.trace --rates r.csv --every 1us", "at most 40,000 slots"),
        ("trace show no.trace", "there is no trace no.trace"),
        ("trace show t.csv", "there is no trace t.csv"),
    ):
        assert part in traced.refuses(words)
    assert not (traced.folder / "n.trace").exists()


def test_a_trace_of_monitor_has_the_commands_that_redis_counted(user: Kvmark) -> None:
    port = redis_up(user).nodes[0].port
    with monitored(port, user.folder / "m.txt"):
        before = command_counts(port)
        words = ("-t", "set,get,mset", "-r", "50", "-n", "500", "-P", "4")
        subprocess.run(["redis-benchmark", "-p", str(port), "-q", *words], check=True)
        redis_cli(port, "del", "a", "b", "c")
        redis_cli(port, "eval", "return redis.call('set', KEYS[1], 'x')", "1", "inner")
    after = command_counts(port)
    sent = {name: after[name] - before.get(name, 0) for name in ("set", "get", "mset", "del")}
    user.import_trace("m.txt", "m.trace")
    answer = user("trace show m.trace --json").json["answer"]
    counts = {one["name"].split()[0].lower(): one["operations"] for one in answer["statements"]}
    # No client sent the script's set.
    assert {name: counts[name] for name in sent} == {**sent, "set": sent["set"] - 1}
    assert "commands that scripts sent are left out: 1" in answer["told"]
