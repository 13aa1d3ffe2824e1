"""One secret, given through every door, is found nowhere but with the server it is for."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from command_line import Kvmark, Result, run_folders

from kvmark.secret import Secret
from kvmark.testbed import redis
from kvmark.testbed.state import Testbed
from waiting import wait_until

CANARY = "C4n4ryS1ngs"
SHORT = ("--operations", "100", "--records", "50")
STUDY = """
name: sung
question: Is it kept?
# Once it was redis://default:{secret}@elsewhere:1, and then cql://{secret}@elsewhere.
system: &system "redis://default:{secret}@{address}/0"
workload: ycsb/c
run: {{operations: 100, records: 50}}
factors:
  system:
    levels:
      one: *system
      two: {{system: 'redis://:{secret}@{address}/1'}}
"""
THROUGH = """
name: sung-through
question: Is it kept?
system: up:locked
workload: ycsb/c
run: {{operations: 100, records: 50}}
through: {{proxies: {{other: "redis://:{secret}@{address}"}}}}
"""


@pytest.fixture
def locked(user: Kvmark) -> Testbed:
    """A server that asks for the secret."""
    return redis.up(
        redis.RedisOptions(name="locked", password=Secret(CANARY)),
        Path(user.more["KVMARK_TESTBEDS"]),
    )


def address(locked: Testbed) -> str:
    return locked.nodes[0].address


def url(locked: Testbed) -> str:
    return f"redis://default:{CANARY}@{address(locked)}/0"


def heard(user: Kvmark, *said: Result) -> list[str]:
    """Where the secret can be read, but in the server's own files and those that say it."""
    found = [f"the output of {one.command}" for one in said if CANARY in one.out + one.err]
    for path in user.folder.rglob("*"):
        own = path.is_relative_to(user.folder / "testbeds") or path.name.startswith("my-")
        if path.is_file() and not own and CANARY.encode() in path.read_bytes():
            found.append(str(path))
    return found


def told(user: Kvmark) -> list[Result]:
    """What is told of the runs there are, as far as there are some."""
    if not run_folders(user.runs):
        return [user("runs")]
    page, text = (
        ("runs", "report", "last", "-o", "page.html"),
        ("runs", "report", "last", "-o", "page.md"),
    )
    shown = (("runs", "--json"), ("show", "last"), ("show", "last", "--json"), page, text)
    return [user(*words, exits=(0, 1)) for words in shown]


DOORS = {
    "run, URL": ("run", "ycsb/c", "--system", "{url}", *SHORT),
    "run, URL with =": ("run", "ycsb/c", "--system={url}", *SHORT),
    "run, file": ("run", "ycsb/c", "--system", "redis://{address}?password_file=my-word", *SHORT),
    "run, variable": ("run", "ycsb/c", "--system", "redis://{address}?password_env=WORD", *SHORT),
    "run, sweep": ("run", "ycsb/c", "--system", "{url}", *SHORT, "--sweep", "clients=1,2"),
    "ycsb, URL": ("ycsb", "--system", "{url}", "--workloads", "load", "--records", "50",
                  "--repetitions", "1", "--on-existing", "keep"),
    "capacity, URL": ("capacity", "ycsb/c", "--system", "{url}", "--slo", "p99<1h", "--records",
                      "50", "--from", "100", "--duration", "100ms", "--warmup", "1ms"),
    "ab, words": ("ab", "ycsb/c --operations 500 --records 50", "--base", "--system {url}",
                  "--candidate", "--system '{url}'", "--max-blocks", "4", "--within", "90%"),
    "study, file": ("study", "my-study.yaml", "--report", "study.html"),
    "study, file, its text": ("study", "my-study.yaml", "--text"),
    "study, file, its cases": ("study", "my-study.yaml", "--cases", "--json"),
    "study, option": ("study", "smoke", "--system", "{url}", "--only", "clients=1", "--only",
                      "value_size=10", "--repetitions", "1", "--report", "study.md"),
    "study, way": ("study", "smoke", "--system", "{url}", "--through", "other={url}", "--only",
                   "clients=1", "--only", "value_size=10", "--repetitions", "1"),
    "study, way in the file": ("study", "my-through.yaml"),
    "app, flag": ("app", "RedisKeyValue", "--nodes", "{address}", "--username", "default",
                  "-password", "{secret}", "--num_reads", "100", "--num_writes", "100"),
    "app, flag with =": ("app", "RedisKeyValue", "--nodes", "{address}", "--username=default",
                         "--password={secret}", "--num_reads", "100", "--num_writes", "100"),
    "app, URL": ("app", "RedisKeyValue", "--system", "{url}", "--num_reads", "100",
                 "--num_writes", "100"),
    "stress, words": ("stress", "write", "n=100", "-rate", "threads=1", "-node", "sim:", "-mode",
                      "user=u", "password=", "{secret}"),
    "stress, one word": ("stress", "write n=100 -rate threads=1 -node sim: "
                                   "-mode password={secret} user = u"),
    "stress, URL": ("stress", "write", "n=1", "-node", "cql://u:{secret}@127.0.0.1:1"),
    "up, file": ("up", "redis", "--name", "other", "--password-file", "my-word"),
}  # fmt: skip

