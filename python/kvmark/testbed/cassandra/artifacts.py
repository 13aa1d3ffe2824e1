"""Cassandra's server and its dependencies, fetched once with Maven, and the installed Java.

The pom names the server and the agent that exports metrics of its virtual machine; Maven resolves
the rest with the user's settings. A version's folder appears only when it is complete: it is filled
under another name, and its list of files is compared each time it is used.

The artifacts are in the user's cache folder.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Final

from kvmark.cache import cache_folder
from kvmark.errors import SystemUnderTestError, UsageError
from kvmark.removal import discard_folder
from kvmark.testbed.process import find_program, locked, run_captured, run_streaming
from kvmark.testbed.state import template
from kvmark.testbed.system import Tell

VERSIONS: Final[Mapping[str, str]] = {"5.0": "5.0.9", "6.0": "6.0-alpha2"}
"""The exact versions of short ones."""

_EXACT: Final = re.compile(r"[56]\.\d+(\.\d+)?(-\w+)?")
_AGENT: Final = "1.0.1"
_PLUGIN: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
_PLATFORMS: Final = (
    *("linux-aarch_64", "linux-x86_64", "linux-riscv64"),
    *("osx-aarch_64", "osx-x86_64", "windows-x86_64"),
)
_MACHINES: Final = {"aarch64": "linux-aarch_64", "riscv64": "linux-riscv64"}
_LIST: Final = "artifacts.json"
_OWN_FILES: Final = re.compile(rf"pom\.xml|{re.escape(_LIST)}|(lib|agent)/[^/]+")
_FETCHED: Final = re.compile(r"Downloaded from \S+: \S*/([\w.-]+\.jar) ")
_MISSING: Final = re.compile(
    r"Could not find artifact \S*:cassandra-all:|:cassandra-all:\S+ was not found"
)
_ERROR: Final = re.compile(r"^\[ERROR\] (.+?)(?: -> \[Help 1\])?$", re.MULTILINE)
_LONGEST: Final = 300

_MAJOR: Final = 17
"""The version of Java that runs both Cassandra 5.0 and 6.0 with kvmark's options."""

_VERSION: Final = re.compile(r'version "(\d[^"]*)"')
_INSTALLED: Final = Path("/usr/lib/jvm")
_ANSWERS_WITHIN_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Artifacts:
    """A version of Cassandra on this machine."""

    folder: Path
    version: str

    @property
    def exporter(self) -> Path:
        """The agent that exports metrics of a virtual machine."""
        return self.folder / "agent" / f"jmx_prometheus_javaagent-{_AGENT}.jar"

    @property
    def jars(self) -> list[Path]:
        """The server and its dependencies, by name."""
        return sorted((self.folder / "lib").glob("*.jar"))

    @property
    def is_complete(self) -> bool:
        """Whether all files exist as they were fetched, for the pom of this kvmark."""
        try:
            listed = json.loads((self.folder / _LIST).read_bytes())
            return bool(listed == self.list_files())
        except (OSError, ValueError):
            return False

    def list_files(self) -> dict[str, Any]:
        """The pom, and the size of each jar by its path in the folder."""
        jars = sorted(self.folder.glob("*/*.jar"))
        sizes = {str(path.relative_to(self.folder)): path.stat().st_size for path in jars}
        return {"pom": _pom(self.version), "bytes": sizes}


def exact_version(version: str) -> str:
    """The exact version to fetch.

    Raises:
        UsageError: this kvmark can't start the version.
    """
    exact = VERSIONS.get(version, version)
    if not _EXACT.fullmatch(exact):
        raise UsageError(
            f"version: '{version}' of Cassandra can't be started; give {' or '.join(VERSIONS)}, or"
            f" an exact one such as {VERSIONS['5.0']}"
        )
    return exact


def fetch(version: str, tell: Tell) -> Artifacts:
    """The artifacts of an exact version, fetched if they are missing.

    Waits for another process that fetches them.

    Raises:
        UsageError: Maven is missing, there is no such version, or the folder can't be written.
        SystemUnderTestError: Maven can't fetch them.
    """
    root = cache_folder()
    found = Artifacts(root / f"cassandra-{version}", version)
    if found.is_complete:
        return found
    maven = find_program(
        "mvn",
        "Maven, which fetches Cassandra, is missing: install it with `sudo apt-get install maven`",
    )
    lock, place = root / f"cassandra-{version}.lock", f"Cassandra can't be kept in {root}"
    with locked(lock, f"fetching Cassandra {version}", place, tell):
        if not found.is_complete:
            _fetch(maven, found, tell)
    return found


