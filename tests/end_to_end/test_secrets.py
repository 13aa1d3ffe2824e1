"""A secret in any argument or file appears in no output, no record and no list of processes."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import psutil
import pytest
from command_line import PROGRAM, Kvmark, Result, run_folders, split
from real_servers import redis_up

from kvmark.cli import main
from kvmark.cli.registry import COMMANDS, CompleteGroup
from kvmark.frontends.yugabyte_apps.flags import FLAGS
from kvmark.secret import Secret
from kvmark.testbed.state import Testbed

SECRET = "C4n4ryS1ngs"
STUDY = """
name: secret
question: Is it kept?
# A comment with redis://default:{secret}@elsewhere:1 and cql://{secret}@elsewhere.
system: &system "redis://default:{secret}@{address}/0"
observe: {{db: *system, own: "redis://:{secret}@{address}"}}
workload: ycsb/c
run: {{operations: 100, records: 50}}
factors:
  system:
    levels:
      one: *system
      two: {{system: 'redis://:{secret}@{address}/1'}}
"""
THROUGH = """
name: secret-through
question: Is it kept?
system: up:locked
workload: ycsb/c
run: {{operations: 100, records: 50}}
through: {{proxies: {{other: "redis://:{secret}@{address}"}}}}
"""
NOTEBOOK = """
import kvmark
url = "{url}"
kvmark.run("ycsb/c", url, records=50, duration="1h")
"""
PLAIN = "name: secret\nquestion: Is it kept?\nworkload: ycsb/c\n"
FILES = {
    "my-word": "{secret}\n",
    "my-notebook.py": NOTEBOOK,
    "my-study.yaml": STUDY,
    "my-through.yaml": THROUGH,
    "my-options.yaml": PLAIN + "system: 'null:'\noptions: {{null: {{pass: {secret}}}}}\n",
    "my-setting.yaml": PLAIN + "testbed: {{system: redis, set: {{requirepass: {secret}}}}}\n",
    "my-properties": "recordcount=1\nredis.password={secret}\n",
}


@pytest.fixture
def locked(user: Kvmark) -> Testbed:
    """A server whose password is the secret, and files of the user with it."""
    testbed = redis_up(user, name="locked", password=Secret(SECRET))
    user.variables["WORD"] = SECRET
    for name, text in FILES.items():
        (user.folder / name).write_text(filled(text, testbed))
    return testbed


def filled(text: str, locked: Testbed) -> str:
    """A text with the secret, the server's address and its URL."""
    address = locked.nodes[0].address
    url = f"redis://default:{SECRET}@{address}/0"
    levels = "--only clients=1 --only value_size=10 --repetitions 1"
    return text.format(
        secret=SECRET, address=address, url=url,
        small="--operations 100 --records 50",
        smoke=f"study smoke --system {url} {levels}",
        app="app RedisKeyValue --num_reads 100 --num_writes 100",
        stress="stress write n=100 -rate threads=1 -node sim:",
    )  # fmt: skip


def leaks(user: Kvmark, *results: Result) -> list[str]:
    """Outputs and files with the secret, without the server's files and those of the user."""
    places = [f"the output of {one.arguments}" for one in results if SECRET in one.out + one.err]
    for path in user.folder.rglob("*"):
        exempt = path.is_relative_to(user.testbeds) or path.name.startswith("my-")
        if path.is_file() and not exempt and SECRET.encode() in path.read_bytes():
            places.append(str(path))
    return places


def views(user: Kvmark) -> list[Result]:
    """The lists, pages and reports of the existing runs."""
    if not run_folders(user.runs):
        return [user("runs")]
    reports = ("runs report last -o page.html", "runs report last -o page.md")
    commands = ("runs --json", "show last", "show last --json", *reports)
    return [user(command, exits=(0, 1)) for command in commands]


