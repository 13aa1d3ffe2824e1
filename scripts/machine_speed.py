"""How throughput goes with the machine's speed, in the runs of a study's archive.

    python scripts/machine_speed.py docs/records/hcassandra-same-cores.tar.xz

Each run is held against its case's others on the same machine: the logarithm of its throughput, and
that of the time which the fixed work took in it, from the mean of each. Runs without a throughput,
without samples of the work, or that are alone, are left out.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import correlation, fmean, linear_regression
from tempfile import TemporaryDirectory

from kvmark.analysis.run_conditions import fixed_work_ns, same_machine
from kvmark.analysis.summary.run import throughput
from kvmark.records import Records, Run
from kvmark.records.archive import unpack

Places = Sequence[tuple[float, float]]
"""The logarithms of what the fixed work took and of the throughput, of several runs."""


def measured(runs: Iterable[Run]) -> Mapping[tuple[str, ...], Places]:
    """What was measured of each case on each machine."""
    cases = defaultdict(list)
    for run in runs:
        took = fixed_work_ns([run])
        speeds = [throughput(run, one) for one in run.manifest.counted]
        if took is not None and len(speeds) == 1 and speeds[0].value > 0:
            case = (str(run.manifest.study.get("case")), *same_machine(run))
            cases[case].append((math.log(took.value), math.log(speeds[0].value)))
    return {case: places for case, places in cases.items() if len(places) > 1}


def from_mean(places: Places) -> Places:
    """How far each is from the mean of all."""
    work, speed = (fmean(values) for values in zip(*places, strict=True))
    return [(one - work, other - speed) for one, other in places]


def main() -> None:
    """Prints how many runs there are, how far they are apart, the correlation, and the slope."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("archive", type=Path)
    archive = parser.parse_args().archive
    with TemporaryDirectory() as folder:
        unpack(archive, Path(folder))
        records = Records(Path(folder))
        cases = measured(records.open(entry.id) for entry in records.list())
    if not cases:
        sys.exit(f"{archive}: no case has several runs with samples of the fixed work")
    every = [place for places in cases.values() for place in from_mean(places)]
    work, speed = zip(*every, strict=True)
    print(f"{len(every)} runs of {len(cases)} cases")
    print(f"fixed work: {math.exp(min(work)):.2f} to {math.exp(max(work)):.2f} of a case's mean")
    print(f"throughput: {math.exp(min(speed)):.2f} to {math.exp(max(speed)):.2f} of a case's mean")
    print(f"correlation of the logarithms {correlation(work, speed):.2f}")
    print(f"slope {linear_regression(work, speed).slope:.2f}")


if __name__ == "__main__":
    main()
