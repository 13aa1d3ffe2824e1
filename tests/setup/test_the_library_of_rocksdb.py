"""RocksDB's release is fetched once, or compiled once in a few parts, or left to its crate."""

import hashlib
import re
import shutil
import subprocess
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from email.message import Message
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import libclang
import pytest
import rocksdb_library
import target_folder
from rocksdb_library import Release

from http_server import http_server

SOURCES = ("rocksdb/db/c.cc", "rocksdb/util/hash.cc", "build_version.cc")
FUNCTION = 'extern "C" int of_part_{number}() {{ return {number}; }}\n'


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The empty cache of a machine; the crate has three sources, and there is no network."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("KVMARK_ROCKSDB", "CXX", *rocksdb_library.OWN_FLAGS, *rocksdb_library.GIVEN):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    crate = tmp_path / "crate"
    for number, name in enumerate(SOURCES):
        (crate / name).parent.mkdir(parents=True, exist_ok=True)
        (crate / name).write_text(FUNCTION.format(number=number))
    names = "db/c.cc\nutil/build_version.cc\nutil/hash.cc\n"
    (crate / "rocksdb_lib_sources.txt").write_text(names)
    folders = dict.fromkeys(rocksdb_library.CRATES, crate)
    monkeypatch.setattr(rocksdb_library, "_sources", lambda: folders)
    release(monkeypatch, Release("http://127.0.0.1:1/", 0, 0, "0"))
    return tmp_path / "cache" / "kvmark"


def release(monkeypatch: pytest.MonkeyPatch, wanted: Release) -> None:
    monkeypatch.setattr(Release, "of_this_machine", lambda: wanted)


@contextmanager
def served(library: bytes, *, parts: bool) -> Iterator[Release]:
    """A library behind others in an archive; a server may send parts of files, or whole ones."""
    packed = zlib.compress(library, wbits=-zlib.MAX_WBITS)
    archive = b"others " + packed + b" and others"

    def answer(_: str, headers: Message) -> tuple[int, bytes]:
        first, last = map(int, headers["Range"].removeprefix("bytes=").split("-"))
        return (206, archive[first : last + 1]) if parts else (200, archive)

    with http_server(answer) as address:
        place, sha256 = f"http://{address}/", hashlib.sha256(library).hexdigest()
        yield Release(place, len(b"others "), len(packed), sha256)


def variables() -> dict[str, str]:
    return rocksdb_library.environment(rocksdb_library.library())


def test_the_locked_versions_are_one_and_the_flags_are_of_the_locked_crate() -> None:
    assert rocksdb_library.locked("librocksdb-sys")[0] == rocksdb_library.TESTED_VERSION
    assert all(checksum for _, checksum in map(rocksdb_library.locked, rocksdb_library.CRATES))
    version = rocksdb_library.TESTED_VERSION.partition("+")[2]
    assert f"rocksdbjni-{version}.jar" in Release.of_this_machine().source


@pytest.mark.parametrize("parts", [True, False])
def test_a_release_is_fetched_once_and_builds_link_to_it(
    cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, parts: bool
) -> None:
    with served(shared_library(tmp_path, "rocksdb_open"), parts=parts) as wanted:
        release(monkeypatch, wanted)
        rocksdb_library.ensure()
    rocksdb_library.ensure()
    assert variables()["KVMARK_ROCKSDB_BUILD"] == "release"
    assert "ROCKSDB_STATIC" not in variables()
    library = rocksdb_library.released()
    assert Path(variables()["ROCKSDB_LIB_DIR"]) == library.parent
    assert {*cache.rglob("*")} == {library, library.parent, cache / "rocksdb.lock"}


@pytest.mark.parametrize("fault", ["another hash", "another function", "cut", "no HTTP"])
def test_without_the_locked_release_rocksdb_is_compiled(
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    fault: str,
) -> None:
    name = "rocksdb_close" if fault == "another function" else "rocksdb_open"
    with served(shared_library(tmp_path, name), parts=True) as wanted:
        cut = replace(wanted, size=wanted.size - 9)
        other = replace(wanted, sha256="0")
        release(monkeypatch, {"another hash": other, "cut": cut}.get(fault, wanted))
        if fault == "no HTTP":
            monkeypatch.setattr(BaseHTTPRequestHandler, "protocol_version", "nothing")
        rocksdb_library.ensure()
    message = capsys.readouterr().err
    assert re.match(r"RocksDB's release [^\n]+: it is compiled\.\n", message), message
    assert variables()["KVMARK_ROCKSDB_BUILD"] == "unity"
    assert not rocksdb_library.released().exists()


def test_a_library_is_compiled_once_and_builds_link_to_it(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert variables() == {}
    rocksdb_library.ensure()
    library = Path(variables()["ROCKSDB_LIB_DIR"]) / "librocksdb.a"
    assert variables()["KVMARK_ROCKSDB_BUILD"] == "unity"
    command = ["nm", "--defined-only", str(library)]
    names = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert all(f"of_part_{number}\n" in names for number in range(len(SOURCES)))
    made = library.stat().st_mtime_ns
    monkeypatch.setenv("KVMARK_ROCKSDB", "unity")
    rocksdb_library.ensure()
    assert library.stat().st_mtime_ns == made
    with_the_library = target_folder.sources()
    monkeypatch.setenv("KVMARK_ROCKSDB", "crate")
    by_the_crate = target_folder.sources()
    assert target_folder.stale(by_the_crate, with_the_library) == ["librocksdb-sys"]
    assert target_folder.stale(by_the_crate, by_the_crate) == []


def test_without_network_and_compiler_the_crate_compiles(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    rocksdb_library.ensure()
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("RocksDB's release can't be fetched (")
    assert second == ("the C++ compiler no-such-compiler can't be started: its crate compiles it.")
    assert variables() == {}


def test_after_an_error_in_a_part_the_crate_compiles(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KVMARK_ROCKSDB", "unity")
    (cache.parents[1] / "crate" / SOURCES[0]).write_text("int twice;\nint twice;\n")
    rocksdb_library.ensure()
    message = capsys.readouterr().err
    assert "(rocksdb/db/c.cc:2" in message.replace("./", "")
    assert rocksdb_library.library() is None


def test_users_of_another_rocksdb_do_not_get_the_library(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rocksdb_library.ensure()
    own = {"KVMARK_ROCKSDB": "crate", "ROCKSDB_LIB_DIR": "/a", "RUSTFLAGS": "-Ctarget-cpu=native"}
    for name, value in own.items():
        assert rocksdb_library.library() is not None
        with monkeypatch.context() as context:
            context.setenv(name, value)
            assert variables() == {}, name


def test_a_library_of_classes_is_not_libclang(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "libclang-cpp.so.14").write_bytes(shared_library(tmp_path, "clang_cxx"))
    monkeypatch.setattr(libclang, "candidates", lambda: [tmp_path])
    assert libclang.folder() is None
    shutil.move(tmp_path / "libclang-cpp.so.14", tmp_path / "old.so")
    (tmp_path / "libclang-14.so").write_bytes(shared_library(tmp_path, "clang_getClangVersion"))
    assert libclang.folder() == tmp_path


def shared_library(folder: Path, function: str) -> bytes:
    """A library with one function."""
    source, built = folder / "library.c", folder / "library.so"
    source.write_text(f"int {function}(void) {{ return 7; }}\n")
    subprocess.run(["cc", "-shared", "-o", built, source], check=True)
    return built.read_bytes()
