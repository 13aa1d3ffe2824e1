"""The options of a cassandra-stress command line, with defaults."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias, TypeVar, get_args, get_origin, get_type_hints

from kvmark.errors import SpecError
from kvmark.frontends.cassandra_stress import profiles
from kvmark.frontends.cassandra_stress.grammar import NODES, Arguments, parse_line
from kvmark.secret import Secret
from kvmark.spec.quantity import duration_ns
from kvmark.spec.suggest import did_you_mean, refuse_credentials, shown
from kvmark.spec.url import SystemName
from kvmark.spec.workload import LARGEST_U32

_T = TypeVar("_T")
_Read: TypeAlias = Callable[[Arguments], object]
_DEFAULT_RECORDS: Final = 1_000_000
_DEFAULT_THREADS: Final = 200
_KINDS: Final = ("read", "write", "counter_read", "counter_write")
_URLS: Final = ("up:", "null:", "sim:", "cql:")
"""kvmark's names of systems, which -node accepts, too."""


def _read(read: Callable[[Arguments, str], object], option: str) -> _Read:
    """A field is read from the parameters of an option, or of the command without one."""
    return lambda line: read(line, option or line.command)


def _value(option: str, name: str, parse: Callable[[str], object] = str) -> _Read:
    """A field is the value of a parameter, or its default."""
    return _read(lambda line, section: line.parsed(section, name, parse), option)


def _passed(option: str, name: str, parse: Callable[[str], object] = str) -> _Read:
    """A field is the value of a parameter; None if it wasn't passed."""
    return _read(lambda line, section: _optional(line, section, name, parse), option)


def _flag(option: str, name: str, *, passed: bool = True) -> _Read:
    """A field is whether a parameter was passed, or wasn't."""
    return _read(lambda line, section: line.has(section, name) == passed, option)


def _filled(kind: Callable[..., _T], line: Arguments, **computed: object) -> _T:
    """A part of a command line: annotated fields are read, others are computed."""
    hints = get_type_hints(kind, include_extras=True).items()
    read = {name: get_args(one)[1](line) for name, one in hints if get_origin(one) is Annotated}
    return kind(**read, **computed)


def _optional(line: Arguments, option: str, name: str, parse: Callable[[str], _T]) -> _T | None:
    return line.parsed(option, name, parse) if line.has(option, name) else None


def _positive(text: str) -> int:
    count = profiles.parse_count(text)
    if count < 1:
        raise SpecError(f"must be at least 1, not {count}")
    return count


def _clients(text: str) -> int:
    count = _positive(text)
    if count > LARGEST_U32:
        raise SpecError(f"must be at most {LARGEST_U32}, not {count}")
    return count


def _time_ns(text: str) -> int:
    time_ns = duration_ns(text.lower())
    if time_ns == 0:
        raise SpecError("must be longer than 0")
    return time_ns


def _interval_ns(text: str) -> int:
    return _time_ns(f"{text}ms" if text.isdigit() else text)


def _rate(text: str) -> int | None:
    # In cassandra-stress, 0 means no limit.
    return int(text.removesuffix("/s") or 0) or None


def _pairs(name: str) -> _Read:
    """A field is the pairs in the parentheses of a parameter of -schema."""

    def read(line: Arguments, schema: str) -> Mapping[str, str]:
        text = line.value(schema, f"{name}(")
        pairs: dict[str, str] = {}
        for part in text.split(",") if text else ():
            pair = re.fullmatch(r"([\w.-]+)=([\w./:-]+)", part)
            if pair is None:
                wrong = f"{shown(part)} is not a pair such as strategy=SimpleStrategy"
                raise SpecError(f"{schema}: {name}: {wrong}")
            pairs[pair[1]] = pair[2]
        return pairs

    return _read(read, "-schema")


@dataclass(frozen=True, slots=True)
class UntilSpec:
    """Ends a run when the rate's relative standard error is small enough."""

    bound: float
    min_intervals: int
    max_intervals: int


@dataclass(frozen=True, slots=True)
class ThreadRamp:
    """Numbers of clients, one after the other."""

    first: int = 4
    last: int = 1000
    auto: bool = True
    """Whether to stop when more clients bring no gain."""


