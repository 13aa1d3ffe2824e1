"""The machine that generates the load: what it is, and what else it is doing."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

import psutil

__all__ = ["describe_host", "other_busy_cores"]

_LOOK_S = 0.2


def describe_host() -> dict[str, Any]:
    """What a manifest keeps of the host. Takes a fifth of a second, to see what others do."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": psutil.virtual_memory().total,
        "kernel": platform.release(),
        "governor": _governor(),
        "other_busy_cores_before": round(other_busy_cores(_LOOK_S), 3),
    }


def other_busy_cores(look_s: float) -> float:
    """Mean number of cores that other processes kept busy while this one looked on."""
    busy = psutil.cpu_percent(interval=look_s) / 100 * (psutil.cpu_count() or 1)
    return float(busy)


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.machine()


def _governor() -> str:
    """How the kernel chooses the processor's frequency; empty where it doesn't say."""
    try:
        path = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
        return path.read_text().strip()
    except OSError:
        return ""
