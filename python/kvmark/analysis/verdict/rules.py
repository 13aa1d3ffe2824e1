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
    #: What is measured, as a phrase: the threshold stands behind it.
    measured: str
    unit: Unit
    note: float | None
    suspect: float | None
    invalid: float | None
    #: When the rule is looked at; empty for always.
    applies: str
    #: Where rule and threshold come from.
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
        "counted phases in which no operation succeeded",
        (None, None, 0),
        "Without a success there is no time and no throughput to report.",
        "look at the errors of the run and at its plan",
        unit=Unit.COUNT,
    ),
    _rule(
        "phase_failed",
        "phases that the system under test ended by failing",
        (None, None, 0),
        "What was measured until then is not what was asked for.",
        "look at the events of the run and at the system's own log",
        unit=Unit.COUNT,
    ),
    _rule(
        "no_answer",
        "phases that were ended because the system answered nothing while requests were"
        " outstanding",
        (None, None, 0),
        "What was measured until then is not what was asked for; the limit is --stall-limit, and no"
        " silence counts while a planned fault acts.",
        "see whether the system still works, or allow it more with --stall-limit",
        unit=Unit.COUNT,
    ),
    _rule(
        "errors",
        "share of operations that failed, in load, measure and verify",
        (None, 0, 0.01),
        "Failed operations take another path and another time than those asked for;"
        " above one in a hundred they shape p99.",
        "find out why they failed: the error classes are in the run's totals",
        applies="always; the next three are its most frequent classes, judged by the same share",
    ),
    _rule(
        "timeouts",
        "the same, where some were given up by the client or by the system for lack of time",
        (None, 0, 0.01),
        "Their time is the limit and not the system's: the tail beyond it was never seen.",
        "offer less load, or give a longer limit (--timeout) to see how long they take",
    ),
    _rule(
        "overloaded",
        "the same, where the system refused some because it had too much to do",
        (None, 0, 0.01),
        "What is refused is cheap: throughput counts the rest, and their times look better than"
        " those of a queue.",
        "use fewer clients, or raise the system's limits on requests in flight",
    ),
    _rule(
        "unavailable",
        "the same, where too few replicas were alive for some",
        (None, 0, 0.01),
        "A coordinator that knows replicas to be down answers at once: such operations cost the"
        " system next to nothing.",
        "look whether all nodes are up, and whether there are enough copies for the consistency"
        " level",
    ),
    _rule(
        "errors_during_faults",
        "operations that failed while a server was broken on purpose, or within 5 s after it",
        (0, None, None),
        "They are what the faults were planned to show, and their times are recorded like any"
        " other. Drivers try a lost connection again after a second at most.",
        "read the timeline beside the totals",
        applies="runs with planned faults; `errors` counts the other failures",
        unit=Unit.COUNT,
    ),
    _rule(
        "fault_not_carried_out",
        "planned faults that failed, or that the run ended before",
        (None, 0, None),
        "The run did not go through what was planned.",
        "look at the events of the run and at the server's own log",
        applies="runs with planned faults",
        unit=Unit.COUNT,
    ),
    _rule(
        "not_recovered",
        "planned faults after which the rate was still below 80 % of that before at the end",
        (None, 0, None),
        "The server was back and the service was not: the outage is longer than what was measured.",
        "measure longer after the fault, and look at the server's own log",
        applies="the last planned fault of a run, if its server was brought back",
        unit=Unit.COUNT,
    ),
    _rule(
        "mismatches",
        "operations that read a wrong value",
        (None, None, 0),
        "A store that answers wrongly has no throughput worth comparing. Checked are number, length"
        " and tag of a record's values, with `check_values: full` every byte (YCSB's data"
        " integrity).",
        "the dataset may be another than the plan's; if not, the store lost or mixed up values",
        unit=Unit.COUNT,
    ),
    _rule(
        "misses",
        "share of the operations that look for a record and found none",
        (None, 0.001, 0.05),
        "A miss is often much cheaper than a hit, so a run against missing data looks fast.",
        "load the dataset first, with the same number of records and the same key text; a server"
        " that is killed may come back without what it had",
    ),
    _rule(
        "lost_writes",
        "records that had lost an acknowledged write when they were read back in the verify phase",
        (None, None, 0),
        "An acknowledged write that is gone was not done.",
        "check the durability and consistency settings of the store",
        unit=Unit.COUNT,
    ),
    _rule(
        "wrong_mix",
        "largest difference between a kind's share of the operations and the planned share",
        (None, 0.01, None),
        "Pearson's chi-square test; with many operations any difference is significant, hence the"
        " second bound.",
        "report this run: the engine did not carry out the plan's mix",
        applies="the chi-square test gives p < 1e-6",
    ),
    _rule(
        "offered_rate_not_reached",
        "share of the due arrivals that were not completed in time",
        (None, 0.01, 0.05),
        "Figures at a rate mean nothing if the rate was not there; MLPerf's LoadGen marks such runs"
        " invalid. Operations normally in flight at the end are allowed for.",
        "the system is saturated at this rate, or the generator is: lower the rate or add clients",
        applies="open model",
    ),
    _rule(
        "dropped",
        "share of the due arrivals that were never issued",
        (None, 0.001, 0.05),
        "rpc-perf and k6 count what was due and not sent; what was not sent has no time, and it"
        " would have been the longest.",
        "lower the rate, or raise the number of clients so that more can be in flight",
        applies="open model",
    ),
    _rule(
        "schedule_late",
        "share of operations issued more than 1 ms late while their client was free",
        (None, 0.01, 0.10),
        "The generator's own lateness is in the response time; Lancet verifies its send times for"
        " the same reason. At one in a hundred it reaches p99.",
        "give the generator a core of its own (--pin), more workers, or a lower rate",
        applies="open model; what would have been late had the generator been in time is the next"
        " reason's",
    ),
    _rule(
        "concurrency_limit",
        "share of operations issued more than 1 ms late because their client was busy",
        (0.01, None, None),
        "The wait is the system's queue and rightly in the response time; service time alone"
        " would hide it.",
        "read the response time, and raise the number of clients to let the system queue instead",
        applies="open model",
    ),
    _rule(
        "generator_saturated",
        "share of its time in which the busiest worker used a core, idle polling left out",
        (None, 0.90, 0.98),
        "Locust warns at 90 % of a core (its issue 1161): beyond it the generator queues.",
        "give the engine more workers or machines: this run may measure the generator",
        applies="system outside the engine's process; the phase took 10 ms or more",
    ),
    _rule(
        "generator_lag",
        "how long answers had been in the generator's machine when they were stamped, as a share"
        " of the service time; of the medians and the p99 the larger one",
        (None, 0.10, None),
        "The lag is in the service time and none of the system's; Lancet checks its instants by"
        " those of kernel and network card. Below 50 µs at the median and 100 µs at p99 it is what"
        " waking a thread costs any client.",
        "give the generator cores of its own (--pin), more workers or machines, or less load",
        applies="reads were sampled (SO_TIMESTAMPNS), and their lag is beyond those 50 or 100 µs",
    ),
    _rule(
        "read_late",
        "share of operations whose answer was read after the limit on their time, and may have"
        " come in time",
        (0, 0.001, None),
        "The generator was away when their time was over: they are no failures of the system, and"
        " how long they took isn't known. In one of a thousand it is in p99.9.",
        "give the generator cores of its own (--pin), more workers or machines, or less load",
        applies="operations with a limit on time (--timeout), on drivers that can give them up",
    ),
    _rule(
        "server_saturated",
        "share of the processor time it can use that the busiest server used, or several together"
        " of the cores that they share",
        (0.95, None, None),
        "A system of one thread, such as Redis, can use one core; others those they are bound to,"
        " or all. The figures are then the system's ceiling, which is a result and no fault of the"
        " run; an open model shows its queue in the response time.",
        "offer less load to see the response time below the ceiling, or give the server more",
        applies="servers of a testbed, or servers that count their processor time themselves",
    ),
    _rule(
        "uneven_servers",
        "share of the traffic that the busiest primary or peer carried beyond an equal part",
        (0.10, 0.25, None),
        "Keys that fall into few slots or tokens measure one server and not the cluster; the"
        " popular keys of a zipfian choice alone stay below the second bound.",
        "look at the text of the keys: a common hash tag puts them all into one slot; of peers,"
        " look whether all are asked (token_aware, datacenter)",
        applies="testbeds with several primaries or peers, of those that no planned fault touched",
    ),
    _rule(
        "hot_partition",
        "expected share of the operations on the most popular record, in equal parts of a server",
        (0.50, 1.0, None),
        "A record lives in one partition, and a partition on one server and its replicas: beyond"
        " one equal part no number of servers can share the load.",
        "use more records or a lower theta, unless one hot record is what is to be measured",
        applies="testbeds with several primaries or peers; what the plan's key distribution says",
    ),
    _rule(
        "garbage_collection",
        "share of its time in which a server collected garbage",
        (0.01, 0.10, None),
        "Operations wait while a server collects; at one hundredth of the time it reaches p99.",
        "give the server more heap (--heap), or read the tail as that of its heap",
        applies="servers on a Java virtual machine, in a testbed",
    ),
    _rule(
        "server_warnings",
        "share of the operations whose answer came with a warning",
        (0, 0.01, None),
        "Cassandra warns when a read meets many tombstones (tombstone_warn_threshold) and when a"
        " batch is large or spreads over many partitions (batch_size_warn_threshold).",
        "read over fewer deleted rows, use smaller batches of one partition, or set the threshold",
        applies="systems whose answers carry warnings",
    ),
    _rule(
        "evictions",
        "records that the system evicted",
        (None, 0, None),
        "At its end the run measured another dataset than at its beginning, and reads may miss"
        " what was thrown away.",
        "raise the memory limit (maxmemory), or load fewer records",
        applies="systems that count what they evict",
        unit=Unit.COUNT,
    ),
    _rule(
        "waiting_for_core",
        "share of their time in which the workers were ready and had no core",
        (None, 0.05, None),
        "Time in the kernel's run queue (/proc/PID/schedstat) is counted as service time;"
        " 5 % is half the effect that comparisons usually look for.",
        "use fewer clients or workers than cores, stop other programs, or pin the workers",
    ),
    _rule(
        "engine_overhead",
        "the engine's calibrated cost per operation as a share of the mean service time",
        (None, 0.10, None),
        "The null driver's cost is in every throughput of the closed model (hyperfine subtracts"
        " its shell's; here it is only bounded).",
        "the run is engine-bound: compare ratios of such runs with care",
        applies="the host was calibrated and the system isn't the null driver",
    ),
    _rule(
        "calibration_disturbed",
        "how many times the least of five calibrations of the engine their median is",
        (2, None, None),
        "Five calibrations of a few milliseconds scatter by some percent; where their median is"
        " more than twice the least, something else took the cores, and no cost is kept.",
        "stop other programs before measuring",
        applies="the calibrations were so far apart that none is kept",
        unit=Unit.COUNT,
    ),
    _rule(
        "coarse_clock",
        "the clock's smallest step as a share of the median service time",
        (None, 0.10, None),
        "Quantiles can't be finer than the clock's step.",
        "use a machine whose kernel trusts its time stamp counter",
        applies="real clock",
    ),
    _rule(
        "busy_machine",
        "cores that other programs kept busy before the run, as a share of all",
        (None, 0.25, None),
        "YCSB can print its machine's load average; the work of others takes cores, caches and"
        " disk, and on four cores a quarter is one core less for the system.",
        "stop other programs before measuring",
        applies="other programs were looked at",
    ),
    _rule(
        "not_stationary",
        "drift of throughput or mean service time over the phase",
        (None, 0.10, None),
        "Theil-Sen's slope with the Mann-Kendall test, p < 0.01, corrected for autocorrelation"
        " (Yue and Wang 2004): a mean of a moving rate depends on when it was stopped.",
        "lengthen the warm-up, or measure longer than the system's own cycles (compaction)",
        applies="measure phases of at least ten full intervals and a steady target rate",
    ),
    _rule(
        "not_warmed_up",
        "warm-ups that came to their limit before throughput was stationary",
        (0, None, None),
        "What still moves when it is measured is told by not_stationary; a slow drift may hide in a"
        " short measurement.",
        "raise the limit (--warmup)",
        applies="a warm-up until throughput is stationary (--warmup-until)",
        unit=Unit.COUNT,
    ),
    _rule(
        "servers_not_warm",
        "how much faster the last two rounds of its servers' warm-up were than the best two before",
        (0.03, 0.06, None),
        "A Java server compiles for minutes what it runs: a run of seconds can't see it get"
        " faster, and its interval is narrow around a figure that is too small.",
        "raise the limit (server_warmup)",
        applies="servers that a study has warmed up (server_warmup); after five runs a note",
    ),
    _rule(
        "cold_servers",
        "what a run lost at its place after its servers' start",
        (None, 0.05, None),
        "Least squares within cases and repetitions, as the same case comes at another place in"
        " each repetition: what is lost halves from place to place, and the 95 % interval (HC3) of"
        " the first is below 0.",
        "let the study warm servers up (server_warmup), or raise its limit",
        applies="servers that the study started, clients without a rate, cases that came at"
        " different places; in the verdict of a case",
    ),
    _rule(
        "machine_speed",
        "how much longer or shorter than in the median of the case's runs on the machine the same"
        " work took",
        (0.10, 0.20, None),
        "A virtual machine's neighbours take clock rate, second threads of cores and caches, which"
        " no counter tells: once a second the processor time of 20,000 reads of 4,096 objects is"
        " taken, on a core of what is under test, or on any where that is bound to none. The"
        " median's 95 % interval (sign test), of which the nearer end counts; throughput moves by"
        " about half as much.",
        "measure on a machine without neighbours, or measure again: effects compare within a"
        " repetition",
        applies="cases of a study with three runs or more of eight samples on one machine; in the"
        " verdict of a case",
    ),
    _rule(
        "too_short",
        "full intervals missing from the 25 that an error of the throughput needs",
        (None, 0, None),
        "Neighbouring intervals resemble each other: of fewer no method"
        " says what their mean is worth.",
        "repeat the run at least five times, measure longer, or shorten the interval (--interval)",
        applies="always; in the verdict of a case a note where it has five runs or more",
        unit=Unit.COUNT,
    ),
    _rule(
        "imprecise",
        "half the width of the throughput's interval, as a share of it",
        (None, 0.20, 1.0),
        "Above a fifth, cases that differ by a third can't be told apart; an interval that holds 0"
        " says nothing.",
        "measure longer, or repeat the run: such a case stands in no effect and no headline",
        applies="runs with enough intervals; cases with two runs or more, by their scatter",
    ),
    _rule(
        "unrepeated",
        "repetitions missing from the design's minimum: three, or as many as the design asks for",
        (None, 0, None),
        "The scatter of repetitions is the only error that holds what differs from run to run; a"
        " case that ran once looks surer than siblings that ran three times.",
        "raise the number of repetitions, or make the missing ones (--resume): such a case stands"
        " in no effect, no headline and no fit",
        applies="cases of studies, of YCSB sequences and of ab; in the verdict of a case",
        unit=Unit.COUNT,
    ),
    _rule(
        "unserved_clients",
        "clients of the closed model that can't have ended an operation, since fewer ended than"
        " there are clients",
        (None, None, 0),
        "Whoever was never served is in no quantile: latencies would be those of the lucky ones.",
        "measure longer: such a case stands in no effect and no headline",
        unit=Unit.COUNT,
    ),
    _rule(
        "too_few_samples",
        "operations missing from those that p99 needs, for the rarest operation",
        (0, None, None),
        "A quantile q is shown when n * (1 - q) >= 10: with ten operations beyond it their number"
        " already scatters by a third.",
        "do more operations, or repeat the run: histograms of repetitions are merged",
        applies="SUSPECT when even the most frequent operation lacks the 200 that p95 needs; in the"
        " verdict of a case all runs' operations together",
        unit=Unit.COUNT,
    ),
    _rule(
        "abandoned",
        "operations still in flight when the drain limit was over",
        (None, 0, None),
        "They would have been the slowest; without them the tail is too short.",
        "raise the drain limit or set a timeout, so that each operation has an outcome",
        unit=Unit.COUNT,
    ),
    _rule(
        "interrupted",
        "whether the run was ended before its plan did, by the user or by a limit on time",
        (None, 0, None),
        "When to stop was decided after seeing the figures.",
        "let the run end by itself",
        unit=Unit.COUNT,
    ),
    _rule(
        "lost_share",
        "part of the counted phases that is missing because a machine of the fleet was lost",
        (None, 0, 0.05),
        "What is missing was not offered to the system either: beyond one in twenty, as for"
        " arrivals that were not completed, it was another load.",
        "bring the machine back and run it again",
        applies="runs on several machines",
    ),
    _rule(
        "fewer_machines",
        "machines missing from those that the fleet had before",
        (None, 0, None),
        "The same clients on fewer machines share processors and network cards.",
        "bring the machines back, or say with --machines how many are to be used",
        unit=Unit.COUNT,
        applies="runs on several machines",
    ),
    _rule(
        "recovered",
        "whether the run was killed and closed from its logs",
        (None, 0, None),
        "The last interval and the workers' processor time are missing.",
        "run it again",
        unit=Unit.COUNT,
    ),
    _rule(
        "imported",
        "whether the figures are another tool's",
        (None, 0, None),
        "What the checks look at is not in another tool's output: how late it issued operations,"
        " what its generator cost, what it left out.",
        "compare it with figures of the same tool, and measure with kvmark what must be judged",
        unit=Unit.COUNT,
        applies="imported runs, which no other check looks at",
    ),
    _rule(
        "unpinned",
        "whether the kernel chose the workers' cores",
        (0, None, None),
        "On two cores a client's cost per operation differs threefold with placement.",
        "pin the workers (--pin) to take placement out of comparisons",
        unit=Unit.COUNT,
        applies="real clock",
    ),
    _rule(
        "engine_notice",
        "warnings that the engine gave while it ran",
        (0, None, None),
        "The engine sees what records do not hold.",
        "as the notice says",
        unit=Unit.COUNT,
    ),
)

#: Every rule by its code, in the order of the documentation.
RULES: Mapping[str, Rule] = {rule.code: rule for rule in _RULES}


def reasons_markdown() -> str:
    """The table of all reasons for the documentation."""
    lines = [
        "| Reason | Measured | Note above | SUSPECT above | INVALID above | Looked at | Source |",
        "|---|---|---|---|---|---|---|",
    ]
    for rule in RULES.values():
        cells = (
            f"`{rule.code}`",
            rule.measured,
            *(_written(rule, threshold) for threshold in (rule.note, rule.suspect, rule.invalid)),
            rule.applies or "always",
            rule.source,
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _written(rule: Rule, threshold: float | None) -> str:
    if threshold is None:
        return ""
    return f"{threshold:.4g}" if rule.unit is Unit.COUNT else f"{threshold * 100:.4g} %"
