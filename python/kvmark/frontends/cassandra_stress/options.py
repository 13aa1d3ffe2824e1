"""The options of a cassandra-stress command line, with defaults."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from kvmark.errors import SpecError
from kvmark.frontends.cassandra_stress import profiles
from kvmark.frontends.cassandra_stress.grammar import NODES, Arguments, parse_line
from kvmark.secret import Secret
from kvmark.spec.quantity import duration_ns
from kvmark.spec.suggest import did_you_mean, refuse_credentials, shown
from kvmark.spec.url import SystemName
from kvmark.spec.workload import LARGEST_U32

_T = TypeVar("_T")
_DEFAULT_RECORDS: Final = 1_000_000
_DEFAULT_THREADS: Final = 200
_KINDS: Final = ("read", "write", "counter_read", "counter_write")
_URLS: Final = ("up:", "null:", "sim:", "cql:")
"""kvmark's names of systems, which -node accepts, too."""


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
    size: profiles.Law
    slice: bool
    timestamp: int | None


@dataclass(frozen=True, slots=True)
class InsertSpec:
    """Values of -insert; None for the profile's."""

    partitions: profiles.Law | None
    select: profiles.Ratio | None
    filled: profiles.Ratio | None
    batch: str | None


@dataclass(frozen=True, slots=True)
class SchemaSpec:
    """Keyspace and tables to create."""

    keyspace: str
    replication: Mapping[str, str]
    compaction: Mapping[str, str]
    compression: str | None
    storage: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TargetSpec:
    """Nodes and connections."""

    url: SystemName | None
    """A URL in place of hosts."""
    hosts: tuple[str, ...]
    port: int
    datacenter: str | None
    user: str | None
    password: Secret | None
    compression: str
    connections: int
    """To each node."""
    max_pending: int | None
    """Operations in flight on a connection; None if it wasn't passed."""
    request_timeout_ms: int
    ca_file: str | None

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

    level: str
    summary: bool
    settings: bool
    file: Path | None
    hdr_file: Path | None
    graph_file: Path | None
    tags: tuple[str, ...]
    interval_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StressSpec:
    """A command line."""

    command: str
    operations: int | None
    """n=, the partitions of all operations together."""
    duration_ns: int | None
    until: UntilSpec | None
    warmup: bool
    truncate: str
    consistency: str
    serial_consistency: str
    key_size: int
    add: profiles.Law
    shares: Mapping[str, float]
    """Weights of a mix, or of a profile's operations."""
    profiles: tuple[Path, ...]
    threads: int | None
    """None for a thread ramp."""
    ladder: ThreadRamp
    throttle: int | None
    """Largest rate of the closed model, per second."""
    rate: int | None
    """Rate of the open model, per second."""
    population: PopulationSpec
    columns: ColumnsSpec
    insert: InsertSpec
    schema: SchemaSpec
    target: TargetSpec
    ignores_errors: bool
    checks_reads: bool
    log: LogSpec
    wrap_ranges: bool
    split_factor: int

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
    throttle, rate = _rate(line, "throttle="), _rate(line, "fixed=")
    if throttle is not None and rate is not None:
        raise SpecError("-rate: throttle= and fixed= both set the rate; give one")
    predefined = command != "user"
    files = "" if predefined else line.value(command, "profile=")
    if not predefined and not files:
        raise SpecError("user: needs profile=FILE")
    return StressSpec(
        command=command,
        operations=operations,
        duration_ns=time_ns,
        until=until,
        warmup=not line.has(command, "no-warmup"),
        truncate=line.value(command, "truncate=").lower(),
        consistency=line.value(command, "cl=").lower(),
        serial_consistency=line.value(command, "serial-cl=").lower(),
        key_size=line.parsed(command, "keysize=", _positive) if predefined else 10,
        add=line.parsed(command, "add=", profiles.parse_law) if predefined else profiles.fixed(1),
        shares=shares,
        profiles=tuple(map(Path, files.split(","))) if files else (),
        threads=threads,
        ladder=ramp,
        throttle=throttle,
        rate=rate,
        population=_population(line, operations, shares),
        columns=_columns(line),
        insert=_insert(line),
        schema=_schema(line),
        target=_target(line),
        ignores_errors=line.has("-errors", "ignore"),
        checks_reads=not line.has("-errors", "skip-read-validation"),
        log=_log(line),
        wrap_ranges=line.has("-tokenrange", "wrap"),
        split_factor=line.parsed("-tokenrange", "split-factor=", _positive),
    )


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


def _optional(line: Arguments, option: str, name: str, parse: Callable[[str], _T]) -> _T | None:
    return line.parsed(option, name, parse) if line.has(option, name) else None


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


