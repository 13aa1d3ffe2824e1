"""Runs a command on a Debian 12 that has never seen kvmark: git, make, Python 3.11, Rust.

python3 scripts/fresh.py [--lend-target] COMMAND...    in a clone of this repository
python3 scripts/fresh.py --image COMMAND...            after the Dockerfile's steps, without Rust

A green build on a developer's machine hides missing steps of installation. So the committed state
is cloned into a root that debootstrap made, and the command runs there with Rust and the way to the
package registries, and nothing else of this machine. Mounts and processes end with the command's
namespaces. Needs root and debootstrap; exits with 77 where they aren't available.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import needs
import progress
import rocksdb_library
import target_folder

RELEASE = "bookworm"
PACKAGES = ("git", "make", "python3", "ca-certificates")
PROJECT = Path("/opt/project")
CANNOT = 77
"""The exit code of a check that can't run here, as in Automake."""
INSTRUCTIONS = ("FROM", "RUN", "COPY", "ENV", "WORKDIR", "ENTRYPOINT", "CMD")
"""Of a Dockerfile, as far as they are known."""
# The settings of package clients: registries, and trusted certificates.
CLIENTS = ("resolv.conf", "hosts", "pip.conf", "ssl/certs", "apt/apt.conf.d")
SOURCES = ("apt/sources.list", "apt/sources.list.d/debian.sources")
OF_THE_USER = (".cargo/config.toml", ".m2/settings.xml", ".config/pip/pip.conf")
# Of the target folder: what a build for this machine looks for.
OF_BUILDS = (".rustc_info.json", "CACHEDIR.TAG", "maturin", "release", target_folder.RECORD)
ETC = Path("/etc")
# The same name as outside: builds that are lent refer to it.
HOME = Path.home()
BASE = {
    "HOME": str(HOME),
    "PATH": "/opt/rust/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG": "C.UTF-8",
}


class Cannot(Exception):
    """The check can't run on this machine; the text is the reason."""


class StepFailed(Exception):
    """A step of the Dockerfile didn't succeed."""


@dataclass(frozen=True)
class Inside:
    """The folder and the variables of commands in the fresh root."""

    folder: Path
    variables: Mapping[str, str]
    #: The toolchain that is lent, if any.
    rust: Path | None = None


def template() -> Path:
    """A Debian with the few packages, made once and kept in the cache folder."""
    place = rocksdb_library.cache() / f"debian-{RELEASE}"
    if place.exists():
        return place
    place.parent.mkdir(parents=True, exist_ok=True)
    print(f"making a fresh Debian in {place}, once", flush=True)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix="debian-") as scratch:
        made = Path(scratch) / "root"
        command = ["debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}"]
        mirror = [word] if (word := debian_mirror()) else []
        done = quiet([*command, RELEASE, str(made), *mirror])
        if done.returncode != 0:
            last = (done.stdout.strip().splitlines() or ["it gave no reason"])[-1]
            raise Cannot(f"debootstrap can't make a Debian ({last})")
        made.replace(place)
    return place


def debian_mirror() -> str | None:
    """The mirror that this machine's own packages come from; None where it isn't Debian."""
    files = [ETC / name for name in reversed(SOURCES)]
    lines = [line for file in files if file.exists() for line in file.read_text().splitlines()]
    for line in lines:
        if line.startswith(("URIs:", "deb ")) and "security" not in line:
            return next((word for word in line.split() if "://" in word), None)
    return None


