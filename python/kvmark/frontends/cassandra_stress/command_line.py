"""What a command line of cassandra-stress asks for, with its defaults filled in."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from kvmark.errors import SpecError
from kvmark.frontends.cassandra_stress.laws import (
    Law,
    Ratio,
    fixed,
    parse_count,
    parse_law,
    parse_partitions,
    parse_ratio,
    parse_select,
)
from kvmark.frontends.cassandra_stress.reading import CommandWords, read_line
from kvmark.frontends.cassandra_stress.target import TargetSpec, read_target
from kvmark.secret import Secret
from kvmark.spec.suggest import did_you_mean, shown
from kvmark.spec.workload import LARGEST_U32

Command = Literal["write", "read", "mixed", "counter_write", "counter_read", "user"]

_T = TypeVar("_T")
DEFAULT_RECORDS: Final = 1_000_000
"""Partitions where no number of operations says how many."""
_DEFAULT_THREADS: Final = 200
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600}
_KINDS: Final = ("read", "write", "counter_read", "counter_write")


@dataclass(frozen=True, slots=True)
class UntilSpec:
    """End when the rate's relative standard error is small enough."""

    bound: float = 0.02
    min_intervals: int = 30
    max_intervals: int = 200


@dataclass(frozen=True, slots=True)
class Ladder:
    """Numbers of clients to try, one after the other."""

    first: int = 4
    last: int = 1000
    auto: bool = True
    """Whether to stop when more clients bring nothing."""


@dataclass(frozen=True, slots=True)
class PopulationSpec:
    """Numbers of the partitions."""

    first: int
    last: int
    law: Law | None
    """None for one after the other."""
    wrap: bool
    sorted: bool


@dataclass(frozen=True, slots=True)
class ColumnSpec:
    """Columns of the predefined tables, in their order."""

    names: tuple[str, ...]
    size: Law
    slice: bool
    timestamp: int | None


@dataclass(frozen=True, slots=True)
class InsertSpec:
    """What -insert says in place of a profile; None for what that says."""

    partitions: Law | None
    select: Ratio | None
    filled: Ratio | None
    batch: str | None


@dataclass(frozen=True, slots=True)
class SchemaSpec:
    """Keyspace and tables to be made."""

    keyspace: str
    replication: Mapping[str, str]
    compaction: Mapping[str, str]
    compression: str | None
    storage: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class LogSpec:
    """What is printed, and where."""

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
    """A whole command line."""

    command: Command
    operations: int | None
    """What n= says: partitions of all operations together."""
    duration_ns: int | None
    until: UntilSpec | None
    warmup: bool
    truncate: Literal["never", "once", "always"]
    consistency: str
    serial_consistency: str
    key_size: int
    add: Law
    shares: Mapping[str, float]
    """Of a mix, or of a profile's operations."""
    profiles: tuple[Path, ...]
    threads: int | None
    """None for the ladder."""
    ladder: Ladder
    throttle: int | None
    """Operations a second at most."""
    rate: int | None
    """Operations a second, due whatever the store does."""
    population: PopulationSpec
    columns: ColumnSpec
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
        """Partitions that end the run: as many as were asked for, or as there are."""
        there = None if self.population.wrap else self.population.last - self.population.first + 1
        return min((limit for limit in (self.operations, there) if limit is not None), default=None)

    def as_json(self) -> dict[str, Any]:
        """Plain values for the manifest."""
        content: dict[str, Any] = _plain(asdict(self))
        return {"stress": content}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return str(value) if isinstance(value, Path | Secret) else value


