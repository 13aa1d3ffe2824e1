"""The options of the commands, and how their values are read.

A value that can't be read is refused with the option's name before anything else is loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer

from kvmark.cli import completion
from kvmark.errors import SpecError
from kvmark.outputs import check_output
from kvmark.spec.curve import pace, parse_curve
from kvmark.spec.quantity import count, duration_ns, listed, share, stall_limit_ns
from kvmark.spec.replay import parse_scale_keys, parse_speed
from kvmark.spec.suggest import shown
from kvmark.spec.url import SystemName, system_name

REPORT_ENDINGS: Final = (".html", ".md")


class CountList(tuple[int, ...]):
    """Several counts."""


def quantity(read: Callable[[str], Any], metavar: str, help: str, *names: str) -> Any:
    """An option that `read` understands; its default is told in the help."""

    def parse(value: Any) -> Any:
        # A default is a value already.
        if not isinstance(value, str):
            return value
        try:
            return read(value)
        except SpecError as problem:
            raise typer.BadParameter(problem.message) from problem

    return typer.Option(*names, parser=parse, metavar=metavar, help=help, show_default=False)


def counts(text: str) -> CountList:
    """Several counts, separated by commas."""
    return CountList(listed(text, count))


def _pace(text: str) -> str | None:
    """A rate's text, once it is known to be one; None for `max`."""
    return None if pace(text) is None else text


def _speed(text: str) -> str:
    """A speed's text, once it is known to be one."""
    parse_speed(text)
    return text


def _ramp(text: str) -> str:
    """The curve that rises from end to end."""
    return parse_curve(f"ramp:{text}").text


def report_path(text: str) -> Path | None:
    """The path of a report that may be written; None for `none`."""
    if text == "none":
        return None
    path = Path(text)
    if path.suffix not in REPORT_ENDINGS:
        raise SpecError(f"{shown(text)} ends in neither {' nor '.join(REPORT_ENDINGS)}")
    check_output(path)
    return path


def _runs(text: str) -> Path:
    path = Path(text)
    if not text or (path.exists() and not path.is_dir()):
        raise SpecError(f"{shown(text)} is no folder; name one for runs")
    return path


def _folder(text: str) -> Path:
    path = Path(text)
    if not path.is_dir():
        raise SpecError(f"there is no folder {path}; name one that holds runs")
    return path


# Of several commands.

System = Annotated[
    SystemName | None,
    typer.Option(
        parser=system_name,
        metavar="URL",
        autocompletion=completion.system,
        help="What to measure: rocksdb:PATH, redis://HOST, cql://HOST, up:TESTBED, null: or sim:.",
    ),
]
Clients = Annotated[
    int | None,
    quantity(count, "N", "Clients, one operation at a time; with --rate, most in flight."),
]
Duration = Annotated[
    int | None, quantity(duration_ns, "TIME", "How long to measure, such as 500ms, 30s or 1h.")
]
Operations = Annotated[int | None, quantity(count, "N", "How many operations to do.")]
Seed = Annotated[int, typer.Option(metavar="N", help="Fixes every source of chance.")]
Timeout = Annotated[
    int | None, quantity(duration_ns, "TIME", "Limit on service time, such as 500ms.")
]
Pin = Annotated[
    CountList | None,
    quantity(counts, "CORES", "Bind workers to these cores in turn, such as 0,1."),
]
Tag = Annotated[
    list[str] | None,
    typer.Option(
        metavar="WORD", autocompletion=completion.tag, help="A word to find runs by; repeatable."
    ),
]
Commit = Annotated[
    str | None,
    typer.Option(metavar="ID", help="Commit of the code that is measured, kept with each run."),
]
Prometheus = Annotated[
    int | None,
    typer.Option(
        metavar="PORT", min=0, max=65535,
        help="Live metrics for Prometheus at this port of 127.0.0.1; 0 is a free one.",
    ),
]  # fmt: skip
Fleet = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Generate the load on the nodes of this Ray cluster: HOST:PORT of its head, or auto.",
    ),
]
Machines = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, help="So many machines of the fleet; else all it has."),
]
InsecureFleet = Annotated[
    bool,
    typer.Option(
        "--insecure-fleet", help="Take a fleet that asks for no token, which anybody can join."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]
Slo = Annotated[
    list[str] | None,
    typer.Option(
        metavar="OBJECTIVE",
        help="What must hold, such as 'p99<10ms', 'service p99.9<5ms', 'errors<0.1%'; repeatable.",
    ),
]
Sweep = Annotated[
    list[str] | None,
    typer.Option(
        metavar="WORD=V,V,…",
        help="Run once with each value of a word, such as clients=1,10,100; repeatable, for every"
        " combination.",
    ),
]
RunRepetitions = Annotated[
    int | None,
    typer.Option(
        "--repetitions", metavar="N", min=1, help="Run each case so often, in random order."
    ),
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Run what is missing or INVALID of the newest one.")
]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Nothing on standard error but what went wrong.")
]
Runs = Annotated[
    Path | None,
    quantity(_runs, "FOLDER", "Where runs are kept; else KVMARK_RUNS or runs.", "--runs"),
]
KeptRuns = Annotated[
    Path | None,
    quantity(_folder, "FOLDER", "Where the runs are; else KVMARK_RUNS or runs.", "--runs"),
]

# Of `kvmark run`.

