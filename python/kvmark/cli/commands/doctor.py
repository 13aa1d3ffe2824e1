"""`kvmark doctor`: the fitness of this machine for measuring."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from kvmark.cli import options
from kvmark.cli.output import print_result
from kvmark.records import Records

if TYPE_CHECKING:
    from rich.text import Text

_SLOW_STAMP_NS = 50.0
_CLOCK_SOURCE = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
_COUNTERS = frozenset({"tsc", "arch_sys_counter"})
"""The kernel's names of the time stamp counters of x86 and of Arm."""
_OTHERS_PER_CORE = 0.1
_LEAST_CORES = 4
_LEAST_FREE_BYTES = 2 * 2**30
_LEAST_FILES = 16_384


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One property of the machine that matters for measuring."""

    subject: str
    state: Literal["good", "mind", "bad"]
    found: str
    #: The remedy; empty when it is good.
    advice: str = ""

    @classmethod
    def of(
        cls,
        subject: str,
        found: str,
        *,
        good: bool,
        advice: str,
        state: Literal["mind", "bad"] = "mind",
    ) -> Diagnosis:
        """A property that is good, or in another state and deserves the advice."""
        return cls(subject, "good", found) if good else cls(subject, state, found, advice)


def doctor(folder: options.Runs = None, json: options.Json = False) -> None:
    """Checks whether this machine is fit for measuring."""
    from rich.text import Text

    findings = list(_findings(Records.at(folder).root))
    print_result("doctor", {"findings": findings} if json else Text("\n").join(_lines(findings)))


def _lines(findings: list[Diagnosis]) -> Iterator[Text]:
    from rich.text import Text

    width = max(len(finding.subject) for finding in findings)
    for finding in findings:
        style = {"good": "green", "mind": "yellow", "bad": "red"}[finding.state]
        line = Text(f"{finding.state:<4}", style)
        yield line.append(f"  {finding.subject:<{width}}  {finding.found}", "default")
        if finding.advice:
            yield Text(f"      {'':<{width}}  {finding.advice}", "dim")


def _findings(runs: Path) -> Iterator[Diagnosis]:
    from kvmark import _engine
    from kvmark.drivers import drivers
    from kvmark.testbed.host import describe_host

    host = describe_host()
    yield Diagnosis("engine", "good", f"{_engine.version}, drivers {', '.join(sorted(drivers()))}")
    profile, advice = _engine.build_profile, "build with make setup"
    yield Diagnosis.of("build", profile, good=profile == "release", advice=advice, state="bad")
    stamp_ns, resolution_ns = _engine.calibrate()
    yield _clock_diagnosis(stamp_ns, resolution_ns, _kernel_clock(_CLOCK_SOURCE))
    yield _lag()
    cores, busy, governor = host["cores"], host["other_busy_cores_before"], host["governor"]
    yield Diagnosis.of(
        "cores",
        f"{cores} usable",
        good=cores >= _LEAST_CORES,
        advice="generator and system share them: pin both (--pin) and mention it with the figures",
    )
    yield Diagnosis.of(
        "quiet",
        f"other processes keep {busy:.2f} of {cores} cores busy",
        good=busy <= _OTHERS_PER_CORE * cores,
        advice="stop other programs before measuring",
    )
    yield Diagnosis.of(
        "frequency",
        governor or "the kernel doesn't choose it",
        good=governor in ("", "performance"),
        advice="set the performance governor, or the clock speed moves while you measure",
    )
    yield _files()
    yield _disk(runs)


def _kernel_clock(file: Path) -> str:
    """The kernel's name of its clock source; empty where it gives none."""
    try:
        return file.read_text().strip()
    except OSError:
        return ""


def _clock_diagnosis(stamp_ns: float, resolution_ns: int, source: str) -> Diagnosis:
    reason = "a time stamp takes long"
    if source and source not in _COUNTERS:
        reason = f"the kernel uses {source} and not the time stamp counter"
    return Diagnosis.of(
        "clock",
        f"{stamp_ns:.1f} ns a time stamp, steps of {resolution_ns} ns"
        + (f", clock source {source}" if source else ""),
        good=stamp_ns <= _SLOW_STAMP_NS,
        advice=f"{reason}: operations under 1 µs are blurred",
    )


def _lag() -> Diagnosis:
    from kvmark import _engine
    from kvmark.analysis.verdict.rules import LAG_FLOORS

    lags = _engine.stamp_lag()
    if lags is None:
        advice = "the kernel doesn't report when answers arrive: runs have no generator lag"
        return Diagnosis("lag", "mind", "not known", advice)
    p50_us, p99_us = (quantile / 1e3 for quantile in lags)
    return Diagnosis.of(
        "lag",
        f"an answer is stamped {p50_us:.3g} µs after it came, {p99_us:.3g} µs at p99",
        good=all(lag <= late for lag, (_, _, late) in zip(lags, LAG_FLOORS, strict=True)),
        advice="every service time includes this lag: stop other programs, or use another machine",
    )


def _files() -> Diagnosis:
    import psutil

    soft, _ = psutil.Process().rlimit(psutil.RLIMIT_NOFILE)
    return Diagnosis.of(
        "open files",
        f"up to {'any number' if soft == -1 else soft}",
        good=soft == -1 or soft >= _LEAST_FILES,
        advice=f"raise it: ulimit -n {_LEAST_FILES}",
    )


def _disk(root: Path) -> Diagnosis:
    existing = next(path for path in (root.absolute(), *root.absolute().parents) if path.exists())
    free = shutil.disk_usage(existing).free
    if not os.access(existing, os.W_OK):
        return Diagnosis("runs", "bad", f"{existing} isn't writable", "name another in KVMARK_RUNS")
    text = f"{free / 2**30:.1f} GiB free for {root}"
    advice = "free some space, or name another folder in KVMARK_RUNS"
    return Diagnosis.of("runs", text, good=free >= _LEAST_FREE_BYTES, advice=advice, state="bad")
