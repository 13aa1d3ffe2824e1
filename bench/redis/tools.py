"""The programs of the comparison: found, or built into the user's cache, never into the clone."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
CACHE = Path.home() / ".cache" / "kvmark"
RESP_BENCHMARK = "resp-benchmark==0.2.5"
GO_YCSB = "github.com/pingcap/go-ycsb/cmd/go-ycsb"
YCSB_CLIENT = "site.ycsb.Client"
YCSB_BINDING = "kvmark.peer.RedisBinding"

VERSIONS: Mapping[str, str] = {
    "redis-benchmark": "Debian's redis-tools",
    "resp-benchmark": "0.2.5 from PyPI",
    "YCSB": "core 0.17.0 from Maven with a binding of our own over jedis 5.2.0, which sends the "
    "commands of YCSB's own",
    "go-ycsb": "1.0.1; it reads with HMGET where the others use HGETALL",
}
"""What stands behind a peer's name."""


class PeerMissingError(Exception):
    """A peer can't be had here; one sentence says what to install."""


def find_kvmark() -> list[str]:
    """The program beside the Python that runs this."""
    return [str(Path(sys.executable).with_name("kvmark"))]


def find_redis_benchmark() -> list[str]:
    """Debian's."""
    program = _program("redis-benchmark", "install it with `sudo apt-get install redis-tools`")
    return [program]


def find_resp_benchmark() -> list[str]:
    """From PyPI, in a virtual environment of its own."""
    place = CACHE / RESP_BENCHMARK.replace("==", "-")
    program = place / "bin" / "resp-benchmark"
    if not program.exists():
        advice = "resp-benchmark can't be installed from PyPI"
        _make([sys.executable, "-m", "venv", "--clear", str(place)], place.parent, advice)
        pip = [str(place / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        _make([*pip, RESP_BENCHMARK], place, advice)
    return [str(program)]


def find_ycsb() -> list[str]:
    """The core from Maven with our binding; what changed is compiled again."""
    advice = "install Maven and Java with `sudo apt-get install maven default-jdk-headless`"
    java, maven = _program("java", advice), _program("mvn", advice)
    built = CACHE / "ycsb-redis"
    command = [maven, "-B", "-ntp", "-q", f"-Dbuild.folder={built}", "package"]
    _make(command, HERE / "ycsb", "YCSB's binding can't be built with Maven")
    classes = f"{built}/target/ycsb-redis.jar:{built}/lib/*"
    return [java, "-cp", classes, YCSB_CLIENT, "-db", YCSB_BINDING]


def find_go_ycsb() -> list[str]:
    """Built from the exact version that our go.mod names."""
    wanted = HERE / "go-ycsb" / "go.mod"
    place = CACHE / "go-ycsb"
    program, made_from = place / "go-ycsb", place / "made-from"
    if not program.exists() or not made_from.exists() or _differ(made_from, wanted):
        go = _program("go", "install Go 1.21 or newer, for example Debian's golang-go")
        place.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(wanted, place / "go.mod")
        command = [go, "build", "-mod=mod", "-o", str(program), GO_YCSB]
        _make(command, place, "go-ycsb can't be built with Go")
        shutil.copyfile(wanted, made_from)
    return [str(program)]


FIND: Mapping[str, Callable[[], list[str]]] = {
    "kvmark": find_kvmark,
    "redis-benchmark": find_redis_benchmark,
    "resp-benchmark": find_resp_benchmark,
    "YCSB": find_ycsb,
    "go-ycsb": find_go_ycsb,
}
"""How each program is found; the answer is the beginning of its command line."""


def find(names: Sequence[str]) -> tuple[dict[str, list[str]], list[str]]:
    """The programs that can be had, and a sentence for each that can't."""
    found: dict[str, list[str]] = {}
    missing: list[str] = []
    for name in names:
        try:
            found[name] = FIND[name]()
        except PeerMissingError as reason:
            missing.append(str(reason))
    return found, missing


def _program(name: str, advice: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise PeerMissingError(f"{name} is missing: {advice}.")
    return found


def _make(command: Sequence[str], folder: Path, failed: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(  # noqa: S603 - programs that a table here names
        command, cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip() or "no reason given").splitlines()[-1]
        raise PeerMissingError(f"{failed} ({said}): mend that and run this again.")


def _differ(one: Path, other: Path) -> bool:
    return one.read_bytes() != other.read_bytes()