WRONG = {
    "URL of nothing": ("run", "ycsb/c", "--system", "rediss3://u:{secret}@h"),
    "URL without a host": ("run", "ycsb/c", "--system", "redis://u:{secret}@"),
    "URL nobody answers at": ("run", "ycsb/c", "--system", "redis://u:{secret}@127.0.0.1:1"),
    "wrong user": ("run", "ycsb/c", "--system", "redis://ann:{secret}@{address}"),
    "option of a URL": ("run", "ycsb/c", "--system", "redis://{address}?password={secret}"),
    "option nobody knows": ("run", "ycsb/c", "--system", "null:?my_token={secret}"),
    "one word too many": ("run", "ycsb/c", "redis://u:{secret}@h"),
    "no workload": ("run", "redis://u:{secret}@h"),
    "option of a study": ("study", "my-options.yaml"),
    "setting of a study": ("study", "my-setting.yaml"),
    "property": ("ycsb", "-p", "redis.password={secret}"),
    "property of Cassandra": ("ycsb", "-p", "cassandra.password={secret}"),
    "property in a file": ("ycsb", "-P", "my-properties"),
    "words of a side": ("ab", "--base", "redis://u:{secret}@h"),
    "word of stress": ("stress", "write", "n=1", "-mode", "user=u", "pasword={secret}"),
    "store of keys": ("stress", "write", "n=1", "-transport", "keystore-password={secret}"),
    "flag without a user": ("app", "RedisKeyValue", "--nodes", "{address}", "--password={secret}"),
    "nodes of app": ("app", "RedisKeyValue", "--nodes", ":{secret}@{address}", "--num_reads", "1",
                     "--num_writes", "1"),
    "nodes of stress": ("stress", "write", "n=1", "-node", "u:{secret}@127.0.0.1"),
    "name of a testbed": ("run", "ycsb/c", "--system", "up:{secret}@h"),
    "user of an exporter": ("app", "RedisKeyValue", "--system", "null:", "--num_reads", "1",
                            "--num_writes", "1", "--observe", "http://u:{secret}@127.0.0.1:1"),
}  # fmt: skip


def prepared(user: Kvmark, locked: Testbed, words: tuple[str, ...]) -> list[str]:
    """Words with the secret in them, and the files that they name."""
    given = {"secret": CANARY, "address": address(locked)}
    user.more["WORD"] = CANARY
    text = "name: sung\nquestion: Is it kept?\nworkload: ycsb/c\n"
    for name, content in {
        "my-word": "{secret}\n",
        "my-study.yaml": STUDY,
        "my-through.yaml": THROUGH,
        "my-options.yaml": text + "system: 'null:'\noptions: {{null: {{pass: {secret}}}}}\n",
        "my-setting.yaml": text + "testbed: {{system: redis, set: {{requirepass: {secret}}}}}\n",
        "my-properties": "recordcount=1\nredis.password={secret}\n",
    }.items():
        (user.folder / name).write_text(content.format(**given))
    return [word.format(**given, url=url(locked)) for word in words]


@pytest.mark.parametrize("door", DOORS)
def test_what_came_in_is_heard_nowhere(user: Kvmark, locked: Testbed, door: str) -> None:
    words = prepared(user, locked, DOORS[door])
    done = user(*words, exits=3 if door == "stress, URL" else (0, 1))
    assert heard(user, done, *told(user)) == []


def test_records_and_traces_are_the_users_alone(kvmark: Kvmark) -> None:
    work = ("ycsb/a", "--system", "null:", "--load", "never", "--operations", 100, "-q")
    kvmark("run", *work, "--repetitions", 2, exits=(0, 1))
    trace = kvmark.folder / "t.trace"
    kvmark("run", *work, "--record", trace, exits=(0, 1))
    studies = kvmark.runs / "studies"
    kept = [path for path in kvmark.runs.rglob("*") if path != studies]
    assert len(kept) > 10
    assert not [path for path in (*kept, trace) if path.stat().st_mode & 0o077]


