"""memcached: one server, or several that divide the keys among them."""

from typing import Final

from kvmark.testbed.memcached.data import contents
from kvmark.testbed.memcached.up import (
    HEALTHY_WITHIN_S,
    OWN_FILES,
    Wanted,
    describe,
    forgets,
    meter,
    up,
    wait_for_answer,
)
from kvmark.testbed.system import Store, System

__all__ = ["SYSTEM", "Wanted", "up"]

SYSTEM: Final = System(
    "memcached",
    Wanted,
    up,
    wait_for_answer,
    wait_for_answer,
    describe,
    meter,
    OWN_FILES,
    HEALTHY_WITHIN_S,
    driver="memcached",
    store=Store("memcached", contents),
    forgets=forgets,
)
"""What testbeds of this kind can be asked."""