Workload = Annotated[
    str,
    typer.Argument(
        metavar="WORKLOAD",
        autocompletion=completion.workload,
        help="A name such as ycsb/a, or a YAML file.",
    ),
]
Rate = Annotated[
    str | None,
    quantity(_pace, "RATE", "The open model: operations per second, such as 5k, or a curve."),
]
Speed = Annotated[
    str | None,
    quantity(_speed, "TIMES", "Replay a trace so many times as fast: 1, 10 or max; 1 if not said."),
]
KeepOrder = Annotated[
    Literal["key", "client", "none"] | None,
    typer.Option(help="Which operations of a trace wait for one another; key when not said."),
]
Skip = Annotated[
    str | None,
    typer.Option(metavar="VERB,…", help="Leave these operations of a trace out, such as ping."),
]
FromTime = Annotated[
    int | None, quantity(duration_ns, "TIME", "Where a trace's replay begins in it.", "--from")
]
UntilTime = Annotated[
    int | None, quantity(duration_ns, "TIME", "Where a trace's replay ends in it.", "--until")
]
ScaleKeys = Annotated[
    float | None,
    quantity(parse_scale_keys, "N", "Keys for each of a trace's; a part of them below 1: 0.25."),
]
Map = Annotated[
    Path | None,
    typer.Option("--map", metavar="FILE", help="The statements by which a trace is replayed."),
]
Loop = Annotated[
    int | None, quantity(count, "N", "Replay a trace so many times, one behind the other.")
]
Record = Annotated[
    Path | None,
    typer.Option(metavar="X.trace", help="Record every measured operation as a trace."),
]
Ramp = Annotated[
    str | None,
    quantity(_ramp, "RATE..RATE", "Raise the open model's rate while it measures: 1k..50k."),
]
Arrival = Annotated[
    Literal["constant", "poisson"] | None,
    typer.Option(help="Law of the open model's intended starts; constant when not said."),
]
UntilStderr = Annotated[
    float | None,
    typer.Option(
        metavar="BOUND",
        help="Measure until cassandra-stress's standard error of the mean rate is below this.",
    ),
]
Precision = Annotated[
    float | None,
    quantity(
        share,
        "PERCENT",
        "Measure until the throughput's 95 % confidence interval is within ± this"
        " (3 % where nothing else ends the run; then 60 s at most).",
    ),
]
Warmup = Annotated[
    int | None,
    quantity(
        duration_ns,
        "TIME",
        "Warm-up with the same load, not counted, such as 5s (default: none; until throughput is"
        " steady, 30 s at most, where nothing ends the run).",
    ),
]
WarmupUntil = Annotated[
    Literal["stationary"] | None,
    typer.Option(help="End the warm-up once throughput doesn't drift; --warmup is its limit."),
]
Records = Annotated[int | None, quantity(count, "N", "Records of the dataset, such as 1M.")]
Load = Annotated[
    Literal["auto", "always", "never"],
    typer.Option(help="Whether to load the records first; auto: those that are missing."),
]
Settle = Annotated[bool, typer.Option(help="After a load, wait until the system is quiet.")]
Groups = Annotated[
    list[str] | None,
    typer.Option("--group", metavar="NAME", help="Only this group of clients; repeatable."),
]
PipelineDepth = Annotated[
    int | None,
    quantity(
        count, "N", "Commands that an operation sends at once; else as the workload's file says."
    ),
]
Verify = Annotated[
    bool,
    typer.Option(
        "--verify", help="Read every written record back at the end and count lost writes."
    ),
]
Workers = Annotated[
    int | None,
    quantity(count, "N", "Executor threads of an asynchronous driver; else one per core."),
]
Interval = Annotated[
    int | None,
    quantity(duration_ns, "TIME", "Length of a recorded interval; else 100ms to 1s, as it lasts."),
]
DrainLimit = Annotated[
    int,
    quantity(duration_ns, "TIME", "Longest wait at the end for what is in flight; else 30s."),
]
StallLimit = Annotated[
    int | None,
    quantity(
        stall_limit_ns,
        "TIME",
        "Longest time without any answer while requests are outstanding, or off; else 30s.",
    ),
]
Fault = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TEXT",
        help="Break a server of a testbed, such as '10s pause primary-1 for 2s'; repeatable.",
    ),
]
FaultFile = Annotated[
    Path | None,
    typer.Option("--faults", metavar="FILE", help="Faults as a YAML file with the key faults."),
]
RunReport = Annotated[
    Path | None, quantity(report_path, "FILE", "Write a report, .html or .md.", "--report")
]

StudyReport = Annotated[
    Path | None,
    quantity(
        report_path,
        "FILE",
        "The report, .html or .md or none; else kvmark-study.html.",
        "--report",
    ),
]

OnExisting = Annotated[
    Literal["refuse", "keep", "remove"],
    typer.Option(help="When the system holds records before the first load."),
]

# Of the commands over runs.

Word = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        autocompletion=completion.one_run,
        help="An id, its beginning, or last, last~1.",
    ),
]
Words = Annotated[
    list[str],
    typer.Argument(metavar="RUN", autocompletion=completion.one_run, help="Runs to report on."),
]
Limit = Annotated[int, typer.Option(metavar="N", min=1, help="Most to list, the newest first.")]
Format = Annotated[
    Literal["ycsb", "json", "csv", "hlog"], typer.Option(help="Whose form the text has.")
]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="A file instead of standard output."),
]
Force = Annotated[bool, typer.Option("--force", help="Replace a file that is there.")]
ReportPlace = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", metavar="FILE", help="The report; else kvmark-report.html, or a folder."
    ),
]
ReportFormat = Annotated[
    Literal["html", "md", "png", "svg", "pdf", "csv"] | None,
    typer.Option(help="A page, or a folder of figures or tables; else as the file's name ends."),
]
WorkloadName = Annotated[
    str | None,
    typer.Argument(
        metavar="NAME", autocompletion=completion.workload, help="Print this workload's file."
    ),
]