ACCEPTED = {
    "run, URL": "run ycsb/c --system {url} {small}",
    "run, no user": "run ycsb/c --system redis://:{secret}@{address} {small}",
    "run, URL with =": "run ycsb/c --system={url} {small}",
    "run, file": "run ycsb/c --system redis://{address}?password_file=my-word {small}",
    "run, variable": "run ycsb/c --system redis://{address}?password_env=WORD {small}",
    "run, observed": "run ycsb/c --system sim: {small} --observe db={url}",
    "run, sweep": "run ycsb/c --system {url} {small} --sweep clients=1,2",
    "ycsb, URL": "ycsb --system {url} --workloads load --records 50 --repetitions 1"
    " --on-existing keep",
    "capacity, URL": "capacity ycsb/c --system {url} --slo 'p99<1h' --records 50 --from 100"
    " --duration 100ms --warmup 1ms",
    "ab, arguments": "ab 'ycsb/c --operations 500 --records 50' --base '--system {url}'"
    " --candidate \"--system '{url}'\" --max-blocks 4 --within 90%",
    "study, file": "study my-study.yaml --report study.html",
    "study, file, printed": "study my-study.yaml --text",
    "study, file, its cases": "study my-study.yaml --cases --json",
    "study, option": "{smoke} --report study.md",
    "study, proxy": "{smoke} --through other={url}",
    "study, proxy in the file": "study my-through.yaml",
    "app, flag": "{app} --nodes {address} --username default -password {secret}",
    "app, flag with =": "{app} --nodes {address} --username=default --password={secret}",
    "app, URL": "{app} --system {url}",
    "stress, split": "{stress} -mode user=u password= {secret}",
    "stress, one argument": "stress 'write n=100 -rate threads=1 -node sim:"
    " -mode password={secret} user = u'",
    "stress, URL": "stress write n=1 -node cql://u:{secret}@127.0.0.1:1",
    "up, file": "up redis --name other --password-file my-word",
}
REJECTED = {
    "unknown scheme": "run ycsb/c --system rediss3://u:{secret}@h",
    "URL without a host": "run ycsb/c --system redis://u:{secret}@",
    "URL without a server": "run ycsb/c --system redis://u:{secret}@127.0.0.1:1",
    "wrong user": "run ycsb/c --system redis://ann:{secret}@{address}",
    "wrong password": "run ycsb/c --system redis://:{secret}0@{address}",
    "wrong user of a sequence": "ycsb --system redis://ann:{secret}@{address}",
    "wrong password of a sequence": "ycsb --system redis://:{secret}0@{address}",
    "option of a URL": "run ycsb/c --system redis://{address}?password={secret}",
    "unknown option of a URL": "run ycsb/c --system null:?my_token={secret}",
    "extra argument": "run ycsb/c redis://u:{secret}@h",
    "no workload": "run redis://u:{secret}@h",
    "option of a study": "study my-options.yaml",
    "setting of a study": "study my-setting.yaml",
    "property": "ycsb -p redis.password={secret}",
    "property of Cassandra": "ycsb -p cassandra.password={secret}",
    "property in a file": "ycsb -P my-properties",
    "arguments of a baseline": "ab --base redis://u:{secret}@h",
    "option of stress": "stress write n=1 -mode user=u pasword={secret}",
    "key store of stress": "stress write n=1 -transport keystore-password={secret}",
    "flag without a user": "app RedisKeyValue --nodes {address} --password={secret}",
    "nodes of app": "{app} --nodes :{secret}@{address}",
    "nodes of stress": "stress write n=1 -node u:{secret}@127.0.0.1",
    "name of a testbed": "run ycsb/c --system up:{secret}@h",
    "user of an exporter": "{app} --system null: --observe http://u:{secret}@127.0.0.1:1",
}
STARTED = {
    "run": "run ycsb/c --system {url} --duration 1h --records 50",
    "run, no user": "run ycsb/c --system redis://:{secret}@{address} --duration 1h --records 50",
    "ab": "ab 'ycsb/c --duration 1h --records 50' --base '--system {url}'"
    " --candidate '--system {url}'",
    "study": "study my-study.yaml --report none",
    "app": "app RedisKeyValue --nodes {address} --username default -password {secret}"
    " --run_time 3600 --num_unique_keys 50",
    "stress": "stress write duration=1h -rate threads=1 -node sim: -mode user=u password= {secret}",
}


@pytest.mark.parametrize("source", [*ACCEPTED, *REJECTED])
def test_a_secret_appears_nowhere(user: Kvmark, locked: Testbed, source: str) -> None:
    fails = 3 if source.startswith(("wrong", "stress, URL")) else (2, 3)
    exits = fails if source in (*REJECTED, "stress, URL") else (0, 1)
    result = user(filled({**ACCEPTED, **REJECTED}[source], locked), exits=exits)
    assert source in ACCEPTED or result.err.startswith("kvmark: ")
    assert leaks(user, result, *views(user)) == []


def test_only_the_user_can_read_records_and_traces(kvmark: Kvmark) -> None:
    words = "run ycsb/a --system null: --load never --operations 100 -q"
    kvmark(words, "--repetitions", 2, exits=(0, 1))
    trace = kvmark.folder / "t.trace"
    kvmark(words, "--record", trace, exits=(0, 1))
    studies = kvmark.runs / "studies"
    paths = [path for path in kvmark.runs.rglob("*") if path != studies]
    assert len(paths) > 10
    assert not [path for path in (*paths, trace) if path.stat().st_mode & 0o077]


def test_a_study_with_a_secret_can_be_resumed(user: Kvmark, locked: Testbed) -> None:
    words = "study my-study.yaml --report none"
    first = user(words, exits=(0, 1))
    resumed = user(words, "--resume", exits=(0, 1))
    assert len(run_folders(user.runs)) >= 2
    assert leaks(user, first, resumed) == []
    # The rest of the file is kept unchanged.
    (stored,) = user.runs.glob("studies/*/study.json")
    for part in ("# A comment with redis://elsewhere", "system: &system", "two: {system: "):
        assert part in stored.read_text()


def test_a_proxy_before_a_locked_server_has_no_secret(user: Kvmark, locked: Testbed) -> None:
    result = user("up proxy --kind haproxy --to", filled("{url}", locked), exits=(0, 2))
    assert leaks(user, result) == []
    own = (user.testbeds / "haproxy").rglob("*")
    assert [path for path in own if path.is_file() and SECRET.encode() in path.read_bytes()] == []


