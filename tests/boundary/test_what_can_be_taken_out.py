"""A front end is one folder and one name; a driver is a crate, its registration and its testbed."""

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
    folder = front_end.module.split(".")[2]
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


ROOT = Path(__file__).resolve().parents[2]
MANIFESTS = ("Cargo.toml", "crates/pyext/Cargo.toml", "crates/pyext/src/registry.rs")
UP_HELP = "from kvmark.cli import main; raise SystemExit(main(['up', '--help']))"


def copy_tree(copy: Path) -> None:
    """Copies the files of the repository, and the built engine."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    built = [str(path.relative_to(ROOT)) for path in ROOT.glob("python/kvmark/*.so")]
    for name in [*names.split("\0"), *built]:
        if name.startswith(("Cargo", "crates/", "python/")) and (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)


def remove_lines(path: Path, pattern: str) -> None:
    """Removes the lines with a pattern, of which there is one at least."""
    lines = path.read_text().splitlines(keepends=True)
    kept = [line for line in lines if not re.search(pattern, line)]
    assert len(kept) < len(lines), f"{path.name} has no line with {pattern}"
    path.write_text("".join(kept))


@pytest.mark.parametrize("testbed", ["redis", "memcached", "postgres"])
def test_without_a_driver_crates_resolve_and_up_offers_other_systems(
    testbed: str, tmp_path: Path
) -> None:
    driver = {"redis": "driver-resp"}.get(testbed, f"driver-{testbed}")
    copy_tree(tmp_path)
    shutil.rmtree(tmp_path / "crates" / driver)
    for name in MANIFESTS:
        remove_lines(tmp_path / name, rf"kvmark[-_]{driver.replace('-', '[-_]')}\b")
    systems = tmp_path / "python/kvmark/testbed/system.py"
    # Valkey is started as Redis is.
    for system in (testbed, "valkey") if testbed == "redis" else (testbed,):
        for own in (tmp_path / "python/kvmark/testbed").glob(f"{system}*"):
            shutil.rmtree(own) if own.is_dir() else own.unlink()
        remove_lines(systems, rf'^    "{system}": ')

    resolve = ["cargo", "metadata", "--quiet", "--offline", "--format-version=1"]
    subprocess.run(resolve, cwd=tmp_path, stdout=subprocess.DEVNULL, check=True)
    python = {**os.environ, "PYTHONPATH": str(tmp_path / "python")}
    command = [sys.executable, "-c", UP_HELP]
    printed = subprocess.run(
        command, cwd=tmp_path, env=python, capture_output=True, text=True, check=True
    ).stdout
    assert "--nodes" in printed
    assert testbed not in printed.lower()
