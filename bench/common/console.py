"""What every benchmark says, and when it refuses to measure."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.common.process import PeerFailedError
from bench.common.table import commit, text_of_peers

from kvmark.analysis.peers import Peers
from kvmark.errors import KvmarkError
from kvmark.testbed.host import describe_host

LOOK_BUSY = 0.2
"""Share of the cores that others may use before the machine is too busy to measure on."""


def say(text: str) -> None:
    """Progress, on standard error."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def parser(
    prog: str, description: str | None, *, blocks: int, records: int = 100_000
) -> argparse.ArgumentParser:
    """A command line with what every comparison with peers takes."""
    made = argparse.ArgumentParser(prog=f"python -m {prog}", description=description)
    made.add_argument("--blocks", type=int, default=blocks)
    made.add_argument("--records", type=int, default=records)
    made.add_argument("--seed", type=int, default=1)
    made.add_argument(
        "--results", type=Path, help="folder for every repetition as JSON, such as docs/records"
    )
    made.add_argument("--anyway", action="store_true", help="measure on a busy machine too")
    return made


def repeating(description: str | None, times: int, what: str) -> argparse.ArgumentParser:
    """A command line with what every benchmark of kvmark alone takes."""
    made = argparse.ArgumentParser(description=description.splitlines()[0] if description else "")
    made.add_argument("--times", type=int, default=times, help=f"how often each {what}")
    made.add_argument("--anyway", action="store_true", help="measure on a busy machine too")
    made.add_argument("--results", type=Path, help="folder for every repetition as JSON")
    return made


def publish(peers: Peers, name: str, results: Path | None, notes: Sequence[str] = ()) -> None:
    """Prints what a benchmark measured, and writes all of it where somebody named a folder."""
    if results is not None:
        results.mkdir(parents=True, exist_ok=True)
        document = peers.model_dump_json(indent=1, by_alias=True)
        (results / f"{name}.json").write_text(document + "\n")
    sys.stdout.write("\n".join([text_of_peers(peers), *notes]))
    if notes:
        sys.stdout.write("\n")


def too_busy(host: Mapping[str, Any], *, anyway: bool) -> bool:
    """Whether others keep the host too busy, which is said; never with `anyway`."""
    busy, cores = host["other_busy_cores_before"], host["cores"]
    if anyway or busy <= LOOK_BUSY * cores:
        return False
    say(f"others keep {busy:.2g} of {cores} cores busy: stop them, or --anyway")
    return True


def carried_out(measure: Callable[[], bool], *, anyway: bool) -> int:
    """The exit code: 1 when the machine is too busy, 3 when a peer or a server failed."""
    # Who is terminated takes the servers along that it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    if too_busy(describe_host(), anyway=anyway):
        return 1
    commit()
    try:
        return 0 if measure() else 3
    except (PeerFailedError, KvmarkError) as failure:
        say(str(failure))
        return 3
    except KeyboardInterrupt:
        return 130