@dataclass(frozen=True, slots=True)
class PopulationSpec:
    """Numbers of the partitions."""

    first: int
    last: int
    law: profiles.Law | None
    """None for a sequence."""
    wrap: bool
    sorted: bool


@dataclass(frozen=True, slots=True)
class ColumnsSpec:
    """Columns of the predefined tables, in order."""

    names: tuple[str, ...]
    size: Annotated[profiles.Law, _value("-col", "size=", profiles.parse_law)]
    slice: Annotated[bool, _flag("-col", "slice")]
    timestamp: Annotated[int | None, _passed("-col", "timestamp=", int)]


@dataclass(frozen=True, slots=True)
class InsertSpec:
    """Values of -insert; None for the profile's."""

    partitions: Annotated[
        profiles.Law | None, _passed("-insert", "partitions=", profiles.parse_partitions)
    ]
    select: Annotated[
        profiles.Ratio | None, _passed("-insert", "select-ratio=", profiles.parse_select)
    ]
    filled: Annotated[
        profiles.Ratio | None, _passed("-insert", "row-population-ratio=", profiles.parse_ratio)
    ]
    batch: Annotated[str | None, _passed("-insert", "batchtype=", str.lower)]


@dataclass(frozen=True, slots=True)
class SchemaSpec:
    """Keyspace and tables to create."""

    keyspace: Annotated[str, _value("-schema", "keyspace=")]
    replication: Annotated[Mapping[str, str], _pairs("replication")]
    compaction: Annotated[Mapping[str, str], _pairs("compaction")]
    compression: Annotated[str | None, _passed("-schema", "compression=")]
    storage: Annotated[Mapping[str, str], _pairs("storage")]


@dataclass(frozen=True, slots=True)
class TargetSpec:
    """Nodes and connections."""

    url: SystemName | None
    """A URL in place of hosts."""
    hosts: tuple[str, ...]
    port: int
    datacenter: Annotated[str | None, _passed("-node", "datacenter=")]
    user: Annotated[str | None, _passed("-mode", "user=")]
    password: Annotated[Secret | None, lambda line: line.values.get("-mode", {}).get("password=")]
    compression: Annotated[str, _value("-mode", "compression=", str.lower)]
    connections: Annotated[int, _value("-mode", "connectionsPerHost=", _positive)]
    """To each node."""
    max_pending: Annotated[int | None, _passed("-mode", "maxPending=", _positive)]
    """Operations in flight on a connection; None if it wasn't passed."""
    request_timeout_ms: Annotated[int, _value("-mode", "requestTimeout=", _positive)]
    ca_file: Annotated[str | None, _passed("-transport", "truststore=")]

    @property
    def address(self) -> str:
        """The nodes in the driver's form."""
        return ",".join(
            f"[{host}]:{self.port}"
            if host.count(":") > 1 and not host.startswith("[")
            else f"{host}:{self.port}"
            for host in self.hosts
        )


@dataclass(frozen=True, slots=True)
class LogSpec:
    """Output and its files."""

    level: Annotated[str, _value("-log", "level=", str.lower)]
    summary: Annotated[bool, _flag("-log", "no-summary", passed=False)]
    settings: Annotated[bool, _flag("-log", "no-settings", passed=False)]
    file: Annotated[Path | None, _passed("-log", "file=", Path)]
    hdr_file: Annotated[Path | None, _passed("-log", "hdrfile=", Path)]
    graph_file: Annotated[Path | None, _passed("-graph", "file=", Path)]
    tags: tuple[str, ...]
    interval_ns: Annotated[int, _value("-log", "interval=", _interval_ns)]


