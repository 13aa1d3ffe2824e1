"""`make fuzz` runs a program for each decoder, and tells of what it finds."""

import argparse
import os
import tomllib
from dataclasses import replace
from pathlib import Path

import fuzz
import pytest
from fuzz import NotFuzzed, Target

ROOT = Path(__file__).resolve().parents[2]
SAID = """\
INFO: Loaded 1 modules   (25995 inline 8-bit counters): 25995 [0x0, 0x1),
#2\tINITED cov: 1000 ft: 1001 corp: 10/1Kb exec/s: 0 rss: 20Mb
#121035\tDONE   cov: 1162 ft: 3685 corp: 506/174Kb lim: 896 exec/s: 2017 rss: 31Mb
stat::number_of_executed_units: 121035
stat::new_units_added:          2216
"""


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Target:
    """A target whose inputs are kept in a cache of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return Target("tea", "kvmark-driver-tea", ROOT / "crates" / "driver-tea" / "fuzz" / "seeds")


def program(folder: Path, script: str, name: str = "tea") -> Path:
    path = folder / f"fuzz-{name}"
    path.write_text(f"#!/bin/sh\nset -e\n{script}\n")
    path.chmod(0o755)
    return path


def test_every_crate_that_says_what_must_hold_is_a_target_with_seeds() -> None:
    known = list(fuzz.targets(ROOT))
    holding = {path.parents[1] for path in ROOT.glob("crates/*/src/fuzz.rs")}
    assert {target.seeds.parents[1] for target in known} == holding != set()
    assert {"cql", "resp"} <= {target.name for target in known}
    assert all(any(target.seeds.iterdir()) for target in known)


def test_a_target_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(NotFuzzed, match=r"there is no target 'tea' \(there are cql, .*resp"):
        fuzz.chosen(list(fuzz.targets(ROOT)), "tea")


@pytest.mark.parametrize("text", ["0", "-5", "soon"])
def test_a_time_that_is_none_is_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        fuzz.main([f"--seconds={text}"])
    assert f"'{text}' is no number of seconds: give 1 or more" in capsys.readouterr().err


def test_nothing_of_it_is_in_the_product() -> None:
    for path in ROOT.glob("crates/*/Cargo.toml"):
        manifest = tomllib.loads(path.read_text())
        assert "default" not in manifest.get("features", {})
        assert "fuzz" not in str(list(manifest["dependencies"].values()))


@pytest.mark.parametrize("seed", [None, 1])
def test_what_was_done_is_told_in_a_line(
    target: Target, tmp_path: Path, capsys: pytest.CaptureFixture[str], seed: int | None
) -> None:
    done = program(tmp_path, f"cat >&2 <<'END'\n{SAID}END")
    fuzz.fuzz(target, done, 1, seed)
    told = "tea: 121,035 executions, 1,162 edges reached, corpus of 506 inputs, 2,216 new\n"
    assert capsys.readouterr().out == told


def test_an_input_that_is_not_taken_is_named_with_the_programs_last_words(
    target: Target, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = """
        for word; do case $word in -artifact_prefix=*) place=${word#*=};; esac; done
        echo "thread 'main' panicked: too hot" >&2
        echo boiling > "${place}crash-1"
        exit 77"""
    with pytest.raises(NotFuzzed, match=r"tea/found/crash-1; .*crates/driver-tea/fuzz/seeds"):
        fuzz.fuzz(target, program(tmp_path, script), 1, None)
    assert "too hot" in capsys.readouterr().err


def test_decoders_are_looked_at_on_all_cores_and_one_that_fails_is_told(
    target: Target,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    here = tmp_path
    # Each ends when the other has begun, too.
    meet = "touch {own}; for _ in $(seq 600); do [ -e {other} ] && break; sleep 0.1; done"
    tea = meet.format(own=here / "tea", other=here / "coffee") + f"; [ -e {here / 'coffee'} ]"
    coffee = meet.format(own=here / "coffee", other=here / "tea") + "; exit 77"
    other = replace(target, name="coffee")
    programs = {other: program(here, coffee, "coffee"), target: program(here, tea)}
    with pytest.raises(NotFuzzed, match="coffee can't take an input"):
        fuzz.fuzz_all(programs, argparse.Namespace(seconds=1, seed=None))
    assert "tea: 0 executions" in capsys.readouterr().out


def test_with_a_seed_nothing_that_was_kept_is_looked_at(target: Target, tmp_path: Path) -> None:
    said = tmp_path / "said"
    fuzz.fuzz(target, program(tmp_path, f'echo "$@" > {said}'), 1, 7)
    words = said.read_text().split()
    assert "-seed=7" in words
    assert not [word for word in words if word.endswith("corpus")]
    # New inputs go into the first folder, which isn't that of the seeds.
    assert [word for word in words if not word.startswith("-")][1:] == [str(target.seeds)]
