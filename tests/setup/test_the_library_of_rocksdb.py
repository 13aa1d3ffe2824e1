"""RocksDB's release build is linked to where it is what was tested, and nowhere else."""

import hashlib
import shutil
import subprocess
import zipfile
from pathlib import Path

import libclang
import pytest
import rocksdb_library

NAME = "librocksdbjni-linux64.so"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of a machine with glibc on x86-64, whose Maven brings what `served` holds."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("KVMARK_ROCKSDB", raising=False)
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr("platform.libc_ver", lambda: ("glibc", "2.36"))
    return tmp_path


def shared_library(folder: Path, function: str) -> bytes:
    """A library with one function."""
    source, built = folder / "library.c", folder / "library.so"
    source.write_text(f"int {function}(void) {{ return 7; }}\n")
    subprocess.run(["cc", "-shared", "-o", built, source], check=True)
    return built.read_bytes()


def serve(cache: Path, content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Has Maven bring a Java package with that library, whose digest is the one that is known."""
    served = cache / "served.jar"
    with zipfile.ZipFile(served, "w") as package:
        package.writestr(NAME, content)
    program = cache / "programs" / "mvn"
    program.parent.mkdir()
    jar = f"rocksdbjni-{rocksdb_library.version()}.jar"
    program.write_text(
        "#!/bin/sh\n"
        'for word; do case "$word" in -DoutputDirectory=*) into="${word#*=}";; esac; done\n'
        f'cp {served} "$into/{jar}"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    digest = hashlib.sha256(content).hexdigest()
    members = {"x86_64": rocksdb_library.Member(NAME, digest)}
    monkeypatch.setattr(rocksdb_library, "MEMBERS", members)


def test_its_digests_are_of_the_version_that_the_crate_is_made_for() -> None:
    assert rocksdb_library.version() == rocksdb_library.TESTED_VERSION


def test_a_library_is_fetched_once_and_builds_are_told_of_it(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve(cache, shared_library(cache, "rocksdb_open"), monkeypatch)
    assert rocksdb_library.environment() == {}
    place = rocksdb_library.fetch()
    (cache / "served.jar").unlink()
    assert rocksdb_library.fetch() == place
    assert rocksdb_library.environment()["ROCKSDB_LIB_DIR"] == str(place)
    assert list(place.parent.iterdir()) == [place], "nothing else is left in the cache"


def test_another_library_under_its_name_is_refused(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve(cache, shared_library(cache, "rocksdb_open"), monkeypatch)
    known = {"x86_64": rocksdb_library.Member(NAME, "0" * 64)}
    monkeypatch.setattr(rocksdb_library, "MEMBERS", known)
    with pytest.raises(rocksdb_library.Unavailable, match="its digest differs"):
        rocksdb_library.fetch()
    assert rocksdb_library.folder() is None


def test_a_library_that_can_not_be_loaded_is_refused(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve(cache, shared_library(cache, "something_else"), monkeypatch)
    with pytest.raises(rocksdb_library.Unavailable, match="can't be loaded here"):
        rocksdb_library.fetch()
    assert rocksdb_library.folder() is None


def test_without_maven_the_reason_is_told(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(cache))
    with pytest.raises(rocksdb_library.Unavailable, match="Maven is missing"):
        rocksdb_library.fetch()


def test_who_wants_it_compiled_is_not_given_the_library(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve(cache, shared_library(cache, "rocksdb_open"), monkeypatch)
    rocksdb_library.fetch()
    monkeypatch.setenv("KVMARK_ROCKSDB", "source")
    assert rocksdb_library.folder() is None
    assert rocksdb_library.environment() == {}


def test_a_machine_without_glibc_compiles(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.libc_ver", lambda: ("", ""))
    assert not rocksdb_library.is_wanted()


def test_a_library_of_classes_is_not_taken_for_libclang(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "libclang-cpp.so.14").write_bytes(shared_library(tmp_path, "clang_cxx"))
    monkeypatch.setattr(libclang, "candidates", lambda: [tmp_path])
    assert libclang.folder() is None
    shutil.move(tmp_path / "libclang-cpp.so.14", tmp_path / "old.so")
    (tmp_path / "libclang-14.so").write_bytes(shared_library(tmp_path, "clang_getClangVersion"))
    assert libclang.folder() == tmp_path