def _fetch(maven: str, wanted: Artifacts, tell: Tell) -> None:
    """Fills a folder under another name, and renames it when it is complete."""
    half = wanted.folder.with_name(f"{wanted.folder.name}.part")
    # An interrupted fetch may have left it: because of the lock, no process writes there.
    discard_folder(half, _OWN_FILES)
    half.mkdir()
    try:
        (half / "pom.xml").write_text(_pom(wanted.version), encoding="utf-8")
        tell(f"Fetching Cassandra {wanted.version} with Maven")
        _run_maven(maven, half, wanted.version, tell)
        made = Artifacts(half, wanted.version)
        made.exporter.parent.mkdir()
        (half / "lib" / made.exporter.name).rename(made.exporter)
        text = json.dumps(made.list_files(), indent=1) + "\n"
        (half / _LIST).write_text(text, encoding="utf-8")
        discard_folder(wanted.folder, _OWN_FILES)
        half.rename(wanted.folder)
    except BaseException:
        discard_folder(half, _OWN_FILES)
        raise


def _run_maven(maven: str, folder: Path, version: str, tell: Tell) -> None:
    own = _MACHINES.get(platform.machine(), "linux-x86_64")
    others = ",".join(name for name in _PLATFORMS if name != own)
    # Maven compares files with the registry's checksums, and fails if they differ. It remembers
    # missing files for a day: --update-snapshots lets it ask again.
    command = [maven, "--batch-mode", "--strict-checksums", "--update-snapshots", _PLUGIN]
    command += ["--file", str(folder / "pom.xml"), f"-DoutputDirectory={folder / 'lib'}"]
    command += ["-DincludeScope=runtime", f"-DexcludeClassifiers={others}"]
    numbers = count(1)

    def on_line(line: str) -> None:
        if jar := _FETCHED.search(line):
            tell(f"Fetching Cassandra {version} with Maven: {next(numbers)} files, {jar[1]}")

    code, lines = run_streaming(command, on_line)
    if code == 0:
        return
    output = "\n".join(lines)
    if _MISSING.search(output):
        raise UsageError(
            f"version: Maven's registry has no Cassandra {version}; give {' or '.join(VERSIONS)}"
        )
    first = _ERROR.search(output)
    reason = first[1] if first else (output.strip().splitlines() or ["it printed nothing"])[-1]
    raise SystemUnderTestError(
        f"Maven could not fetch Cassandra {version}, look at the network and at Maven's"
        f" settings.xml: {reason[:_LONGEST]}"
    )


def _pom(version: str) -> str:
    return template("cassandra/pom.xml").format(version=version, agent=_AGENT)


@dataclass(frozen=True, slots=True)
class Java:
    """A Java program."""

    program: str
    version: str


def find_java() -> Java:
    """Java 17: that of JAVA_HOME, the first one on the search path, or one that Debian installed.

    Raises:
        UsageError: there is none.
    """
    home, first = os.environ.get("JAVA_HOME"), shutil.which("java")
    programs = [f"{home}/bin/java" if home else None, first]
    programs += map(str, sorted(_INSTALLED.glob(f"*-{_MAJOR}-*/bin/java")))
    found = list(filter(None, map(_inspect, filter(None, programs))))
    for java in found:
        if re.match(rf"{_MAJOR}\b", java.version):
            return java
    package = f"install it with `sudo apt-get install openjdk-{_MAJOR}-jre-headless`"
    if not found:
        raise UsageError(f"Java is missing: {package}")
    raise UsageError(
        f"Cassandra needs Java {_MAJOR} and not {found[0].version} ({found[0].program}): {package},"
        " or name its folder with JAVA_HOME"
    )


def _inspect(program: str) -> Java | None:
    """A program's version of Java; None if it isn't Java."""
    try:
        answer = run_captured([program, "-version"], _ANSWERS_WITHIN_S)
    except (OSError, subprocess.TimeoutExpired):
        return None
    version = _VERSION.search(answer.stderr)
    return Java(program, version[1]) if version else None
