"""Measures key-value stores: generates load, records every operation, judges the measurement.

    run = kvmark.run("ycsb/a", "rocksdb:scratch", clients=4, duration="10s")
    run = kvmark.load("last")
    run.summary, run.intervals, run.verdict, run.figures["response"]

Importing the package loads nothing else; each module is imported on first use.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kvmark.api import MeasuredRun, load, run, runs

__all__ = ["MeasuredRun", "__version__", "load", "run", "runs"]

__version__ = "0.1.0"

_API = frozenset(__all__) - {"__version__"}


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Imports a name of `kvmark.api` on first use (PEP 562)."""
        if name not in _API:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module("kvmark.api"), name)


class _Package(ModuleType):
    """The package, which has a function and a subpackage with the name `run`."""

    def __setattr__(self, name: str, value: object) -> None:
        """Keeps the function when the subpackage of its name is imported."""
        if not (name in _API and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
