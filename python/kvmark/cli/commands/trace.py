"""`kvmark trace`: records, imports, describes and models traces."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from kvmark.cli import options
from kvmark.cli.command_line import command_line
from kvmark.cli.commands.compare import Allow, parse_allowed
from kvmark.cli.options import ExperimentOptions, argument, choice, flag, number, option, quantity
from kvmark.cli.output import print_answer, print_json, print_result, save_report, terminal_width
from kvmark.errors import AnswerIsNo, ImportFileError, SpecError, UsageError
from kvmark.interrupts import listening
from kvmark.outputs import refuse_existing, write_output
from kvmark.spec.quantity import size_bytes
from kvmark.spec.url import SystemName, parse_system_url, system_name

if TYPE_CHECKING:
    from kvmark.experiment.interleaved_ab import InterleavedAB
    from kvmark.learn import TwinCheck
    from kvmark.spec.run import RunSpec
    from kvmark.trace.folder import Keep, TraceInfo
    from kvmark.trace.recording import TapProgress

_HASH_KEY_BYTES: Final = 16
_SECOND_NS: Final = 10**9
_RATES_MAX: Final = 40_000
_HOST: Final = "127.0.0.1"
_PORT_MAX: Final = 65535
_THREADS: Final = 4
_LEAST_MEMORY: Final = 1 << 20
_SIZES: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SIZE: Final = partial(size_bytes, units=_SIZES, such_as="64M or 10G")
_TLS_FILES: Final = ("ca_file", "cert_file", "key_file", "server_name")
_BLOCKS: Final = 5

HashKey = Annotated[
    Path | None, option("FILE", "16 bytes to hash keys with, for equal hashes in several traces.")
]
KeepKeys = Annotated[bool, flag("Store keys instead of their hashes.", "--keep-keys")]
KeepValues = Annotated[bool, flag("Store written values instead of their sizes.", "--keep-values")]
Folder = Annotated[Path, option("X.trace", "Folder of the trace.", "--output", "-o")]
Existing = Annotated[Path, argument("TRACE", "Folder of a trace, X.trace.", show_default=False)]


def record(
    listen: Annotated[str, option("[HOST:]PORT", "Address for clients; default HOST 127.0.0.1.")],
    to: Annotated[
        SystemName,
        option(
            "URL",
            "Server, such as redis://HOST, memcached://HOST or cql://HOST.",
            parser=system_name,
        ),
    ],
    output: Folder,
    hash_key: HashKey = None,
    threads: int | None = number("Forwarding threads (default: one per core, at most 4)."),
    duration: int | None = options.duration("Stop after this time (default: Ctrl-C)."),
    memory: int = quantity(
        _SIZE, "SIZE", "Limit of requests that wait for answers or disk (256M).", default=256 << 20
    ),
    disk: int = quantity(_SIZE, "SIZE", "Limit of the recording (10G).", default=10 << 30),
    keep_keys: KeepKeys = False,
    keep_values: KeepValues = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Records the traffic between clients and a server as a trace, until Ctrl-C."""
    from kvmark.trace.folder import Keep

    keep = Keep(keys=keep_keys, values=keep_values)
    settings = tap_settings(listen, to, threads, memory, disk, keep)
    key = read_hash_key(hash_key)
    # The thread that makes the trace at the end leaves other cores alone.
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    from kvmark.trace.recording import record as record_trace

    kept = f"; {keep.words()} are kept as they are" if keep.words() else ""
    last: list[TapProgress] = []
    with listening() as interrupts:

        def continues(progress: TapProgress) -> bool:
            if not last and not quiet:
                typer.echo(f"Clients are taken at {progress.listens} until Ctrl-C{kept}", err=True)
            if last and last[-1].recording and not progress.recording:
                typer.echo("Recording has ended, and forwarding goes on until Ctrl-C", err=True)
            last[:] = [progress]
            return not interrupts.take() and (duration is None or progress.elapsed_ns < duration)

        info = record_trace(
            settings, output, f"a tap before {settings['protocol']}", key, continues
        )
        interrupts.forget()
    if json:
        print_json("recorded-trace", {"trace": output, "info": info})
    elif not quiet:
        _print_info(f"{output} has", info)


def _print_info(begin: str, info: TraceInfo) -> None:
    from kvmark.trace.folder import sentences

    clients = "client" if info.clients == 1 else "clients"
    typer.echo(f"{begin} {info.operations:,} operations of {info.clients:,} {clients}")
    for sentence in sentences(info.told):
        typer.echo(sentence)


