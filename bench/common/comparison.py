"""The command line, the blocks and the document that all benchmarks have in common.

Every case with every program is one repetition of a block. Each block has another random order, so
that all programs share the machine's drift. `kvmark doc` computes the same tables.
"""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import Final, TypeVar

from bench.common.process import PeerFailedError

from kvmark.analysis.peers import SCHEMA, PeerBound, PeerCase, PeerFigure, PeerRun, Peers
from kvmark.errors import KvmarkError
from kvmark.report.document_blocks import medians_grid, ratios_grid
from kvmark.report.model.tables import to_text
from kvmark.testbed.host import describe_host

ROOT: Final = Path(__file__).resolve().parents[2]
WIDTH: Final = 160
BUSY_SHARE: Final = 0.2
"""Share of the cores that other programs may use during a measurement."""
THROUGHPUT: Final = PeerFigure(name="throughput", heading="ops/s")
CPU: Final = PeerFigure(name="client CPU per operation", heading="client CPU µs/op")
MEMORY: Final = PeerFigure(name="peak memory", heading="peak MB")

C = TypeVar("C", bound=PeerCase)
Figures = Mapping[str, float]


def say(text: str) -> None:
    """Prints progress on standard error."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def chosen(cases: Sequence[C], given: argparse.Namespace) -> list[C]:
    """The cases that --only asks for."""
    return [case for case in cases if given.only.lower() in case.name.lower()]


def cores(text: str) -> tuple[int, ...]:
    """Cores from their numbers on the command line."""
    return tuple(int(core) for core in text.split(","))


def at_most(figure: PeerFigure, limit: float, peer: str | None = None) -> PeerBound:
    """An upper bound on the ratio to a peer's figure, or on the figure itself."""
    return PeerBound(figure=figure.name, peer=peer, limit=limit)


def at_least(figure: PeerFigure, limit: float, peer: str | None = None) -> PeerBound:
    """A lower bound on the ratio to a peer's figure, or on the figure itself."""
    return PeerBound(figure=figure.name, peer=peer, limit=limit, most=False)


def repetition(case: str, program: str, block: int, measure: Callable[[], Figures]) -> PeerRun:
    """One repetition, with its figures or the reason why it has none."""
    figures, failed = None, ""
    try:
        figures = measure()
    except (PeerFailedError, KvmarkError) as failure:
        failed = str(failure)
    shown = ", ".join(f"{name} {value:,.4g}" for name, value in (figures or {}).items())
    say(f"block {block + 1}  {case}  {program}: {shown or failed}")
    return PeerRun(block=block, case=case, program=program, figures=figures, failed=failed)


@dataclass(frozen=True)
class Benchmark:
    """A benchmark: its command line, its repetitions, and its document."""

    #: Of its document.
    name: str
    subject: str
    figures: tuple[PeerFigure, ...]
    #: Of the programs.
    versions: Mapping[str, str] = field(default_factory=dict)

    def parser(
        self, description: str | None, blocks: int, operations: int | None = None
    ) -> argparse.ArgumentParser:
        """A command line with the options of all benchmarks."""
        first = (description or "").splitlines()[0]
        made = argparse.ArgumentParser(description=first)
        made.add_argument("--blocks", "--times", type=int, default=blocks, help="repetitions")
        made.add_argument("--seed", type=int, default=1)
        made.add_argument("--only", default="", help="cases with this text in their name")
        made.add_argument("--results", type=Path, help="folder for every repetition as JSON")
        made.add_argument("--anyway", action="store_true", help="measure on a busy machine too")
        if operations is not None:
            made.add_argument("--records", type=int, default=100_000)
            made.add_argument("--operations", type=int, default=operations, help="of a run")
            made.add_argument("--generator-core", default="0", help="one, or several such as 0,1")
            made.add_argument("--server-core", default="1", help="one, or several such as 0,1")
        return made

    def repetitions(
        self,
        cases: Sequence[C],
        measure: Callable[[C, str, int], Figures],
        given: argparse.Namespace,
        programs: Container[str] | None = None,
        blocks: int | None = None,
    ) -> list[PeerRun]:
        """All repetitions of the cases that are asked for. One that fails keeps the others."""
        chance = random.Random(given.seed)  # noqa: S311 - an order, not a secret
        wanted = chosen(cases, given)
        found = []
        for block in range(blocks or given.blocks):
            for case in chance.sample(wanted, len(wanted)):
                peers = [name for name in case.programs if programs is None or name in programs]
                for peer in chance.sample(peers, len(peers)):
                    one = partial(measure, case, peer, block)
                    found.append(repetition(case.name, peer, block, one))
        return found

    def publish(
        self,
        system: str,
        cases: Sequence[PeerCase],
        runs: Iterable[PeerRun],
        given: argparse.Namespace,
        notes: Sequence[str] = (),
    ) -> bool:
        """Prints the tables and stores the document; False if a run failed."""
        measured = tuple(runs)
        done = {run.case for run in measured}
        place = Path(sys.argv[0]).resolve().relative_to(ROOT).with_suffix("")
        module = ".".join(place.parts).removesuffix(".__main__")
        peers = Peers(
            schema=SCHEMA,
            subject=self.subject,
            system=system,
            created=datetime.now(UTC).isoformat(),
            commit=commit(),
            command=("python", "-m", module, *sys.argv[1:]),
            host=describe_host(),
            versions=self.versions,
            figures=self.figures,
            cases=tuple(case for case in cases if case.name in done),
            runs=measured,
        )
        if given.results is not None:
            given.results.mkdir(parents=True, exist_ok=True)
            document = peers.model_dump_json(indent=1, by_alias=True)
            (given.results / f"{self.name}.json").write_text(document + "\n")
        failures = [
            f"Failed: {one.case}, {one.program}: {one.failed}" for one in measured if one.failed
        ]
        grids = (medians_grid(peers), ratios_grid(peers))
        tables = "\n\n".join(to_text(grid, WIDTH).plain for grid in grids)
        sys.stdout.write("\n".join([tables, *failures, *notes, ""]))
        return not failures

    def run(
        self, measure: Callable[[argparse.Namespace], bool], options: argparse.ArgumentParser
    ) -> None:
        """Ends with code 1 if the machine is too busy, 3 if a program or a server failed."""
        given = options.parse_args()
        # A terminated benchmark takes down the servers that it started.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
        host = describe_host()
        busy, number = host["other_busy_cores_before"], host["cores"]
        if busy > BUSY_SHARE * number and not given.anyway:
            say(f"Other programs use {busy:.2g} of {number} cores: stop them, or add --anyway.")
            sys.exit(1)
        commit()
        try:
            sys.exit(0 if measure(given) else 3)
        except (PeerFailedError, KvmarkError) as failure:
            say(str(failure))
            sys.exit(3)
        except KeyboardInterrupt:
            sys.exit(130)


@cache
def commit() -> str | None:
    """The clone's commit at the first call, and whether more than documents changed since."""
    head = _git("rev-parse", "--short=12", "HEAD").stdout.strip()
    changed = _git("diff", "--quiet", "HEAD", "--", ".", ":(exclude)docs").returncode
    return f"{head}-dirty" if head and changed else head or None


def _git(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - of this clone
        ["git", *words],  # noqa: S607
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