@dataclass(frozen=True, slots=True, kw_only=True)
class StressSpec:
    """A command line."""

    command: str
    operations: int | None
    """n=, the partitions of all operations together."""
    duration_ns: int | None
    until: UntilSpec | None
    warmup: Annotated[bool, _flag("", "no-warmup", passed=False)]
    truncate: Annotated[str, _value("", "truncate=", str.lower)]
    consistency: Annotated[str, _value("", "cl=", str.lower)]
    serial_consistency: Annotated[str, _value("", "serial-cl=", str.lower)]
    key_size: int
    add: profiles.Law
    shares: Mapping[str, float]
    """Weights of a mix, or of a profile's operations."""
    profiles: tuple[Path, ...]
    threads: int | None
    """None for a thread ramp."""
    ladder: ThreadRamp
    throttle: Annotated[int | None, _value("-rate", "throttle=", _rate)]
    """Largest rate of the closed model, per second."""
    rate: Annotated[int | None, _value("-rate", "fixed=", _rate)]
    """Rate of the open model, per second."""
    population: PopulationSpec
    columns: ColumnsSpec
    insert: InsertSpec
    schema: SchemaSpec
    target: TargetSpec
    ignores_errors: Annotated[bool, _flag("-errors", "ignore")]
    checks_reads: Annotated[bool, _flag("-errors", "skip-read-validation", passed=False)]
    log: LogSpec
    wrap_ranges: Annotated[bool, _flag("-tokenrange", "wrap")]
    split_factor: Annotated[int, _value("-tokenrange", "split-factor=", _positive)]

    @property
    def partitions(self) -> int | None:
        """Number of partitions that ends the run."""
        population = self.population
        existing = None if population.wrap else population.last - population.first + 1
        limits = (self.operations, existing)
        return min((limit for limit in limits if limit is not None), default=None)

    def as_json(self) -> dict[str, Any]:
        """Plain values for the manifest."""
        return {"stress": _plain(asdict(self))}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return str(value) if isinstance(value, Path | Secret) else value


def read_stress(words: Sequence[str]) -> StressSpec:
    """Reads a command line.

    Raises:
        SpecError: a parameter is unknown or unsupported, or contradicts another.
    """
    line = parse_line(words)
    command = line.command
    operations, time_ns, until = _length(line)
    threads, ramp = _threads(line, operations)
    shares = _shares(line)
    predefined = command != "user"
    files = "" if predefined else line.value(command, "profile=")
    if not predefined and not files:
        raise SpecError("user: needs profile=FILE")
    spec = _filled(
        StressSpec,
        line,
        command=command,
        operations=operations,
        duration_ns=time_ns,
        until=until,
        key_size=line.parsed(command, "keysize=", _positive) if predefined else 10,
        add=line.parsed(command, "add=", profiles.parse_law) if predefined else profiles.fixed(1),
        shares=shares,
        profiles=tuple(map(Path, files.split(","))) if files else (),
        threads=threads,
        ladder=ramp,
        population=_population(line, operations, shares),
        columns=_columns(line),
        insert=_insert(line),
        schema=_schema(line),
        target=_target(line),
        log=_log(line),
    )
    if spec.throttle is not None and spec.rate is not None:
        raise SpecError("-rate: throttle= and fixed= both set the rate; give one")
    return spec


def _length(line: Arguments) -> tuple[int | None, int | None, UntilSpec | None]:
    """Operations, duration or error bound: one of the three."""
    command = line.command
    count = _optional(line, command, "n=", _positive)
    time_ns = _optional(line, command, "duration=", _time_ns)
    bounds = [name for name in ("err<", "n>", "n<") if line.has(command, name)]
    ends = [name for name in ("n=", "duration=") if line.has(command, name)] + bounds[:1]
    if len(ends) > 1:
        raise SpecError(f"{command}: {' and '.join(ends)} are different ends of a run; give one")
    if ends and not bounds:
        return count, time_ns, None
    least = line.parsed(command, "n>", _positive)
    most = line.parsed(command, "n<", _positive)
    if most < least:
        raise SpecError(f"{command}: n< ({most}) must not be below n> ({least})")
    error = float(line.value(command, "err<"))
    if error <= 0:
        raise SpecError(f"{command}: err< must be above 0")
    return None, None, UntilSpec(error, least, most)