def read_stress(arguments: Sequence[str]) -> StressSpec:
    """Reads cassandra-stress's command line.

    Raises:
        SpecError: a word isn't known, can't be honoured, or contradicts another.
    """
    given = read_line(arguments)
    operations, duration_ns, until = _length(given)
    threads, ladder = _threads(given, operations)
    inserts_only = given.command in ("write", "counter_write") or _only_inserts(given)
    throttle, rate = _per_second(given, "throttle="), _per_second(given, "fixed=")
    if throttle is not None and rate is not None:
        raise SpecError("-rate: throttle= and fixed= are two ways to say the rate; give one")
    level = (given.own("cl=") or "LOCAL_ONE").lower()
    return StressSpec(
        command=given.command,  # type: ignore[arg-type]  # The reader knows no other.
        operations=operations,
        duration_ns=duration_ns,
        until=until,
        warmup=given.own("no-warmup") is None,
        truncate=(given.own("truncate=") or "never").lower(),  # type: ignore[arg-type]
        consistency=level,
        serial_consistency=(given.own("serial-cl=") or "SERIAL").lower(),
        key_size=_positive(given, given.command, "keysize=", 10),
        add=_law(given, given.command, "add=", fixed(1)),
        shares=_shares(given),
        profiles=_profiles(given),
        threads=threads,
        ladder=ladder,
        throttle=throttle,
        rate=rate,
        population=_population(given, operations, inserts_only=inserts_only),
        columns=_columns(given),
        insert=_insert(given),
        schema=_schema(given),
        target=read_target(given),
        ignores_errors=given.said("-errors", "ignore"),
        checks_reads=not given.said("-errors", "skip-read-validation"),
        log=_log(given),
        wrap_ranges=given.said("-tokenrange", "wrap"),
        split_factor=_positive(given, "-tokenrange", "split-factor=", 1),
    )


def _length(given: CommandWords) -> tuple[int | None, int | None, UntilSpec | None]:
    """Operations, duration or error bound: one of the three."""
    count, duration = given.own("n="), given.own("duration=")
    bound = [name for name in ("err<", "n>", "n<") if given.own(name) is not None]
    said = [name for name, value in (("n=", count), ("duration=", duration)) if value is not None]
    if len(said) + bool(bound) > 1:
        names = " and ".join([*said, *bound[:1]])
        raise SpecError(f"{given.command}: {names} are different ends of a run; give one")
    if count is not None:
        return _positive(given, given.command, "n=", 0), None, None
    if duration is not None:
        seconds = int(duration[:-1]) * _SECONDS[duration[-1].lower()]
        if seconds < 1:
            raise SpecError(f"{given.command}: duration= must be longer than nothing")
        _bounded(given.command, "duration=", seconds * 10**9, duration)
        return None, seconds * 10**9, None
    least = _positive(given, given.command, "n>", 30)
    most = _positive(given, given.command, "n<", 200)
    if most < least:
        raise SpecError(f"{given.command}: n< ({most}) must not be below n> ({least})")
    error = float(given.own("err<") or "0.02")
    if error <= 0:
        raise SpecError(f"{given.command}: err< must be above 0")
    return None, None, UntilSpec(error, least, most)


def _threads(given: CommandWords, operations: int | None) -> tuple[int | None, Ladder]:
    words = given.groups.get("-rate", {})
    climbs = [name for name in ("auto", "threads>=", "threads<=") if name in words]
    if "threads=" in words:
        if climbs:
            raise SpecError(f"-rate: threads= is one number and {climbs[0]} a ladder; give one")
        return _clients(given, "threads=", 0), Ladder()
    if climbs:
        first = _clients(given, "threads>=", 4)
        last = _clients(given, "threads<=", 1000)
        if last < first:
            raise SpecError(f"-rate: threads<= ({last}) must not be below threads>= ({first})")
        if "throttle=" in words or "fixed=" in words:
            raise SpecError("-rate: a ladder has no rate; give threads= with throttle= or fixed=")
        return None, Ladder(first, last, "auto" in words)
    writes = given.command in ("write", "counter_write") and operations is not None
    paced = "throttle=" in words or "fixed=" in words
    return (_DEFAULT_THREADS if writes or paced else None), Ladder()


def _only_inserts(given: CommandWords) -> bool:
    return given.command == "user" and all(
        name.rpartition(".")[2] == "insert" for name in _shares(given)
    )


def _per_second(given: CommandWords, name: str) -> int | None:
    text = given.text("-rate", name)
    # 0 is cassandra-stress's own word for no limit.
    return None if text is None else int(text.removesuffix("/s")) or None


def _positive(given: CommandWords, group: str, name: str, default: int) -> int:
    text = given.text(group, name)
    if text is None:
        return default
    count = parse_count(text)
    if count < 1:
        raise SpecError(f"{group}: {name} must be at least 1, not {count}")
    return count


