"""Programs of the Makefile: fresh machine, commands of documents, skipped tests, fuzzing, site."""

import os
import re
from pathlib import Path

import all_tests
import document_commands
import fresh
import fuzz
import pytest
import references
import website
from all_tests import Skip
from fuzz import NotFuzzed, Target

from kvmark.cli.registry import COMMANDS
from programs import script

ROOT = Path(__file__).resolve().parents[2]


def test_the_steps_of_the_dockerfile_are_known() -> None:
    found = fresh.steps((ROOT / "Dockerfile").read_text())
    assert found[0] == ("FROM", "debian:12-slim")
    assert ("ENTRYPOINT", '["kvmark"]') in found


def test_continued_lines_are_one_step_and_an_unknown_step_is_named() -> None:
    text = "# a comment\nFROM debian:12-slim\n\nRUN one && \\\n    two\n"
    assert fresh.steps(text)[1][1].split() == ["one", "&&", "two"]
    with pytest.raises(ValueError, match="the Dockerfile's ADD can't be carried out here"):
        fresh.steps("ADD https://example.org/file /tmp/\n")


def test_files_are_copied_and_a_missing_wheel_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("target_folder.ROOT", tmp_path)
    with pytest.raises(fresh.StepFailed, match=r"there is no dist/\*\.whl: run `make wheel` first"):
        fresh.copy_all(["dist/*.whl", "/tmp/"], tmp_path / "root")
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / "kvmark.whl").write_text("a wheel")
    fresh.copy_all(["dist/*.whl", "/tmp/"], tmp_path / "root")
    assert (tmp_path / "root" / "tmp" / "kvmark.whl").read_text() == "a wheel"


def test_a_check_without_root_is_reported_as_not_tried(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert fresh.main(["true"]) == fresh.CANNOT
    assert capsys.readouterr().err.startswith("NOT TRIED on a fresh machine: only root")


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


def test_marked_blocks_run_in_one_folder_and_may_answer_no(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    document = tmp_path / "page.md"
    document.write_text(TEXT)
    assert document_commands.main([str(document)]) == 0
    assert capfd.readouterr().out.split() == [f"{document}:5", "one", f"{document}:16", "one"]


@pytest.mark.heavy
def test_the_marked_commands_of_documents_run() -> None:
    documents = (ROOT / "README.md", *ROOT.glob("docs/*/*.md"))
    runnable = [str(path) for path in documents if [*document_commands.blocks(path.read_text())]]
    assert runnable[0].endswith("README.md")
    assert document_commands.main(runnable) == 0


def test_an_error_fails_with_its_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    document = tmp_path / "page.md"
    document.write_text(
        TEXT.replace("    cat file\n", "    cat file\n    (exit 2)\n    echo two\n")
    )
    assert document_commands.main([str(document)]) == 1
    said = capfd.readouterr()
    assert said.err == f"{document}:16: exit code 2\n"
    assert "two" not in said.out


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
    (5 * ENTRY, "has 5 entries: at most 4 may be"),
    ('[[skip]]\ntest = "*"\nsays = "kernel"\n', "because"),
    ('[[skip]]\ntest = "*"\nsays = ""\nbecause = "so"\n', "must be filled in"),
    ("[[skip]", "may_be_skipped.toml"),
])  # fmt: skip
def test_a_list_with_a_fifth_entry_or_one_without_its_reason_is_rejected(
    text: str, problem: str
) -> None:
    with pytest.raises(all_tests.WrongList, match=problem):
        all_tests.read_allowed(text)


def test_an_expected_failure_is_a_skip_too() -> None:
    case = '<testcase file="tests/a.py" name="test_a"><skipped type="pytest.xfail" message="so"/>'
    assert all_tests.skipped(f"<a>{case}</testcase></a>") == [Skip("tests/a.py::test_a", "so")]


