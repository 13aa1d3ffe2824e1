"""Bounds on a server's memory, in files like the kernel's, and in the kernel's own."""

import os
import subprocess
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from kvmark.errors import UsageError
from kvmark.testbed import process
from kvmark.testbed.process import joining, make_group, ran_out, remove_group

GIB = 2**30
Kernel = Callable[..., Path]


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    """A kernel that shows these groups, and the process in some of them."""

    def make(lines: str, *groups: str) -> Path:
        own, mount = tmp_path / "own", tmp_path / "mount"
        own.write_text(lines)
        for group in ("", *groups):
            (mount / group).mkdir(parents=True, exist_ok=True)
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
