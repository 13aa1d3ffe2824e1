"""RocksDB's official release build, so that nobody waits for a compiler to make it again.

The project's Java package carries a shared library for each platform, which exports the whole C
interface that the `rocksdb` crate calls. It is fetched once, of the very version of the crate, into
the cache folder; every build links to it. KVMARK_ROCKSDB=source compiles RocksDB instead, as does a
machine that the library can't be had for.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NAME = "librocksdb.so"
ARTIFACT = "org.rocksdb:rocksdbjni"
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
CHOICES = ("release", "source")
TESTED_VERSION = "11.8.1"


@dataclass(frozen=True)
class Member:
    """A platform's library in the Java package, and its SHA-256."""

    name: str
    digest: str


MEMBERS = {
    "x86_64": Member(
        "librocksdbjni-linux64.so",
        "265c656af5c6502cb8d71db1a74858509f706cc47f1a5b6f603c736d11ce677d",
    ),
    "aarch64": Member(
        "librocksdbjni-linux-aarch64.so",
        "7b2d0808c6afae32db39f11cb61cbefffcf460895b1c64ee6193ba02d6bdd23a",
    ),
    "ppc64le": Member(
        "librocksdbjni-linux-ppc64le.so",
        "c9f058782255b90289739782ba766ad480d0603e1a7b3bccc40aa86db886ddc6",
    ),
    "riscv64": Member(
        "librocksdbjni-linux-riscv64.so",
        "739843ecf002bad896217716116416643ea086fbbaf44aaeca809a7a9c5d1cfd",
    ),
    "s390x": Member(
        "librocksdbjni-linux-s390x.so",
        "6b87e30f67241c5cc73b58e40d985064579c5c354b3ef0c825d9c14f18b5a4ac",
    ),
}
"""By what the machine calls itself, for Linux with glibc."""


class Unavailable(Exception):
    """The library can't be had on this machine; the text says why."""


def from_source() -> bool:
    """Whether the user wants RocksDB compiled.

    Ends the program for a word that means nothing.
    """
    choice = os.environ.get("KVMARK_ROCKSDB", CHOICES[0])
    if choice not in CHOICES:
        sys.exit(f"KVMARK_ROCKSDB={choice} means nothing: it is `release` or `source`.")
    return choice == "source"


def member() -> Member | None:
    """The library of this platform; None where no release of it runs."""
    glibc = sys.platform == "linux" and platform.libc_ver()[0] == "glibc"
    return MEMBERS.get(platform.machine()) if glibc else None


def is_wanted() -> bool:
    """Whether a build here should link to the library."""
    return not from_source() and member() is not None


def version() -> str:
    """RocksDB's version that the locked crate is made for."""
    lock = ROOT / "Cargo.lock"
    text = lock.read_text() if lock.exists() else ""
    found = re.search(r'name = "librocksdb-sys"\nversion = "[^"+]*\+([^"]+)"', text)
    return found[1] if found else "none"


def cache() -> Path:
    """The folder in which what was fetched or built is kept for all clones."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kvmark"


def place() -> Path:
    """The folder of the library in the user's cache."""
    return cache() / f"rocksdb-{version()}"


def folder() -> Path | None:
    """Where the library lies that builds link to; None where RocksDB is compiled."""
    return place() if is_wanted() and (place() / NAME).exists() else None


def environment() -> dict[str, str]:
    """What a build must be told to link to it."""
    found = folder()
    return {} if found is None else {"ROCKSDB_LIB_DIR": str(found)}


def fetch() -> Path:
    """The library's folder; fetches what isn't there yet.

    Raises Unavailable when it can't be had.
    """
    wanted = member()
    if wanted is None:
        raise Unavailable(f"RocksDB's releases have no library for {platform.platform()}")
    if version() != TESTED_VERSION:
        raise Unavailable(f"no digest is known of RocksDB {version()}'s release")
    if not (place() / NAME).exists():
        place().parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place().parent, prefix="rocksdb-") as scratch:
            _unpack(_download(Path(scratch)), wanted, Path(scratch) / NAME)
            place().mkdir(exist_ok=True)
            (Path(scratch) / NAME).replace(place() / NAME)
    return place()


def _download(into: Path) -> Path:
    """The Java package, by the ordinary Maven client."""
    maven = shutil.which("mvn")
    if maven is None:
        raise Unavailable("Maven is missing (`sudo apt-get install maven`)")
    options = [f"-Dartifact={ARTIFACT}:{version()}", f"-DoutputDirectory={into}"]
    # What Maven keeps for itself would be another 92 MB.
    own = f"-Dmaven.repo.local={into / 'repository'}"
    command = [maven, "-B", "-ntp", "-q", own, COPY, *options]
    done = subprocess.run(command, cwd=into, capture_output=True, text=True, check=False)
    jar = into / f"rocksdbjni-{version()}.jar"
    if done.returncode != 0 or not jar.exists():
        lines = [line for line in (done.stdout + done.stderr).splitlines() if "ERROR" in line]
        raise Unavailable(
            f"Maven can't fetch {ARTIFACT}:{version()} ({(lines or ['no reason'])[0]})"
        )
    return jar


def _unpack(jar: Path, wanted: Member, target: Path) -> None:
    """Writes the library, once it is what it should be and this machine can load it."""
    try:
        with zipfile.ZipFile(jar) as package:
            content = package.read(wanted.name)
    except (zipfile.BadZipFile, KeyError) as problem:
        raise Unavailable(f"{jar.name} is damaged ({problem})") from problem
    if hashlib.sha256(content).hexdigest() != wanted.digest:
        raise Unavailable(f"{wanted.name} isn't the library that was tested: its digest differs")
    target.write_bytes(content)
    probe = "import ctypes, sys; ctypes.CDLL(sys.argv[1]).rocksdb_open"
    command = [sys.executable, "-c", probe, str(target)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["it gave no reason"])[-1]
        raise Unavailable(f"{wanted.name} can't be loaded here ({reason})")
