"""The commands of documents that are marked as runnable."""

from pathlib import Path

import document_commands
import pytest

TEXT = """\
# A page

<!-- run -->

    echo one >file

    test -d "$KVMARK_TESTBEDS" || cat file

Not marked:

    exit 9

<!-- run: exits 1 -->

    cat file
    false
"""


@pytest.fixture
def document(tmp_path: Path) -> Path:
    return tmp_path / "page.md"


def test_marked_blocks_run_in_one_folder(document: Path, capfd: pytest.CaptureFixture[str]) -> None:
    document.write_text(TEXT)
    assert document_commands.main([str(document)]) == 0
    assert capfd.readouterr().out.split() == [f"{document}:5", "one", f"{document}:15", "one"]


def test_another_exit_code_fails_with_the_line(
    document: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    document.write_text(TEXT.replace("false", "exit 3"))
    assert document_commands.main([str(document)]) == 1
    assert capfd.readouterr().err == f"{document}:15: exit code 3, not 1\n"
