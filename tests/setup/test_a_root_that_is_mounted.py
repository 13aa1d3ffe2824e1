"""Tests run in a root that is a mount point, also where somebody changed root to a bare folder."""

import subprocess

import mounted_root
import pytest

ORDINARY = "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n22 27 0:21 / /proc rw - proc proc rw\n"
CHANGED = "91 27 0:21 / /proc rw - proc proc rw\n92 27 254:0 /etc/hosts /etc/hosts ro - ext4 x rw\n"


@pytest.mark.parametrize(
    ("mounts", "user"), [(ORDINARY, 0), (ORDINARY, 1000), (CHANGED, 1000), ("", 0)]
)
def test_where_the_root_is_mounted_or_nothing_can_be_done_the_command_is_what_it_is(
    mounts: str, user: int
) -> None:
    assert mounted_root.words(["make", "it"], mounts, user, "/there") == ["make", "it"]


def test_as_root_in_a_bare_folder_the_command_runs_in_a_mounted_one() -> None:
    words = mounted_root.words(["make", "it"], CHANGED, 0, "/there")
    assert words[0] == "unshare"
    assert words[-4:] == ["sh", "/there", "make", "it"]
    checked = subprocess.run(["sh", "-n", "-c", mounted_root.SCRIPT], check=False)
    assert checked.returncode == 0
