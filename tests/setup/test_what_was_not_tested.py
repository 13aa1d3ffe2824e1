"""Skipped tests are listed, and CI fails on each that the list doesn't allow."""

from pathlib import Path

import all_tests
import pytest
from all_tests import Skip

ROOT = Path(__file__).resolve().parents[2]
REASON = "this kernel knows no lateness"
LATE = Skip("tests/test_answers.py::test_an_answer_is_late", REASON)
ENTRY = """
[[skip]]
test = "tests/test_answers.py::*"
says = "no lateness"
because = "not every kernel does"
"""


def test_only_a_test_with_this_name_and_this_reason_may_be_skipped() -> None:
    entries = all_tests.read_allowed(ENTRY)
    unallowed, [line] = all_tests.report([LATE], entries)
    assert unallowed == 0
    assert line.endswith(f"{LATE.test}: {REASON} [allowed: not every kernel does]")
    for other in (Skip(LATE.test, "Redis is missing"), Skip("tests/test_other.py::test_a", REASON)):
        assert all_tests.report([LATE, other], entries)[0] == 1


@pytest.mark.parametrize(("text", "problem"), [
    (4 * ENTRY, "has 4 entries: at most 3 may be"),
    ('[[skip]]\ntest = "*"\nsays = "kernel"\n', "because"),
    ('[[skip]]\ntest = "*"\nsays = ""\nbecause = "so"\n', "must be filled in"),
    ("[[skip]", "may_be_skipped.toml"),
])  # fmt: skip
def test_a_list_with_a_fourth_entry_or_one_without_its_reason_is_rejected(
    text: str, problem: str
) -> None:
    with pytest.raises(all_tests.WrongList, match=problem):
        all_tests.read_allowed(text)


def test_an_expected_failure_is_a_skip_too() -> None:
    case = '<testcase file="tests/a.py" name="test_a"><skipped type="pytest.xfail" message="so"/>'
    assert all_tests.skipped(f"<a>{case}</testcase></a>") == [Skip("tests/a.py::test_a", "so")]


def test_the_projects_own_entries_name_existing_tests() -> None:
    for entry in all_tests.read_allowed((ROOT / "tests" / "may_be_skipped.toml").read_text()):
        folder, _, name = entry.test.partition("::")
        files = [file.read_text() for file in ROOT.glob(folder.replace("tests/*", "tests/**/*.py"))]
        assert any(f"def {name.rstrip('*')}" in text for text in files)
