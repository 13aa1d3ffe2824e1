"""The machine that generates the load: what it is, and what else it is doing."""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

_LOOK_S = 0.2
_SYSCTL = Path("/proc/sys")
_SETTINGS = (
    "net.core.somaxconn", "net.core.rmem_max", "net.core.wmem_max", "net.core.busy_poll",
    "net.ipv4.tcp_congestion_control", "net.ipv4.tcp_max_syn_backlog", "vm.swappiness",
    "vm.overcommit_memory", "vm.max_map_count", "vm.dirty_ratio", "vm.dirty_background_ratio",
    "vm.zone_reclaim_mode", "kernel.numa_balancing", "kernel.sched_autogroup_enabled",
)  # fmt: skip
_HUGE_PAGES = "transparent_hugepage"
_HUGE_PAGES_FILE = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def describe_host() -> dict[str, Any]:
    """What a manifest keeps of the host. Takes a fifth of a second, to see what others do."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": psutil.virtual_memory().total,
        "kernel": platform.release(),
        "governor": _governor(),
        "sysctl": _kernel_settings(),
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


def _kernel_settings() -> dict[str, str]:
    """Settings of the kernel that stores and their clients depend on; those that can be read."""
    places = {name: _SYSCTL / name.replace(".", "/") for name in _SETTINGS}
    found = {}
    for name, path in {**places, _HUGE_PAGES: _HUGE_PAGES_FILE}.items():
        with suppress(OSError):
            # Of several words the one in brackets is in force.
            text = path.read_text().strip()
            found[name] = text.partition("[")[2].partition("]")[0] or text
    return found


def _governor() -> str:
    """How the kernel chooses the processor's frequency; empty where it doesn't say."""
    try:
        path = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
        return path.read_text().strip()
    except OSError:
        return ""
