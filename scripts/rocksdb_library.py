"""Fetches RocksDB's own release, or compiles RocksDB in a few minutes, and keeps it for all clones.

A release of RocksDB for Java is a shared library that has the functions for C, too; rocksdb.lock
names it by its hash. With KVMARK_ROCKSDB=unity, and where it can't be had, RocksDB is compiled: its
crate compiles 343 files one by one in twenty minutes, most of which go into reading the same
headers again. Here a few files include them all, with the same defines and flags, and the archive
is linked into the program as that of the crate. With KVMARK_ROCKSDB=crate, and where that fails,
the crate compiles it.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from http.client import HTTPException
from itertools import accumulate
from pathlib import Path

import progress

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "scripts" / "rocksdb.lock"
SHARED, ARCHIVE = "librocksdb.so", "librocksdb.a"
RELEASE, UNITY, CRATE = CHOICES = ("release", "unity", "crate")
CRATES = ("librocksdb-sys", "lz4-sys", "zstd-sys")
CODECS = ("lz4", "zstd")
"""What the crates that compile them say that they link to."""
TESTED_VERSION = "0.19.0+11.8.1"
"""Of librocksdb-sys, whose build script has these defines and flags."""
DEFINES = (
    "SNAPPY=1", "LZ4=1", "ZSTD=1", "NDEBUG=1", "HAVE_ALIGNED_NEW", "HAVE_UINT128_EXTENSION",
    "OS_LINUX", "ROCKSDB_PLATFORM_POSIX", "ROCKSDB_LIB_IO_POSIX", "ROCKSDB_SCHED_GETCPU_PRESENT",
    "ROCKSDB_AUXV_GETAUXVAL_PRESENT", "ROCKSDB_FALLOCATE_PRESENT", "ROCKSDB_RANGESYNC_PRESENT",
)  # fmt: skip
FLAGS = (
    "-std=c++20", "-include", "cstdint", "-O3", "-ffunction-sections", "-fdata-sections", "-fPIC",
    "-w",
)  # fmt: skip
OF_THE_PROCESSOR = {"x86_64": ("-m64", "-msse2"), "aarch64": ()}
OWN_FLAGS = ("RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CXXFLAGS", "ROCKSDB_CXX_STD")
"""Variables that the crate's build script reads."""
GIVEN = ("ROCKSDB_LIB_DIR", "ROCKSDB_COMPILE")
PARTS = 8
PART_BYTES = 2 << 30
"""Memory of the compiler for a part, with a reserve."""
PROBE = "import ctypes, sys; ctypes.CDLL(sys.argv[1]).rocksdb_open"
TIMEOUT_S = 60.0


class Unavailable(Exception):
    """The library can't be had on this machine; the text is the reason."""


@dataclass(frozen=True)
class Release:
    """A deflated file in an archive, by its place there, and the hash of its content."""

    source: str
    begin: int
    size: int
    sha256: str

    @classmethod
    def of_this_machine(cls) -> Release:
        """The locked one for the processor."""
        # Imported here, so that an older Python can print that it is too old.
        import tomllib  # noqa: PLC0415

        return cls(**tomllib.loads(LOCK.read_text())[platform.machine()])

    def content(self) -> bytes:
        """Fetches the file alone where the server can, else what is before it, too.

        Raises Unavailable if it isn't what the lock names.
        """
        wanted = {"Range": f"bytes={self.begin}-{self.begin + self.size - 1}"}
        request = urllib.request.Request(self.source, headers=wanted)  # noqa: S310 - locked
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:  # noqa: S310
                if answer.status != 206:
                    answer.read(self.begin)
                content = zlib.decompress(answer.read(self.size), -zlib.MAX_WBITS)
        except HTTPException as problem:
            why = "RocksDB's release can't be fetched (its server doesn't speak HTTP)"
            raise Unavailable(why) from problem
        except (OSError, zlib.error) as problem:
            raise Unavailable(f"RocksDB's release can't be fetched ({problem})") from problem
        if hashlib.sha256(content).hexdigest() != self.sha256:
            raise Unavailable(f"RocksDB's release isn't the one that {LOCK.name} names")
        return content


def system_compiler() -> Sequence[str]:
    """How the compiler for C++ is called that the crate would call."""
    return os.environ.get("CXX", "c++").split()


