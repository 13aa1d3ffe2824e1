"""Traces from the words a user types: made of files and of a server's MONITOR, and looked into."""

import re
import subprocess
from pathlib import Path

import pytest
from command_line import Kvmark

from kvmark.testbed import redis
from waiting import wait_until

TWITTER = "".join(
    f"{number // 100},key{number * number % 37},12,{number % 500},{number % 7},"
    f"{'set' if number % 5 == 0 else 'get'},{3600 if number % 5 == 0 else 0}\n"
    for number in range(5000)
)


@pytest.fixture
def made(kvmark: Kvmark) -> Kvmark:
    (kvmark.folder / "t.csv").write_text(TWITTER)
    result = kvmark("trace", "import", "t.csv", "-o", "t.trace")
    assert "t.csv is twitter/cache-trace, now t.trace: 5,000 operations of 7 clients" in result.out
    return kvmark


def test_a_trace_is_told_in_words(made: Kvmark) -> None:
    out = made("trace", "show", "t.trace").out
    assert "5,000 operations of 7 clients" in out
    assert "Instants were whole seconds" in out
    assert re.search(r"get \{key\} +4,000 +80\.00", out)
    assert re.search(r"set \{key\} \{value\} \{ttl\} +1,000 +20\.00", out)
    assert "An LRU cache's hit ratio of reads" in out


def test_a_trace_is_told_as_json_and_as_a_page(made: Kvmark) -> None:
    answer = made("trace", "show", "t.trace", "--json", "--report", "t.html").json["answer"]
    assert answer["operations"] == 5000
    assert answer["rate"]["mean"] == pytest.approx(100, rel=0.02)
    assert answer["keys"] == len({number * number % 37 for number in range(5000)})
    page = (made.folder / "t.html").read_text()
    assert "Hit ratio of an LRU cache" in page
    assert "Rate over time" in page
    info = made("trace", "import", "t.csv", "-o", "u.trace", "--json").json["info"]
    assert (info["operations"], info["clients"], info["keys"]) == (5000, 7, "hashed")


def test_the_rates_of_a_trace_are_offered_again(made: Kvmark) -> None:
    made("trace", "show", "t.trace", "--rates", "r.csv", "--every", "5s")
    header, *rows = (made.folder / "r.csv").read_text().splitlines()
    assert header == "seconds,rate"
    assert rows == [f"{5 * slot},100" for slot in range(10)]
    words = ("--system", "sim:?clock=virtual", "--load", "never", "--duration", "20s", "-q")
    run = made("run", "ycsb/c", "--rate", "file:r.csv?hold", "--clients", "64", *words, "--json")
    (measured,) = run.json["summary"]["phases"]
    assert measured["throughput"]["value"] == pytest.approx(100, rel=0.01)


def test_contents_of_keys_are_not_in_a_trace(made: Kvmark) -> None:
    written = b"".join(path.read_bytes() for path in (made.folder / "t.trace").iterdir())
    assert b"key1" not in written


def test_wrong_use_is_told_in_a_sentence(made: Kvmark) -> None:
    (made.folder / "short").write_bytes(b"12345")
    (made.folder / "bad.csv").write_text("at,key,kind\n1,a,get\nx,a,get\n")
    for words, sentence in (
        (("trace", "import", "t.csv"), "missing option '--output' / '-o'"),
        (("trace", "import", "t.csv", "-o", "t.trace"), "t.trace is there already; remove it"),
        (("trace", "import", "t.csv", "-o", "t"), "t doesn't end in .trace"),
        (("trace", "import", "no.csv", "-o", "n.trace"), "no.csv can't be read: No such file"),
        (
            ("trace", "import", "bad.csv", "-o", "n.trace"),
            "bad.csv line 3: the time is 'x', and not",
        ),
        (
            ("trace", "import", "t.csv", "-o", "n.trace", "--hash-key", "short"),
            "short has 5 bytes and not",
        ),
        (
            ("trace", "import", "t.csv", "-o", "n.trace", "--columns", "at"),
            "isn't a name and a column",
        ),
        (
            ("trace", "show", "t.trace", "--rates", "r.csv", "--every", "1us"),
            "at most 40,000 slots",
        ),
        (("trace", "show", "no.trace"), "there is no trace no.trace"),
        (("trace", "show", "t.csv"), "there is no trace t.csv"),
    ):
        assert sentence in made.refuses(*words)
    assert not (made.folder / "n.trace").exists()


def test_what_redis_counted_is_in_the_trace_of_its_monitor(user: Kvmark) -> None:
    testbed = redis.up(redis.RedisOptions(), Path(user.more["KVMARK_TESTBEDS"]))
    port = str(testbed.nodes[0].port)
    told = user.folder / "m.txt"

    def cli(*words: str) -> str:
        return subprocess.run(
            ["redis-cli", "-p", port, *words], check=True, capture_output=True, text=True
        ).stdout

    def counted() -> dict[str, int]:
        found = re.findall(r"cmdstat_(set|get|mset|del):calls=(\d+)", cli("info", "commandstats"))
        return {name: int(calls) for name, calls in found}

    with told.open("w") as file:
        monitor = subprocess.Popen(["redis-cli", "-p", port, "monitor"], stdout=file)
        try:
            wait_until(lambda: told.read_text().startswith("OK"), "MONITOR to begin")
            before = counted()
            for words in (("-t", "set,get,mset", "-r", "50", "-n", "500", "-P", "4"),):
                subprocess.run(["redis-benchmark", "-p", port, "-q", *words], check=True)
            cli("del", "a", "b", "c")
            cli("eval", "return redis.call('set', KEYS[1], 'x')", "1", "inner")
            cli("echo", "the end")
            wait_until(lambda: '"the end"' in told.read_text(), "the last command")
        finally:
            monitor.terminate()
            monitor.wait()
    after = counted()
    sent = {name: after[name] - before.get(name, 0) for name in after}
    user("trace", "import", "m.txt", "-o", "m.trace")
    answer = user("trace", "show", "m.trace", "--json").json["answer"]
    found = {one["name"].split()[0].lower(): one["operations"] for one in answer["statements"]}
    # The script's own set is the server's and not a client's.
    assert {name: found[name] for name in sent} == {**sent, "set": sent["set"] - 1}
    assert "commands that scripts sent are left out: 1" in answer["told"]