def _threads(line: Arguments, operations: int | None) -> tuple[int | None, ThreadRamp]:
    ramp = [name for name in ("auto", "threads>=", "threads<=") if line.has("-rate", name)]
    paced = line.has("-rate", "throttle=") or line.has("-rate", "fixed=")
    if line.has("-rate", "threads="):
        if ramp:
            raise SpecError(f"-rate: threads= is one number and {ramp[0]} a ramp; give one")
        return line.parsed("-rate", "threads=", _clients), ThreadRamp()
    if ramp:
        first = line.parsed("-rate", "threads>=", _clients)
        last = line.parsed("-rate", "threads<=", _clients)
        if last < first:
            raise SpecError(f"-rate: threads<= ({last}) must not be below threads>= ({first})")
        if paced:
            raise SpecError("-rate: a ramp has no rate; give threads= with throttle= or fixed=")
        return None, ThreadRamp(first, last, line.has("-rate", "auto"))
    writes = line.command in ("write", "counter_write") and operations is not None
    return (_DEFAULT_THREADS if writes or paced else None), ThreadRamp()


def _shares(line: Arguments) -> Mapping[str, float]:
    """Kinds or a profile's operations, with their weights."""
    command = line.command
    if command not in ("mixed", "user"):
        return {command: 1.0}
    _check_fixed(line, command, "clustering=", "kvmark draws the kind of each operation alone")
    if command == "mixed":
        return _weights(line, "ratio(", _KINDS)
    if not line.has(command, "ops("):
        raise SpecError("user: needs ops(…), such as ops(insert=1)")
    return _weights(line, "ops(", ())


def _weights(line: Arguments, name: str, kinds: Sequence[str]) -> Mapping[str, float]:
    weights: dict[str, float] = {}
    command = line.command
    for part in line.value(command, name).split(","):
        kind, _, weight = part.partition("=")
        kind = kind.lower() if kinds else kind
        if kinds and kind not in kinds:
            raise SpecError(f"mixed: ratio: {shown(kind)} is no kind{did_you_mean(kind, kinds)}")
        if not re.fullmatch(r"[0-9]*\.?[0-9]+", weight):
            place = f"{command}: {name.rstrip('(')}"
            raise SpecError(f"{place}: {shown(part)} needs a weight; write {kind or 'read'}=1")
        if kind in weights:
            raise SpecError(f"{command}: {shown(kind)} is given twice; give it once")
        weights[kind] = float(weight)
    weights = {kind: weight for kind, weight in weights.items() if weight > 0}
    if not weights:
        raise SpecError(f"{command}: one of the weights must be above 0")
    return weights


def _check_fixed(line: Arguments, option: str, name: str, reason: str) -> None:
    if line.parsed(option, name, profiles.parse_law) != profiles.fixed(1):
        raise SpecError(f"{option}: {name} is supported as FIXED(1) only: {reason}")


def _population(
    line: Arguments, operations: int | None, shares: Mapping[str, float]
) -> PopulationSpec:
    sequence, law = line.passed("-pop", "seq="), line.passed("-pop", "dist=")
    if sequence is not None and law is not None:
        raise SpecError("-pop: seq= and dist= both choose partitions; give one")
    count = operations or _DEFAULT_RECORDS
    ordered = line.value("-pop", "contents=").lower() == "sorted"
    wrap = not line.has("-pop", "no-wrap")
    kinds = {name.rpartition(".")[2] for name in shares}
    inserts_only = line.command in ("write", "counter_write") or (
        line.command == "user" and kinds == {"insert"}
    )
    if law is not None or (sequence is None and not inserts_only):
        if not wrap:
            raise SpecError("-pop: no-wrap is for seq=; a distribution never ends")
        drawn = profiles.parse_law(law or f"gaussian(1..{count})")
        if drawn.min < 0:
            raise SpecError("-pop: dist= must not go below 0: partitions have numbers")
        return PopulationSpec(drawn.min, drawn.max, drawn, True, ordered)
    first, last = profiles.parse_range(sequence or f"1..{count}")
    return PopulationSpec(first, last, None, wrap, ordered)