def version(compiler: Sequence[str]) -> str:
    """The first line of a compiler's version; empty without it."""
    command = [*compiler, "--version"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    except OSError:
        return ""
    return said.partition("\n")[0]


def choice() -> str:
    """Which RocksDB a build here should have; the crate's if the user chose flags or a library.

    Ends the program on an unknown value of KVMARK_ROCKSDB.
    """
    chosen = os.environ.get("KVMARK_ROCKSDB", RELEASE)
    if chosen not in CHOICES:
        sys.exit(f"KVMARK_ROCKSDB={chosen} means nothing: it is `release`, `unity` or `crate`.")
    known = sys.platform == "linux" and platform.machine() in OF_THE_PROCESSOR
    others = any(os.environ.get(name) for name in (*OWN_FLAGS, *GIVEN))
    return chosen if known and not others else CRATE


def locked(crate: str) -> tuple[str, str]:
    """The version and the checksum of a crate in the lock; empty where it isn't there."""
    lock = ROOT / "Cargo.lock"
    text = lock.read_text() if lock.exists() else ""
    entry = rf'name = "{crate}"\nversion = "([^"]+)"\nsource = "[^"]*"\nchecksum = "([^"]+)"'
    found = re.search(entry, text)
    return (found[1], found[2]) if found else ("", "")


def flags() -> list[str]:
    """How every part is compiled."""
    return [*FLAGS, *OF_THE_PROCESSOR[platform.machine()], *(f"-D{name}" for name in DEFINES)]


def cache() -> Path:
    """The folder for downloads and builds that all clones share."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kvmark"


def _place(digest: str) -> Path:
    return cache() / f"rocksdb-{locked(CRATES[0])[0].partition('+')[2]}-{digest[:12]}"


def released() -> Path:
    """The release's library in the user's cache."""
    return _place(Release.of_this_machine().sha256) / SHARED


def compiled(compiler: Sequence[str]) -> Path:
    """The compiled library in the user's cache; its folder is named by its sources and flags."""
    checksums = [locked(crate)[1] for crate in CRATES]
    # Where the program lies doesn't matter: each clone has its own zig.
    program = [Path(compiler[0]).name, *compiler[1:], version(compiler)]
    whole = [*checksums, *flags(), str(PARTS), *program]
    return _place(hashlib.sha256(json.dumps(whole).encode()).hexdigest()) / ARCHIVE


@dataclass(frozen=True)
class _Way:
    """A library, how it is made, and what happens where that fails."""

    library: Path
    make: Callable[[], object]
    otherwise: str


def _ways() -> Iterator[_Way]:
    """What builds may link to, the best first."""
    chosen = choice()
    if chosen == RELEASE:
        yield _Way(released(), fetch, "it is compiled")
    if chosen != CRATE:
        # Asked for its version only where the release isn't there.
        compiler = system_compiler()
        yield _Way(compiled(compiler), partial(compile_library, compiler), "its crate compiles it")


def library() -> Path | None:
    """What builds link to; None if the crate compiles RocksDB."""
    return next((way.library for way in _ways() if way.library.exists()), None)


def environment(linked: Path | None) -> dict[str, str]:
    """The variables by which a build links to a library."""
    if linked is None:
        return {}
    shared = linked.name == SHARED
    return {
        "ROCKSDB_LIB_DIR": str(linked.parent),
        **({} if shared else {"ROCKSDB_STATIC": "1"}),
        "KVMARK_ROCKSDB_BUILD": RELEASE if shared else UNITY,
    }


def options(linked: Path | None) -> tuple[str, ...]:
    """The options of Cargo that leave out the codecs which a release has in it.

    They take half a minute to compile. An override stands in for the output of a build script.
    """
    if linked is None or linked.name != SHARED:
        return ()
    of_this_machine = f"target.{platform.machine()}-unknown-linux-gnu"
    return tuple(
        word
        for codec in CODECS
        for word in ("--config", f'{of_this_machine}.{codec}.root="{SHARED}"')
    )


def ensure() -> None:
    """Makes the library if it is missing; prints a message for each way that fails."""
    for way in _ways():
        try:
            if not way.library.exists():
                way.make()
        except Unavailable as problem:
            print(f"{problem}: {way.otherwise}.", file=sys.stderr, flush=True)
        else:
            return


def fetch() -> None:
    """Fetches the release's library into the cache, once for all callers.

    Raises Unavailable if that fails, or if this machine can't load it.
    """

    def get(made: Path) -> None:
        print("fetching RocksDB's release, once for all clones", flush=True)
        file = made / SHARED
        file.write_bytes(Release.of_this_machine().content())
        _carry_out(
            [sys.executable, "-c", PROBE, str(file)], made, "RocksDB's release can't be loaded"
        )

    _keep(released(), get)


def compile_library(compiler: Sequence[str]) -> Path:
    """Compiles the library into the cache, once for all callers, and returns its file.

    Raises Unavailable if that fails.
    """
    if not version(compiler):
        raise Unavailable(f"the C++ compiler {compiler[0]} can't be started")
    if locked(CRATES[0])[0] != TESTED_VERSION:
        raise Unavailable(f"librocksdb-sys isn't {TESTED_VERSION}, whose flags are known")

    def get(made: Path) -> None:
        with tempfile.TemporaryDirectory(dir=made.parent) as scratch:
            objects = _objects(compiler, Path(scratch))
            _carry_out(["ar", "crs", ARCHIVE, *map(str, objects)], made)

    return _keep(compiled(compiler), get)


def _keep(library: Path, get: Callable[[Path], None]) -> Path:
    """Fills the library's folder in the cache, once for all callers, and returns the library."""
    there = library.parent
    there.parent.mkdir(parents=True, exist_ok=True)
    with (there.parent / "rocksdb.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if there.exists():
            return library
        with tempfile.TemporaryDirectory(dir=there.parent, prefix="rocksdb-") as scratch:
            made = Path(scratch) / "made"
            made.mkdir()
            get(made)
            made.replace(there)
    return library


def _sources() -> dict[str, Path]:
    """Where Cargo keeps the sources of the crates."""
    here = f"{platform.machine()}-unknown-linux-gnu"
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", here]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["it gave no reason"])[-1]
        raise Unavailable(f"Cargo can't fetch RocksDB's sources ({last})")
    packages = json.loads(done.stdout)["packages"]
    return {package["name"]: Path(package["manifest_path"]).parent for package in packages}


def parts(crate: Path) -> list[list[str]]:
    """The crate's sources in its order, in parts of about one size."""
    listed = (crate / "rocksdb_lib_sources.txt").read_text().split()
    names = [f"rocksdb/{name}" for name in listed if name != "util/build_version.cc"]
    names.append("build_version.cc")
    sizes = [(crate / name).stat().st_size for name in names]
    found: list[list[str]] = [[] for _ in range(PARTS)]
    for name, before in zip(names, accumulate(sizes, initial=0), strict=False):
        found[before * PARTS // sum(sizes)].append(name)
    return found


def processes() -> int:
    """How many compilers the machine has cores and free memory for."""
    free = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text())
    fit = int(free[1]) * 1024 // PART_BYTES if free else 1
    return max(1, min(len(os.sched_getaffinity(0)), fit))


def _objects(compiler: Sequence[str], scratch: Path) -> list[Path]:
    """Compiles all parts, as many at once as fit in memory, and prints progress."""
    sources = _sources()
    crate = sources[CRATES[0]]
    codecs = [sources["lz4-sys"] / "liblz4" / "lib", sources["zstd-sys"] / "zstd" / "lib"]
    includes = ["rocksdb/include", "rocksdb", "snappy", ".", *map(str, codecs)]
    command = [*compiler, *flags(), *(f"-I{path}" for path in includes)]
    began, made = time.monotonic(), list[Path]()
    print("compiling RocksDB, once for all clones: about four minutes on two cores", flush=True)
    steps = []
    for number, names in enumerate(parts(crate)):
        unit = scratch / f"part{number}.cc"
        unit.write_text("".join(f'#include "{name}"\n' for name in names))
        made.append(unit.with_suffix(".o"))
        steps.append([*command, "-c", str(unit), "-o", str(made[-1])])
    with ThreadPoolExecutor(processes()) as threads:
        # The first failure cancels the parts that wait.
        for _ in threads.map(lambda step: _carry_out(step, crate), steps):
            elapsed = progress.elapsed(time.monotonic() - began)
            print(f"… {elapsed} (RocksDB)", file=sys.stderr, flush=True)
    return made


def _carry_out(
    command: Sequence[str], folder: Path, failed: str = "RocksDB can't be compiled in parts"
) -> None:
    """Executes a step of the build.

    Raises Unavailable with its message if it fails.
    """
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode == -signal.SIGINT:
        raise KeyboardInterrupt
    if done.returncode != 0:
        errors = [line for line in done.stderr.splitlines() if re.search("error: ", line, re.I)]
        reason = (errors or [f"{command[0]} ended with {done.returncode}"])[0]
        raise Unavailable(f"{failed} ({reason})")
