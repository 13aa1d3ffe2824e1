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
from kvmark.testbed import names_of_testbeds, testbeds_root

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


def _checked(subject: str, found: str, advice: str, *, good: bool, bad: bool = False) -> Diagnosis:
    """A property that is good, or else deserves the advice."""
    state: Literal["mind", "bad"] = "bad" if bad else "mind"
    return Diagnosis(subject, "good", found) if good else Diagnosis(subject, state, found, advice)


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
    import psutil

    from kvmark import _engine
    from kvmark.drivers import drivers
    from kvmark.testbed.host import describe_host

    host = describe_host()
    yield Diagnosis("engine", "good", f"{_engine.version}, drivers {', '.join(sorted(drivers()))}")
    profile = _engine.build_profile
    yield _checked("build", profile, "build with make setup", good=profile == "release", bad=True)
    stamp_ns, resolution_ns = _engine.calibrate()
    yield _clock_diagnosis(stamp_ns, resolution_ns, _kernel_clock(_CLOCK_SOURCE))
    yield _lag()
    cores, busy, governor = host["cores"], host["other_busy_cores_before"], host["governor"]
    advice = "generator and system share them: pin both (--pin) and mention it with the figures"
    yield _checked("cores", f"{cores} usable", advice, good=cores >= _LEAST_CORES)
    found = f"other processes keep {busy:.2f} of {cores} cores busy"
    advice = "stop other programs before measuring"
    yield _checked("quiet", found, advice, good=busy <= _OTHERS_PER_CORE * cores)
    found = governor or "the kernel doesn't choose it"
    advice = "set the performance governor, or the clock speed moves while you measure"
    yield _checked("frequency", found, advice, good=governor in ("", "performance"))
    soft, _ = psutil.Process().rlimit(psutil.RLIMIT_NOFILE)
    found = f"up to {'any number' if soft == -1 else soft}"
    advice = f"raise it: ulimit -n {_LEAST_FILES}"
    yield _checked("open files", found, advice, good=soft == -1 or soft >= _LEAST_FILES)
    yield _disk(runs)
    root = testbeds_root()
    yield Diagnosis("testbeds", "good", f"{', '.join(names_of_testbeds(root)) or 'none'} in {root}")


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
    found = f"{stamp_ns:.1f} ns a time stamp, steps of {resolution_ns} ns"
    found += f", clock source {source}" if source else ""
    advice = f"{reason}: operations under 1 µs are blurred"
    return _checked("clock", found, advice, good=stamp_ns <= _SLOW_STAMP_NS)


def _lag() -> Diagnosis:
    from kvmark import _engine
    from kvmark.analysis.verdict.rules import LAG_FLOORS

    lags = _engine.stamp_lag()
    if lags is None:
        advice = "the kernel doesn't report when answers arrive: runs have no generator lag"
        return Diagnosis("lag", "mind", "not known", advice)
    p50_us, p99_us = (quantile / 1e3 for quantile in lags)
    found = f"an answer is stamped {p50_us:.3g} µs after it came, {p99_us:.3g} µs at p99"
    advice = "every service time includes this lag: stop other programs, or use another machine"
    good = all(lag <= late for lag, (_, _, late) in zip(lags, LAG_FLOORS, strict=True))
    return _checked("lag", found, advice, good=good)


def _disk(root: Path) -> Diagnosis:
    existing = next(path for path in (root.absolute(), *root.absolute().parents) if path.exists())
    free = shutil.disk_usage(existing).free
    if not os.access(existing, os.W_OK):
        return Diagnosis("runs", "bad", f"{existing} isn't writable", "name another in KVMARK_RUNS")
    found = f"{free / 2**30:.1f} GiB free for {root}"
    advice = "free some space, or name another folder in KVMARK_RUNS"
    return _checked("runs", found, advice, good=free >= _LEAST_FREE_BYTES, bad=True)
