"""Cassandra's server, the Java that it runs on, and what it needs: fetched once with Maven.

The pom names the server and the agent that tells what its virtual machine does; Maven finds the
rest, from wherever the user's own settings of Maven say. A version's folder appears whole or not at
all: it is filled under another name, and its list of files is compared each time it is used.

All of it but Java lies in the user's cache folder.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from kvmark.cache import cache_folder
from kvmark.errors import SystemUnderTestError, UsageError
from kvmark.removal import discard_folder
from kvmark.testbed.cache import locked, run_told

Tell = Callable[[str], None]
"""Takes what is going on, as a few words for people."""

VERSIONS: Final[Mapping[str, str]] = MappingProxyType({"5.0": "5.0.9", "6.0": "6.0-alpha2"})
"""What is meant by a version that isn't exact."""

_EXACT: Final = re.compile(r"[56]\.\d+(\.\d+)?(-\w+)?")
_AGENT: Final = "1.0.1"
_PLUGIN: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
_PLATFORMS: Final = (
    "osx-aarch_64",
    "osx-x86_64",
    "linux-aarch_64",
    "linux-x86_64",
    "linux-riscv64",
    "windows-x86_64",
)
_MACHINES: Final = {"aarch64": "linux-aarch_64", "riscv64": "linux-riscv64"}
_LIST: Final = "artifacts.json"
_OWN_FILES: Final = re.compile(rf"pom\.xml|{re.escape(_LIST)}|(lib|agent)/[^/]+")
_FETCHED: Final = re.compile(r"Downloaded from \S+: \S*/([\w.-]+\.jar) ")
_NOT_THERE: Final = re.compile(
    r"Could not find artifact \S*:cassandra-all:|:cassandra-all:\S+ was not found"
)
_ERROR: Final = re.compile(r"^\[ERROR\] (.+?)(?: -> \[Help 1\])?$", re.MULTILINE)
_LONGEST: Final = 300
_POM: Final = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>kvmark</groupId>
  <artifactId>cassandra-testbed</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.cassandra</groupId>
      <artifactId>cassandra-all</artifactId>
      <version>{version}</version>
    </dependency>
    <dependency>
      <groupId>io.prometheus.jmx</groupId>
      <artifactId>jmx_prometheus_javaagent</artifactId>
      <version>{agent}</version>
      <exclusions>
        <exclusion>
          <groupId>*</groupId>
          <artifactId>*</artifactId>
        </exclusion>
      </exclusions>
    </dependency>
  </dependencies>
