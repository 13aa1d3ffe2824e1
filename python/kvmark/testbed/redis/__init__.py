"""Redis, and servers that are started like it: one server, a replicated pair, a real cluster."""

from typing import Final

from kvmark.testbed.redis.config import Wanted, forgets
from kvmark.testbed.redis.data import contents
from kvmark.testbed.redis.nodes import (
    check_promotion,
    demote,
    describe,
    meter,
    promote,
    wait_for_answer,
    wait_for_node,
)
from kvmark.testbed.redis.up import HEALTHY_WITHIN_S, OWN_FILES, up
from kvmark.testbed.system import Promotion, Store, System

__all__ = ["SYSTEM", "Wanted", "up"]

SYSTEM: Final = System(
    "redis",
    Wanted,
    up,
    wait_for_answer,
    wait_for_node,
    describe,
    meter,
    OWN_FILES,
    HEALTHY_WITHIN_S,
    driver="redis",
    store=Store("redis", contents),
    forgets=forgets,
    promotion=Promotion(check_promotion, promote, demote),
)
"""What testbeds of this kind can be asked."""
