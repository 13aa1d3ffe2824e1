"""A folder is removed only if all of its files are kvmark's own."""

import re
from pathlib import Path

import pytest

from kvmark.errors import ForeignFile
from kvmark.removal import discard_folder, foreign_file, remove_folder

OWN = re.compile(r"manifest\.json|db/\d+\.sst")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "made"
    (made / "db").mkdir(parents=True)
    (made / "manifest.json").write_text("{}")
    (made / "db" / "000001.sst").write_text("")
    return made


def test_a_folder_of_own_files_goes_and_a_missing_one_is_no_problem(folder: Path) -> None:
    remove_folder(folder, OWN)
    assert not folder.exists()
    remove_folder(folder, OWN)


@pytest.mark.parametrize("name", ["notes.txt", "db/notes.txt", "db/manifest.json", "000001.sst"])
def test_one_other_file_keeps_all(folder: Path, name: str) -> None:
    (folder / name).write_text("mine")
    assert foreign_file(folder, OWN) == folder / name
    with pytest.raises(ForeignFile, match=re.escape(f"{folder / name} was not made by kvmark")):
        remove_folder(folder, OWN)
    discard_folder(folder, OWN)
    assert len(list(folder.rglob("*"))) == 4


def test_a_link_is_a_file_and_what_it_leads_to_stays(folder: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "000002.sst").write_text("mine")
    (folder / "more").symlink_to(mine)
    discard_folder(folder, OWN)
    assert folder.exists()
    link = tmp_path / "link"
    link.symlink_to(mine)
    discard_folder(link, re.compile(".*"))
    assert (mine / "000002.sst").exists()