def _columns(line: Arguments) -> ColumnsSpec:
    names = line.value("-col", "names=").split(",") if line.has("-col", "names=") else None
    if names is None:
        text = line.value("-col", "n=")
        law = profiles.parse_law(text if "(" in text else f"fixed({text})")
        if not law.is_fixed or law.min < 1:
            raise SpecError("-col: n= is supported as FIXED(N) only, from 1")
        names = [f"C{index}" for index in range(law.min)]
    elif line.has("-col", "n="):
        raise SpecError("-col: names= sets the number of columns; leave n= out")
    if len(set(names)) < len(names):
        raise SpecError("-col: names= names a column twice; name each once")
    columns = _filled(ColumnsSpec, line, names=tuple(sorted(names)))
    if columns.size.min < 0:
        raise SpecError("-col: size= must not go below 0")
    return columns


def _insert(line: Arguments) -> InsertSpec:
    _check_fixed(line, "-insert", "visits=", "an operation depends on its number alone")
    if line.command != "user" and line.values.get("-insert", {}).keys() - {"visits="}:
        raise SpecError("-insert: the predefined tables have one row each; it is for user")
    return _filled(InsertSpec, line)


def _schema(line: Arguments) -> SchemaSpec:
    if line.command == "user" and "-schema" in line.values:
        raise SpecError("-schema: a profile has its own keyspace and tables; leave it out")
    schema = _filled(SchemaSpec, line)
    if schema.compaction and "strategy" not in schema.compaction:
        raise SpecError("-schema: compaction(…) needs strategy=NAME")
    return schema


def _target(line: Arguments) -> TargetSpec:
    hosts = _hosts(line)
    port = int(line.passed("-port", "native=") or line.value("-mode", "port="))
    if not 1 <= port <= 65535:
        raise SpecError(f"-port: native= must be from 1 to 65535, not {port}")
    url = SystemName(hosts[0]) if hosts[0].startswith(_URLS) else None
    hosts = hosts if url is None else (str(url),)
    target = _filled(TargetSpec, line, url=url, hosts=hosts, port=port)
    if (target.user is None) != (target.password is None):
        raise SpecError("-mode: user= and password= go together; give both")
    ca_file = target.ca_file
    if ca_file is None and line.values.get("-transport"):
        raise SpecError("-transport: needs truststore=FILE with the authorities in PEM")
    if ca_file is not None and "-----BEGIN" not in _file_text("-transport", ca_file, "latin-1"):
        raise SpecError(
            f"-transport: {shown(ca_file)} is not a PEM file; write one with keytool -exportcert"
            " -rfc"
        )
    return target


def _hosts(line: Arguments) -> tuple[str, ...]:
    file = line.passed("-node", "file=")
    if file is not None:
        if line.has("-node", NODES):
            raise SpecError("-node: a list and file= both name nodes; give one")
        hosts = tuple(_file_text("-node", file).split())
        if not hosts:
            raise SpecError(f"-node: {file} names no node; write one on each line")
        return hosts
    text = line.value("-node", NODES)
    if text.startswith(_URLS):
        return (text,)
    refuse_credentials("-node", text, "-mode user= password=")
    hosts = tuple(text.split(","))
    for host, colon, port in (host.partition(":") for host in hosts):
        if colon and port.isdecimal():
            raise SpecError(f"-node: {host} has a port; leave it out and give -port native={port}")
    return hosts


def _file_text(option: str, path: str, encoding: str = "utf-8") -> str:
    try:
        return Path(path).read_text(encoding)
    except (OSError, UnicodeDecodeError) as problem:
        reason = getattr(problem, "strerror", None) or "it is not UTF-8 text"
        raise SpecError(f"{option}: {path} can't be read because {reason}") from problem


def _log(line: Arguments) -> LogSpec:
    tags = (line.passed("-graph", name) for name in ("revision=", "title="))
    log = _filled(LogSpec, line, tags=tuple(filter(None, tags)))
    if "-graph" in line.values and log.graph_file is None:
        raise SpecError("-graph: needs file=FILE.html")
    if log.graph_file is not None and log.graph_file.suffix not in (".html", ".md"):
        raise SpecError("-graph: file= must end in .html or .md")
    return log
