"""A command's temporary database is removed, even if the command was killed."""

import subprocess
import sys
from pathlib import Path

from kvmark.testbed.embedded import scratch_folder

HOLD = """
import sys
from pathlib import Path
from kvmark.testbed.embedded import scratch_folder
with scratch_folder(Path(sys.argv[1])) as folder:
    (folder / "db").mkdir()
    print(folder, flush=True)
    sys.stdin.read()
"""


def test_only_own_files_of_killed_commands_are_removed(tmp_path: Path) -> None:
    (tmp_path / "20260101-000000-mine-abcd").mkdir()
    (tmp_path / "scratch-file").write_text("no folder")
    for notes in ("scratch-notes", "scratch-0badcafe"):
        (tmp_path / notes).mkdir()
        (tmp_path / notes / "notes.txt").write_text("mine")
    before = {path.name for path in tmp_path.iterdir()}
    words = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        left = Path(other.stdout.readline().strip())
        with scratch_folder(tmp_path) as own:
            assert left.is_dir()
            assert own != left
        assert left.is_dir()
        other.kill()
    with scratch_folder(tmp_path) as own:
        assert not left.exists()
        (own / "notes.txt").write_text("mine")
    with scratch_folder(tmp_path):
        pass
    assert {path.name for path in tmp_path.iterdir()} == {*before, own.name}
    for notes in ("scratch-notes", "scratch-0badcafe", own.name):
        assert (tmp_path / notes / "notes.txt").read_text() == "mine"