def _clients(given: CommandWords, name: str, default: int) -> int:
    count = _positive(given, "-rate", name, default)
    if count > LARGEST_U32:
        raise SpecError(f"-rate: {name} must be at most {LARGEST_U32}, not {count}")
    return count


def _bounded(group: str, name: str, ns: int, text: str) -> None:
    if ns >= 2**63:
        raise SpecError(f"{group}: {name} {shown(text)} is too long; at most 2^63 ns is possible")


def _law(given: CommandWords, group: str, name: str, default: Law) -> Law:
    text = given.text(group, name)
    if text is None:
        return default
    try:
        return parse_law(text)
    except SpecError as problem:
        raise SpecError(f"{group}: {name} {problem}") from None


def _shares(given: CommandWords) -> Mapping[str, float]:
    """Kinds or a profile's operations, and the weight of each."""
    _fixed_one(given, given.command, "clustering=", "kvmark draws the kind of each operation anew")
    if given.command == "mixed":
        return _weights(given, "ratio(", _KINDS, "read=1,write=1")
    if given.command == "user":
        text = given.own("ops(")
        if text is None:
            raise SpecError("user: needs ops(…), such as ops(insert=1)")
        return _weights(given, "ops(", (), text)
    return {given.command: 1.0}


def _weights(
    given: CommandWords, name: str, known: Sequence[str], default: str
) -> Mapping[str, float]:
    weights: dict[str, float] = {}
    for part in (given.own(name) or default).split(","):
        kind, _, weight = part.partition("=")
        kind = kind.lower() if known else kind
        if known and kind not in known:
            raise SpecError(f"mixed: ratio: {shown(kind)} is no kind{did_you_mean(kind, known)}")
        if not re.fullmatch(r"[0-9]*\.?[0-9]+", weight):
            place = f"{given.command}: {name.rstrip('(')}"
            raise SpecError(f"{place}: {shown(part)} needs a weight; write {kind or 'read'}=1")
        if kind in weights:
            raise SpecError(f"{given.command}: {shown(kind)} is given twice; give it once")
        weights[kind] = float(weight)
    weights = {kind: weight for kind, weight in weights.items() if weight > 0}
    if not weights:
        raise SpecError(f"{given.command}: one of the weights must be above 0")
    return weights


def _fixed_one(given: CommandWords, group: str, name: str, reason: str) -> None:
    law = _law(given, group, name, fixed(1))
    if law != fixed(1):
        raise SpecError(f"{group}: {name} is carried out as FIXED(1) only: {reason}")


def _profiles(given: CommandWords) -> tuple[Path, ...]:
    if given.command != "user":
        return ()
    text = given.own("profile=")
    if not text:
        raise SpecError("user: needs profile=FILE")
    return tuple(Path(part) for part in text.split(","))


def _population(
    given: CommandWords, operations: int | None, *, inserts_only: bool
) -> PopulationSpec:
    count = operations or DEFAULT_RECORDS
    sequence, law = given.text("-pop", "seq="), given.text("-pop", "dist=")
    if sequence is not None and law is not None:
        raise SpecError("-pop: seq= and dist= are two ways to choose; give one")
    contents = given.text("-pop", "contents=") or ""
    ordered = contents.lower() == "sorted"
    wrap = not given.said("-pop", "no-wrap")
    if law is not None or (sequence is None and not inserts_only):
        if not wrap:
            raise SpecError("-pop: no-wrap is for seq=; a law never ends")
        drawn = parse_law(law or f"gaussian(1..{count})")
        if drawn.min < 0:
            raise SpecError("-pop: dist= must not go below 0; partitions are counted")
        return PopulationSpec(drawn.min, drawn.max, drawn, True, ordered)
    ends = re.split(r"\.\.+", sequence or f"1..{count}")
    first, last = map(parse_count, ends)
    if first > last:
        raise SpecError("-pop: seq= begins above its end; write the smaller number first")
    return PopulationSpec(first, last, None, wrap, ordered)


