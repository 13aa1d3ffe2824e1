"""While an engine runs its process has nothing loaded that is only needed for answers.

The libraries of tables, mathematics and pictures take twice the memory of all the rest, which would
be recorded as the generator's.
"""

import subprocess
import sys
from pathlib import Path

import pytest

LATER = {"altair", "hdrh", "jinja2", "numpy", "polars", "scipy", "vl_convert"}
TELL = """
import sys
from kvmark import _engine
from kvmark.cli import main

run = _engine.run


def told(*given):
    print("loaded:", *(name for name in sys.modules if "." not in name), file=sys.stderr)
    return run(*given)


_engine.run = told
sys.exit(main(sys.argv[1:]))
"""
RUN = ("run", "ycsb/c", "--system", "null:", "--operations", "1000")
SEQUENCE = ("ycsb", "--records", "100", "--repetitions", "2", "--workloads", "load,C")


# The engine runs once more before the first run, to measure itself.
@pytest.mark.parametrize(
    ("words", "engines"), [((*RUN, "-q"), 2), ((*SEQUENCE, "-q"), 5)], ids=["run", "ycsb"]
)
def test_no_library_of_answers_is_loaded_while_an_engine_runs(
    tmp_path: Path, words: tuple[str, ...], engines: int
) -> None:
    told = subprocess.run(
        [sys.executable, "-c", TELL, *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert told.returncode == 0, told
    loaded = [line.split()[1:] for line in told.stderr.splitlines() if line.startswith("loaded:")]
    assert len(loaded) == engines
    assert [LATER.intersection(names) for names in loaded] == [set()] * engines
    assert "pydantic" in loaded[0]
