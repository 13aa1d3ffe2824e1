"""What a user has is not replaced, and what kvmark writes is whole or not there."""

from pathlib import Path

import pytest

from kvmark.errors import RunError, SpecError
from kvmark.outputs import MADE_BY_KVMARK, check_output, own_folder, write_output

OWN = (f"# A report\n\n{MADE_BY_KVMARK}\n", '<meta name="generator" content="kvmark">')
FOREIGN = ("my notes on kvmark", "<html></html>", "\x00\xff")


@pytest.mark.parametrize("text", FOREIGN)
def test_a_page_replaces_no_file_of_the_user(tmp_path: Path, text: str) -> None:
    file = tmp_path / "page.md"
    file.write_text(text)
    with pytest.raises(SpecError, match=r"report: .* is there already and kvmark didn't"):
        check_output(file, "report: ")
    with pytest.raises(RunError, match="kvmark didn't make it"):
        write_output(file, OWN[0], page=True)
    assert file.read_text() == text


@pytest.mark.parametrize("text", [*OWN, "", "x" * 1_000_000 + OWN[0]], ids=len)
def test_a_page_of_kvmarks_is_replaced(tmp_path: Path, text: str) -> None:
    file = tmp_path / "page.md"
    file.write_text(text)
    check_output(file)
    write_output(file, "new", page=True)
    assert file.read_text() == "new"
    assert list(tmp_path.iterdir()) == [file]


def test_a_link_leads_to_the_file_and_a_device_is_not_replaced(tmp_path: Path) -> None:
    place, link = tmp_path / "place.csv", tmp_path / "link.csv"
    place.write_text("old")
    link.symlink_to(place)
    write_output(link, "new")
    assert (link.is_symlink(), place.read_text()) == (True, "new")
    write_output(Path("/dev/null"), "text")
    assert Path("/dev/null").is_char_device()


def test_a_folder_of_the_user_takes_no_pictures(tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "figure.svg").write_text("mine")
    with pytest.raises(RunError, match="kvmark didn't make it"):
        own_folder(folder)
    (folder / "figure.svg").unlink()
    own_folder(folder)
    (folder / "figure.svg").write_text("ours")
    own_folder(folder)
