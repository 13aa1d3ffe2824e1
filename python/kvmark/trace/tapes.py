"""The tapes for the replay of a trace: its operations in order, in records of one size.

A tape is made once and cached under a digest of its sources. Its format is that of the crate
`kvmark-trace`, module `tape`, without statements.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import ClassVar, Final

import numpy as np
import numpy.typing as npt
import polars as pl
from pydantic import ConfigDict, TypeAdapter

from kvmark.cache import tapes_folder
from kvmark.errors import RunError, UsageError
from kvmark.removal import remove_file
from kvmark.trace.folder import ENGINE_KINDS, NOTES, OPTIONAL, Trace, first_line
from kvmark.trace.recording import HEAD, HEAP_MAX, KEY_KEPT, MAGIC, RECORD, RECORDS_MAX, VALUE_KEPT

_OWN: Final = ("delete", "insert", "read", "read_modify_write")
"""Native operations of systems; with kept keys also `_SCAN`, since hashes have no order."""
_SCAN: Final = "scan"
_WRITES: Final = frozenset({"update", "insert", "read_modify_write"})
_TTL: Final = "_ttl"
"""The suffix of a statement for writes with a time to live."""
_FORM: Final = 2
"""Increased when the same trace gives another tape."""
_KEY_BYTES: Final = (10, 255)
_VALUE_MAX: Final = (1 << 24) - 1
_GOLDEN: Final = 0x9E37_79B9_7F4A_7C15
_VALUE_UNKNOWN: Final = 100
"""Bytes of values in a trace without sizes."""
_SCAN_LENGTH: Final = 100
"""Records of a scan in a trace without numbers."""
_KEYS_AT_ONCE: Final = 20_000_000
_COLUMNS: Final = ("at_ns", "client", "kind", "statement", "key", "key_size", "value_size",
                   "ttl_ms", "items")  # fmt: skip
_CONTENTS: Final = ("count", "key_content", "value_content")
"""The optional columns that a replay uses."""


@dataclass(frozen=True, slots=True)
class TapePart:
    """The operations of a trace to replay, and their statements."""

    statements: tuple[tuple[str, str], ...] = ()
    """Names and kinds of statements; empty for the system's native read, insert and delete."""
    skip: tuple[str, ...] = ()
    """Excluded verbs and kinds."""
    from_ns: int = 0
    until_ns: int | None = None
    scale_keys: float = 1
    """Copies of each recorded key, one per client in turn. Below 1, the share of keys with replayed
    operations, sampled by their hash."""


@dataclass(frozen=True, slots=True)
class Tapes:
    """Two tapes, and a description of their content."""

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid", strict=True)

    operations: int
    """Number of operations on the main tape."""
    preloaded: int
    """Number of records on the tape of records that are read before they are written."""
    mix: tuple[tuple[str, str, int], ...]
    """By number on the tape: a statement's name or a kind, its kind, and its count."""
    clients: int
    length_ns: int
    """The length of one pass."""
    expiring: bool
    """Whether written records expire."""
    kept: str
    """The contents as text; empty if keys and values are generated."""
    told: tuple[str, ...]
    """Notes for readers of the replay's figures."""
    digest: str

    @property
    def path(self) -> Path:
        """The main tape."""
        return tapes_folder() / f"{self.digest}.tape"

    @property
    def preload_path(self) -> Path:
        """The tape of records that are read before they are written."""
        return tapes_folder() / f"{self.digest}-preload.tape"


_TAPES: Final = TypeAdapter(Tapes)


def tapes(trace: Trace, part: TapePart) -> Tapes:
    """The tapes of a part of a trace, from the cache if possible.

    Raises:
        UsageError: the trace has operations that can't be replayed and aren't excluded, or none.
        RunError: a tape can't be written.
    """
    digest = hashlib.sha256(json.dumps([_FORM, trace.digest, asdict(part)]).encode()).hexdigest()
    folder = tapes_folder()
    folder.mkdir(parents=True, exist_ok=True)
    facts = folder / f"{digest}.json"
    with (folder / "lock").open("w") as lock:
        # Other processes may make the same tapes.
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            cached = _TAPES.validate_json(facts.read_bytes())
            if cached.path.exists() and cached.preload_path.exists():
                return cached
        except (OSError, ValueError):
            pass
        try:
            made = _TapeMaker(trace, part, digest).make()
            facts.write_bytes(_TAPES.dump_json(made))
        except OSError as problem:
            raise RunError(
                f"no tape of {trace.path} can be written to {folder}:"
                f" {first_line(problem)}; set XDG_CACHE_HOME to a folder with more room, or replay"
                " a part of the trace with --from and --until"
            ) from problem
        return made