</project>
"""

_MAJOR: Final = 17
"""The version of Java that both Cassandra 5.0 and 6.0 run on with the options kvmark gives them."""

_VERSION: Final = re.compile(r'version "((?:1\.)?(\d+)[^"]*)"')
_INSTALLED: Final = Path("/usr/lib/jvm")
_ANSWERS_WITHIN_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Artifacts:
    """A version of Cassandra on this machine."""

    folder: Path
    version: str

    @property
    def exporter(self) -> Path:
        """The agent that shows the figures of a virtual machine."""
        return self.folder / "agent" / f"jmx_prometheus_javaagent-{_AGENT}.jar"

    @property
    def jars(self) -> list[Path]:
        """The server and what it needs, in the order of their names."""
        return sorted((self.folder / "lib").glob("*.jar"))

    @property
    def is_whole(self) -> bool:
        """Whether all files are there as they were fetched, for the pom of this kvmark."""
        try:
            known = json.loads((self.folder / _LIST).read_bytes())
            return bool(known == {"pom": _pom(self.version), "bytes": _sizes(self.folder)})
        except (OSError, ValueError):
            return False


def exact_version(version: str) -> str:
    """The version to fetch for the one that was asked for.

    Raises:
        UsageError: this kvmark can't start it.
    """
    found = VERSIONS.get(version, version)
    if not _EXACT.fullmatch(found):
        raise UsageError(
            f"version: '{version}' of Cassandra can't be started; give {' or '.join(VERSIONS)}, or"
            f" an exact one such as {VERSIONS['5.0']}"
        )
    return found


def fetch(version: str, tell: Tell, cache: Path | None = None) -> Artifacts:
    """The artifacts of an exact version, fetched if they aren't there yet.

    If another process is fetching them it is waited for.

    Args:
        version: the exact version.
        tell: is told what is being fetched.
        cache: the folder to keep them in; None for kvmark's in the user's cache folder.

    Raises:
        UsageError: Maven is missing, there is no such version, or the folder can't be written.
        SystemUnderTestError: Maven can't get them.
    """
    root = cache_folder() if cache is None else cache
    found = Artifacts(root / f"cassandra-{version}", version)
    if found.is_whole:
        return found
    maven = shutil.which("mvn")
    if maven is None:
        raise UsageError(
            "Maven, which fetches Cassandra, is missing: install it with `sudo apt-get install"
            " maven`"
        )
    try:
        with locked(root / f"cassandra-{version}.lock", f"fetching Cassandra {version}", tell):
            if not found.is_whole:
                _fetch(maven, found, tell)
    except OSError as problem:
        raise UsageError(
            f"Cassandra can't be kept in {root} because {problem.strerror}: name another cache"
            " folder with XDG_CACHE_HOME"
        ) from problem
    return found


def _fetch(maven: str, wanted: Artifacts, tell: Tell) -> None:
    """Fills a folder under another name, and puts it in its place when it is whole."""
    half = wanted.folder.with_name(f"{wanted.folder.name}.part")
    # What an interrupted fetch left: the lock says that nobody writes there.
    discard_folder(half, _OWN_FILES)
    half.mkdir()
    try:
        (half / "pom.xml").write_text(_pom(wanted.version), encoding="utf-8")
        tell(f"Fetching Cassandra {wanted.version} with Maven")
        _run_maven(maven, half, wanted.version, tell)
        made = Artifacts(half, wanted.version)
        made.exporter.parent.mkdir()
        (half / "lib" / made.exporter.name).rename(made.exporter)
        known = {"pom": _pom(wanted.version), "bytes": _sizes(half)}
        (half / _LIST).write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
        discard_folder(wanted.folder, _OWN_FILES)
        half.rename(wanted.folder)
    except BaseException:
        discard_folder(half, _OWN_FILES)
        raise


def _run_maven(maven: str, folder: Path, version: str, tell: Tell) -> None:
    own = _MACHINES.get(platform.machine(), "linux-x86_64")
    others = ",".join(name for name in _PLATFORMS if name != own)
    # Maven checks what it was sent against the registry's checksums, and fails if they differ.
    # It also remembers what it did not get, for a day: --update-snapshots lets it ask again.
    command = [maven, "--batch-mode", "--strict-checksums", "--update-snapshots"]
    words = ["--file", str(folder / "pom.xml")]
    words += [f"-DoutputDirectory={folder / 'lib'}", "-DincludeScope=runtime"]
    said: list[str] = []
    fetched = 0

    def hear(line: str) -> None:
        nonlocal fetched
        said.append(line)
        if jar := _FETCHED.search(line):
            fetched += 1
            tell(f"Fetching Cassandra {version} with Maven: {fetched} files, {jar[1]}")

    words.append(f"-DexcludeClassifiers={others}")
    if run_told([*command, _PLUGIN, *words], hear) != 0:
        raise _refusal("".join(said), version)


def _refusal(said: str, version: str) -> SystemUnderTestError | UsageError:
    """The error for what Maven said."""
    if _NOT_THERE.search(said):
        return UsageError(
            f"version: Maven's registry has no Cassandra {version}; give {' or '.join(VERSIONS)}"
        )
    first = _ERROR.search(said)
    reason = first[1] if first else (said.strip().splitlines() or ["it said nothing"])[-1]
    return SystemUnderTestError(
        f"Maven could not fetch Cassandra {version}, look at the network and at Maven's"
        f" settings.xml: {reason[:_LONGEST]}"
    )


def _pom(version: str) -> str:
    return _POM.format(version=version, agent=_AGENT)


def _sizes(folder: Path) -> dict[str, int]:
    """The size of each jar by its path in the folder."""
    jars = sorted(folder.glob("*/*.jar"))
    return {str(path.relative_to(folder)): path.stat().st_size for path in jars}


@dataclass(frozen=True, slots=True)
class Java:
    """A Java program."""

    program: str
    version: str
    major: int


def find_java() -> Java:
    """Java 17: that of JAVA_HOME, the first one on the search path, or one that Debian installed.

    Raises:
        UsageError: there is none.
    """
    found = [java for program in _programs() if (java := _look_at(program)) is not None]
    for java in found:
        if java.major == _MAJOR:
            return java
    package = f"install it with `sudo apt-get install openjdk-{_MAJOR}-jre-headless`"
    if not found:
        raise UsageError(f"Java is missing: {package}")
    raise UsageError(
        f"Cassandra needs Java {_MAJOR} and not {found[0].version} ({found[0].program}): {package},"
        " or name its folder with JAVA_HOME"
    )


def _programs() -> Iterator[str]:
    home = os.environ.get("JAVA_HOME")
    if home:
        yield str(Path(home) / "bin" / "java")
    first = shutil.which("java")
    if first is not None:
        yield first
    yield from (str(path) for path in sorted(_INSTALLED.glob(f"*-{_MAJOR}-*/bin/java")))


def _look_at(program: str) -> Java | None:
    """What a program says of itself; None if it isn't Java."""
    try:
        answer = subprocess.run(  # noqa: S603 - the word is a program's path
            [program, "-version"],
            capture_output=True,
            text=True,
            check=False,
            timeout=_ANSWERS_WITHIN_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    version = _VERSION.search(answer.stderr)
    return Java(program, version[1], int(version[2])) if version else None
