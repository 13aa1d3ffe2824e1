"""Processes: identified by number and start, signalled only when both agree, and bounded."""

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from kvmark.errors import SystemUnderTestError, UsageError
from kvmark.testbed import process
from kvmark.testbed.process import Identity, joining, make_group, ran_out, remove_group
from kvmark.testbed.state import Node, Testbed
from waiting import PATIENCE_S

Start = Callable[..., Identity]

READY = "print('ready', flush=True)\n"
SLEEP = "import time\ntime.sleep(600)\n"
DEAF = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
ENDS = "import signal\nsignal.signal(signal.SIGTERM, lambda *_: exit(print('ends')))\n"
# Redis rejects the signal while it writes its first append-only file.
REJECTS_ONCE = """import signal
words = ['no', 'yes']
def answer(*_):
    print(words.pop(0))
    words or exit()
signal.signal(signal.SIGTERM, answer)
"""
THREADS = """import threading, time
for _ in range(8): threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
def more():
    while True:
        one = threading.Thread(target=time.sleep, args=(0.001,)); one.start(); one.join()
threading.Thread(target=more, daemon=True).start()
"""


@pytest.fixture
def start(server_log: Path) -> Iterator[Start]:
    """Starts a Python program, waits until it is ready, and kills it at the end of the test."""
    started: list[Identity] = []

    def run(program: str = "", cores: Sequence[int] = ()) -> Identity:
        command = [sys.executable, "-c", program + READY + SLEEP]
        started.append(process.start(command, server_log, cores=cores))
        wait_for(lambda: "ready" in server_log.read_text(), started[-1], server_log)
        return started[-1]

    yield run
    for one in started:
        process.kill(one)


def wait_for(
    condition: Callable[[], bool], one: Identity, server_log: Path, within_s: float = PATIENCE_S
) -> None:
    folder = server_log.parent
    node = Node(name=folder.name, role="peer", host="", port=0, command=(), process=one)
    texts = dict.fromkeys(("name", "system", "version", "created", "url"), "program")
    testbed = Testbed.model_validate({**texts, "nodes": (node,), "folder": folder.parent})
    testbed.wait_until(condition, "dance", within_s)


