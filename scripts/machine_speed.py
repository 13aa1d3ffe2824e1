"""What the machine's own speed explains of the throughput of a study's runs, from its archive.

    python scripts/machine_speed.py docs/records/hcassandra-same-cores.tar.xz

Each run is held against its case's others: the logarithm of its throughput, and that of the time
which the fixed work took in it, from the case's mean of each.
"""

import math
import sys
from collections import defaultdict
from pathlib import Path
from statistics import correlation, fmean, linear_regression
from tempfile import TemporaryDirectory

from kvmark.analysis.machine_speed import fixed_work_ns
from kvmark.analysis.summary.run import throughput
from kvmark.records import Records
from kvmark.records.archive import unpack


def measured(records: Records) -> dict[str, list[tuple[float, float]]]:
    """Of each case's runs the logarithms of what the fixed work took, and of the throughput."""
    cases = defaultdict(list)
    for entry in records.list():
        run = records.open(entry.id)
        took = fixed_work_ns([run])
        [phase] = run.manifest.engine.counted
        if took is not None:
            place = (math.log(took.value), math.log(throughput(run, phase).value))
            cases[run.manifest.study["case"]].append(place)
    return cases


def without_means(cases: dict[str, list[tuple[float, float]]]) -> list[tuple[float, float]]:
    """How far each run is from its case's mean, of cases with several."""
    found = []
    for runs in cases.values():
        if len(runs) > 1:
            work, speed = (fmean(values) for values in zip(*runs, strict=True))
            found += [(one - work, other - speed) for one, other in runs]
    return found


def main() -> None:
    """Prints how many runs there are, the correlation, and the slope."""
    with TemporaryDirectory() as folder:
        unpack(Path(sys.argv[1]), Path(folder))
        cases = measured(Records(Path(folder)))
    work, speed = zip(*without_means(cases), strict=True)
    several = sum(len(runs) > 1 for runs in cases.values())
    print(f"{len(work)} runs of {several} cases")
    print(f"fixed work: {math.exp(min(work)):.2f} to {math.exp(max(work)):.2f} of a case's mean")
    print(f"throughput: {math.exp(min(speed)):.2f} to {math.exp(max(speed)):.2f} of a case's mean")
    print(f"correlation of the logarithms {correlation(work, speed):.2f}")
    print(f"slope {linear_regression(work, speed).slope:.2f}")


if __name__ == "__main__":
    main()
