"""`kvmark doctor`: what this machine has and lacks for measuring."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from kvmark.cli import options
from kvmark.cli.output import print_answer, print_json
from kvmark.records import Records

if TYPE_CHECKING:
    from rich.text import Text

_SLOW_STAMP_NS = 50.0
_CLOCK_SOURCE = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
_COUNTERS = frozenset({"tsc", "arch_sys_counter"})
"""The kernel's names of the time stamp counters of x86 and of Arm."""
_OTHERS_PER_CORE = 0.1
_LEAST_FREE_BYTES = 2 * 2**30
_LEAST_FILES = 16_384


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One thing that matters for measuring."""

    subject: str
    state: Literal["good", "mind", "bad"]
    found: str
    #: What to do about it; empty when it is good.
    advice: str = ""


def doctor(folder: options.Runs = None, json: options.Json = False) -> None:
    """Says what this machine has and lacks for measuring."""
    findings = list(_findings(Records.at(folder).root))
    if json:
        print_json("doctor", {"findings": findings})
        return
    from rich.text import Text

    print_answer(Text("\n").join(_lines(findings)))


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
    yield _build()
    yield _clock()
    yield from _lag()
    yield _cores(host["cores"])
    yield _others(host["other_busy_cores_before"], host["cores"])
    yield _governor(host["governor"])
    yield _files()
    yield _disk(runs)


def _build() -> Diagnosis:
    from kvmark import _engine

    if _engine.build_profile == "release":
        return Diagnosis("build", "good", "release")
    return Diagnosis("build", "bad", _engine.build_profile, "build with make setup")


def _clock() -> Diagnosis:
    from kvmark import _engine

    stamp_ns, resolution_ns = _engine.calibrate()
    return _clock_diagnosis(stamp_ns, resolution_ns, _kernel_clock(_CLOCK_SOURCE))


def _kernel_clock(file: Path) -> str:
    """The kernel's name of the clock that it uses; empty where it gives none."""
    try:
        return file.read_text().strip()
    except OSError:
        return ""


def _clock_diagnosis(stamp_ns: float, resolution_ns: int, source: str) -> Diagnosis:
    found = f"{stamp_ns:.1f} ns a time stamp, steps of {resolution_ns} ns"
    found += f", clock source {source}" if source else ""
    if stamp_ns <= _SLOW_STAMP_NS:
        return Diagnosis("clock", "good", found)
    reason = "a time stamp takes long"
    if source and source not in _COUNTERS:
        reason = f"the kernel uses {source} and not the time stamp counter"
    return Diagnosis("clock", "mind", found, f"{reason}: operations under 1 µs are blurred")


def _lag() -> Iterator[Diagnosis]:
    from kvmark import _engine
    from kvmark.analysis import LAG_FLOORS

    measured = _engine.stamp_lag()
    if measured is None:
        advice = "the kernel doesn't say when answers come: runs have no generator lag"
        yield Diagnosis("lag", "mind", "not known", advice)
        return
    p50_us, p99_us = (quantile / 1e3 for quantile in measured)
    found = f"an answer is stamped {p50_us:.3g} µs after it came, {p99_us:.3g} µs at p99"
    if all(lag <= late for lag, (_, _, late) in zip(measured, LAG_FLOORS, strict=True)):
        yield Diagnosis("lag", "good", found)
        return
    advice = "every service time holds as much of this machine: stop other programs, or use another"
    yield Diagnosis("lag", "mind", found, advice)


def _cores(cores: int) -> Diagnosis:
    found = f"{cores} usable"
    if cores >= 4:
        return Diagnosis("cores", "good", found)
    advice = "generator and system share them: pin both (--pin) and say so beside the figures"
    return Diagnosis("cores", "mind", found, advice)


def _others(busy: float, cores: int) -> Diagnosis:
    found = f"other processes keep {busy:.2f} of {cores} cores busy"
    if busy <= _OTHERS_PER_CORE * cores:
        return Diagnosis("quiet", "good", found)
    return Diagnosis("quiet", "mind", found, "stop other programs before measuring")


def _governor(governor: str) -> Diagnosis:
    if governor in ("", "performance"):
        return Diagnosis("frequency", "good", governor or "the kernel doesn't choose it")
    advice = "set the performance governor, or the clock speed moves while you measure"
    return Diagnosis("frequency", "mind", governor, advice)


def _files() -> Diagnosis:
    import psutil

    soft, _ = psutil.Process().rlimit(psutil.RLIMIT_NOFILE)
    if soft == -1 or soft >= _LEAST_FILES:
        return Diagnosis("open files", "good", f"up to {'any number' if soft == -1 else soft}")
    return Diagnosis("open files", "mind", f"up to {soft}", f"raise it: ulimit -n {_LEAST_FILES}")


def _disk(root: Path) -> Diagnosis:
    standing = next(path for path in (root.absolute(), *root.absolute().parents) if path.exists())
    free = shutil.disk_usage(standing).free
    found = f"{free / 2**30:.1f} GiB free for {root}"
    if not os.access(standing, os.W_OK):
        return Diagnosis("runs", "bad", f"{standing} isn't writable", "name another in KVMARK_RUNS")
    if free >= _LEAST_FREE_BYTES:
        return Diagnosis("runs", "good", found)
    return Diagnosis("runs", "bad", found, "free some space, or name another folder in KVMARK_RUNS")
