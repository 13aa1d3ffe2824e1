"""While an engine runs its process has nothing loaded that is only needed for answers.

The libraries of tables, mathematics and pictures take twice the memory of all the rest, which would
be recorded as the generator's.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from kvmark.cli.commands import COMMANDS

LATER = {
    "altair", "hdrh", "jinja2", "numpy", "polars", "prometheus_client", "scipy",
    "starlette", "uvicorn", "vl_convert",
}  # fmt: skip
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
BLOCKS = ("ab", "ycsb/c --system null: --operations 1000", "--max-blocks", "4")
SEQUENCE = ("ycsb", "--records", "100", "--repetitions", "2", "--workloads", "load,C")
STUDY = ("study", "smoke", "--system", "null:", "--only", "clients=1", "--repetitions", "1")


# The engine runs five times more before the first run of a setting, to measure itself.
@pytest.mark.parametrize(
    ("words", "engines"),
    [((*RUN, "-q"), 6), ((*SEQUENCE, "-q"), 9), ((*STUDY, "-q"), 7), ((*BLOCKS, "-q"), 18)],
    ids=["run", "ycsb", "study", "ab"],
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
        timeout=300,
    )
    # Two repetitions of so little may be imprecise, which is no.
    assert told.returncode in (0, 1), told
    loaded = [line.split()[1:] for line in told.stderr.splitlines() if line.startswith("loaded:")]
    assert len(loaded) == engines
    assert [LATER.intersection(names) for names in loaded] == [set()] * engines
    assert "pydantic" in loaded[0]


def test_the_list_of_commands_has_every_purpose_and_loads_no_library() -> None:
    told = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", "from kvmark.cli import main; main(['--help'])"],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    loaded = {line.rpartition("|")[2].strip() for line in told.stderr.splitlines()}
    assert LATER.isdisjoint(loaded)
    commands = told.stdout.partition("Commands:\n")[2].splitlines()
    assert [line.split()[0] for line in commands] == list(COMMANDS)
    assert all(len(line.split()) > 2 for line in commands)
