"""`make fuzz` knows every decoder, and reports the inputs on which one fails."""

from pathlib import Path

import fuzz
import pytest
from fuzz import NotFuzzed, Target

ROOT = Path(__file__).resolve().parents[2]
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


def program(folder: Path, script: str) -> Path:
    path = folder / "fuzz-tea"
    path.write_text(f"#!/bin/sh\nset -e\n{script}\n")
    path.chmod(0o755)
    return path


def test_every_crate_with_claims_on_bytes_is_a_target_with_seeds() -> None:
    known = list(fuzz.targets(ROOT))
    claiming = {path.parents[1] for path in ROOT.glob("crates/*/src/fuzz.rs")}
    assert {target.seeds.parents[1] for target in known} == claiming != set()
    assert all(any(target.seeds.iterdir()) for target in known)


def test_the_statistics_are_one_line(
    target: Target, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fuzz.fuzz(target, program(tmp_path, f"cat >&2 <<'END'\n{LOG}END"), 1, 1)
    line = "tea: 121,035 executions, 1,162 edges reached, corpus of 506 inputs, 2,216 new\n"
    assert capsys.readouterr().out == line


def test_an_input_on_which_a_decoder_fails_is_named(
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
