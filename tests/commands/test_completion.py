"""What a shell is told when the user presses Tab."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kvmark import catalog
from kvmark.cli import main
from kvmark.cli.registry import GROUPS
from kvmark.records import Records

MakeRun = Callable[..., str]
Fresh = Callable[..., tuple[str, set[str]]]
Tab = Callable[..., list[str]]


@pytest.fixture
def tab(
    records: Records, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Tab:
    """The answer to words of which the last one is to be completed, as bash hands them over."""
    monkeypatch.setenv("KVMARK_TESTBEDS", str(records.root.parent / "testbeds"))

    def press(*words: str) -> list[str]:
        monkeypatch.setenv("_KVMARK_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", "\n".join(("kvmark", *words)))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        assert main([]) == 0
        out, err = capsys.readouterr()
        assert err == ""
        return [line for line in out.splitlines() if line]

    return press


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("", [word for group in GROUPS.values() for word in group]),
        ("ru", ["run", "runs"]),
        ("run --cl", ["--clients"]),
        ("runs ", [
            "list", "show", "compare", "history", "scaling", "report", "export", "archive", "rm",
            "prune",
        ]),
        ("runs --limit 3 --ta", ["--tag"]),
        ("trace ", ["record", "import", "show", "learn"]),
        ("run ycsb/", [name for name in catalog.names() if name.startswith("ycsb/")]),
        ("run ycsb/a --arrival ", ["constant", "poisson"]),
        ("study ", list(catalog.study_names())),
        ("app CassandraKeyV", ["CassandraKeyValue"]),
    ],
)  # fmt: skip
def test_commands_options_and_values_are_offered(tab: Tab, words: str, offered: list[str]) -> None:
    assert tab(*words.split(" ")) == offered


def test_the_options_of_a_command_are_offered(tab: Tab) -> None:
    assert {"--runs", "--json", "--quiet"} <= set(tab("run", "--"))
    assert {"--older-than", "--keep"} <= set(tab("runs", "prune", "--"))


@pytest.mark.parametrize("command", ["show", "runs show", "runs report", "runs scaling"])
def test_runs_are_offered_newest_first(tab: Tab, make_run: MakeRun, command: str) -> None:
    ids = [make_run(age) for age in range(3)]
    assert tab(*command.split(), "") == ["last", *ids]
    assert tab(*command.split(), ids[1]) == [ids[1]]


def test_runs_of_the_folder_that_was_named_are_offered(
    tab: Tab, make_run: MakeRun, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run()
    monkeypatch.setenv("KVMARK_RUNS", "elsewhere")
    assert tab("show", "2") == []
    assert tab("show", "--runs", str(records.root), "2") == [run]


def test_tags_are_offered_where_several_runs_may_be_meant(tab: Tab, make_run: MakeRun) -> None:
    make_run(1, "nightly", "study:one")
    make_run(2, "new")
    assert tab("compare", "tag", ":") == ["new", "nightly", "study:one"]
    assert tab("runs", "rm", "tag", ":", "ni") == ["nightly"]
    assert tab("runs", "scaling", "study", ":", "") == ["one"]
    assert tab("compare", "tag", ":", "study", ":", "o") == ["one"]
    assert tab("runs", "prune", "--tag", "n") == ["new", "nightly"]


def test_the_last_of_several_runs_is_completed(tab: Tab, make_run: MakeRun) -> None:
    newer, older = make_run(1), make_run(2)
    assert tab("compare", f"{newer},{older[:-1]}") == [f"{newer},{older}"]


def test_systems_and_testbeds_are_offered(tab: Tab, tmp_path: Path) -> None:
    folder = tmp_path / "testbeds" / "redis-2"
    folder.mkdir(parents=True)
    (folder / "testbed.json").write_text("{}")
    assert tab("run", "ycsb/a", "--system", "r") == [
        "redb:",
        "redis://",
        "rediss://",
        "rocksdb:",
    ]
    assert tab("run", "ycsb/a", "--system", "up", ":", "re") == ["redis-2"]
    assert tab("down", "") == ["redis-2"]


def test_where_runs_cannot_be_read_none_are_offered(tab: Tab, records: Records) -> None:
    records.root.write_text("no folder")
    assert tab("show", "2") == []


@pytest.mark.parametrize("words", [("",), ("run", "--"), ("show", ""), ("compare", "tag", ":")])
def test_no_library_that_reads_runs_is_loaded_for_a_tab(
    make_run: MakeRun, fresh: Fresh, words: tuple[str, ...]
) -> None:
    make_run(0, "nightly")
    assert main(["runs", "-q"]) == 0
    typed = {"COMP_WORDS": "\n".join(("kvmark", *words)), "COMP_CWORD": str(len(words))}
    completed = "from kvmark.cli import main; main()"
    out, libraries = fresh(completed, _KVMARK_COMPLETE="complete_bash", **typed)
    assert out
    assert {"hdrh", "numpy", "polars", "rich", "scipy"}.isdisjoint(libraries)


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash isn't installed")
def test_bash_finds_the_script_whole(records: Records, tmp_path: Path) -> None:
    program = f"""
eval "$(_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION=1 {sys.executable} -c '
import sys
from kvmark.cli import main
sys.exit(main(["--show-completion", "bash"]))')"
complete -p kvmark
"""
    told = subprocess.run(
        ["bash", "--norc", "-c", program], capture_output=True, text=True, check=True, timeout=300
    )
    assert "_kvmark_completion" in told.stdout