def tap_settings(
    listen: str, to: SystemName, threads: int | None, memory_bytes: int, disk_bytes: int, keep: Keep
) -> dict[str, Any]:
    """The settings of the tap, in the engine's form."""
    url = parse_system_url(to.reveal())
    if "username" in url.options or url.password is not None:
        raise UsageError("--to: clients log in by themselves; leave user and password out")
    other = sorted(url.options.keys() - {"address", "tls", *_TLS_FILES})
    if other:
        raise UsageError(f"--to: a tap has no use for {other[0]}; leave it out")
    address = url.options.get("address", "")
    if "," in address:
        raise UsageError("--to: a tap is before one server; start one before each")
    if threads == 0:
        raise UsageError("--threads: a tap needs 1 at least")
    if memory_bytes < _LEAST_MEMORY:
        raise UsageError("--memory: a tap needs 1M at least")
    from kvmark.drivers import drivers

    host, port = _parse_listen(listen)
    return {
        "host": host,
        "port": port,
        "protocol": url.driver,
        "address": address,
        "default_port": drivers()[url.driver].port or 0,
        "tls": url.options.get("tls") == "true",
        **{name: url.options.get(name) for name in _TLS_FILES},
        "threads": threads or min(_THREADS, len(os.sched_getaffinity(0))),
        "keep_keys": keep.keys,
        "keep_values": keep.values,
        "memory_bytes": memory_bytes,
        "disk_bytes": disk_bytes,
    }


def _parse_listen(listen: str) -> tuple[str, int]:
    host, colon, port = listen.rpartition(":")
    if not port.isascii() or not port.isdigit() or int(port) > _PORT_MAX or (colon and not host):
        raise UsageError(f"--listen: {listen!r} is no port, and no HOST:PORT; write it like 7000")
    return host.removeprefix("[").removesuffix("]") or _HOST, int(port)


def import_(
    file: Path = argument(
        "FILE",
        "Operations: CSV, output of MONITOR, or an interrupted recording.",
        show_default=False,
    ),
    *,
    output: Folder,
    columns: str = option(
        "FIELD=COLUMN,…",
        "Columns of the fields at, key, kind, client, ttl, count, value and sizes.",
        default="",
        show_default=False,
    ),
    time: Literal["s", "ms", "us", "ns", "iso"] = choice("s", "Unit of times with --columns."),
    hash_key: HashKey = None,
    keep_keys: KeepKeys = False,
    keep_values: KeepValues = False,
    json: options.Json = False,
) -> None:
    """Makes a trace of a log of operations, with hashed keys."""
    from kvmark.trace.folder import Keep

    keep = Keep(keys=keep_keys, values=keep_values)
    info = _import(file, output, _parse_columns(columns), time, read_hash_key(hash_key), keep)
    if json:
        print_json("imported-trace", {"trace": output, "info": info})
    else:
        _print_info(f"{file} is {info.source}, now {output}:", info)


def _import(
    file: Path, output: Path, columns: dict[str, str], time: str, hash_key: bytes, keep: Keep
) -> TraceInfo:
    """Imports the file with the reader of its format."""
    from kvmark.trace import recording, text_files
    from kvmark.trace.folder import Keep, TraceWriter

    if not columns and recording.are_tapes(file):
        source, recorded = recording.about_tapes(file)
        lacks = Keep(keep.keys and not recorded.keys, keep.values and not recorded.values)
        if lacks.words():
            raise UsageError(f"{file} was recorded without {lacks.words()}; leave that out")
        with TraceWriter(output, source, recorded) as writer:
            return recording.import_tapes(file, writer)
    if file.exists() and not file.is_file():
        raise ImportFileError(f"{file} is no regular file, as a log is")
    if not columns and text_files.is_monitor(file):
        with TraceWriter(output, text_files.MONITOR, keep) as writer:
            return text_files.import_monitor(file, writer, hash_key, keep)
    layout = text_files.layout_of(file, columns, time)
    with TraceWriter(output, layout.name, keep) as writer:
        return text_files.import_csv(file, layout, writer, hash_key, keep)


def _parse_columns(text: str) -> dict[str, str]:
    """The columns of `at=timestamp,key=id`, by field."""
    columns: dict[str, str] = {}
    for word in filter(None, map(str.strip, text.split(","))):
        field, _, column = map(str.strip, word.partition("="))
        if not column:
            raise UsageError(f"--columns: {word!r} isn't a name and a column, as in at=timestamp")
        if field in columns:
            raise UsageError(f"--columns: {field} is given twice")
        columns[field] = column
    return columns


def read_hash_key(file: Path | None) -> bytes:
    """The hash key in a file; without a file a random key."""
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


