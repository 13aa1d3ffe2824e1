"""The programs of the comparison: found, or built into the user's cache, never into the clone."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from bench.common import tools
from bench.common.tools import CACHE, find_example, find_kvmark, make, program

HERE = Path(__file__).resolve().parent
RESP_BENCHMARK = "resp-benchmark==0.2.5"
GO_YCSB = "github.com/pingcap/go-ycsb/cmd/go-ycsb"
YCSB_BINDING = "kvmark.peer.RedisBinding"

VERSIONS: Mapping[str, str] = {
    "redis-benchmark": "Debian's redis-tools",
    "resp-benchmark": "0.2.5 from PyPI",
    "bare epoll loop": "an example of our own: for each GET a send, a receive, two time stamps and "
    "a record in a histogram, and nothing else",
    "YCSB": "core 0.17.0 from Maven with a binding of our own over jedis 5.2.0, which sends the "
    "commands of YCSB's own",
    "go-ycsb": "1.0.1; it reads with HMGET where the others use HGETALL",
}
"""What stands behind a peer's name."""


def find_redis_benchmark() -> list[str]:
    """Debian's."""
    return [program("redis-benchmark", "install it with `sudo apt-get install redis-tools`")]


def find_resp_benchmark() -> list[str]:
    """From PyPI, in a virtual environment of its own."""
    place = CACHE / RESP_BENCHMARK.replace("==", "-")
    built = place / "bin" / "resp-benchmark"
    if not built.exists():
        advice = "resp-benchmark can't be installed from PyPI"
        make([sys.executable, "-m", "venv", "--clear", str(place)], place.parent, advice)
        pip = [str(place / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        make([*pip, RESP_BENCHMARK], place, advice)
    return [str(built)]


def find_bare_epoll() -> list[str]:
    """Beside the driver, whose code it doesn't use."""
    return find_example("kvmark-driver-resp", "bare_epoll")


def find_ycsb() -> list[str]:
    """The core from Maven with our binding."""
    return tools.find_ycsb(HERE / "ycsb", "ycsb-redis", YCSB_BINDING)


def find_go_ycsb() -> list[str]:
    """Built from the exact version that our go.mod names."""
    wanted = HERE / "go-ycsb" / "go.mod"
    place = CACHE / "go-ycsb"
    built, made_from = place / "go-ycsb", place / "made-from"
    if not built.exists() or not made_from.exists() or _differ(made_from, wanted):
        go = program("go", "install Go 1.21 or newer, for example Debian's golang-go")
        place.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(wanted, place / "go.mod")
        command = [go, "build", "-mod=mod", "-o", str(built), GO_YCSB]
        make(command, place, "go-ycsb can't be built with Go")
        shutil.copyfile(wanted, made_from)
    return [str(built)]


FIND: Mapping[str, Callable[[], list[str]]] = {
    "kvmark": find_kvmark,
    "redis-benchmark": find_redis_benchmark,
    "resp-benchmark": find_resp_benchmark,
    "bare epoll loop": find_bare_epoll,
    "YCSB": find_ycsb,
    "go-ycsb": find_go_ycsb,
}
"""How each program is found; the answer is the beginning of its command line."""


def _differ(one: Path, other: Path) -> bool:
    return one.read_bytes() != other.read_bytes()
