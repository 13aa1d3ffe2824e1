"""`kvmark import` makes a trace of a file, `kvmark trace` says what is in one."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from kvmark.cli import options
from kvmark.cli.command_line import command_line
from kvmark.cli.output import (
    print_answer,
    print_json,
    tell_report,
    terminal_width,
    write_report,
)
from kvmark.errors import ImportFileError, UsageError
from kvmark.outputs import refuse_existing, write_output
from kvmark.spec.quantity import duration_ns

if TYPE_CHECKING:
    from kvmark.trace import Keep, Trace, TraceInfo

_HASH_KEY_BYTES = 16
_SECOND_NS = 10**9
_RATES_MAX = 40_000

File = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        help="Operations: CSV, MONITOR's output, or what a recording left.",
        show_default=False,
    ),
]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="X.trace", help="The trace's folder.")
]
Columns = Annotated[
    str,
    typer.Option(
        metavar="OURS=THEIRS,…",
        help="Which column is at, key, kind, client, ttl, count, value or a size.",
        show_default=False,
    ),
]
Time = Annotated[
    Literal["s", "ms", "us", "ns", "iso"], typer.Option(help="The unit of a named file's times.")
]
HashKey = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="16 bytes to hash keys with, for equal hashes twice."),
]
KeepKeys = Annotated[
    bool, typer.Option("--keep-keys", help="Keep keys as they are, and not their hashes alone.")
]
KeepValues = Annotated[
    bool, typer.Option("--keep-values", help="Keep what is written, and not its size alone.")
]
Rates = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write the rate over time as CSV, which --rate file: takes."),
]
Every = Annotated[
    int, options.quantity(duration_ns, "TIME", "The length of that file's slots; 1s when not said.")
]
TracePath = Annotated[
    Path, typer.Argument(metavar="TRACE", help="A trace's folder, X.trace.", show_default=False)
]


def import_(
    file: File,
    output: Output = None,
    columns: Columns = "",
    time: Time = "s",
    hash_key: HashKey = None,
    keep_keys: KeepKeys = False,
    keep_values: KeepValues = False,
    json: options.Json = False,
) -> None:
    """Makes a trace of a file of operations, whose keys are hashed."""
    if output is None:
        raise UsageError(
            "import makes a trace: give -o X.trace; a run of another tool's results is made by"
            " kvmark runs import"
        )
    from kvmark.trace import Keep, sentences

    keep = Keep(keys=keep_keys, values=keep_values)
    info = _imported(file, output, _named(columns), time, hash_key_in(hash_key), keep)
    if json:
        print_json("imported-trace", {"trace": output, "info": info})
        return
    typer.echo(
        f"{file} is {info.source}, now {output}: {info.operations:,} operations of"
        f" {info.clients:,} {'client' if info.clients == 1 else 'clients'}"
    )
    for sentence in sentences(info.told):
        typer.echo(sentence)


def trace(
    path: TracePath,
    rates: Rates = None,
    every: Every = _SECOND_NS,
    report: options.RunReport = None,
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Says what is in a trace: rate, kinds, keys, sizes, and what a cache would hit."""
    from kvmark.analysis.trace import describe
    from kvmark.trace import Trace

    opened = Trace.open(path)
    if rates is not None:
        refuse_existing(rates, "rates: ", force=force)
        _write_rates(opened, rates, every)
    answer = describe(opened)
    if report is not None:
        from kvmark.report.views.trace import trace_page

        write_report(lambda _: trace_page(path.name, answer, command_line()), report)
    if json:
        print_json("trace", {"trace": path, "answer": answer})
        return
    from kvmark.report.views.trace import trace_text

    print_answer(trace_text(answer, terminal_width()))
    tell_report(report)


def _write_rates(opened: Trace, file: Path, every_ns: int) -> None:
    from kvmark.analysis.trace import rates

    if every_ns == 0 or opened.info.end_ns // every_ns >= _RATES_MAX:
        raise UsageError(f"--every: at most {_RATES_MAX:,} slots can be written; give a longer one")
    rows = [f"{at_s:.9g},{rate:.9g}" for at_s, rate in rates(opened, every_ns)]
    write_output(file, "\n".join(("seconds,rate", *rows, "")))


def _imported(
    file: Path,
    output: Path,
    columns: dict[str, str],
    time: str,
    hash_key: bytes,
    keep: Keep,
) -> TraceInfo:
    """Makes the trace, in the way that the file's content says."""
    from kvmark.trace import (
        MONITOR,
        Keep,
        TraceWriter,
        about_tapes,
        are_tapes,
        import_csv,
        import_monitor,
        import_tapes,
        is_monitor,
        layout_of,
    )

    if not columns and are_tapes(file):
        source, recorded = about_tapes(file)
        lacks = Keep(keep.keys and not recorded.keys, keep.values and not recorded.values)
        if lacks.words():
            raise UsageError(f"{file} was recorded without {lacks.words()}; leave that out")
        with TraceWriter(output, source, recorded) as writer:
            return import_tapes(file, writer)
    if file.exists() and not file.is_file():
        raise ImportFileError(f"{file} is no regular file, as a log is")
    if not columns and is_monitor(file):
        with TraceWriter(output, MONITOR, keep) as writer:
            return import_monitor(file, writer, hash_key, keep)
    layout = layout_of(file, columns, time)
    with TraceWriter(output, layout.name, keep) as writer:
        return import_csv(file, layout, writer, hash_key, keep)


def _named(text: str) -> dict[str, str]:
    """`at=ts,key=id` as names; none of an empty text."""
    named = {}
    for word in filter(None, (word.strip() for word in text.split(","))):
        ours, sign, theirs = word.partition("=")
        if not sign or not theirs.strip():
            raise UsageError(f"--columns: {word!r} isn't a name and a column, as in at=timestamp")
        if ours.strip() in named:
            raise UsageError(f"--columns: {ours.strip()} is said twice")
        named[ours.strip()] = theirs.strip()
    return named


def hash_key_in(file: Path | None) -> bytes:
    """What is in the file, or else what nobody will know."""
    if file is None:
        return secrets.token_bytes(_HASH_KEY_BYTES)
    try:
        key = file.read_bytes()
    except OSError as problem:
        raise UsageError(f"--hash-key: {file} can't be read: {problem.strerror}") from problem
    if len(key) != _HASH_KEY_BYTES:
        raise UsageError(
            f"--hash-key: {file} has {len(key)} bytes and not {_HASH_KEY_BYTES}; make one by"
            f" head -c {_HASH_KEY_BYTES} /dev/urandom"
        )
    return key
