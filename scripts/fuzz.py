"""Looks for inputs on which a decoder fails: libFuzzer on each crate that has a program for it.

python3 scripts/fuzz.py [--target NAME] [--seconds N] [--seed N]

rustc instruments the decoders and their callees, by flags of its stable release. Inputs that reach
new code are kept in the user's cache; the next call starts with them and the seeds of the crate.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import progress
import rocksdb_library
import target_folder

ROOT = Path(__file__).resolve().parent.parent
SECONDS = 600
# libFuzzer wants a counter on each edge, where it is in the code, and the operands of comparisons.
SANCOV = ("level=4", "inline-8bit-counters", "pc-table", "trace-compares")
FLAGS = ["-Cpasses=sancov-module", *(f"-Cllvm-args=-sanitizer-coverage-{word}" for word in SANCOV)]
CHECKS = ("overflow-checks", "debug-assertions")
OPTIONS = ("-max_len=16384", "-timeout=10", "-rss_limit_mb=1024", "-print_final_stats=1")
STATUS = re.compile(r"^#\d+\s+\w+\s+cov: (\d+) ft: \d+ corp: (\d+)/", re.MULTILINE)
STATISTIC = re.compile(r"^stat::(\w+): +(\d+)", re.MULTILINE)
# Lines of libFuzzer; the other lines are of the program.
OF_LIBFUZZER = re.compile(r"^(INFO|WARNING|NOTE|#\d+|stat::|==\d+==)|^\tNEW_FUNC")
SHOWN_LINES = 16


class NotFuzzed(Exception):
    """A build failed, or an input was found; the text has advice."""


@dataclass(frozen=True)
class Target:
    """A crate with a decoder."""

    name: str
    package: str
    seeds: Path

    @property
    def program(self) -> str:
        """Name of its program."""
        return f"fuzz-{self.name}"

    def place(self, folder: str) -> Path:
        """A folder for its inputs, outside the clone."""
        place = rocksdb_library.cache() / "fuzz" / self.name / folder
        place.mkdir(parents=True, exist_ok=True)
        return place


def targets(root: Path) -> Iterator[Target]:
    """The crates with a program for libFuzzer."""
    for path in sorted(root.glob("crates/*/Cargo.toml")):
        manifest = tomllib.loads(path.read_text())
        for program in manifest.get("bin", []):
            name = program["name"].removeprefix("fuzz-")
            if name != program["name"]:
                yield Target(name, manifest["package"]["name"], path.parent / "fuzz" / "seeds")


def host() -> str:
    """The host's triple: if it is named, Cargo doesn't instrument build scripts."""
    command = ["rustc", "-vV"]
    printed = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    return next(line.split()[1] for line in printed.splitlines() if line.startswith("host:"))


def command(wanted: Sequence[Target], triple: str) -> list[str]:
    """The call of cargo that builds the programs."""
    checks = [word for check in CHECKS for word in (
        "--config", f"profile.release.{check}=true",
        "--config", f'profile.release.package."*".{check}=false',
    )]  # fmt: skip
    words = [word for target in wanted for word in (
        "--package", target.package, "--features", f"{target.package}/fuzz",
        "--bin", target.program,
    )]  # fmt: skip
    return ["cargo", "build", *checks, "--release", "--locked", "--target", triple, *words]


def build(wanted: Sequence[Target]) -> Path:
    """Builds the programs in a separate target folder and returns their folder.

    Raises NotFuzzed when that fails.
    """
    triple = host()
    os.environ["CARGO_TARGET_DIR"] = str(target_folder.place() / "fuzz")
    with target_folder.held() as folder:
        environment = {**target_folder.environment(folder), "RUSTFLAGS": " ".join(FLAGS)}
        if progress.run(command(wanted, triple), cwd=ROOT, environment=environment):
            raise NotFuzzed("the programs can't be built, see above")
        return folder / triple / "release"


def summary(target: Target, log: str) -> str:
    """The statistics of libFuzzer, in a line."""
    statistics = {name: int(number) for name, number in STATISTIC.findall(log)}
    reached, inputs = (STATUS.findall(log) or [("0", "0")])[-1]
    return (
        f"{target.name}: {statistics.get('number_of_executed_units', 0):,} executions, "
        f"{int(reached):,} edges reached, "
        f"corpus of {int(inputs):,} inputs, {statistics.get('new_units_added', 0):,} new"
    )


def fuzz(target: Target, program: Path, seconds: int, seed: int | None) -> None:
    """Runs one program. Raises NotFuzzed if it found an input."""
    found, log = target.place("found"), target.place("log") / "latest.txt"
    before = set(found.iterdir())
    words = [str(program), *OPTIONS, f"-max_total_time={seconds}"]
    with tempfile.TemporaryDirectory(prefix="kvmark-fuzz-") as empty:
        # Repeatable only from the same start: without the inputs of earlier calls.
        corpus = [f"-seed={seed}", empty] if seed is not None else [str(target.place("corpus"))]
        words += [*corpus, str(target.seeds), f"-artifact_prefix={found}/"]
        environment = {**os.environ, "RUST_BACKTRACE": "1"}
        with log.open("w") as file:
            code = subprocess.run(words, env=environment, stderr=file, check=False).returncode
    text = log.read_text(errors="replace")
    print(summary(target, text), flush=True)
    if code:
        of_program = [line for line in text.splitlines() if not OF_LIBFUZZER.match(line)]
        print(*of_program[:SHOWN_LINES], sep="\n", file=sys.stderr)
        new = ", ".join(map(str, sorted(set(found.iterdir()) - before))) or "none was kept"
        raise NotFuzzed(
            f"{target.name} fails on an input ({new}; log: {log}). Copy it to "
            f"{target.seeds.relative_to(ROOT)}, where `make test` tests the decoder with it."
        )


def main() -> None:
    """Builds and runs the programs, one on each core at a time. Raises NotFuzzed if one does."""
    parser = argparse.ArgumentParser(description="Look for inputs on which decoders fail.")
    known = {target.name: target for target in targets(ROOT)}
    parser.add_argument("--target", choices=list(known), help="one decoder (default: all)")
    parser.add_argument("--seconds", type=int, default=SECONDS, help="for each decoder")
    parser.add_argument("--seed", type=int, help="same inputs each time; nothing is kept")
    given = parser.parse_args()
    if given.seconds < 1:
        parser.error("--seconds must be 1 or more")
    wanted = [known[given.target]] if given.target else list(known.values())
    folder = build(wanted)

    def run(target: Target) -> None:
        fuzz(target, folder / target.program, given.seconds, given.seed)

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads:
        # The first failure cancels those that wait.
        list(threads.map(run, wanted))


if __name__ == "__main__":
    sys.exit(progress.exit_code(main, NotFuzzed))
