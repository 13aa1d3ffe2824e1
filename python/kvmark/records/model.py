"""What a run's files say, as frozen models: the manifest and the engine's record in it.

Durations and instants are nanoseconds; instants count from the run's origin unless they say wall.

What a run that was imported holds instead of an engine's record is another tool's figures. Each is
in the unit in which the tool wrote it, so that it comes back unchanged; nothing is filled in.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from kvmark.records.files import TimeName

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
    #: Reads left out: the wall clock had been set between arrival and stamp.
    discarded: int = 0


class TotalRecord(_Frozen):
    """A phase and its drain together, for one group, operation and outcome."""

    phase: int
    group: str
    operation: str
    #: A read or update inside a read-modify-write, which is counted there already.
    part: bool
    outcome: str
    count: int
    #: Completed inside the phase's window.
    in_window: int
    rows: int = 0
    service: TimeRecord
    response: TimeRecord
    wait: TimeRecord


class GroupRecord(_Frozen):
    """What a group of clients did in a phase. ``due`` is none in the closed model."""

    group: str
    issued: int
    completed: int
    ok: int
    due: int | None = None
    dropped: int = 0
    late: int = 0
    #: Of these, because their client was busy.
    late_busy: int = 0
    #: Answers that the engine read after the limit on time, and doesn't count as timeouts; none
    #: where they weren't counted.
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
    """What the engine's process used in a phase. An embedded system is part of it."""

    cpu_user_ns: int | None = None
    cpu_system_ns: int | None = None
    max_resident_bytes: int | None = None
    voluntary_switches: int | None = None
    involuntary_switches: int | None = None


class BeforeAfter(_Frozen):
    """A counter of the system when a phase began and ended; none where it isn't a number."""

    before: float | None
    after: float | None


class SweepRecord(_Frozen):
    """What the verify phase read back, besides the outcomes of its reads.

    A miss is a missing record; a mismatch is counted here or has an older value.
    """

    #: Records that were read back.
    records: int
    #: Records that were written, estimated where a sample was read back; none where it isn't known.
    written: int | None = None
    #: Of those read back, how many hold a write whose outcome the generator never knew.
    unacknowledged: int
    #: How many lack a field that an acknowledged write put there.
    incomplete: int = 0
    #: How many hold a value that begins or ends like a write of theirs and goes on otherwise.
    torn: int = 0
    #: How many have a field though the last acknowledged write removed the record.
    resurrected: int = 0


class PhaseRecord(_Frozen):
    """A phase: its window, what ended it, and who took part. Killed runs have phases ``killed``."""

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
    #: None where no read was sampled.
    generator_lag: LagRecord | None = None
    sweep: SweepRecord | None = None
    #: Records that an earlier load had put there, behind which this one went on; none where it
    #: began with the first.
    records_found: int | None = None

    @property
    def window_ns(self) -> int:
        """Length of the window."""
        return self.end_ns - self.start_ns


class SystemRecord(_Frozen):
    """The system under test, as its driver described it."""

    system: str
    version: str
    configuration: dict[str, str] = Field(default_factory=dict)


class SpeedupRecord(_Frozen):
    """An option, as it stands in a URL, that would make operations of some kinds quicker."""

    option: str
    kinds: tuple[str, ...]
    #: What it does, to follow the option in a sentence.
    meaning: str


class CapabilitiesRecord(_Frozen):
    """What the driver said its system can do."""

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
    """A share of a run of which nothing more was heard."""

    #: The phase in which that happened; none before the first.
    phase: str | None
    reason: str
    #: The part of the whole run's counted phases that is missing with it, in [0, 1].
    missing: float


class AgentRecord(_Frozen):
    """One machine of a fleet and its share of the run."""

    share: int
    machine: str
    host: dict[str, Any] = Field(default_factory=dict)
    #: By group.
    clients: dict[str, int] = Field(default_factory=dict)
    #: The machine's wall time minus the coordinator's, and the round trip by which that is known.
    clock_offset_ns: int
    clock_round_trip_ns: int
    #: When each phase began there, by the phase's index, in the time of the run.
    starts_ns: dict[int, int] = Field(default_factory=dict)
    lost: LostRecord | None = None


