"""Frozen models of a run's files: the manifest and the engine's record in it.

Durations and instants are nanoseconds; instants count from the run's origin, except wall instants.

An imported run has another tool's figures instead of an engine's record. Each keeps the unit of the
tool, so that an export reproduces it; no missing figure is filled in.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from kvmark.records.audit import AuditRecord
from kvmark.records.files import TimeName
from kvmark.records.histograms import is_alone

#: Quantities with one meaning for all tools; others keep the tool's name.
THROUGHPUT = "throughput"
RUNTIME = "runtime"
OPERATIONS = "operations"
TIMES: tuple[TimeName, ...] = ("response", "service", "wait")

#: The statistic of a figure that is a plain value.
VALUE = "value"


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class OriginRecord(_Frozen):
    """The source of imported figures."""

    #: The file's name, without its folder.
    file: str
    size_bytes: int
    sha256: str
    #: The tool that measured; none for a table.
    tool: str | None
    #: None if the file doesn't state it.
    version: str | None = None
    #: The start of the measurement; none if the file doesn't state it.
    started_wall_ns: int | None = None
    #: The recognised format, such as ``ycsb-text``.
    format: str
    #: Command lines and settings in the file.
    said: dict[str, str] = Field(default_factory=dict)


class ImportedCase(_Frozen):
    """One combination of the tool's factors, such as workload and number of clients."""

    labels: dict[str, str] = Field(default_factory=dict)

    @property
    def name(self) -> str:
        """The labels in one line; empty without labels."""
        return ", ".join(f"{label} {value}" for label, value in self.labels.items())

    @property
    def choice(self) -> str:
        """The case as chosen on a command line, behind the run and `#`; empty without labels."""
        return "#".join(self.labels.values())


class FigureRecord(_Frozen):
    """One number of a file."""

    #: Index of its case.
    case: int
    #: None if the figure covers the whole case.
    operation: str | None = None
    #: ``throughput``, ``service``, …, or the tool's name for it.
    quantity: str
    #: ``mean``, ``p99``, …; ``value`` for a plain value.
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
    """The content of an imported file."""

    origin: OriginRecord
    cases: tuple[ImportedCase, ...]
    figures: tuple[FigureRecord, ...]
    histograms: tuple[BucketsRecord, ...] = ()
    #: Notes for readers of the figures, a sentence each.
    notes: tuple[str, ...] = ()
    #: What a tap saw of the tool's load, where the figures are the tap's; none for a file.
    audit: AuditRecord | None = None


class TimeRecord(_Frozen):
    """One of the three times of a total. Minimum, mean and maximum are exact."""

    min: int
    mean: float
    p50: int
    p90: int
    p95: int
    p99: int
    p999: int
    p9999: int
    max: int
    stddev: float
    #: HdrHistogram V2, deflated, in base64.
    histogram: str


class LagRecord(TimeRecord):
    """From the arrival of answers in the machine's kernel to their stamps, on a sample of reads."""

    #: Reads in the sample.
    count: int
    #: Excluded reads: the wall clock was set between arrival and stamp.
    discarded: int = 0


class TotalRecord(_Frozen):
    """A phase and its drain together, for one group, operation and outcome."""

    phase: int
    group: str
    operation: str
    #: A read or update inside a read-modify-write, an attempt, or the write after a miss.
    part: bool
    outcome: str
    count: int
    #: Completed inside the phase's window.
    in_window: int
    rows: int = 0
    service: TimeRecord
    response: TimeRecord
    wait: TimeRecord

    @property
    def is_alone(self) -> bool:
        """Whether no other total counts these operations: all but the parts of one."""
        return is_alone(self.operation, part=self.part)


class GroupRecord(_Frozen):
    """A group's operations in a phase. ``due`` is none in the closed model."""

    group: str
    issued: int
    completed: int
    ok: int
    due: int | None = None
    dropped: int = 0
    late: int = 0
    #: Of these, because their client was busy.
    late_busy: int = 0
    #: Replies that the engine read after the timeout and doesn't count as timeouts; none if they
    #: weren't counted.
    read_late: int | None = None
    abandoned: int = 0
    frontier: int | None = None


class WorkerRecord(_Frozen):
    """How a worker spent its time in a phase, and the cores it could use."""

    worker: int
    cpu_ns: int | None = None
    waiting_for_core_ns: int | None = None
    idle_spin_ns: int = 0
    wall_ns: int = 0
    cores: tuple[int, ...] = ()


class ProcessRecord(_Frozen):
    """Resources of the engine's process in a phase, an embedded system included."""

    cpu_user_ns: int | None = None
    cpu_system_ns: int | None = None
    max_resident_bytes: int | None = None
    voluntary_switches: int | None = None
    involuntary_switches: int | None = None