@pytest.mark.parametrize("command", [*STARTED, "my-notebook.py"])
def test_no_list_of_processes_shows_a_secret(user: Kvmark, locked: Testbed, command: str) -> None:
    study = user.folder / "my-study.yaml"
    study.write_text(study.read_text().replace("operations: 100", "duration: 1h"))
    is_program = command in STARTED
    words = filled(STARTED[command], locked) if is_program else command
    started = user.start(words, program=PROGRAM if is_program else sys.executable)
    started.wait_for()
    listed = [one.info["cmdline"] or [] for one in psutil.process_iter(["cmdline"])]
    assert [arguments for arguments in listed if SECRET in " ".join(arguments)] == []
    assert command.partition(",")[0] in psutil.Process(started.process.pid).cmdline()
    assert leaks(user, started.interrupt(exits=(130, 1)), *views(user)) == []
    if command == "run":
        existing = filled("ycsb --system {url} --workloads load --records 50", locked)
        assert SECRET not in user.refuses(existing)
        user(existing, "--repetitions", "1", "--on-existing", "remove")


URL = f"redis://ann:{SECRET}@127.0.0.1:1"
NAMED_FOLDERS = {"runs"}
"""Options whose value names a folder."""
SMALL = "--system null: --records 10 --operations 10"
ARGUMENTS = {
    "run": f"ycsb/c {SMALL}",
    "replay": "a.trace --system null:",
    "ycsb": f"{SMALL} --repetitions 1 --workloads load",
    "stress": "write n=10 -rate threads=1 -node sim:",
    "app": "RedisKeyValue --system null: --num_reads 10 --num_writes 10",
    "ab": "'ycsb/c --operations 10 --records 10' --base '--system null:'"
    " --candidate '--system null:' --max-blocks 4",
    "capacity": "ycsb/c --system null: --slo 'p99<1h' --records 10 --from 100 --duration 50ms"
    " --warmup 1ms",
    "recover": "ycsb/c --system null: --records 10 --rate 100 --before 1s --limit 1s"
    " --trigger 'rate x2 for 100ms' --warmup 1ms --interval 50ms",
    "study": "smoke --system null: --only clients=1 --only value_size=10 --repetitions 1"
    " --report none",
    "trace record": "--to 127.0.0.1:1 -o recorded.trace --listen 127.0.0.1:1",
    "trace import": "no.csv -o b.trace",
    "import": "no.csv",
    "audit": "--to redis://127.0.0.1:1 -- true {port}",
    "up": "redis",
    "down": "nothing",
    "doc": "no.md",
    "serve": "--runs nowhere",
    "runs archive": "last -o a.tar.xz",
    "runs rm": "nothing",
    **dict.fromkeys(("trace show", "trace learn"), "a.trace"),
    **dict.fromkeys(("show", "runs show", "runs report", "runs export"), "last"),
    **dict.fromkeys(("compare", "runs compare"), "last last"),
}
"""Arguments with which a command gets as far as possible with one more option."""


def options(command: str) -> list[str]:
    """The options of a command that take a value."""
    if command == "app":
        flags = (one.name for one in FLAGS.values() if one.takes != "nothing")
        return [f"--{name}" for name in flags if name not in NAMED_FOLDERS]
    group: Any = CompleteGroup()
    for word in command.split():
        group = group.commands[word]
    taking = (one for one in group.params if one.param_type_name == "option" and not one.is_flag)
    return [max(one.opts, key=len) for one in taking if one.name != "folder"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The working directory of all commands, with two runs and a trace."""
    folder = tmp_path_factory.mktemp("place")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("KVMARK_RUNS", str(folder / "runs"))
        patch.setenv("KVMARK_TESTBEDS", str(folder / "testbeds"))
        for option in ("--record a.trace", ""):
            output(split((f"run ycsb/c {SMALL} --quiet {option}",)))
        yield folder


def output(words: list[str]) -> str:
    """The output of a command, whose exit code is a documented one."""
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(out):
        assert main(words) in (0, 1, 2, 3), words
    return out.getvalue()


def take_leaks(folder: Path) -> list[Path]:
    """Moves files with the secret in them, or in their names, away and returns their paths."""
    found = []
    for path in sorted(folder.rglob("*"), reverse=True):
        if SECRET in path.name or (path.is_file() and SECRET.encode() in path.read_bytes()):
            found.append(path.relative_to(folder))
            path.rename(folder.with_name(f"leak-{len(list(folder.parent.iterdir()))}"))
    return found


@pytest.mark.parametrize("command", COMMANDS)
def test_a_password_in_any_option_appears_nowhere(place: Path, command: str) -> None:
    leaks_by_option = {}
    for option in options(command):
        words = split((f"{command} {ARGUMENTS.get(command, '')}",))
        if option in words:
            at = words.index(option)
            del words[at : at + 2]
        for command_line in ([*words, option, URL], [*words, f"{option}={URL}"]):
            printed = SECRET in output(command_line)
            if (files := take_leaks(place)) or printed:
                leaks_by_option[option] = ("its output", *files) if printed else tuple(files)
    assert leaks_by_option == {}
