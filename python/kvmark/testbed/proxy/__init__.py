"""Proxies before a system: HAProxy, Shotover and cql-proxy, started like the systems themselves."""

from typing import Final

from kvmark.testbed.proxy.up import (
    HEALTHY_WITHIN_S,
    OWN_FILES,
    NoMeter,
    check_again,
    describe,
    up,
    wait_for_proxy,
)
from kvmark.testbed.proxy.wanted import KINDS, Build, Kind, Target, Wanted
from kvmark.testbed.system import System

__all__ = ["KINDS", "SYSTEM", "Build", "Kind", "Target", "Wanted", "up"]

SYSTEM: Final = System(
    "proxy",
    Wanted,
    up,
    wait_for_proxy,
    wait_for_proxy,
    describe,
    NoMeter,
    OWN_FILES,
    HEALTHY_WITHIN_S,
    named_by="kind",
    required=f"a proxy needs its kind and a system: write --kind {'|'.join(KINDS)} --to URL",
    check_again=check_again,
)
"""What testbeds of this kind can be asked."""