class BeforeAfter(_Frozen):
    """A counter of the system at the begin and end of a phase; none if it isn't a number."""

    before: float | None
    after: float | None


@dataclass(frozen=True, slots=True)
class LostWrite:
    """A record's newest acknowledged write, which is lost. Instants count from the run's origin."""

    key: str
    #: Index of the lost field; none if the whole record is missing.
    field: int | None
    written_at_ns: int
    acknowledged_at_ns: int
    phase: str
    group: str
    #: What the write left in the record.
    expected: Literal["value", "removal"]
    found: Literal["missing", "incomplete", "torn", "older", "other", "resurrected"]


@dataclass(frozen=True, slots=True)
class LostWritesRecord:
    """The time of the lost writes' acknowledgements, and the first ten writes."""

    acknowledged_from_ns: int
    acknowledged_until_ns: int
    first: tuple[LostWrite, ...]


class SweepRecord(_Frozen):
    """Result of the verify phase, besides the outcomes of its reads.

    A miss is a missing record; a mismatch is counted here or has an older value.
    """

    #: Records that were read back.
    records: int
    #: Records that were written, estimated if a sample was read back; none if unknown.
    written: int | None = None
    #: Records read back that contain an unacknowledged write.
    unacknowledged: int
    #: Records that lack a field of an acknowledged write.
    incomplete: int = 0
    #: Records with a value of which only the begin or the end matches a write.
    torn: int = 0
    #: Records that have a field although the last acknowledged write removed the record.
    resurrected: int = 0
    #: None if no write was lost, or by an earlier version of kvmark.
    lost_writes: LostWritesRecord | None = None


class PhaseRecord(_Frozen):
    """A phase: its window, its end condition, its groups and workers.

    In killed runs the last phase is stopped by ``killed``.
    """

    index: int
    name: str
    start_ns: int
    end_ns: int
    drained_ns: int | None = None
    stopped_by: str
    relative_stderr: float | None = None
    groups: tuple[GroupRecord, ...] = ()
    workers: tuple[WorkerRecord, ...] = ()
    process: ProcessRecord = ProcessRecord()
    statistics: dict[str, BeforeAfter] = Field(default_factory=dict)
    #: None if no read was sampled.
    generator_lag: LagRecord | None = None
    sweep: SweepRecord | None = None
    #: Records of an earlier load that this load continued; none if it began with the first record.
    records_found: int | None = None

    @property
    def window_ns(self) -> int:
        """Length of the window."""
        return self.end_ns - self.start_ns


class SystemRecord(_Frozen):
    """The driver's description of the system under test."""

    system: str
    version: str
    configuration: dict[str, str] = Field(default_factory=dict)


class SpeedupRecord(_Frozen):
    """An option of the system's URL that makes some kinds of operation faster."""

    option: str
    kinds: tuple[str, ...]
    #: Its effect, as the text after the option in a sentence.
    meaning: str


class CapabilitiesRecord(_Frozen):
    """The driver's capabilities."""

    execution: Literal["blocking", "asynchronous"]
    embedded: bool
    kinds: tuple[str, ...] = ()
    cancels: bool = False
    speedups: tuple[SpeedupRecord, ...] = ()


class ClockRecord(_Frozen):
    """The engine's clock: its source, the cost of a time stamp, its smallest step."""

    source: str
    stamp_ns: float = 0.0
    resolution_ns: float = 0.0


class NoticeRecord(_Frozen):
    """A warning of the engine."""

    code: str
    phase: int | None = None
    message: str
    evidence: dict[str, Any] = Field(default_factory=dict)
    advice: str = ""


class LostRecord(_Frozen):
    """A share of a run whose agent was lost."""

    #: The phase of the loss; none before the first.
    phase: str | None
    reason: str
    #: The missing part of the whole run's counted phases, in [0, 1].
    missing: float


class AgentRecord(_Frozen):
    """One machine of a fleet and its share of the run."""

    share: int
    machine: str
    host: dict[str, Any] = Field(default_factory=dict)
    #: By group.
    clients: dict[str, int] = Field(default_factory=dict)
    #: The machine's wall time minus the coordinator's, and the round trip of that measurement.
    clock_offset_ns: int
    clock_round_trip_ns: int
    #: Start of each phase on this machine, by the phase's index, in the time of the run.
    starts_ns: dict[int, int] = Field(default_factory=dict)
    lost: LostRecord | None = None


