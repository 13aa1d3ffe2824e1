"""The machine that generates the load: its hardware and settings, and its other load."""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

_INTERVAL_S = 0.2
_SETTINGS = (
    "net.core.somaxconn", "net.core.rmem_max", "net.core.wmem_max", "net.core.busy_poll",
    "net.ipv4.tcp_congestion_control", "net.ipv4.tcp_max_syn_backlog", "vm.swappiness",
    "vm.overcommit_memory", "vm.max_map_count", "vm.dirty_ratio", "vm.dirty_background_ratio",
    "vm.zone_reclaim_mode", "kernel.numa_balancing", "kernel.sched_autogroup_enabled",
)  # fmt: skip
_HUGE_PAGES = {"transparent_hugepage": "/sys/kernel/mm/transparent_hugepage/enabled"}


def describe_host() -> dict[str, Any]:
    """The host, for a manifest. Takes a fifth of a second, to measure other programs' load."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": psutil.virtual_memory().total,
        "kernel": platform.release(),
        "governor": _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "sysctl": _kernel_settings(),
        "other_busy_cores_before": round(other_busy_cores(_INTERVAL_S), 3),
    }


def other_busy_cores(interval_s: float) -> float:
    """Mean number of cores that other processes kept busy during this time."""
    return float(psutil.cpu_percent(interval=interval_s) / 100 * (psutil.cpu_count() or 1))


def _processor() -> str:
    lines = _read("/proc/cpuinfo").splitlines()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def _kernel_settings() -> dict[str, str]:
    """Readable settings of the kernel that affect stores and their clients."""
    places = {name: f"/proc/sys/{name.replace('.', '/')}" for name in _SETTINGS}
    texts = {name: _read(path) for name, path in {**places, **_HUGE_PAGES}.items()}
    # Of several words, the one in brackets is in effect.
    return {
        name: text.partition("[")[2].partition("]")[0] or text
        for name, text in texts.items()
        if text
    }


def _read(path: str) -> str:
    """A file of the kernel; empty if it can't be read."""
    with suppress(OSError):
        return Path(path).read_text().strip()
    return ""
