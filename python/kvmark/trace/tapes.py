"""The tapes that a trace is replayed from: its operations in records of one size, in their order.

A tape is made once and kept in the cache under what it was made of. Its form is that of the crate
`kvmark-trace`, module `tape`, of which no statements are used here.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO, ClassVar, Final

import numpy as np
import numpy.typing as npt
import polars as pl
from pydantic import ConfigDict, TypeAdapter

from kvmark.cache import cache_folder
from kvmark.errors import RunError, UsageError
from kvmark.removal import remove_file
from kvmark.trace.folder import OPTIONAL, Trace, first_line
from kvmark.trace.recording import HEAD, HEAP_MAX, KEY_KEPT, MAGIC, RECORD, RECORDS_MAX, VALUE_KEPT

_KINDS: Final = ("read", "update", "insert", "scan", "read_modify_write", "delete")
"""The engine's kinds, in their order."""
_OWN: Final = ("delete", "insert", "read", "read_modify_write")
"""What a system does in its own way, and where keys were kept `_SCAN`: hashes have no order."""
_SCAN: Final = "scan"
_WRITES: Final = frozenset({"update", "insert", "read_modify_write"})
_TTL: Final = "_ttl"
"""Behind the name of a statement that what expires is written by."""
_FORM: Final = 2
"""Goes up when the same trace would give another tape."""
_KEY_BYTES: Final = (10, 255)
_VALUE_MAX: Final = (1 << 24) - 1
_GOLDEN: Final = 0x9E37_79B9_7F4A_7C15
_VALUE_UNKNOWN: Final = 100
"""Bytes of values in a trace that names no size at all."""
_SCAN_LENGTH: Final = 100
"""Records of a scan in a trace that says no number."""
_KEYS_AT_ONCE: Final = 20_000_000
_COLUMNS: Final = ("at_ns", "client", "kind", "statement", "key", "key_size", "value_size",
                   "ttl_ms", "items")  # fmt: skip
_CONTENTS: Final = ("count", "key_content", "value_content")
"""Of the optional columns, those that a replay looks at."""


@dataclass(frozen=True, slots=True)
class TapePart:
    """Which operations of a trace are replayed, and by which statements."""

    statements: tuple[tuple[str, str], ...] = ()
    """Names of statements and what they do; none for the system's own read, insert and delete."""
    skip: tuple[str, ...] = ()
    """Verbs and kinds that are left out."""
    from_ns: int = 0
    until_ns: int | None = None
    scale_keys: float = 1
    """Keys for each that was recorded; which of them is its client's. Below 1, the part of the keys
    whose operations are replayed, drawn by their hash."""


@dataclass(frozen=True, slots=True)
class Tapes:
    """Two tapes, and what should be known of how they were made."""

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid", strict=True)

    operations: int
    """On the tape of what was recorded."""
    preloaded: int
    """On the tape of records that are read before they are written."""
    mix: tuple[tuple[str, str, int], ...]
    """By number on the tape: a statement's name or a kind, what it does, and how often."""
    clients: int
    length_ns: int
    """From its beginning to where it can begin again."""
    expiring: bool
    """Whether something of what is written goes away by itself."""
    kept: str
    """What it has of contents, for people; empty where keys and values are made anew."""
    told: tuple[str, ...]
    digest: str

    @property
    def path(self) -> Path:
        """The tape of what was recorded."""
        return tapes_folder() / f"{self.digest}.tape"

    @property
    def preload_path(self) -> Path:
        """The tape of records that are read before they are written."""
        return tapes_folder() / f"{self.digest}-preload.tape"


_TAPES: Final = TypeAdapter(Tapes)


def tapes(trace: Trace, part: TapePart) -> Tapes:
    """The tapes of a part of a trace, made now or before.

    Raises:
        UsageError: the trace has operations that can't be replayed and weren't left out, or none.
        RunError: a tape can't be written.
    """
    digest = hashlib.sha256(json.dumps([_FORM, trace.digest, asdict(part)]).encode()).hexdigest()
    facts = tapes_folder() / f"{digest}.json"
    with _alone():
        try:
            made = _TAPES.validate_json(facts.read_bytes())
            if made.path.exists() and made.preload_path.exists():
                return made
        except (OSError, ValueError):
            pass
        try:
            made = _Making(trace, part, digest).made()
            facts.write_bytes(_TAPES.dump_json(made))
        except OSError as problem:
            raise RunError(
                f"no tape of {trace.path} can be written to {tapes_folder()}:"
                f" {first_line(problem)}; set XDG_CACHE_HOME to a folder with more room, or replay"
                " a part of the trace with --from and --until"
            ) from problem
        return made