class RunRecord(_Frozen):
    """The engine's result, or the part of it that its logs contain.

    A killed run's logs don't contain the driver's capabilities and the clock. An imported run has
    neither phases nor totals; its figures are in :class:`ImportedRecord`.
    """

    #: The engine's way of counting, a key of `COUNTINGS`; none for an imported run, or if unknown.
    counting: int | None = None
    #: For an imported run the instant of the import; its origin has the start of the measurement.
    started_wall_ns: int
    system: SystemRecord
    capabilities: CapabilitiesRecord | None
    clock: ClockRecord | None
    phases: tuple[PhaseRecord, ...]
    totals: tuple[TotalRecord, ...]
    notices: tuple[NoticeRecord, ...] = ()
    interrupted: bool = False
    #: The machines of a fleet by share; empty if one process generated the load.
    agents: tuple[AgentRecord, ...] = ()
    #: Number of fleet machines when the command began; none without a fleet.
    machines_wanted: int | None = None

    def succeeded(self, phase: PhaseRecord) -> int:
        """Successful operations that completed before the phase's window ended."""
        totals = (total for total in self.totals if total.phase == phase.index and not total.part)
        return sum(total.in_window for total in totals if total.outcome == "ok")


class ObservedServer(_Frozen):
    """A server that kvmark observed and didn't start; its samples are in the resources."""

    name: str
    #: The source of its samples, without credentials.
    source: str


class Header(_Frozen):
    """The part of a manifest that is known before the run begins."""

    tags: tuple[str, ...] = ()
    #: The commit of the measured code; none if the user didn't name it.
    commit: str | None = None
    command: tuple[str, ...] = ()
    spec: dict[str, Any] = Field(default_factory=dict)
    plan: dict[str, Any]
    host: dict[str, Any] = Field(default_factory=dict)
    versions: dict[str, str] = Field(default_factory=dict)
    #: The servers of the system, if it has any: ``observed``, and their description (testbed,
    #: version, nodes, settings) or the ``reason`` why it is missing.
    testbed: dict[str, Any] | None = None
    #: The observed servers of no testbed.
    observed: tuple[ObservedServer, ...] = ()


class Manifest(Header):
    """A run's configuration, host, system and results."""

    format: Literal[2]
    id: str
    created: str
    closed_by: Literal["engine", "recovered", "import"]
    engine: RunRecord
    #: Another tool's figures; none for a run of kvmark.
    imported: ImportedRecord | None = None

    @property
    def counted(self) -> tuple[PhaseRecord, ...]:
        """The measured phases, or the load phases if the plan measures none.

        Empty for a run that ended before its measurement.
        """
        name, phases = self._counts, self.engine.phases
        return tuple(one for one in phases if one.name == name and one.stopped_by != "skipped")

    @property
    def measured_groups(self) -> tuple[Mapping[str, Any], ...]:
        """The plan's groups of the counted phases."""
        phases = (one for one in self.plan.get("phases", ()) if one.get("name") == self._counts)
        indices = sorted({one["group"] for phase in phases for one in phase.get("groups", ())})
        groups = self.plan.get("groups", ())
        return tuple(groups[index] for index in indices)

    @property
    def _counts(self) -> str:
        """The name of the counted phases."""
        planned = {phase.get("name") for phase in self.plan.get("phases", ())}
        return "measure" if "measure" in planned else "load"

    @property
    def unmeasured(self) -> str | None:
        """The reason why the run has no figures, as a predicate; none if it has figures."""
        if self.counted or self.imported is not None:
            return None
        reached = [one.name for one in self.engine.phases if one.stopped_by != "skipped"]
        if not reached:
            return "ended before its first phase and measured nothing"
        return f"ended in its {reached[-1].replace('_', '-')} phase and measured nothing"

    @property
    def rate(self) -> float:
        """Successful operations per second in the windows of the counted phases."""
        window_ns = sum(phase.window_ns for phase in self.counted)
        return sum(map(self.engine.succeeded, self.counted)) * 1e9 / window_ns if window_ns else 0.0

    @property
    def study(self) -> Mapping[str, Any]:
        """The run's place in a study; empty for a run outside a study."""
        found = self.spec.get("study")
        return found if isinstance(found, Mapping) else {}


_COUNTINGS: Final = tomllib.loads((files(__package__) / "countings.toml").read_text("utf-8"))
COUNTINGS: Final[Mapping[int, list[str]]] = {int(one): texts for one, texts in _COUNTINGS.items()}
"""The engine's ways of counting: the changes, and the affected figures, by number."""


def counting_changes(first: int, last: int) -> str:
    """The end of a sentence: what was counted differently since a lower number.

    It also names the affected figures.
    """
    steps = [COUNTINGS[number] for number in range(first + 1, last + 1) if number in COUNTINGS]
    if not steps:
        return "only a newer kvmark knows the affected figures"
    changes, affected = ("; ".join(texts) for texts in zip(*steps, strict=True))
    return f"since then {changes}; this affects {affected}"