class RunRecord(_Frozen):
    """What the engine returned, or what its logs still say.

    A killed run's logs don't tell the driver's capabilities and the clock. An imported run had no
    engine: it has neither phases nor totals, and its figures are in :class:`ImportedRecord`.
    """

    #: How the engine counted; none for an imported run, or where that isn't known.
    counting: int | None = None
    #: Of an imported run the instant of the import: when it was measured its origin tells.
    started_wall_ns: int
    system: SystemRecord
    capabilities: CapabilitiesRecord | None
    clock: ClockRecord | None
    phases: tuple[PhaseRecord, ...]
    totals: tuple[TotalRecord, ...]
    notices: tuple[NoticeRecord, ...] = ()
    interrupted: bool = False
    #: The machines of a fleet by share; empty where one process generated the load.
    agents: tuple[AgentRecord, ...] = ()
    #: How many machines there were for it when the command began, if there was a fleet.
    machines_wanted: int | None = None

    def succeeded(self, phase: PhaseRecord) -> int:
        """Successful operations that completed before the phase's window ended."""
        totals = (total for total in self.totals if total.phase == phase.index and not total.part)
        return sum(total.in_window for total in totals if total.outcome == "ok")


class Manifest(_Frozen):
    """What was run, where, with what, and what came of it."""

    format: Literal[2]
    id: str
    tags: tuple[str, ...] = ()
    #: Of the code that was measured; none where nobody named it.
    commit: str | None = None
    created: str
    command: tuple[str, ...] = ()
    spec: dict[str, Any] = Field(default_factory=dict)
    plan: dict[str, Any]
    host: dict[str, Any] = Field(default_factory=dict)
    versions: dict[str, str] = Field(default_factory=dict)
    #: The servers of the system, where it has any: ``observed``, and either what they are (their
    #: testbed, version, nodes, settings) or the ``reason`` why nothing is known of them.
    testbed: dict[str, Any] | None = None
    closed_by: Literal["engine", "recovered", "import"]
    engine: RunRecord
    #: Another tool's figures; none for a run of kvmark's own.
    imported: ImportedRecord | None = None

    @property
    def counted(self) -> tuple[PhaseRecord, ...]:
        """The phases that count: those that measure; where the plan has none, those that load.

        A run that ended before its measurement has none: its load is not what it was to measure.
        """
        name, phases = self._counts, self.engine.phases
        return tuple(one for one in phases if one.name == name and one.stopped_by != "skipped")

    @property
    def measured_groups(self) -> tuple[Mapping[str, Any], ...]:
        """The plan's groups that are at work in the phases that count."""
        phases = (one for one in self.plan.get("phases", ()) if one.get("name") == self._counts)
        indices = sorted({one["group"] for phase in phases for one in phase.get("groups", ())})
        groups = self.plan.get("groups", ())
        return tuple(groups[index] for index in indices)

    @property
    def _counts(self) -> str:
        """The name of the phases that count."""
        planned = {phase.get("name") for phase in self.plan.get("phases", ())}
        return "measure" if "measure" in planned else "load"

    @property
    def unmeasured(self) -> str | None:
        """Why the run has no figures, as a clause about it; none where it has some."""
        if self.counted or self.imported is not None:
            return None
        reached = [one.name for one in self.engine.phases if one.stopped_by != "skipped"]
        if not reached:
            return "ended before its first phase and measured nothing"
        return f"ended in its {reached[-1].replace('_', '-')} phase and measured nothing"

    @property
    def rate(self) -> float:
        """Successful operations per second in all windows of the counted phases."""
        window_ns = sum(phase.window_ns for phase in self.counted)
        return sum(map(self.engine.succeeded, self.counted)) * 1e9 / window_ns if window_ns else 0.0

    @property
    def study(self) -> Mapping[str, Any]:
        """The run's place in a study; empty for one of none."""
        found = self.spec.get("study")
        return found if isinstance(found, Mapping) else {}