def quiet(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Runs a command and keeps its output."""
    return subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )


@contextmanager
def fresh_root() -> Iterator[Path]:
    """A copy of the template that is removed in the end."""
    source = template()
    with tempfile.TemporaryDirectory(dir=source.parent, prefix="fresh-") as scratch:
        root = Path(scratch) / "root"
        subprocess.run(["cp", "-a", str(source), str(root)], check=True)
        yield root


def inside(root: Path, place: Path) -> Path:
    """The path of a place of the fresh root from outside."""
    return root / str(place).lstrip("/")


def furnish(root: Path) -> None:
    """Copies the settings of package clients into the fresh root."""
    for name in CLIENTS:
        copy(ETC / name, root / "etc" / name)
    for name in OF_THE_USER:
        copy(HOME / name, inside(root, HOME) / name)
    if any((ETC / name).exists() for name in SOURCES):
        (root / "etc" / SOURCES[0]).unlink(missing_ok=True)
    for name in SOURCES:
        copy(ETC / name, root / "etc" / name)


def copy(place: Path, there: Path) -> None:
    """Copies a file or a folder, if it exists; follows links."""
    if not place.exists():
        return
    there.parent.mkdir(parents=True, exist_ok=True)
    # Python's functions stop at links that form a loop or lead nowhere.
    quiet(["cp", "-rLT", "--remove-destination", str(place), str(there)])


def clone(root: Path, *, lend_target: bool) -> Inside:
    """Clones the committed state, with a copy of the compiled files if wanted."""
    source, there = str(target_folder.ROOT), f"{root}{PROJECT}"
    command = ["git", "-c", "safe.directory=*", "clone", "--quiet", source, there]
    subprocess.run(command, check=True)
    if lend_target:
        cache = inside(root, HOME) / ".cache" / "kvmark"
        (cache / "target").mkdir(parents=True)
        # Another build may write there, and those for other targets aren't needed.
        with target_folder.held() as target:
            for name in OF_BUILDS:
                lend(target / name, cache / "target" / name)
        if (library := rocksdb_library.library()) is not None:
            lend(library.parent, cache / library.parent.name)
    return Inside(PROJECT, BASE, rust_folder())


def lend(place: Path, there: Path) -> None:
    """Copies a file or a folder with its times and links, if it exists."""
    if place.exists():
        subprocess.run(["cp", "-a", str(place), str(there)], check=True)


def steps(dockerfile: str) -> list[tuple[str, str]]:
    """The instructions of a Dockerfile and their arguments.

    Raises ValueError for an unknown instruction.
    """
    found = []
    for line in re.sub(r"\\\n", " ", dockerfile).splitlines():
        instruction, _, words = line.strip().partition(" ")
        if instruction and not instruction.startswith("#"):
            if instruction not in INSTRUCTIONS:
                raise ValueError(f"the Dockerfile's {instruction} can't be carried out here")
            found.append((instruction, words.strip()))
    return found


def build_image(root: Path) -> Inside:
    """Executes the Dockerfile's steps.

    Raises StepFailed for one that fails.
    """
    place = Inside(Path("/"), BASE)
    for instruction, words in steps((target_folder.ROOT / "Dockerfile").read_text()):
        match instruction:
            case "ENV":
                name, _, value = words.partition("=")
                place = replace(place, variables={**place.variables, name: value})
            case "WORKDIR":
                place = replace(place, folder=Path(words))
                inside(root, Path(words)).mkdir(parents=True, exist_ok=True)
            case "COPY":
                copy_all(words.split(), root)
            case "RUN":
                print("RUN", words, flush=True)
                if code := enter(root, place, ["sh", "-c", words]):
                    raise StepFailed(f"this step of the Dockerfile ended with {code}")
            case _:
                continue
    return place


def copy_all(words: Sequence[str], root: Path) -> None:
    """Copies files of the clone to a folder of the root, as COPY does.

    Raises StepFailed if no file matches.
    """
    *patterns, target = words
    files = [file for pattern in patterns for file in target_folder.ROOT.glob(pattern)]
    if not files:
        raise StepFailed(f"there is no {' '.join(patterns)}: run `make wheel` first")
    for file in files:
        copy(file, inside(root, Path(target)) / file.name)


def enter(root: Path, place: Inside, command: Sequence[str]) -> int:
    """Runs the command in the root, in new namespaces, and returns its exit code."""
    rust = root / "opt" / "rust"
    rust.mkdir(parents=True, exist_ok=True)
    lent = f'mount --bind "{place.rust}" "{rust}" && mount -o remount,bind,ro "{rust}" &&'
    script = (
        f'{lent if place.rust else ""} mount -t proc proc "{root}/proc" &&'
        f' mount --rbind /dev "{root}/dev" && exec "$@"'
    )
    variables = [f"{name}={value}" for name, value in place.variables.items()]
    outer = ["env", "-i", *variables, "sh", "-c", f'cd {place.folder} && exec "$@"', "sh"]
    apart = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private"]
    words = [*apart, "sh", "-c", script, "sh", "chroot", str(root), *outer, *command]
    return subprocess.run(words, check=False).returncode


def rust_folder() -> Path:
    """The toolchain that this clone is built with."""
    command = ["rustc", "--print", "sysroot"]
    return Path(subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip())


def check_machine() -> None:
    """Raises Cannot without root or debootstrap."""
    if os.geteuid() != 0:
        raise Cannot("only root can make a fresh root")
    if shutil.which("debootstrap") is None:
        try:
            needs.install([needs.Need("debootstrap", "debootstrap", present=False)])
        except needs.NotReady as problem:
            raise Cannot(str(problem)) from problem


def main(arguments: list[str]) -> int:
    """Runs the command and returns its exit code."""
    parser = argparse.ArgumentParser(description="Run a command on a fresh Debian 12.")
    parser.add_argument("--lend-target", action="store_true", help="a copy of the compiled files")
    parser.add_argument("--image", action="store_true", help="after the steps of the Dockerfile")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    wanted = parser.parse_args(arguments)
    if not wanted.command:
        parser.error("name a command, for example `make quickstart`")
    # A terminated check ends the processes that it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        check_machine()
        with fresh_root() as root:
            furnish(root)
            image, lend = wanted.image, wanted.lend_target
            place = build_image(root) if image else clone(root, lend_target=lend)
            return enter(root, place, wanted.command)
    except Cannot as problem:
        print(f"NOT TRIED on a fresh machine: {problem}", file=sys.stderr)
        return CANNOT


if __name__ == "__main__":
    sys.exit(progress.exit_code(lambda: main(sys.argv[1:]), StepFailed))
