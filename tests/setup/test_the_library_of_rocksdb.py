"""RocksDB is compiled once in a few parts, of what its crate compiles, or left to the crate."""

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
    """The cache of a machine that has compiled nothing; the crate's sources are three."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("KVMARK_ROCKSDB", "CXX", *rocksdb_library.OWN_FLAGS, *rocksdb_library.GIVEN):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    crate = tmp_path / "crate"
    for number, name in enumerate(SOURCES):
        (crate / name).parent.mkdir(parents=True, exist_ok=True)
        (crate / name).write_text(FUNCTION.format(number=number))
    listed = "db/c.cc\nutil/build_version.cc\nutil/hash.cc\n"
    (crate / "rocksdb_lib_sources.txt").write_text(listed)
    folders = dict.fromkeys(rocksdb_library.CRATES, crate)
    monkeypatch.setattr(rocksdb_library, "_sources", lambda: folders)
    return tmp_path / "cache" / "kvmark"


def test_its_flags_are_of_the_crate_that_is_locked() -> None:
    assert rocksdb_library.locked("librocksdb-sys")[0] == rocksdb_library.TESTED_VERSION
    assert all(checksum for _, checksum in map(rocksdb_library.locked, rocksdb_library.CRATES))


def test_a_library_is_compiled_once_and_builds_are_told_of_it(cache: Path) -> None:
    assert rocksdb_library.environment() == {}
    rocksdb_library.ensure()
    told = rocksdb_library.environment()
    place = Path(told["ROCKSDB_LIB_DIR"])
    assert told == {
        "ROCKSDB_LIB_DIR": str(place),
        "ROCKSDB_STATIC": "1",
        "KVMARK_ROCKSDB_BUILD": "unity",
    }
    names = subprocess.run(
        ["nm", "--defined-only", place / "librocksdb.a"], capture_output=True, text=True, check=True
    ).stdout
    assert all(f"of_part_{number}\n" in names for number in range(len(SOURCES)))
    assert {path.name for path in cache.iterdir()} == {place.name, "rocksdb.lock"}
    made = (place / "librocksdb.a").stat().st_mtime_ns
    rocksdb_library.ensure()
    assert (place / "librocksdb.a").stat().st_mtime_ns == made


def test_what_the_crate_compiled_before_is_not_linked_instead_of_the_library(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rocksdb_library.ensure()
    with_the_library = target_folder.sources()
    monkeypatch.setenv("KVMARK_ROCKSDB", "crate")
    by_the_crate = target_folder.sources()
    assert target_folder.stale(by_the_crate, with_the_library) == ["librocksdb-sys"]
    assert target_folder.stale(with_the_library, by_the_crate) == ["librocksdb-sys"]
    assert target_folder.stale(by_the_crate, by_the_crate) == []


def test_other_flags_and_another_compiler_make_another_library(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = rocksdb_library.place(rocksdb_library.Compiler.of_the_system())
    other = rocksdb_library.place(rocksdb_library.Compiler(("c++", "-v")))
    monkeypatch.setattr(rocksdb_library, "FLAGS", ("-O1",))
    places = {usual, other, rocksdb_library.place(rocksdb_library.Compiler(("c++",)))}
    assert {path.parent for path in places} == {cache}
    assert len(places) == 3


def test_without_a_compiler_it_is_left_to_the_crate_with_a_reason(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    rocksdb_library.ensure()
    said = "the C++ compiler no-such-compiler can't be started: RocksDB's crate compiles it.\n"
    assert capsys.readouterr().err == said
    assert rocksdb_library.environment() == {}
    assert not cache.exists()


def test_what_can_not_be_compiled_in_parts_is_left_to_the_crate(
    cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (cache.parents[1] / "crate" / SOURCES[0]).write_text("int twice;\nint twice;\n")
    rocksdb_library.ensure()
    said = capsys.readouterr().err
    assert "RocksDB can't be compiled in parts (rocksdb/db/c.cc:2" in said.replace("./", "")
    assert rocksdb_library.folder() is None
    assert [path.name for path in cache.iterdir()] == ["rocksdb.lock"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("KVMARK_ROCKSDB", "crate"),
        ("ROCKSDB_LIB_DIR", "/somewhere"),
        ("RUSTFLAGS", "-Ctarget-cpu=native"),
    ],
)
def test_who_wants_another_rocksdb_is_not_given_the_library(
    cache: Path, name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rocksdb_library.ensure()
    assert rocksdb_library.folder() is not None
    monkeypatch.setenv(name, value)
    assert rocksdb_library.environment() == {}


def test_another_processor_leaves_it_to_the_crate(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    assert rocksdb_library.environment() == {}


def test_as_many_compilers_run_as_memory_is_free_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(64)))
    monkeypatch.setattr(Path, "read_text", lambda _: "MemAvailable:    5000000 kB\n")
    assert rocksdb_library.processes() == 2
    monkeypatch.setattr(Path, "read_text", lambda _: "MemAvailable:    50000 kB\n")
    assert rocksdb_library.processes() == 1


def test_a_library_of_classes_is_not_taken_for_libclang(
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