class _TapeMaker:
    """Makes the tapes of one part of a trace."""

    def __init__(self, trace: Trace, part: TapePart, digest: str) -> None:
        self.trace, self.part, self.digest = trace, part, digest
        self.keep = trace.info.keep
        native = (*_OWN, _SCAN) if self.keep.keys else _OWN
        self.kinds = dict(part.statements or tuple((kind, kind) for kind in native))
        """The kind of each statement."""
        self.counts: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.changes: Counter[str] = Counter()
        """By the keys of `NOTES`."""
        self.sized_reads: set[str] = set()
        """Verbs whose reads have sizes."""
        self.expires = False
        self.mean_size = _VALUE_UNKNOWN

    def make(self) -> Tapes:
        """Writes both tapes; the description follows last."""
        info = self.trace.info
        path, multiplies = self.trace.path, self.part.scale_keys > 1
        if multiplies and self.keep.keys:
            raise UsageError(
                f"scale-keys: {path} has the very keys, which can't be multiplied; make a trace"
                " without --keep-keys"
            )
        if multiplies and info.clients < 2:
            raise UsageError(
                f"scale-keys: {path} names no clients, which determine the copies of keys"
            )
        notes = self._count_operations()
        operations = self.counts.total()
        if not operations:
            raise UsageError(f"{path} has no operation in the part that is asked for")
        # One pass takes the duration and the mean distance of operations. The next pass begins at
        # the trace's end at the latest.
        length_ns = info.end_ns - self.part.from_ns
        length_ns += length_ns // operations
        if self.part.until_ns is not None:
            length_ns = min(self.part.until_ns - self.part.from_ns, length_ns)
        made = Tapes(
            operations=operations,
            preloaded=0,
            mix=tuple((name, self.kinds[name], self.counts[name]) for name in self._used()),
            clients=info.clients,
            length_ns=length_ns,
            expiring=self.expires,
            kept=self.keep.words(),
            told=(),
            digest=self.digest,
        )
        with _Tape(made.path) as tape:
            for batch in self._batches():
                replayed = batch.filter(~pl.col("skipped"))
                tape.add(*self._with_contents(self._records(replayed), replayed))
        preloaded = 0
        with _Tape(made.preload_path) as tape:
            for first in self._read_first():
                rows = first.sort("copy")
                records = self._blank(rows["copy"].to_numpy())
                records["value_size"] = self._sizes(rows)
                kind = "update" if self.part.statements else "insert"
                records["kind"] = ENGINE_KINDS.index(kind)
                tape.add(*self._with_contents(records, rows))
                preloaded += len(rows)
        notes += [f"left out on purpose: {verb} ({n:,})" for verb, n in _most(self.skipped)]
        notes += [
            f"{note}: {self.changes[name]:,}"
            for name, note in NOTES["replay"].items()
            if self.changes[name]
        ]
        return replace(made, preloaded=preloaded, told=tuple(notes))

    def _used(self) -> list[str]:
        """The used statements; their places are the numbers on the tape."""
        return [name for name in self.kinds if name in self.counts]

    def _statement(self, verb: str, kind: str, *, expires: bool) -> str | None:
        """The statement of an operation's verb, or else of its kind."""
        if not self.part.statements:
            # A write doesn't depend on whether the value exists.
            kind = "insert" if kind == "update" else kind
            return kind if kind in self.kinds else None
        if kind == _SCAN and not self.keep.keys:
            return None
        kind = "update" if kind in _WRITES else kind
        candidates = [
            f"{word}{ending}".upper()
            for word in (verb, kind)
            for ending in ((_TTL, "") if expires else ("",))
        ]
        return next((name for name in candidates if name in self.kinds), None)

    def _batches(self) -> Iterator[pl.DataFrame]:
        """The operations of the part with their verb and statement."""
        self.changes["keys"] = 0
        optional = [name for name in _CONTENTS if name in self.trace.optional]
        skip = [word.lower() for word in self.part.skip]
        part = pl.col("at_ns") >= self.part.from_ns
        if self.part.until_ns is not None:
            part &= pl.col("at_ns") < self.part.until_ns
        verb = pl.col("statement").str.split(" ").list.first().str.to_lowercase()
        for batch in self.trace.batches((*_COLUMNS, *optional)):
            rows = batch.filter(part)
            if self.part.scale_keys < 1:
                # All rows of a key, or none.
                mixed = rows["key"].to_numpy() * np.uint64(_GOLDEN)
                rows = rows.filter(mixed < np.uint64(self.part.scale_keys * 2.0**64))
                self.changes["keys"] += len(mixed) - len(rows)
            rows = rows.with_columns(
                verb=verb,
                expires=pl.col("ttl_ms").is_not_null(),
                skipped=verb.is_in(skip) | pl.col("kind").is_in(skip),
            )
            keys = ["verb", "kind", "expires"]
            distinct = rows.select(keys).unique()
            names = [
                self._statement(verb, kind, expires=expires)
                for verb, kind, expires in distinct.iter_rows()
            ]
            named = distinct.with_columns(pl.Series("name", names, dtype=pl.String))
            yield rows.join(named, on=keys, how="left", maintain_order="left")

    def _count_operations(self) -> list[str]:
        """Counts the operations, and rejects those without a statement; returns notes on sizes."""
        values = bytes_ = scans = 0
        for batch in self._batches():
            counts = batch.group_by("verb", "kind", "expires", "skipped", "name").len()
            for verb, kind, expires, skipped, name, count in counts.iter_rows():
                if skipped:
                    self.skipped[verb] += count
                elif name is None:
                    self.refused[verb] += count
                    scans += count if kind == _SCAN else 0
                else:
                    self.counts[name] += count
                    if expires and name.endswith(_TTL.upper()):
                        self.expires = True
                    elif expires:
                        self.changes["ttl"] += count
            sized = batch.filter(~pl.col("skipped") & pl.col("value_size").is_not_null())
            self.sized_reads |= set(sized.filter(kind="read")["verb"].unique())
            values += len(sized)
            bytes_ += int(sized["value_size"].sum())
            self.changes["items"] += int((batch["items"] == 0).sum())
        if self.refused:
            refused = _most(self.refused)
            counted = ", ".join(f"{verb} ({count:,})" for verb, count in refused)
            verbs = ",".join(verb for verb, _ in refused)
            order = ""
            if scans and not self.keep.keys:
                order = " (scans need --keep-keys where a trace is made: hashes have no order)"
            raise UsageError(
                f"{self.trace.path} has operations that stand for no single record elsewhere:"
                f" {counted}{order}; leave them out by --skip {verbs}, or give a file with"
                " statements of their names by --map"
            )
        if not values:
            return [f"the trace has no sizes of values: {_VALUE_UNKNOWN} bytes each"]
        self.mean_size = round(bytes_ / values)
        return []

    def _blank(self, keys: npt.NDArray[np.uint64]) -> npt.NDArray[np.void]:
        """Records of these keys."""
        records = np.zeros(len(keys), RECORD)
        records["key"], records["key_size"], records["items"] = keys, keys & 0xFF, 1
        return records

    def _sizes(self, rows: pl.DataFrame) -> npt.NDArray[np.uint32]:
        """Sizes of values, of which unknown ones are the mean."""
        return rows["value_size"].fill_null(self.mean_size).clip(0, _VALUE_MAX).to_numpy()

    def _records(self, rows: pl.DataFrame) -> npt.NDArray[np.void]:
        """The records of operations."""
        records = self._blank(self._keys(rows, count=True))
        records["at_ns"] = rows["at_ns"].to_numpy() - self.part.from_ns
        records["client"] = rows["client"].to_numpy()
        writes = rows["kind"].is_in(list(_WRITES)).to_numpy()
        self.changes["value_size"] += int((rows["value_size"] > _VALUE_MAX).sum())
        records["value_size"] = np.where(writes, self._sizes(rows), 0)
        records["ttl_ms"] = rows["ttl_ms"].fill_null(0).to_numpy()
        numbers = {name: number for number, name in enumerate(self._used())}
        statements = rows["name"].replace_strict(numbers, return_dtype=pl.UInt16)
        records["statement"] = statements.to_numpy()
        kinds = np.array([ENGINE_KINDS.index(self.kinds[name]) for name in numbers], np.uint8)
        records["kind"] = kinds[records["statement"]]
        scans = rows["kind"] == _SCAN
        if scans.any():
            count = _column(rows, "count")
            self.changes["count"] += int((scans & count.is_null()).sum())
            records["count"] = np.where(scans, count.fill_null(_SCAN_LENGTH), 0)
        return records

    def _with_contents(
        self, records: npt.NDArray[np.void], rows: pl.DataFrame
    ) -> tuple[npt.NDArray[np.void], Sequence[bytes]]:
        """The records, and the kept bytes of the key and value of each."""
        if not self.keep.words():
            return records, ()
        keys, values = (_column(rows, name) for name in ("key_content", "value_content"))
        writes = rows["kind"].is_in(list(_WRITES))
        has_key = keys.bin.size().fill_null(_VALUE_MAX + 1) <= _VALUE_MAX
        has_value = (values.bin.size().fill_null(_VALUE_MAX + 1) <= _VALUE_MAX) & writes
        for has, contents, size, flag in (
            (has_key, keys, "key_size", KEY_KEPT),
            (has_value, values, "value_size", VALUE_KEPT),
        ):
            kept, length = has.to_numpy(), contents.bin.size().fill_null(0).to_numpy()
            records[size] = np.where(kept, length, records[size])
            records["flags"] |= np.where(kept, flag, 0).astype(np.uint8)
        contents_of = zip(keys, has_key, values, has_value, strict=True)
        return records, [
            (key if with_key else b"") + (value if with_value else b"")
            for key, with_key, value, with_value in contents_of
        ]

    def _keys(self, rows: pl.DataFrame, *, count: bool) -> npt.NDArray[np.uint64]:
        """The hash's upper bits, and the key's length in the low byte."""
        sizes = rows["key_size"].clip(*_KEY_BYTES)
        if count and not self.keep.keys:
            self.changes["key_size"] += int((sizes != rows["key_size"]).sum())
        hashed = rows["key"].to_numpy()
        if self.part.scale_keys > 1:
            # A client always uses the same copy, which keeps the reuse of keys.
            copies = rows["client"].to_numpy().astype(np.uint64) % np.uint64(self.part.scale_keys)
            hashed = hashed ^ (copies * np.uint64(_GOLDEN))
        hashed = hashed & np.uint64(0xFFFF_FFFF_FFFF_FF00)
        keys: npt.NDArray[np.uint64] = hashed | sizes.cast(pl.UInt64).to_numpy()
        return keys

    def _read_first(self) -> Iterator[pl.DataFrame]:
        """The keys whose first operation is a read, a part of the keys at a time."""
        parts = max(1, -(-self.trace.info.rows // _KEYS_AT_ONCE))
        for number in range(parts):
            seen: list[pl.DataFrame] = []
            for batch in self._batches():
                rows = batch.filter(~pl.col("skipped") & (pl.col("key") % parts == number))
                fresh = rows.with_columns(pl.Series("copy", self._keys(rows, count=False)))
                fresh = fresh.unique("copy", keep="first", maintain_order=True)
                seen = [pl.concat([*seen, fresh]).unique("copy", keep="first", maintain_order=True)]
            # If other reads of the verb have sizes, a read without one returned nothing.
            unknown = pl.when(pl.col("verb").is_in(list(self.sized_reads))).then(0).otherwise(1)
            returned = pl.coalesce(pl.col("value_size"), unknown) > 0
            found = (pl.col("kind") == "read") & returned
            yield from (one.filter(found | (pl.col("kind") == "read_modify_write")) for one in seen)


def _column(rows: pl.DataFrame, name: str) -> pl.Series:
    """An optional column; nulls if the trace doesn't have it."""
    if name in rows.columns:
        return rows[name]
    return pl.Series(name, [None], dtype=OPTIONAL[name]).new_from_index(0, len(rows))


def _most(counts: Mapping[str, int]) -> Sequence[tuple[str, int]]:
    return sorted(counts.items(), key=lambda one: (-one[1], one[0]))


class _Tape:
    """A tape that is being written: it gets its name when it is complete."""

    def __init__(self, path: Path) -> None:
        self._path, self._partial = path, path.with_suffix(".part")
        self._waiting = np.zeros(0, RECORD)
        self._contents: list[bytes] = []
        self._before = 0
        self._file = self._partial.open("wb")

    def __enter__(self) -> _Tape:
        """The tape itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Renames a complete tape, and removes a partial one."""
        with self._file:
            if kind is None and len(self._waiting):
                self._write(self._waiting, self._contents)
        if kind is None:
            self._partial.rename(self._path)
        else:
            remove_file(self._partial)

    def add(self, records: npt.NDArray[np.void], contents: Sequence[bytes]) -> None:
        """The next records, and their contents, if they are kept."""
        together = np.concatenate([self._waiting, records])
        kept = [*self._contents, *contents]
        ends = np.cumsum([len(one) for one in kept], dtype=np.int64)
        start = 0
        while len(together) - start >= RECORDS_MAX or (
            start < len(kept) and ends[-1] - (ends[start - 1] if start else 0) > HEAP_MAX
        ):
            end = start + RECORDS_MAX
            if kept:
                room = HEAP_MAX + (int(ends[start - 1]) if start else 0)
                end = min(end, int(np.searchsorted(ends, room, side="right")))
            self._write(together[start:end], kept[start:end])
            start = end
        self._waiting, self._contents = together[start:], kept[start:]

    def _write(self, records: npt.NDArray[np.void], contents: Sequence[bytes]) -> None:
        heap = b"".join(contents)
        head = np.zeros(1, HEAD)
        head["magic"], head["records"] = MAGIC, len(records)
        head["first_at_ns"], head["last_at_ns"] = records["at_ns"][0], records["at_ns"].max()
        head["before"], head["heap"] = self._before, len(heap)
        if contents:
            lengths = [len(one) for one in contents]
            records["heap"] = np.cumsum([0, *lengths[:-1]])
        self._before += len(records)
        self._file.write(head.tobytes() + records.tobytes() + heap)
