"""Every reason a verdict can give, in one place: the checks and the documentation both read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

LAG_FLOORS: Final = (("p50", 0.5, 50_000), ("p99", 0.99, 100_000))
"""Quantiles at which the generator's lag is looked at, and up to how many nanoseconds it is the
machine's own: what it takes to wake a thread that waits."""


class Level(Enum):
    """What a reason makes of a run. A note says something worth knowing and changes nothing."""

    NOTE = "NOTE"
    SUSPECT = "SUSPECT"
    INVALID = "INVALID"


class Unit(Enum):
    """How a measured value and its thresholds are written."""

    SHARE = "%"
    COUNT = ""


@dataclass(frozen=True, slots=True)
class Rule:
    """A reason that can be given: when, why, and what to do about it.

    Values above ``suspect`` make a run SUSPECT and above ``invalid`` INVALID; values above ``note``
    are noted. A level without a threshold is never reached.
    """

    code: str
    #: The measured quantity, as a phrase that the threshold follows.
    measured: str
    unit: Unit
    note: float | None
    suspect: float | None
    invalid: float | None
    #: When the rule is looked at; empty for always.
    applies: str
    #: Where rule and threshold come from; empty where the value explains itself.
    source: str
    advice: str

    def level(self, value: float) -> Level | None:
        """The level that a value reaches; none when it is harmless."""
        if self.invalid is not None and value > self.invalid:
            return Level.INVALID
        if self.suspect is not None and value > self.suspect:
            return Level.SUSPECT
        return Level.NOTE if self.note is not None and value > self.note else None

    def threshold(self, level: Level) -> float | None:
        """The threshold of a level."""
        thresholds = {
            Level.NOTE: self.note,
            Level.SUSPECT: self.suspect,
            Level.INVALID: self.invalid,
        }
        return thresholds[level]


@dataclass(frozen=True, slots=True)
class Reason:
    """A rule that a run broke, with the numbers."""

    code: str
    level: Level
    #: Name of the phase; none when it concerns the whole run.
    phase: str | None
    #: One sentence.
    sentence: str
    #: The numbers behind it, units in the names.
    evidence: Mapping[str, float | int | str]
    threshold: float | None
    advice: str


def _rule(
    code: str,
    measured: str,
    thresholds: tuple[float | None, float | None, float | None],
    source: str,
    advice: str,
    *,
    applies: str = "",
    unit: Unit = Unit.SHARE,
) -> Rule:
    note, suspect, invalid = thresholds
    return Rule(code, measured, unit, note, suspect, invalid, applies, source, advice)


