"""A front end is one folder and one name: without both, the rest works."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import kvmark
from kvmark.frontends import FRONT_ENDS, FrontEnd, front_ends

MAIN = "import sys; from kvmark.cli import main; sys.exit(main())"
PACKAGE = Path(kvmark.__file__).parent


def run(package: Path, *arguments: str) -> str:
    """The output of a command of a copy of the package."""
    command, place = (sys.executable, "-c", MAIN, *arguments), package.parent
    environment = {**os.environ, "PYTHONPATH": str(place)}
    return subprocess.check_output(command, env=environment, cwd=place, text=True)


@pytest.mark.parametrize("front_end", front_ends(), ids=FRONT_ENDS)
def test_without_a_front_end_the_rest_works(front_end: FrontEnd, tmp_path: Path) -> None:
    folder = front_end.folder
    package = tmp_path / "kvmark"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.rmtree(package / "frontends" / folder)
    registry = package / "frontends" / "__init__.py"
    text = registry.read_text()
    assert f'"{folder}"' in text
    registry.write_text(re.sub(rf'"{folder}"(, )?', "", text, count=1))
    assert not re.search(rf"^ +{front_end.command} ", run(package, "--help"), re.MULTILINE)
    run(package, "run", "ycsb/c", "--system", "null:", "--operations", "10", "--report", "r.html")
    assert "ycsb/c" in run(package, "show", "last")
    run(package, "runs", "export", "last", "--format", "ycsb")
    results = Path(__file__).parents[1] / "imports/data/samples/redis-benchmark.csv"
    run(package, "import", str(results))
    run(package, "study")