@contextmanager
def _alone() -> Iterator[None]:
    """Nobody else makes tapes meanwhile."""
    tapes_folder().mkdir(parents=True, exist_ok=True)
    with (tapes_folder() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def tapes_folder() -> Path:
    """Where tapes are kept, each under a name that says what it was made of."""
    return cache_folder() / "tapes"


class _Making:
    """Makes the tapes of one part of a trace."""

    def __init__(self, trace: Trace, part: TapePart, digest: str) -> None:
        self.trace, self.part, self.digest = trace, part, digest
        self.skipped: dict[str, int] = {}
        self.refused: dict[str, int] = {}
        self.keep = trace.info.keep
        own = (*_OWN, _SCAN) if self.keep.keys else _OWN
        known = part.statements or tuple((kind, kind) for kind in own)
        self.does = dict(known)
        self.counts: dict[str, int] = {}
        self.expires = False
        self.telling: set[str] = set()
        self.told: list[str] = []
        self.lengthened = self.shortened = self.expiring = self.several = self.of_others = 0
        self.scans = self.unsaid = 0

    def made(self) -> Tapes:
        """Writes both tapes; their facts come last."""
        if self.part.scale_keys > 1 and self.keep.keys:
            raise UsageError(
                f"scale-keys: {self.trace.path} has the very keys, which can't be multiplied; make"
                " a trace without --keep-keys"
            )
        if self.part.scale_keys > 1 and self.trace.info.clients < 2:
            raise UsageError(
                f"scale-keys: {self.trace.path} names no clients, and whose keys are whose is told"
                " by these"
            )
        mean = self._look()
        made = Tapes(
            operations=sum(self.counts.values()),
            preloaded=0,
            mix=tuple((name, self.does[name], self.counts[name]) for name in self._order()),
            clients=self.trace.info.clients,
            length_ns=self._length_ns(),
            expiring=self.expires,
            kept=self.keep.words(),
            told=(),
            digest=self.digest,
        )
        if not made.operations:
            raise UsageError(f"{self.trace.path} has no operation in the part that is asked for")
        with _Tape(made.path) as tape:
            for batch in self._batches():
                kept = batch.filter(~pl.col("skipped"))
                tape.add(*self._with_contents(self._records(kept, mean), kept))
        preloaded = 0
        with _Tape(made.preload_path) as tape:
            for found in self._read_first():
                first = found.sort("copy")
                tape.add(*self._with_contents(self._preload(first, mean), first))
                preloaded += len(first)
        self._tell()
        return Tapes(**{**asdict(made), "preloaded": preloaded, "told": tuple(self.told)})

    def _order(self) -> list[str]:
        """What is used, in the order of the statements: its places are the numbers on the tape."""
        return [name for name in self.does if name in self.counts]

    def _statement(self, verb: str, kind: str, *, expires: bool) -> str | None:
        """By what an operation is replayed: the statement of its verb, or else of its kind."""
        if not self.part.statements:
            # Whoever sets a value doesn't ask whether there is one.
            kind = "insert" if kind == "update" else kind
            return kind if kind in self.does else None
        if kind == _SCAN and not self.keep.keys:
            return None
        kind = "update" if kind in _WRITES else kind
        asked = [
            f"{word}{ending}".upper()
            for word in (verb, kind)
            for ending in ((_TTL, "") if expires else ("",))
        ]
        return next((name for name in asked if name in self.does), None)

    def _length_ns(self) -> int:
        """As long as it lasts, and as its operations are from each other in the mean."""
        lasts_ns = self.trace.info.end_ns - self.part.from_ns
        whole_ns = lasts_ns + lasts_ns // max(sum(self.counts.values()), 1)
        if self.part.until_ns is None:
            return whole_ns
        # Behind the trace's own end nothing is waited for.
        return min(self.part.until_ns - self.part.from_ns, whole_ns)

    def _batches(self) -> Iterator[pl.DataFrame]:
        """The operations that are replayed, with their verb."""
        self.of_others = 0
        optional = [name for name in _CONTENTS if name in self.trace.optional]
        for batch in self.trace.batches((*_COLUMNS, *optional)):
            yield self._chosen(batch)

    def _chosen(self, batch: pl.DataFrame) -> pl.DataFrame:
        part = pl.col("at_ns") >= self.part.from_ns
        if self.part.until_ns is not None:
            part &= pl.col("at_ns") < self.part.until_ns
        verb = pl.col("statement").str.split(" ").list.first().str.to_lowercase()
        named = batch.filter(part).with_columns(verb.alias("verb"))
        if self.part.scale_keys < 1:
            all_keys, named = len(named), named.filter(self._has(named))
            self.of_others += all_keys - len(named)
        skip = [word.lower() for word in self.part.skip]
        return named.with_columns(
            (pl.col("verb").is_in(skip) | pl.col("kind").is_in(skip)).alias("skipped"),
            pl.col("ttl_ms").is_not_null().alias("expires"),
        )

    def _has(self, rows: pl.DataFrame) -> npt.NDArray[np.bool_]:
        """Which rows are of keys that are kept: always all of a key, or none."""
        mixed = rows["key"].to_numpy() * np.uint64(_GOLDEN)
        has: npt.NDArray[np.bool_] = mixed < np.uint64(self.part.scale_keys * 2.0**64)
        return has

    def _look(self) -> float:
        """Counts what there is, and refuses what can't be replayed; the mean size of a value."""
        values = bytes_ = 0
        for batch in self._batches():
            found = batch.group_by("verb", "kind", "expires", "skipped").len()
            for verb, kind, expires, skipped, count in found.iter_rows():
                name = self._statement(verb, kind, expires=expires)
                if skipped:
                    _count(self.skipped, verb, count)
                elif name is None:
                    _count(self.refused, verb, count)
                    self.scans += count if kind == _SCAN else 0
                else:
                    _count(self.counts, name, count)
                    self._see_expiry(name, count, expires=expires)
            kept = batch.filter(~pl.col("skipped") & pl.col("value_size").is_not_null())
            self.telling |= set(kept.filter(pl.col("kind") == "read")["verb"].unique())
            values += len(kept)
            bytes_ += int(kept["value_size"].sum())
            self.several += int((batch["items"] == 0).sum())
        if self.refused:
            named = ", ".join(f"{verb} ({count:,})" for verb, count in _most(self.refused))
            words = ",".join(verb for verb, _ in _most(self.refused))
            order = ""
            if self.scans and not self.keep.keys:
                order = " (scans need --keep-keys where a trace is made: hashes have no order)"
            raise UsageError(
                f"{self.trace.path} has operations that stand for no single record elsewhere:"
                f" {named}{order}; leave them out by --skip {words}, or give a file with statements"
                " of their names by --map"
            )
        if not values:
            self.told.append(f"the trace says no sizes of values: {_VALUE_UNKNOWN} bytes each")
        return bytes_ / values if values else float(_VALUE_UNKNOWN)

    def _see_expiry(self, name: str, count: int, *, expires: bool) -> None:
        kept = expires and name.endswith(_TTL.upper())
        self.expires |= kept
        if expires and not kept:
            self.expiring += count

    def _records(self, kept: pl.DataFrame, mean: float) -> npt.NDArray[np.void]:
        """The records of operations."""
        records = np.zeros(len(kept), RECORD)
        records["at_ns"] = kept["at_ns"].to_numpy() - self.part.from_ns
        records["key"] = self._keys(kept)
        records["client"] = kept["client"].to_numpy()
        records["items"] = 1
        records["key_size"] = records["key"] & 0xFF
        writes = kept["kind"].is_in(list(_WRITES)).to_numpy()
        size = kept["value_size"].fill_null(round(mean)).clip(0, _VALUE_MAX).to_numpy()
        self.shortened += int((kept["value_size"] > _VALUE_MAX).sum())
        records["value_size"] = np.where(writes, size, 0)
        records["ttl_ms"] = kept["ttl_ms"].fill_null(0).to_numpy()
        records["statement"] = self._numbers(kept)
        kinds = np.array([_KINDS.index(self.does[name]) for name in self._order()], np.uint8)
        records["kind"] = kinds[records["statement"]]
        scans = kept["kind"] == _SCAN
        if scans.any():
            count = _column(kept, "count")
            self.unsaid += int((scans & count.is_null()).sum())
            records["count"] = np.where(scans, count.fill_null(_SCAN_LENGTH), 0)
        return records

    def _with_contents(
        self, records: npt.NDArray[np.void], rows: pl.DataFrame
    ) -> tuple[npt.NDArray[np.void], Sequence[bytes]]:
        """The records, and of each the bytes of its key and value, where they were kept."""
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
        rows_of = zip(keys, has_key, values, has_value, strict=True)
        return records, [
            (key if with_key else b"") + (value if with_value else b"")
            for key, with_key, value, with_value in rows_of
        ]

    def _numbers(self, rows: pl.DataFrame) -> npt.NDArray[np.uint16]:
        """The number of each row's statement, of the few that there are."""
        order = {name: number for number, name in enumerate(self._order())}
        few = rows.select("verb", "kind", "expires").unique()
        numbers = [
            order[self._statement(verb, kind, expires=expires) or ""]
            for verb, kind, expires in few.iter_rows()
        ]
        numbered = few.with_columns(pl.Series("number", numbers, dtype=pl.UInt16))
        asked = rows.select("verb", "kind", "expires")
        joined = asked.join(
            numbered, on=["verb", "kind", "expires"], how="left", maintain_order="left"
        )
        made: npt.NDArray[np.uint16] = joined["number"].to_numpy()
        return made

    def _keys(self, rows: pl.DataFrame, *, count: bool = True) -> npt.NDArray[np.uint64]:
        """The hash's upper bits, and the key's length in the low byte."""
        sizes = rows["key_size"].clip(*_KEY_BYTES)
        if count and not self.keep.keys:
            self.lengthened += int((sizes != rows["key_size"]).sum())
        hashed = rows["key"].to_numpy()
        if self.part.scale_keys > 1:
            # A client has the same copy of all keys, so that how soon they return stays.
            copies = rows["client"].to_numpy().astype(np.uint64) % np.uint64(self.part.scale_keys)
            hashed = hashed ^ (copies * np.uint64(_GOLDEN))
        hashed = hashed & np.uint64(0xFFFF_FFFF_FFFF_FF00)
        made: npt.NDArray[np.uint64] = hashed | sizes.cast(pl.UInt64).to_numpy()
        return made

    def _preload(self, first: pl.DataFrame, mean: float) -> npt.NDArray[np.void]:
        records = np.zeros(len(first), RECORD)
        records["key"] = first["copy"].to_numpy()
        records["items"] = 1
        records["key_size"] = records["key"] & 0xFF
        size = first["value_size"].fill_null(round(mean)).clip(0, _VALUE_MAX)
        records["value_size"] = size.to_numpy()
        records["kind"] = _KINDS.index("update" if self.part.statements else "insert")
        return records

    def _read_first(self) -> Iterator[pl.DataFrame]:
        """The keys whose first operation reads something, some at a time."""
        parts = max(1, -(-self.trace.info.rows // _KEYS_AT_ONCE))
        for number in range(parts):
            seen: pl.DataFrame | None = None
            for batch in self._batches():
                mine = batch.filter(~pl.col("skipped") & (pl.col("key") % parts == number))
                fresh = mine.with_columns(pl.Series("copy", self._keys(mine, count=False)))
                fresh = fresh.unique("copy", keep="first", maintain_order=True)
                together = fresh if seen is None else pl.concat([seen, fresh])
                seen = together.unique("copy", keep="first", maintain_order=True)
            if seen is not None:
                # A read that returned nothing found nothing, where others of its verb say sizes.
                unsaid = pl.when(pl.col("verb").is_in(list(self.telling))).then(0).otherwise(1)
                returned = pl.coalesce(pl.col("value_size"), unsaid) > 0
                found = (pl.col("kind") == "read") & returned
                yield seen.filter(found | (pl.col("kind") == "read_modify_write"))

    def _tell(self) -> None:
        """What a reader of the replay's figures should know."""
        for verb, count in _most(self.skipped):
            self.told.append(f"left out on purpose: {verb} ({count:,})")
        told: Mapping[str, int] = {
            "keys shorter than 10 bytes or longer than 255 are as long as these": self.lengthened,
            "values are no longer than 16 MiB": self.shortened,
            "a time to live is left out": self.expiring,
            "each key of an operation on several is an operation": self.several,
            "operations of other keys are left out, and the rate falls with them": self.of_others,
            f"a scan that says no number of records asks for {_SCAN_LENGTH}": self.unsaid,
        }
        self.told += [f"{what}: {count:,}" for what, count in told.items() if count]


def _column(rows: pl.DataFrame, name: str) -> pl.Series:
    """An optional column, of nulls where a trace hasn't got it."""
    if name in rows.columns:
        return rows[name]
    return pl.Series(name, [None], dtype=OPTIONAL[name]).new_from_index(0, len(rows))


def _count(counted: dict[str, int], name: str, count: int) -> None:
    counted[name] = counted.get(name, 0) + count


def _most(counted: Mapping[str, int]) -> Sequence[tuple[str, int]]:
    return sorted(counted.items(), key=lambda one: (-one[1], one[0]))


class _Tape:
    """A tape that is being written: it has its name only once it is whole."""

    def __init__(self, path: Path) -> None:
        self._path, self._beside = path, path.with_suffix(".part")
        self._waiting = np.zeros(0, RECORD)
        self._contents: list[bytes] = []
        self._before = 0
        self._file: BinaryIO | None = None

    def __enter__(self) -> _Tape:
        """The tape itself."""
        self._file = self._beside.open("wb")
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Gives a whole tape its name, and removes another."""
        file = self._file
        if file is None:
            return
        try:
            if kind is None and len(self._waiting):
                self._write(self._waiting, self._contents)
        finally:
            file.close()
        if kind is None:
            self._beside.rename(self._path)
        else:
            remove_file(self._beside)

    def add(self, records: npt.NDArray[np.void], contents: Sequence[bytes]) -> None:
        """The next records, and what is kept of each, if anything is."""
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
        if self._file is not None:
            self._file.write(head.tobytes() + records.tobytes() + heap)