def test_the_projects_own_entries_name_existing_tests() -> None:
    for entry in all_tests.read_allowed((ROOT / "tests" / "may_be_skipped.toml").read_text()):
        if entry.says in all_tests.PROGRAMS.values():
            continue  # It covers tests in Rust, too.
        folder, _, name = entry.test.partition("::")
        files = [file.read_text() for file in ROOT.glob(folder.replace("tests/*", "tests/**/*.py"))]
        assert any(f"def {name.rstrip('*')}" in text for text in files)


LOG = """\
INFO: Loaded 1 modules   (25995 inline 8-bit counters): 25995 [0x0, 0x1),
#121035\tDONE   cov: 1162 ft: 3685 corp: 506/174Kb lim: 896 exec/s: 2017 rss: 31Mb
stat::number_of_executed_units: 121035
stat::new_units_added:          2216
"""


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Target:
    """A target whose inputs are in a temporary cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return Target("tea", "kvmark-driver-tea", ROOT / "crates" / "driver-tea" / "fuzz" / "seeds")


def test_every_crate_with_claims_on_bytes_is_a_target_with_seeds() -> None:
    known = list(fuzz.targets(ROOT))
    claiming = {path.parents[1] for path in ROOT.glob("crates/*/src/fuzz.rs")}
    assert {target.seeds.parents[1] for target in known} == claiming != set()
    assert all(any(target.seeds.iterdir()) for target in known)


def test_the_statistics_are_one_line(
    target: Target, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fuzz.fuzz(target, script(tmp_path / "fuzz-tea", f"set -e\ncat >&2 <<'END'\n{LOG}END"), 1, 1)
    line = "tea: 121,035 executions, 1,162 edges reached, corpus of 506 inputs, 2,216 new\n"
    assert capsys.readouterr().out == line


def test_an_input_on_which_a_decoder_fails_is_named(
    target: Target, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    crashes = """
        for word; do case $word in -artifact_prefix=*) place=${word#*=};; esac; done
        echo "thread 'main' panicked: too hot" >&2
        echo boiling > "${place}crash-1"
        exit 77"""
    with pytest.raises(NotFuzzed, match=r"tea/found/crash-1; .*crates/driver-tea/fuzz/seeds"):
        fuzz.fuzz(target, script(tmp_path / "fuzz-tea", f"set -e\n{crashes}"), 1, None)
    assert "too hot" in capsys.readouterr().err


def test_a_page_that_the_navigation_does_not_name_is_found() -> None:
    navigation = [{"Start": ["README.md", {"Installing": "guide/installing.md"}]}]
    pages = ["README.md", "decisions/0001-a.md", "guide/installing.md", "guide/redis.md"]
    assert website.unlisted(navigation, pages) == ["guide/redis.md"]


def test_a_page_that_fetches_from_another_host_is_found() -> None:
    links = '<a href="https://example.org">a</a> <img src="b.svg"> <script>"//c"</script>'
    fetching = '<link rel=x href="https://a/b.css"> <script async src=//c/d.js></script>'
    assert website.fetched(links + fetching) == ["https://a/b.css", "//c/d.js"]


def test_a_picture_without_a_text_is_found() -> None:
    pictures = '<img src="a.svg" alt="Throughput"> <img alt=Rate src="b.svg">'
    textless = ['<img src="d.svg">', '<img alt="" src="c.svg">']
    assert website.textless(f"{pictures} {' '.join(textless)}") == textless


def test_each_option_is_described_on_the_page_of_its_command_or_on_one_that_it_links() -> None:
    pages = {path.name: text for path, text in references.pages().items()}
    commands = [references.read_command(words) for words in COMMANDS]
    for command in commands:
        own = f"{command.words.split()[0]}.md"
        found = [pages[name] for name in (own, *re.findall(r"\((\w+\.md)\)", pages[own]))]
        lines = [f"- `{names}`: {text}" for names, text in references.all_options(command)]
        assert [line for line in lines if not any(line in page for page in found)] == []
    texts = "\n".join(pages.values())
    shared = re.findall(r"^- .*", pages["shared.md"], re.MULTILINE)
    assert shared
    assert [line for line in shared if texts.count(line) != 1] == []
    assert {f"{name}.md" for name in references.GUIDES} < set(pages)
