"""What a run that was imported holds instead of an engine's record: another tool's figures.

A figure stands in the unit in which the tool wrote it, so that it comes back unchanged. What the
tool did not say isn't there: nothing is filled in.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from kvmark.records.names import TimeName

#: Quantities that mean the same whatever the tool; others keep the tool's own name.
THROUGHPUT = "throughput"
RUNTIME = "runtime"
OPERATIONS = "operations"
ERRORS = "errors"
TIMES: tuple[TimeName, ...] = ("response", "service", "wait")

#: The statistic of a figure that is no statistic of anything.
VALUE = "value"


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class OriginRecord(_Frozen):
    """Where imported figures come from."""

    #: The file's name, without its folder.
    file: str
    size_bytes: int
    sha256: str
    #: The tool that measured, by its own name; none for a table, which anyone may have made.
    tool: str | None
    #: None when the file doesn't tell.
    version: str | None = None
    #: When the measuring began; none when the file doesn't tell.
    started_wall_ns: int | None = None
    #: What was recognised, such as ``ycsb-text``.
    format: str
    #: What the file says of how it was made: command lines, settings.
    said: dict[str, str] = Field(default_factory=dict)


class ImportedCase(_Frozen):
    """One combination of what the tool varied, such as workload and number of clients."""

    labels: dict[str, str] = Field(default_factory=dict)

    @property
    def name(self) -> str:
        """The labels in one line; empty when there are none."""
        return ", ".join(f"{label} {value}" for label, value in self.labels.items())


class FigureRecord(_Frozen):
    """One number of a file."""

    #: Index of its case.
    case: int
    #: None when the figure is of the whole case.
    operation: str | None = None
    #: ``throughput``, ``service``, …, or the tool's own name.
    quantity: str
    #: ``mean``, ``p99``, …; ``value`` when it is none.
    statistic: str = VALUE
    value: int | float
    #: As the tool writes it; empty for a count.
    unit: str = ""
    #: Standard error, in the same unit, and the observations behind it.
    error: float | None = None
    n: int | None = None


class BucketsRecord(_Frozen):
    """A histogram: counts by range of nanoseconds, both ends inclusive."""

    case: int
    operation: str | None = None
    time: TimeName
    low_ns: tuple[int, ...]
    high_ns: tuple[int, ...]
    count: tuple[int, ...]


class ImportedRecord(_Frozen):
    """Everything that was read from a file."""

    origin: OriginRecord
    cases: tuple[ImportedCase, ...]
    figures: tuple[FigureRecord, ...]
    histograms: tuple[BucketsRecord, ...] = ()
    #: What a reader of the figures should know, a sentence each.
    notes: tuple[str, ...] = ()
