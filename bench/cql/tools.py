"""The programs of the comparison: found, or built into the user's cache, never into the clone."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path

from bench.common import tools
from bench.common.tools import (
    CACHE,
    PeerMissingError,
    find_example,
    find_kvmark,
    make,
    program,
)

HERE = Path(__file__).resolve().parent
LATTE = "latte-cli@0.29.0"
YCSB_BINDING = "kvmark.peer.CqlBinding"
_JAVA = "install Maven and Java with `sudo apt-get install maven default-jdk-headless`"
_ARCHIVE = "org.apache.cassandra:apache-cassandra:3.11.4"
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
_OPENED = ("java.lang", "java.util", "java.io", "java.nio", "sun.nio.ch", "jdk.internal.ref")

VERSIONS: Mapping[str, str] = {
    "latte": "0.29.0, one thread",
    "YCSB": "core 0.17.0 from Maven with a binding of our own over the Java driver 4.19.0, which "
    "reads a row as YCSB's own does",
    "cassandra-stress": "3.11.4, from Cassandra's archive in Maven",
    "cql-stress": "as the variable CQL_STRESS names its launcher",
    "bare loop": "an example of our own: for each operation a frame out, its header and number of "
    "rows in, two time stamps and a record in a histogram, and nothing else",
}
"""What stands behind a peer's name."""


def find_latte() -> list[str]:
    """Built by Cargo from the crate, with the versions that its author locked."""
    place = CACHE / LATTE.replace("@", "-")
    built = place / "bin" / "latte"
    if not built.exists():
        cargo = program("cargo", "install Rust as rustup.rs says")
        command = [cargo, "install", "--quiet", "--locked", LATTE, "--root", str(place)]
        make(command, place, "latte can't be built with Cargo")
    return [str(built)]


def find_ycsb() -> list[str]:
    """The core from Maven with our binding."""
    return tools.find_ycsb(HERE / "ycsb", "ycsb-cql", YCSB_BINDING)


def find_cassandra_stress() -> list[str]:
    """The archive that Maven fetches; Java wants to be told which of its own packages are read."""
    place = CACHE / "cassandra-stress-3.11.4"
    java, maven = (program(name, _JAVA) for name in ("java", "mvn"))
    if not (place / "tools" / "lib" / "stress.jar").exists():
        place.mkdir(parents=True, exist_ok=True)
        archive = [f"-Dartifact={_ARCHIVE}:tar.gz:bin", f"-DoutputDirectory={place}"]
        make([maven, "-B", "-ntp", "-q", _COPY, *archive], place, "it can't be fetched with Maven")
        tar = ["tar", "--strip-components=1", "-xzf", "apache-cassandra-3.11.4-bin.tar.gz"]
        make(tar, place, "its archive can't be unpacked")
    classes = f"{place}/conf:{place}/tools/lib/stress.jar:{place}/lib/*"
    opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED]
    return [java, *opened, "-cp", classes, "org.apache.cassandra.stress.Stress"]


def find_cql_stress() -> list[str]:
    """In no registry: who has it says where."""
    launcher = os.environ.get("CQL_STRESS")
    if not launcher:
        raise PeerMissingError("cql-stress is in no registry: name its launcher in CQL_STRESS")
    return shlex.split(launcher)


FIND: Mapping[str, Callable[[], list[str]]] = {
    "kvmark": find_kvmark,
    "latte": find_latte,
    "YCSB": find_ycsb,
    "cassandra-stress": find_cassandra_stress,
    "cql-stress": find_cql_stress,
    "bare loop": lambda: find_example("kvmark-driver-cql", "bare_wire"),
}
"""How each program is found; the answer is the beginning of its command line."""
