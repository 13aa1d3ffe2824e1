"""RocksDB is compiled once in a few parts, from the sources of its crate, or left to the crate."""

import shutil
import subprocess
from pathlib import Path

import libclang
import pytest
import rocksdb_library
import target_folder

SOURCES = ("rocksdb/db/c.cc", "rocksdb/util/hash.cc", "build_version.cc")
FUNCTION = 'extern "C" int of_part_{number}() {{ return {number}; }}\n'


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The empty cache of a machine; the crate has three sources."""
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
    return tmp_path / "cache" / "kvmark"


def test_its_flags_are_of_the_locked_crate() -> None:
    assert rocksdb_library.locked("librocksdb-sys")[0] == rocksdb_library.TESTED_VERSION
    assert all(checksum for _, checksum in map(rocksdb_library.locked, rocksdb_library.CRATES))


def test_a_library_is_compiled_once_and_builds_link_to_it(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert rocksdb_library.environment() == {}
    rocksdb_library.ensure()
    variables = rocksdb_library.environment()
    library = Path(variables["ROCKSDB_LIB_DIR"]) / "librocksdb.a"
    assert variables["KVMARK_ROCKSDB_BUILD"] == "unity"
    command = ["nm", "--defined-only", str(library)]
    names = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert all(f"of_part_{number}\n" in names for number in range(len(SOURCES)))
    made = library.stat().st_mtime_ns
    rocksdb_library.ensure()
    assert library.stat().st_mtime_ns == made
    with_the_library = target_folder.sources()
    monkeypatch.setenv("KVMARK_ROCKSDB", "crate")
    by_the_crate = target_folder.sources()
    assert target_folder.stale(by_the_crate, with_the_library) == ["librocksdb-sys"]
    assert target_folder.stale(by_the_crate, by_the_crate) == []


def test_without_a_compiler_the_crate_compiles(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    rocksdb_library.ensure()
    message = "the C++ compiler no-such-compiler can't be started: RocksDB's crate compiles it.\n"
    assert capsys.readouterr().err == message
    assert rocksdb_library.environment() == {}


def test_after_an_error_in_a_part_the_crate_compiles(
    cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (cache.parents[1] / "crate" / SOURCES[0]).write_text("int twice;\nint twice;\n")
    rocksdb_library.ensure()
    message = capsys.readouterr().err
    assert "RocksDB can't be compiled in parts (rocksdb/db/c.cc:2" in message.replace("./", "")
    assert rocksdb_library.folder() is None


def test_users_of_another_rocksdb_do_not_get_the_library(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rocksdb_library.ensure()
    own = {"KVMARK_ROCKSDB": "crate", "ROCKSDB_LIB_DIR": "/a", "RUSTFLAGS": "-Ctarget-cpu=native"}
    for name, value in own.items():
        assert rocksdb_library.folder() is not None
        with monkeypatch.context() as context:
            context.setenv(name, value)
            assert rocksdb_library.environment() == {}, name


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
