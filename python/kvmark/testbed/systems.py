"""The kinds of systems that testbeds can hold. A new kind adds its line here."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from kvmark.errors import SystemUnderTestError
from kvmark.testbed import cassandra, proxy, redis
from kvmark.testbed.state import Testbed
from kvmark.testbed.system import System

__all__ = ["SYSTEMS", "system_of"]

SYSTEMS: Final[Mapping[str, System]] = MappingProxyType(
    {"cassandra": cassandra.SYSTEM, "proxy": proxy.SYSTEM, "redis": redis.SYSTEM}
)


def system_of(testbed: Testbed) -> System:
    """The kind of system a testbed holds.

    Raises:
        SystemUnderTestError: this kvmark doesn't know it.
    """
    try:
        return SYSTEMS[testbed.system]
    except KeyError:
        raise SystemUnderTestError(
            f"testbed {testbed.name} holds {testbed.system}, which this kvmark doesn't know: stop"
            " it with the kvmark that started it"
        ) from None