def test_a_process_is_detached_and_has_nothing_of_the_environment(
    start: Start, server_log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KVMARK_PASSWORD", "sesame")
    one = start("import os\nprint(sorted(os.environ), flush=True)\n")
    assert os.getsid(one.pid) == one.pid
    assert process.lives(one)
    assert "KVMARK_PASSWORD" not in server_log.read_text()


@pytest.mark.parametrize(
    ("program", "grace_s", "output"),
    [
        (ENDS, 15.0, ["ready", "ends"]),
        (REJECTS_ONCE, 15.0, ["ready", "no", "yes"]),
        (DEAF, 0.05, ["ready"]),
    ],
)
def test_stopping_asks_repeatedly_and_then_kills(
    start: Start, server_log: Path, program: str, grace_s: float, output: list[str]
) -> None:
    one = start(program)
    assert process.stop([one], grace_s) == [one]
    assert server_log.read_text().split() == output
    assert not process.lives(one)


def test_a_paused_process_is_resumed_or_stopped(start: Start, server_log: Path) -> None:
    one = start()
    status = psutil.Process(one.pid).status
    assert process.pause(one)
    wait_for(lambda: status() == psutil.STATUS_STOPPED, one, server_log)
    assert process.resume(one)
    wait_for(lambda: status() != psutil.STATUS_STOPPED, one, server_log)
    assert process.pause(one)
    assert process.stop([one]) == [one]


def test_children_are_paused_resumed_and_killed_with_their_process(
    start: Start, server_log: Path
) -> None:
    one = start("import subprocess\nsubprocess.Popen(['sleep', '600'], start_new_session=True)\n")
    (child,) = psutil.Process(one.pid).children()
    assert process.pause(one)
    wait_for(lambda: child.status() == psutil.STATUS_STOPPED, one, server_log)
    assert process.resume(one)
    wait_for(lambda: child.status() != psutil.STATUS_STOPPED, one, server_log)
    assert process.kill(one)
    child.wait(PATIENCE_S)


def test_another_process_with_the_same_number_is_not_signalled(start: Start) -> None:
    one = start()
    boot, _, ticks = one.started.rpartition("/")
    former = Identity(pid=one.pid, started=f"{boot}/{int(ticks) - 1}")
    assert process.stop([former]) == []
    assert not process.kill(former)
    assert not process.pause(former)
    assert process.kill(one)
    assert not process.kill(one)
    assert process.stop([one]) == []


def test_a_process_is_bound_to_its_cores_and_the_starter_is_not(start: Start) -> None:
    own = os.sched_getaffinity(0)
    one = start(cores=[max(own)])
    assert os.sched_getaffinity(one.pid) == {max(own)}
    assert os.sched_getaffinity(0) == own
    with pytest.raises(UsageError, match="core 4095 can't be used: choose among"):
        start(cores=[4095])


def test_a_running_process_is_bound_with_all_its_threads(start: Start) -> None:
    usable = os.sched_getaffinity(0)
    one = start(THREADS, cores=[max(usable)])
    for cores in (usable, {min(usable)}, {max(usable)}):
        process.bind(one, cores)
        for thread in psutil.Process(one.pid).threads():
            with suppress(ProcessLookupError):
                assert os.sched_getaffinity(thread.id) == cores


def test_missing_cores_are_reported_and_ended_processes_are_ignored(start: Start) -> None:
    one = start()
    with pytest.raises(SystemUnderTestError, match="can't be bound to other cores because Inv"):
        process.bind(one, [4095])
    process.kill(one)
    process.bind(one, [4095])
    # Another process has that number now.
    process.bind(Identity(pid=os.getpid(), started="long ago"), [4095])


def test_an_ended_slow_or_missing_process_is_reported(start: Start, server_log: Path) -> None:
    with pytest.raises(SystemUnderTestError, match=r"longer than 0.01 s to dance.*is: ready$"):
        wait_for(lambda: False, start(), server_log, 0.01)
    one = process.start([sys.executable, "-c", "print('no luck today\\n\\n')"], server_log)
    with pytest.raises(SystemUnderTestError, match=r"^program/\S+ ended by itself: no luck today$"):
        wait_for(lambda: False, one, server_log)
    with pytest.raises(SystemUnderTestError, match="no-such-program can't be started because No"):
        process.start(["/no-such-program"], server_log)


def test_signals_that_the_starter_ignores_are_not_ignored(start: Start, server_log: Path) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        one = start()
    finally:
        signal.signal(signal.SIGINT, before)
    os.kill(one.pid, signal.SIGINT)
    with pytest.raises(SystemUnderTestError, match="ended by itself"):
        wait_for(lambda: False, one, server_log)


GIB = 2**30
Kernel = Callable[..., Path]


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    """A kernel that shows a group, and the process in some groups."""

    def make(lines: str, group: str) -> Path:
        own, mount = tmp_path / "own", tmp_path / "mount"
        own.write_text(lines)
        (mount / group).mkdir(parents=True)
        monkeypatch.setattr(process, "_OWN", own)
        monkeypatch.setattr(process, "_MOUNT", mount)
        return mount

    return make


@pytest.mark.parametrize(
    ("own", "parent", "bound", "swap"),
    [
        # Version 1: inside the process's own group. Version 2: next to it.
        ("4:memory:/job/1\n0::/\n", "memory/job/1", "limit_in_bytes", "swappiness"),
        ("0::/user.slice/session-1.scope\n", "user.slice", "max", "swap.max"),
    ],
)
def test_a_group_has_a_bound(kernel: Kernel, own: str, parent: str, bound: str, swap: str) -> None:
    mount = kernel(own, parent)
    (mount / parent / "cgroup.subtree_control").write_text("cpu memory pids\n")
    group = make_group("kvmark-1-node-1", GIB)
    assert group == mount / parent / "kvmark-1-node-1"
    assert (group / f"memory.{bound}").read_text() == str(GIB)
    assert (group / f"memory.{swap}").read_text() == "0"


@pytest.mark.parametrize("controllers", ["cpu pids\n", None])
def test_a_bound_that_is_not_possible_is_refused(kernel: Kernel, controllers: str | None) -> None:
    mount = kernel("0::/a/b\n", "a")
    if controllers is not None:
        (mount / "a/cgroup.subtree_control").write_text(controllers)
    with pytest.raises(UsageError, match=r"can't be bounded here \(.*\): be root .* leave --mem"):
        make_group("kvmark", GIB)


def test_a_command_joins_its_group_in_the_same_process(tmp_path: Path) -> None:
    group = tmp_path / "a group"
    group.mkdir()
    command = joining(group, ("sh", "-c", 'echo $$ "$1"', "sh", 'two "words"'))
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        said, _ = running.communicate()
    assert said == f'{running.pid} two "words"\n'
    assert (group / "cgroup.procs").read_text() == f"{running.pid}\n"


@pytest.mark.parametrize(("name", "lines"), [
    ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill {}\n"),
    ("memory.events", "low 0\nhigh 0\nmax 9\noom 1\noom_kill {}\n"),
])  # fmt: skip
def test_a_kill_for_exhausted_memory_is_recognised(tmp_path: Path, name: str, lines: str) -> None:
    assert not ran_out(tmp_path)
    (tmp_path / name).write_text(lines.format(0))
    assert not ran_out(tmp_path)
    (tmp_path / name).write_text(lines.format(1))
    assert ran_out(tmp_path)


def test_the_kernel_keeps_the_bound_that_a_group_was_given() -> None:
    try:
        group = make_group(f"kvmark-test-{os.getpid()}-{uuid.uuid4().hex[:8]}", GIB)
    except UsageError as refused:
        pytest.skip(str(refused))
    try:
        bounds = ("memory.limit_in_bytes", "memory.max")
        kept = [(group / name).read_text() for name in bounds if (group / name).exists()]
        assert [int(text) for text in kept] == [GIB]
        inside = joining(group, ("cat", "/proc/self/cgroup"))
        said = subprocess.run(inside, capture_output=True, text=True, check=True).stdout
        assert group.name in said
    finally:
        remove_group(group)
    assert not group.exists()