@pytest.mark.parametrize("door", WRONG)
def test_what_is_refused_is_heard_nowhere(user: Kvmark, locked: Testbed, door: str) -> None:
    done = user(*prepared(user, locked, WRONG[door]), exits=(2, 3))
    assert done.err.startswith("kvmark: ")
    assert heard(user, done, *told(user)) == []


def test_a_study_that_is_resumed_is_the_same_with_its_secret(user: Kvmark, locked: Testbed) -> None:
    words = prepared(user, locked, ("study", "my-study.yaml", "--report", "none"))
    first = user(*words, exits=(0, 1))
    again = user(*words, "--resume", exits=(0, 1))
    assert len(run_folders(user.runs)) >= 2
    assert heard(user, first, again) == []
    # What else is in the file is kept as it stands there.
    (kept,) = user.runs.glob("studies/*/study.json")
    for part in ("# Once it was redis://elsewhere", "system: &system", "two: {system: "):
        assert part in kept.read_text()


def test_a_proxy_is_put_before_a_locked_server_without_its_secret(
    user: Kvmark, locked: Testbed
) -> None:
    words = ("up", "proxy", "--kind", "haproxy", "--to", url(locked))
    done = user(*words, exits=(0, 2))
    assert heard(user, done) == []
    own = (user.folder / "testbeds" / "haproxy").rglob("*")
    assert [one for one in own if one.is_file() and CANARY.encode() in one.read_bytes()] == []


GOING = {
    "run": ("run", "ycsb/c", "--system", "{url}", "--duration", "1h", "--records", "50"),
    "ab": ("ab", "ycsb/c --duration 1h --records 50", "--base", "--system {url}", "--candidate",
           "--system {url}"),
    "study": ("study", "my-study.yaml", "--report", "none"),
    "app": ("app", "RedisKeyValue", "--nodes", "{address}", "--username", "default", "-password",
            "{secret}", "--run_time", "3600", "--num_unique_keys", "50"),
    "stress": ("stress", "write", "duration=1h", "-rate", "threads=1", "-node", "sim:", "-mode",
               "user=u", "password=", "{secret}"),
}  # fmt: skip


@pytest.fixture
def begun(user: Kvmark) -> Iterator[list[subprocess.Popen[str]]]:
    """Commands that are going, which end with the test."""
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in processes:
        if process.poll() is None:
            process.kill()
            process.communicate()


@pytest.mark.parametrize("command", GOING)
def test_who_lists_processes_does_not_see_it(
    user: Kvmark, locked: Testbed, begun: list[subprocess.Popen[str]], command: str
) -> None:
    words = prepared(user, locked, GOING[command])
    study = user.folder / "my-study.yaml"
    study.write_text(study.read_text().replace("operations: 100", "duration: 1h"))
    process = user.start(*words)
    begun.append(process)

    def goes() -> bool:
        assert process.poll() is None, process.communicate()
        return any(log.stat().st_size for log in user.runs.glob("*/intervals.jsonl"))

    wait_until(goes, "the first interval has ended")
    assert listed() == []
    seen = psutil.Process(process.pid).cmdline()
    assert words[0] in seen
    process.send_signal(signal.SIGINT)
    done = user.finish(process, exits=130)
    assert heard(user, done, *told(user)) == []


def listed() -> list[list[str]]:
    """The words of processes that have the secret in them."""
    found = psutil.process_iter(["cmdline"])
    return [one.info["cmdline"] for one in found if CANARY in " ".join(one.info["cmdline"] or [])]


NOTEBOOK = """
import kvmark
kvmark.run("ycsb/c", {url!r}, records=50, operations=100)
"""


def test_a_notebook_gives_it_to_its_process_by_no_word(user: Kvmark, locked: Testbed) -> None:
    # The program that the notebook starts writes down with which words it was begun.
    place = user.folder / "place"
    place.mkdir()
    (place / "sitecustomize.py").write_text(
        "import os, pathlib, sys\n"
        f"log = pathlib.Path({str(user.folder / 'words')!r})\n"
        "with log.open('ab') as file: file.write(pathlib.Path('/proc/self/cmdline').read_bytes())\n"
    )
    code = user.folder / "my-notebook.py"
    code.write_text(NOTEBOOK.format(url=url(locked)))
    done = subprocess.run(
        [sys.executable, str(code)],
        env={**user._environment(), "PYTHONPATH": f"{place}:{':'.join(filter(None, sys.path))}"},
        cwd=user.folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=user.patience_s,
    )
    assert done.returncode == 0, done.stderr
    assert b"kvmark.run.worker" in (user.folder / "words").read_bytes()
    assert CANARY not in done.stdout + done.stderr
    assert heard(user) == []
