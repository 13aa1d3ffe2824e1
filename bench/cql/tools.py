"""The programs of the comparison: found, or built into the user's cache, never into the clone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from bench.common import tools
from bench.common.tools import CACHE, find_example, find_kvmark, make, program

HERE = Path(__file__).resolve().parent
LATTE = "latte-cli@0.29.0"
YCSB_BINDING = "kvmark.peer.CqlBinding"

VERSIONS: Mapping[str, str] = {
    "latte": "0.29.0, one thread",
    "YCSB": "core 0.17.0 from Maven with a binding of our own over the Java driver 4.19.0, which "
    "reads a row as YCSB's own does",
    "bare loop": "an example of our own: for each read a frame out, its header and number of rows "
    "in, two time stamps and a record in a histogram, and nothing else",
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


FIND: Mapping[str, Callable[[], list[str]]] = {
    "kvmark": find_kvmark,
    "latte": find_latte,
    "YCSB": find_ycsb,
    "bare loop": lambda: find_example("kvmark-driver-cql", "bare_wire"),
}
"""How each program is found; the answer is the beginning of its command line."""