def _columns(given: CommandWords) -> ColumnSpec:
    names, count = given.text("-col", "names="), given.text("-col", "n=")
    if names is not None and count is not None:
        raise SpecError("-col: names= says how many; leave n= out")
    if names is None:
        number = 5
        if count is not None:
            law = parse_law(count if "(" in count else f"fixed({count})")
            if not law.is_fixed or law.min < 1:
                raise SpecError("-col: n= is carried out as FIXED(N) only, from 1")
            number = law.min
        listed = [f"C{index}" for index in range(number)]
    else:
        listed = names.split(",")
        if len(set(listed)) < len(listed):
            raise SpecError("-col: names= names a column twice; name each once")
    stamp = given.text("-col", "timestamp=")
    size = _law(given, "-col", "size=", fixed(34))
    if size.min < 0:
        raise SpecError("-col: size= must not go below 0")
    return ColumnSpec(
        tuple(sorted(listed)),
        size,
        given.said("-col", "slice"),
        None if stamp is None else int(stamp),
    )


def _insert(given: CommandWords) -> InsertSpec:
    _fixed_one(
        given,
        "-insert",
        "visits=",
        "with which partition an operation goes on depends on those before it, and kvmark's"
        " operations are functions of their numbers alone",
    )
    said = {**given.groups.get("-insert", {})}
    said.pop("visits=", None)
    if given.command != "user" and said:
        raise SpecError("-insert: the predefined tables have one row each; it is for user")

    def word(name: str, parse: Callable[[str], _T]) -> _T | None:
        text = given.text("-insert", name)
        try:
            return None if text is None else parse(text)
        except SpecError as problem:
            raise SpecError(f"-insert: {name} {problem}") from None

    return InsertSpec(
        partitions=word("partitions=", parse_partitions),
        select=word("select-ratio=", parse_select),
        filled=word("row-population-ratio=", parse_ratio),
        batch=word("batchtype=", str.lower),
    )


def _schema(given: CommandWords) -> SchemaSpec:
    if given.command == "user" and "-schema" in given.groups:
        raise SpecError("-schema: a profile says its own keyspace and tables; leave it out")
    replication = _pairs(given, "replication(")
    compaction = _pairs(given, "compaction(")
    if compaction and "strategy" not in compaction:
        raise SpecError("-schema: compaction(…) needs strategy=NAME")
    return SchemaSpec(
        keyspace=given.text("-schema", "keyspace=") or "keyspace1",
        replication=replication,
        compaction=compaction,
        compression=given.text("-schema", "compression="),
        storage=_pairs(given, "storage("),
    )


def _pairs(given: CommandWords, name: str) -> Mapping[str, str]:
    text = given.text("-schema", name)
    pairs: dict[str, str] = {}
    for part in text.split(",") if text else ():
        key, equals, value = part.partition("=")
        if not equals or not re.fullmatch(r"[\w.-]+", key) or not re.fullmatch(r"[\w./:-]+", value):
            place = f"-schema: {name.rstrip('(')}"
            raise SpecError(f"{place}: {shown(part)} is not a pair such as strategy=SimpleStrategy")
        pairs[key] = value
    return pairs


def _log(given: CommandWords) -> LogSpec:
    def path(group: str, name: str) -> Path | None:
        text = given.text(group, name)
        return None if text is None else Path(text)

    if "-graph" in given.groups and not given.said("-graph", "file="):
        raise SpecError("-graph: needs file=FILE.html")
    graph = path("-graph", "file=")
    if graph is not None and graph.suffix not in (".html", ".md"):
        raise SpecError("-graph: file= must end in .html or .md")
    text = given.text("-log", "interval=") or "1s"
    milliseconds = text.endswith("ms") or not text.endswith("s")
    number = int(re.sub(r"[a-z]+", "", text))
    if number < 1:
        raise SpecError("-log: interval= must be longer than nothing")
    interval_ns = number * (10**6 if milliseconds else 10**9)
    _bounded("-log", "interval=", interval_ns, text)
    tags = [given.text("-graph", name) for name in ("revision=", "title=")]
    return LogSpec(
        level=(given.text("-log", "level=") or "normal").lower(),
        summary=not given.said("-log", "no-summary"),
        settings=not given.said("-log", "no-settings"),
        file=path("-log", "file="),
        hdr_file=path("-log", "hdrfile="),
        graph_file=graph,
        tags=tuple(tag for tag in tags if tag),
        interval_ns=interval_ns,
    )
