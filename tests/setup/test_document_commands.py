"""The commands of documents that are marked as runnable."""

from pathlib import Path

import document_commands
import pytest

TEXT = """\
# A page

<!-- run -->

    echo one >file
    false

    test -d "$KVMARK_TESTBEDS" || cat file

Not marked:

    exit 9

<!-- run -->

    cat file
"""


@pytest.fixture
def document(tmp_path: Path) -> Path:
    return tmp_path / "page.md"


def test_marked_blocks_run_in_one_folder_and_may_answer_no(
    document: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    document.write_text(TEXT)
    assert document_commands.main([str(document)]) == 0
    assert capfd.readouterr().out.split() == [f"{document}:5", "one", f"{document}:16", "one"]


def test_an_error_fails_with_its_line(document: Path, capfd: pytest.CaptureFixture[str]) -> None:
    document.write_text(
        TEXT.replace("    cat file\n", "    cat file\n    (exit 2)\n    echo two\n")
    )
    assert document_commands.main([str(document)]) == 1
    said = capfd.readouterr()
    assert said.err == f"{document}:16: exit code 2\n"
    assert "two" not in said.out