_RULES = (
    _rule(
        "nothing_measured",
        "counted phases without a successful operation",
        (None, None, 0),
        "",
        "look at the errors of the run and at its plan",
        unit=Unit.COUNT,
    ),
    _rule(
        "phase_failed",
        "phases that ended because the system failed",
        (None, None, 0),
        "",
        "look at the events of the run and at the system's own log",
        unit=Unit.COUNT,
    ),
    _rule(
        "no_answer",
        "phases that ended because the system answered no outstanding request",
        (None, None, 0),
        "The limit is `--stall-limit`; silence during a planned fault doesn't count.",
        "see whether the system still works, or allow it more with --stall-limit",
        unit=Unit.COUNT,
    ),
    _rule(
        "errors",
        "share of failed operations in load, measure and verify",
        (None, 0, 0.01),
        "Failed operations take another path and time. Above 1 % they affect p99.",
        "find out why they failed: the error classes are in the run's totals",
        applies="always; the next three report their own classes by the same total share",
    ),
    _rule(
        "timeouts",
        "the same; some timed out in the client or the system",
        (None, 0, 0.01),
        "A timeout lasts as long as the limit: the tail beyond it is unknown.",
        "offer less load, or give a longer limit (--timeout) to see how long they take",
    ),
    _rule(
        "overloaded",
        "the same; the system rejected some as overloaded",
        (None, 0, 0.01),
        "Rejections are cheap; the other operations look faster than in a queue.",
        "use fewer clients, or raise the system's limits on requests in flight",
    ),
    _rule(
        "unavailable",
        "the same; too few replicas were alive for some",
        (None, 0, 0.01),
        "A coordinator that knows replicas are down answers at once, at almost no cost.",
        "look whether all nodes are up, and whether there are enough copies for the consistency"
        " level",
    ),
    _rule(
        "errors_during_faults",
        "operations that failed during a planned fault, or within 5 s after it",
        (0, None, None),
        "Drivers retry a lost connection within 1 s by default.",
        "read the timeline beside the totals",
        applies="runs with planned faults",
        unit=Unit.COUNT,
    ),
    _rule(
        "fault_not_carried_out",
        "planned faults that failed, or that the run ended before",
        (None, 0, None),
        "",
        "look at the events of the run and at the server's own log",
        applies="runs with planned faults",
        unit=Unit.COUNT,
    ),
    _rule(
        "not_recovered",
        "planned faults after which the rate stayed below 80 % of the earlier rate",
        (None, 0, None),
        "The outage outlasted the measurement.",
        "measure longer after the fault, and look at the server's own log",
        applies="last planned fault, if its server was brought back",
        unit=Unit.COUNT,
    ),
    _rule(
        "mismatches",
        "operations that read a wrong value",
        (None, None, 0),
        "A store that returns wrong values has no throughput worth comparing. Checked: number,"
        " length and tag of values; with `check_values: full` every byte (YCSB's data integrity).",
        "the dataset may be another than the plan's; if not, the store lost or mixed up values",
        unit=Unit.COUNT,
    ),
    _rule(
        "misses",
        "share of lookups that found no record",
        (None, 0.001, 0.05),
        "A miss is often much cheaper than a hit.",
        "load the dataset first, with the same number of records and the same key text; a server"
        " that is killed may come back without what it had",
    ),
    _rule(
        "lost_writes",
        "records that had lost an acknowledged write when read back in the verify phase",
        (None, None, 0),
        "",
        "check the durability and consistency settings of the store",
        unit=Unit.COUNT,
    ),
    _rule(
        "wrong_mix",
        "largest difference between the measured and planned share of an operation kind",
        (None, 0.01, None),
        "Pearson's chi-square test. With many operations any difference is significant, hence the"
        " second threshold.",
        "report this run: the engine did not carry out the plan's mix",
        applies="chi-square test: p < 1e-6",
    ),
    _rule(
        "offered_rate_not_reached",
        "share of due arrivals not completed in time",
        (None, 0.01, 0.05),
        "MLPerf's LoadGen marks such runs invalid. Operations normally in flight at the end are"
        " excluded.",
        "the system is saturated at this rate, or the generator is: lower the rate or add clients",
        applies="open model",
    ),
    _rule(
        "dropped",
        "share of due arrivals never issued",
        (None, 0.001, 0.05),
        "rpc-perf and k6 count them too. They would have had the longest times.",
        "lower the rate, or raise the number of clients so that more can be in flight",
        applies="open model",
    ),
    _rule(
        "schedule_late",
        "share of operations issued more than 1 ms late while their client was free",
        (None, 0.01, 0.10),
        "Lancet verifies its send times too. Above 1 % the delay affects p99.",
        "give the generator a core of its own (--pin), more workers, or a lower rate",
        applies="open model",
    ),
    _rule(
        "concurrency_limit",
        "share of operations issued more than 1 ms late because their client was busy",
        (0.01, None, None),
        "The wait is the system's queue and part of the response time.",
        "read the response time, and raise the number of clients to let the system queue instead",
        applies="open model",
    ),
    _rule(
        "generator_saturated",
        "share of a core that the busiest worker used, without idle polling",
        (None, 0.90, 0.98),
        "Locust warns at 90 % of a core (issue 1161).",
        "give the engine more workers or machines: this run may measure the generator",
        applies="system outside the engine's process; phase of 10 ms or more",
    ),
    _rule(
        "generator_lag",
        "time from a reply's arrival to its stamp, as a share of service time; the larger of p50"
        " and p99",
        (None, 0.10, None),
        "Lancet checks its instants against kernel and network card. Below these limits it is the"
        " cost of waking a thread.",
        "give the generator cores of its own (--pin), more workers or machines, or less load",
        applies="sampled reads (`SO_TIMESTAMPNS`); lag above 50 µs at p50 or 100 µs at p99",
    ),
    _rule(
        "read_late",
        "share of operations whose answer was read after their timeout and may have come in time",
        (0, 0.001, None),
        "The true time is unknown. At 0.1 % it affects p99.9.",
        "give the generator cores of its own (--pin), more workers or machines, or less load",
        applies="operations with `--timeout`, if the driver can cancel them",
    ),
    _rule(
        "server_saturated",
        "share of its available CPU time that the busiest server used, or several on shared cores",
        (0.95, None, None),
        "A single-threaded system such as Redis can use one core; others those they are bound to,"
        " or all. The throughput is the system's maximum: a result, not a fault.",
        "offer less load to see the response time below the ceiling, or give the server more",
        applies="servers of a testbed, or that report their CPU time",
    ),
    _rule(
        "uneven_servers",
        "traffic share of the busiest primary or peer beyond an equal share",
        (0.10, 0.25, None),
        "Keys in few slots or tokens measure one server. A zipfian distribution alone stays below"
        " the second threshold.",
        "look at the text of the keys: a common hash tag puts them all into one slot; of peers,"
        " look whether all are asked (token_aware, datacenter)",
        applies="several primaries or peers in a testbed, without those affected by a fault",
    ),
    _rule(
        "hot_partition",
        "expected share of operations on the most popular record, relative to a server's equal"
        " share",
        (0.50, 1.0, None),
        "A record is on one server and its replicas: more servers can't spread its load.",
        "use more records or a lower theta, unless one hot record is what is to be measured",
        applies="several primaries or peers in a testbed",
    ),
    _rule(
        "garbage_collection",
        "share of time that a server spent in garbage collection",
        (0.01, 0.10, None),
        "Operations wait during a collection. At 1 % it affects p99.",
        "give the server more heap (--heap), or read the tail as that of its heap",
        applies="JVM servers of a testbed",
    ),
    _rule(
        "server_warnings",
        "share of operations whose answer had a warning",
        (0, 0.01, None),
        "Cassandra warns of reads over many tombstones (`tombstone_warn_threshold`) and of"
        " batches that are large or span many partitions (`batch_size_warn_threshold`).",
        "read over fewer deleted rows, use smaller batches of one partition, or set the threshold",
        applies="systems whose answers carry warnings",
    ),
    _rule(
        "evictions",
        "records that the system evicted",
        (None, 0, None),
        "The dataset changed during the run; reads may miss evicted records.",
        "raise the memory limit (maxmemory), or load fewer records",
        applies="systems that count evictions",
        unit=Unit.COUNT,
    ),
    _rule(
        "waiting_for_core",
        "share of time in which workers were ready to run but had no core",
        (None, 0.05, None),
        "Time in the run queue (`/proc/PID/schedstat`) is service time. 5 % is half the effect"
        " that comparisons usually look for.",
        "use fewer clients or workers than cores, stop other programs, or pin the workers",
    ),
    _rule(
        "engine_overhead",
        "the engine's calibrated cost per operation as a share of mean service time",
        (None, 0.10, None),
        "The cost is in every closed-model throughput. hyperfine subtracts its shell's.",
        "the run is engine-bound: compare ratios of such runs with care",
        applies="calibrated host; not the null driver",
    ),
    _rule(
        "calibration_disturbed",
        "median of five engine calibrations divided by the smallest",
        (2, None, None),
        "Calibrations vary by some percent. Above a factor of two, other programs used the cores.",
        "stop other programs before measuring",
        applies="calibrations too far apart to keep",
        unit=Unit.COUNT,
    ),
    _rule(
        "coarse_clock",
        "clock resolution as a share of median service time",
        (None, 0.10, None),
        "",
        "use a machine whose kernel trusts its time stamp counter",
        applies="real clock",
    ),
    _rule(
        "busy_machine",
        "share of all cores that other programs kept busy before the run",
        (None, 0.25, None),
        "YCSB can print the load average. On four cores, 25 % is one core less for the system.",
        "stop other programs before measuring",
        applies="other programs were observed",
    ),
    _rule(
        "not_stationary",
        "drift of throughput or mean service time over the phase",
        (None, 0.10, None),
        "Theil-Sen slope relative to the median, Mann-Kendall test, p < 0.01, corrected for"
        " autocorrelation (Yue and Wang 2004). The mean of a drifting rate depends on when the run"
        " stopped.",
        "lengthen the warm-up, or measure longer than the system's own cycles (compaction)",
        applies="measure phases of at least ten full intervals and a steady target rate",
    ),
    _rule(
        "not_warmed_up",
        "warm-ups that reached their limit before throughput was stationary",
        (0, None, None),
        "`not_stationary` reports the remaining drift, unless it is slow and the run short.",
        "raise the limit (--warmup)",
        applies="`--warmup-until`",
        unit=Unit.COUNT,
    ),
    _rule(
        "servers_not_warm",
        "speedup of the last two rounds of server warm-up over the best two before",
        (0.03, 0.06, None),
        "A JVM compiles for minutes: a run of seconds has a narrow interval around too small a"
        " figure.",
        "raise the limit (server_warmup)",
        applies="servers warmed up by a study (`server_warmup`); after five runs a NOTE",
    ),
    _rule(
        "cold_servers",
        "share of throughput lost by a run's position after the servers' start",
        (None, 0.05, None),
        "Least squares within cases and repetitions: the loss halves from position to position,"
        " and the 95 % interval (HC3) of the first loss is below 0.",
        "let the study warm servers up (server_warmup), or raise its limit",
        applies="cases: servers started by the study, closed model, different positions",
    ),
    _rule(
        "machine_speed",
        "deviation of a fixed task's CPU time from its median over the case's runs on the machine",
        (0.10, 0.20, None),
        "Each second: 20,000 reads of 4,096 objects, on a core of the system under test, or on"
        " any if it isn't bound. The nearer end of the median's 95 % interval (sign test) counts;"
        " throughput moves by about half as much.",
        "measure on a machine without neighbours, or measure again: effects compare within a"
        " repetition",
        applies="cases of a study with at least three runs of eight samples on one machine",
    ),
    _rule(
        "too_short",
        "full intervals missing from the 25 that an error of the throughput needs",
        (None, 0, None),
        "Neighbouring intervals are correlated.",
        "repeat the run at least five times, measure longer, or shorten the interval (--interval)",
        applies="always; a NOTE in cases from five runs on",
        unit=Unit.COUNT,
    ),
    _rule(
        "imprecise",
        "half-width of the throughput's interval as a share of it",
        (None, 0.20, 1.0),
        "Above 20 %, cases that differ by a third can't be distinguished; an interval with 0"
        " gives no throughput.",
        "measure longer, or repeat the run: such a case stands in no effect and no headline",
        applies="runs with enough intervals; cases of two runs or more, by their variation",
    ),
    _rule(
        "unrepeated",
        "repetitions missing from the design's minimum: three, or as many as the design asks for",
        (None, 0, None),
        "A case that ran once looks more certain than one that ran three times.",
        "raise the number of repetitions, or make the missing ones (--resume): such a case stands"
        " in no effect, no headline and no fit",
        applies="cases of studies, YCSB sequences and `ab`",
        unit=Unit.COUNT,
    ),
    _rule(
        "unserved_clients",
        "closed-model clients without a completed operation, since fewer completed than there are"
        " clients",
        (None, None, 0),
        "Quantiles describe only the clients that were served.",
        "measure longer: such a case stands in no effect and no headline",
        unit=Unit.COUNT,
    ),
    _rule(
        "too_few_samples",
        "operations missing from those that p99 needs, for the rarest operation",
        (0, None, None),
        "A quantile q is shown if n · (1 − q) ≥ 10: a count of ten already varies by a third.",
        "do more operations, or repeat the run: histograms of repetitions are merged",
        applies="SUSPECT if the most frequent operation lacks the 200 of p95; in cases over all"
        " runs",
        unit=Unit.COUNT,
    ),
    _rule(
        "abandoned",
        "operations still in flight at the drain limit",
        (None, 0, None),
        "",
        "raise the drain limit or set a timeout, so that each operation has an outcome",
        unit=Unit.COUNT,
    ),
    _rule(
        "interrupted",
        "run ended early by the user or a time limit",
        (None, 0, None),
        "The end was chosen after seeing the figures.",
        "let the run end by itself",
        unit=Unit.COUNT,
    ),
    _rule(
        "lost_share",
        "share of the counted phases missing because the fleet lost a machine",
        (None, 0, 0.05),
        "Missing load wasn't offered. Above 5 %, it was another load.",
        "bring the machine back and run it again",
        applies="runs on several machines",
    ),
    _rule(
        "fewer_machines",
        "machines missing from those the fleet had before",
        (None, 0, None),
        "",
        "bring the machines back, or say with --machines how many are to be used",
        applies="runs on several machines",
        unit=Unit.COUNT,
    ),
    _rule(
        "recovered",
        "run killed and closed from its logs",
        (None, 0, None),
        "The last interval and the workers' CPU time are missing.",
        "run it again",
        unit=Unit.COUNT,
    ),
    _rule(
        "imported",
        "figures of another tool",
        (None, 0, None),
        "Another tool's output lacks what the checks need, such as lateness and generator cost.",
        "compare it with figures of the same tool, and measure with kvmark what must be judged",
        applies="imported runs; no other check applies",
        unit=Unit.COUNT,
    ),
    _rule(
        "unpinned",
        "the kernel chose the workers' cores",
        (0, None, None),
        "On two cores a client's cost per operation differs threefold with placement.",
        "pin the workers (--pin) to take placement out of comparisons",
        applies="real clock",
        unit=Unit.COUNT,
    ),
    _rule(
        "engine_notice",
        "warnings of the engine during the run",
        (0, None, None),
        "",
        "as the notice says",
        unit=Unit.COUNT,
    ),
)

#: Every rule by its code, in the order of the documentation.
RULES: Mapping[str, Rule] = {rule.code: rule for rule in _RULES}


def reasons_markdown() -> str:
    """The table of all reasons for the documentation."""
    lines = [
        "| Reason | Value | NOTE above | SUSPECT above | INVALID above | Applies to | Basis |",
        "|---|---|---|---|---|---|---|",
    ]
    for rule in RULES.values():
        cells = (
            f"`{rule.code}`",
            rule.measured,
            *(_written(rule, threshold) for threshold in (rule.note, rule.suspect, rule.invalid)),
            rule.applies,
            rule.source,
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _written(rule: Rule, threshold: float | None) -> str:
    if threshold is None:
        return ""
    return f"{threshold:.4g}" if rule.unit is Unit.COUNT else f"{threshold * 100:.4g} %"
