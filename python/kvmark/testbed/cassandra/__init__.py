"""Cassandra: one node, or several on this machine, at 127.0.0.1, 127.0.0.2 and so on."""

from typing import Final

from kvmark.testbed.cassandra.artifacts import VERSIONS
from kvmark.testbed.cassandra.config import Wanted
from kvmark.testbed.cassandra.data import CqlTables
from kvmark.testbed.cassandra.describe import ExporterMeter, describe
from kvmark.testbed.cassandra.health import DRIVER, wait_for_answer, wait_for_node
from kvmark.testbed.cassandra.up import HEALTHY_WITHIN_S, OWN_FILES, check_again, up
from kvmark.testbed.system import System

__all__ = ["SYSTEM", "VERSIONS", "Wanted", "up"]

SYSTEM: Final = System(
    "cassandra",
    Wanted,
    up,
    wait_for_answer,
    wait_for_node,
    describe,
    ExporterMeter,
    OWN_FILES,
    HEALTHY_WITHIN_S,
    driver=DRIVER,
    tables=CqlTables,
    check_again=check_again,
)
"""What testbeds of this kind can be asked."""
