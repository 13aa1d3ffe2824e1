"""A bound on a server's memory, in files that look like the kernel's, and in the kernel's own."""

import os
import subprocess
import uuid
from pathlib import Path

import pytest

from kvmark.errors import UsageError
from kvmark.testbed.process import joining, make_group, ran_out, remove_group

GIB = 2**30


def kernel(folder: Path, lines: str, *groups: str) -> tuple[Path, Path]:
    """A kernel that says which groups a process is in, and shows them."""
    own, mount = folder / "own", folder / "mount"
    own.write_text(lines)
    for group in ("", *groups):
        (mount / group).mkdir(parents=True, exist_ok=True)
    return own, mount


def test_a_group_of_version_1_is_made_inside_ones_own(tmp_path: Path) -> None:
    own, mount = kernel(tmp_path, "4:memory:/job/1\n0::/\n", "memory/job/1")
    group = make_group("kvmark-1-node-1", GIB, own, mount)
    assert group == mount / "memory/job/1/kvmark-1-node-1"
    assert (group / "memory.limit_in_bytes").read_text() == str(GIB)


def test_a_group_of_version_2_is_made_beside_ones_own(tmp_path: Path) -> None:
    own, mount = kernel(tmp_path, "0::/user.slice/session-1.scope\n", "user.slice")
    (mount / "user.slice/cgroup.subtree_control").write_text("cpu memory pids\n")
    group = make_group("kvmark-1-node-1", GIB, own, mount)
    assert group == mount / "user.slice/kvmark-1-node-1"
    assert (group / "memory.max").read_text() == str(GIB)
    assert (group / "memory.swap.max").read_text() == "0"


@pytest.mark.parametrize("controllers", ["cpu pids\n", None])
def test_where_memory_can_not_be_bounded_it_is_said_in_a_sentence(
    tmp_path: Path, controllers: str | None
) -> None:
    own, mount = kernel(tmp_path, "0::/a/b\n", "a")
    if controllers is not None:
        (mount / "a/cgroup.subtree_control").write_text(controllers)
    with pytest.raises(UsageError, match=r"can't be bounded here \(.*\): be root .* leave --mem"):
        make_group("kvmark", GIB, own, mount)


def test_a_command_joins_its_group_and_keeps_its_words_and_its_process(tmp_path: Path) -> None:
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
def test_a_server_that_the_kernel_killed_for_its_memory_is_told(
    tmp_path: Path, name: str, lines: str
) -> None:
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
