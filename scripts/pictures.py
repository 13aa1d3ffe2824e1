"""Draws the pictures of the documents from runs of the simulated driver, whose clock is virtual."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from kvmark import catalog
from kvmark.analysis import quantile_curve
from kvmark.plan.compile import compile_run
from kvmark.records import Records, Run, TimeName, recover
from kvmark.report.answers import Curve
from kvmark.report.figures import quantile_figure
from kvmark.run import Setting, carry_out
from kvmark.spec.run import RunSpec
from kvmark.spec.url import parse_system_url

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "method" / "coordinated-omission.svg"
SYSTEM = "sim:?clock=virtual&service=constant&mean_us=100&stall=4+1"
TIMES: tuple[TimeName, ...] = ("response", "service")


def stalled(folder: Path) -> Run:
    """1000 operations a second for ten seconds, one in flight at most, with a stall of a second."""
    spec = RunSpec(
        workload=catalog.load("ycsb/c"),
        system=parse_system_url(SYSTEM),
        clients=1,
        rate=1000,
        duration_ns=10 * 10**9,
        load="never",
        drain_limit_ns=10**9,
    )
    setting = Setting(command=(), host={}, versions={})
    plan = compile_run(spec)
    carried = carry_out(plan, spec.as_json(), Records(folder), setting, lambda *_: None)
    return recover(carried.folder.path)


def main() -> int:
    """Draws every picture."""
    with tempfile.TemporaryDirectory(prefix="kvmark-") as folder:
        run = stalled(Path(folder))
        phase = run.counted[0].index
        counts = {time: run.histogram(phase, "clients", "READ", time=time) for time in TIMES}
    curves = [
        Curve("A second of standstill in ten", time, quantile_curve(counts[time])) for time in TIMES
    ]
    quantile_figure(curves, "A stall of one second in ten.").save_svg(PICTURE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