def show(
    path: Existing,
    rates: Path | None = option("FILE", "Write the rate over time as CSV, for --rate file:FILE."),
    every: int = options.duration(
        "Length of the intervals of --rates (default: 1s).", default=_SECOND_NS
    ),
    report: options.RunReport = None,
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Prints a trace's rate, operations, keys, sizes and cache hit ratios."""
    from kvmark.analysis import trace as analysis
    from kvmark.report.views.trace import trace_page, trace_text
    from kvmark.trace.folder import Trace

    trace = Trace.open(path)
    if rates is not None:
        refuse_existing(rates, "rates: ", force=force)
        if every == 0 or trace.info.end_ns // every >= _RATES_MAX:
            raise UsageError(
                f"--every: at most {_RATES_MAX:,} slots can be written; give a longer one"
            )
        rows = [f"{at_s:.9g},{rate:.9g}" for at_s, rate in analysis.rates(trace, every)]
        write_output(rates, "\n".join(("seconds,rate", *rows, "")))
    answer = analysis.describe(trace)
    document = {"trace": path, "answer": answer}
    print_result("trace", document if json else trace_text(answer, terminal_width()))
    save_report(lambda _: trace_page(path.name, answer, command_line()), report, quiet=json)


def learn(
    path: Existing,
    output: Path | None = option("FILE", "File of the workload, .yaml.", "--output", "-o"),
    records: options.Records = None,
    check: Path | None = option(
        "FILE", "Workload to check: measured interleaved with the trace on --system."
    ),
    system: options.System = None,
    speed: options.Speed = None,
    clients: options.Clients = None,
    duration: options.Duration = None,
    map_: options.StatementMap = None,
    blocks: int = option("N", "Number of blocks of --check.", default=_BLOCKS),
    seed: options.Seed = 1,
    allow: Allow = "",
    force: options.Force = False,
    *,
    common: ExperimentOptions,
) -> None:
    """Fits a workload to a trace, or checks a workload against one."""
    if check is None and output is not None:
        for name, value in (("system", system), ("speed", speed), ("map", map_)):
            if value is not None:
                raise SpecError(f"--{name} is for --check, and nothing is measured without it")
        refuse_existing(output, "output: ", force=force)
        _learn(path, output, records, json=common.json)
        return
    if check is None or output is not None:
        raise SpecError("learn: give -o FILE to make a workload, or --check FILE to judge one")
    if system is None:
        raise SpecError("--check measures a system: give --system, such as redis://HOST")
    if records is not None:
        raise SpecError("--records: the workload's file has the number of records")
    if common.fleet is not None:
        raise SpecError("--fleet: a replay is on one machine, and so is its twin")
    from kvmark.cli.session import execute_design, named_system, open_journal
    from kvmark.learn import check_twin, twin_sides
    from kvmark.spec.replay import parse_speed
    from kvmark.spec.workload import load_workload
    from kvmark.trace.folder import Trace

    allowed = parse_allowed(allow)
    trace, workload = Trace.open(path), load_workload(check)
    sides = twin_sides(
        trace,
        workload,
        named_system(system),
        speed=parse_speed(speed or "1"),
        clients=clients,
        duration_ns=duration,
        map_file=map_,
    )
    design = _twin_design(sides, blocks, seed, allowed)
    design.check()
    journal = open_journal(design, common)
    with execute_design(design, common, journal) as problem:
        if problem is not None:
            raise problem
        base, twin = (
            [journal.records.open(run) for run in design.blocks.runs(side)] for side in design.sides
        )
        result = check_twin(trace, workload, (base, twin), allowed)
        _print_check((path, check), result, [run.id for run in (*base, *twin)], json=common.json)


def _learn(path: Path, output: Path, records: int | None, *, json: bool) -> None:
    from kvmark import learn as learning
    from kvmark.trace.folder import Trace

    if output.suffix not in (".yaml", ".yml"):
        raise SpecError(f"{output} doesn't end in .yaml, as a workload's file does")
    learned = learning.learn(Trace.open(path), output.stem, records)
    write_output(output, learning.workload_text(learned))
    if json:
        answer = {"operations": learned.operations, "parts": learned.parts}
        print_json("learnt-workload", {"trace": path, "output": output, **answer})
        return
    from kvmark.report.views.trace import learned_text

    print_answer(learned_text(learned.parts, terminal_width()))
    typer.echo(f"{output} is the workload; kvmark trace learn {path} --check {output} judges it.")


def _twin_design(
    sides: Iterable[RunSpec], blocks: int, seed: int, allow: tuple[str, ...]
) -> InterleavedAB:
    from kvmark.experiment.interleaved_ab import InterleavedAB, Precision, SideRequest
    from kvmark.spec.metric import parse_comparable

    base, candidate = map(SideRequest, sides)
    return InterleavedAB(
        sides={"base": base, "candidate": candidate},
        metric=parse_comparable("throughput"),
        precision=Precision(None, None, blocks, exactly=blocks),
        seed=seed,
        # The plans of a replay and of a workload always differ.
        allow=(*allow, "plan", "system"),
    )


def _print_check(
    files: tuple[Path, Path], result: TwinCheck, runs: list[str], *, json: bool
) -> None:
    """Prints the differences between a trace and a workload.

    Raises:
        AnswerIsNo: they differ, or the runs are not conclusive.
    """
    from kvmark.report.views.trace import twin_sentence, twin_text

    fields = ("name", "trace", "twin", "difference", "margin", "judgement")
    figures = [{name: getattr(one, name) for name in fields} for one in result.figures]
    document = {
        "trace": files[0], "workload": files[1],
        "judgement": result.judgement, "figures": figures, "runs": runs,
    }  # fmt: skip
    print_result("likeness", document if json else twin_text(result, terminal_width()))
    if result.judgement != "alike":
        raise AnswerIsNo(twin_sentence(result).rstrip("."))