def _rate(line: Arguments, name: str) -> int | None:
    # In cassandra-stress, 0 means no limit.
    return int(line.value("-rate", name).removesuffix("/s") or 0) or None


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
    size = line.parsed("-col", "size=", profiles.parse_law)
    if size.min < 0:
        raise SpecError("-col: size= must not go below 0")
    timestamp = _optional(line, "-col", "timestamp=", int)
    return ColumnsSpec(tuple(sorted(names)), size, line.has("-col", "slice"), timestamp)


def _insert(line: Arguments) -> InsertSpec:
    _check_fixed(line, "-insert", "visits=", "an operation depends on its number alone")
    if line.command != "user" and line.values.get("-insert", {}).keys() - {"visits="}:
        raise SpecError("-insert: the predefined tables have one row each; it is for user")
    return InsertSpec(
        partitions=_optional(line, "-insert", "partitions=", profiles.parse_partitions),
        select=_optional(line, "-insert", "select-ratio=", profiles.parse_select),
        filled=_optional(line, "-insert", "row-population-ratio=", profiles.parse_ratio),
        batch=_optional(line, "-insert", "batchtype=", str.lower),
    )


def _schema(line: Arguments) -> SchemaSpec:
    if line.command == "user" and "-schema" in line.values:
        raise SpecError("-schema: a profile has its own keyspace and tables; leave it out")
    compaction = _pairs(line, "compaction(")
    if compaction and "strategy" not in compaction:
        raise SpecError("-schema: compaction(…) needs strategy=NAME")
    return SchemaSpec(
        keyspace=line.value("-schema", "keyspace="),
        replication=_pairs(line, "replication("),
        compaction=compaction,
        compression=line.passed("-schema", "compression="),
        storage=_pairs(line, "storage("),
    )


def _pairs(line: Arguments, name: str) -> Mapping[str, str]:
    text = line.value("-schema", name)
    pairs: dict[str, str] = {}
    for part in text.split(",") if text else ():
        pair = re.fullmatch(r"([\w.-]+)=([\w./:-]+)", part)
        if pair is None:
            place = f"-schema: {name.rstrip('(')}"
            raise SpecError(f"{place}: {shown(part)} is not a pair such as strategy=SimpleStrategy")
        pairs[pair[1]] = pair[2]
    return pairs


def _target(line: Arguments) -> TargetSpec:
    hosts = _hosts(line)
    port = int(line.passed("-port", "native=") or line.value("-mode", "port="))
    if not 1 <= port <= 65535:
        raise SpecError(f"-port: native= must be from 1 to 65535, not {port}")
    user, password = line.passed("-mode", "user="), line.secret("-mode", "password=")
    if (user is None) != (password is None):
        raise SpecError("-mode: user= and password= go together; give both")
    ca_file = line.passed("-transport", "truststore=")
    if ca_file is None and line.values.get("-transport"):
        raise SpecError("-transport: needs truststore=FILE with the authorities in PEM")
    if ca_file is not None and "-----BEGIN" not in _file_text("-transport", ca_file, "latin-1"):
        raise SpecError(
            f"-transport: {shown(ca_file)} is not a PEM file; write one with keytool -exportcert"
            " -rfc"
        )
    url = SystemName(hosts[0]) if hosts[0].startswith(_URLS) else None
    return TargetSpec(
        url=url,
        hosts=hosts if url is None else (str(url),),
        port=port,
        datacenter=line.passed("-node", "datacenter="),
        user=user,
        password=password,
        compression=line.value("-mode", "compression=").lower(),
        connections=line.parsed("-mode", "connectionsPerHost=", _positive),
        max_pending=_optional(line, "-mode", "maxPending=", _positive),
        request_timeout_ms=line.parsed("-mode", "requestTimeout=", _positive),
        ca_file=ca_file,
    )


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
    return tuple(text.split(","))


def _file_text(option: str, path: str, encoding: str = "utf-8") -> str:
    try:
        return Path(path).read_text(encoding)
    except (OSError, UnicodeDecodeError) as problem:
        reason = getattr(problem, "strerror", None) or "it is not UTF-8 text"
        raise SpecError(f"{option}: {path} can't be read because {reason}") from problem


def _log(line: Arguments) -> LogSpec:
    graph = _optional(line, "-graph", "file=", Path)
    if "-graph" in line.values and graph is None:
        raise SpecError("-graph: needs file=FILE.html")
    if graph is not None and graph.suffix not in (".html", ".md"):
        raise SpecError("-graph: file= must end in .html or .md")
    tags = (line.passed("-graph", name) for name in ("revision=", "title="))
    return LogSpec(
        level=line.value("-log", "level=").lower(),
        summary=not line.has("-log", "no-summary"),
        settings=not line.has("-log", "no-settings"),
        file=_optional(line, "-log", "file=", Path),
        hdr_file=_optional(line, "-log", "hdrfile=", Path),
        graph_file=graph,
        tags=tuple(tag for tag in tags if tag),
        interval_ns=line.parsed(
            "-log", "interval=", lambda text: _time_ns(f"{text}ms" if text.isdigit() else text)
        ),
    )
