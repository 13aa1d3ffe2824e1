"""YCSB's properties: each is honoured or refused by name, none is ignored.

`YcsbProperties` holds a typed value for every property that changes what is done; its defaults are
CoreWorkload's and Client's. `ycsb_values` names the properties that leave no choice and those that
are refused. Counts are 64-bit, where YCSB cuts several of them to 31 bits.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, TypeVar

from pydantic import ValidationError

from kvmark.drivers import Location, drivers, schemes
from kvmark.errors import SpecError, UnsupportedProperty
from kvmark.frontends.ycsb.properties import Given, merged
from kvmark.frontends.ycsb.values import (
    ALWAYS,
    BINDING_PREFIXES,
    LARGEST_INT,
    REFUSED,
    boolean,
    choice,
    exactly,
    integer,
    number,
    percentiles,
    read_length_histogram,
    text,
)
from kvmark.spec.quantity import LARGEST
from kvmark.spec.suggest import did_you_mean, shown
from kvmark.spec.workload import LARGEST_U32, WorkloadSpec

T = TypeVar("T")


def _honoured(name: str, parse: Callable[[str], T], default: T) -> T:
    """A field for one property; typed as its value, since the dataclass turns it into one."""
    return dataclasses.field(default=default, metadata={"name": name, "parse": parse})


def _bindings() -> Mapping[str, str]:
    """YCSB's bindings and the drivers that measure the same systems."""
    return {name: one.name for one in drivers().values() for name in one.ycsb_bindings}


def _binding(given: str) -> str:
    """A binding's name or class."""
    return choice(*_bindings())(given)


@dataclass(frozen=True, kw_only=True)
class YcsbProperties:
    """What a set of YCSB properties asks for. Field names are the properties', without dots."""

    table: str = _honoured("table", text, "usertable")
    fieldcount: int = _honoured("fieldcount", integer(1, LARGEST_U32), 10)
    fieldnameprefix: str = _honoured("fieldnameprefix", exactly, "field")
    fieldlength: int = _honoured("fieldlength", integer(0, LARGEST_INT), 100)
    minfieldlength: int = _honoured("minfieldlength", integer(0, LARGEST_INT), 1)
    fieldlengthdistribution: str = _honoured(
        "fieldlengthdistribution",
        choice("constant", "uniform", "zipfian", "histogram"),
        "constant",
    )
    fieldlengthhistogram: str = _honoured("fieldlengthhistogram", text, "hist.txt")
    readallfields: bool = _honoured("readallfields", boolean, True)
    readallfieldsbyname: bool = _honoured("readallfieldsbyname", boolean, False)
    writeallfields: bool = _honoured("writeallfields", boolean, False)
    dataintegrity: bool = _honoured("dataintegrity", boolean, False)
    readproportion: float = _honoured("readproportion", number(0), 0.95)
    updateproportion: float = _honoured("updateproportion", number(0), 0.05)
    insertproportion: float = _honoured("insertproportion", number(0), 0.0)
    scanproportion: float = _honoured("scanproportion", number(0), 0.0)
    readmodifywriteproportion: float = _honoured("readmodifywriteproportion", number(0), 0.0)
    deleteproportion: float = _honoured("deleteproportion", number(0), 0.0)
    """Not YCSB's: its CoreWorkload cannot delete."""
    requestdistribution: str = _honoured(
        "requestdistribution",
        choice("uniform", "zipfian", "latest", "hotspot", "sequential", "exponential"),
        "uniform",
    )
    hotspotdatafraction: float = _honoured("hotspotdatafraction", number(0, 1), 0.2)
    hotspotopnfraction: float = _honoured("hotspotopnfraction", number(0, 1), 0.8)
    exponential_percentile: float = _honoured("exponential.percentile", number(0, 100), 95.0)
    exponential_frac: float = _honoured("exponential.frac", number(0), 0.8571428571)
    zeropadding: int = _honoured("zeropadding", integer(0, 1000), 1)
    minscanlength: int = _honoured("minscanlength", integer(0, LARGEST_INT), 1)
    maxscanlength: int = _honoured("maxscanlength", integer(0, LARGEST_INT), 1000)
    scanlengthdistribution: str = _honoured(
        "scanlengthdistribution", choice("uniform", "zipfian"), "uniform"
    )
    insertorder: str = _honoured("insertorder", exactly, "hashed")
    """`hashed`; YCSB takes any other word for ordered, and so does this."""
    insertstart: int = _honoured("insertstart", integer(0), 0)
    insertcount: int | None = _honoured("insertcount", integer(0), None)
    """None for recordcount − insertstart."""
    recordcount: int | None = _honoured("recordcount", integer(1), None)
    """None when not given: whoever runs it says how many."""
    operationcount: int = _honoured("operationcount", integer(0), 0)
    """0 for no limit."""
    maxexecutiontime_s: int = _honoured("maxexecutiontime", integer(0, LARGEST_INT), 0)
    """0 for no limit."""
    threadcount: int = _honoured("threadcount", integer(1, LARGEST_U32), 1)
    target: int = _honoured("target", integer(0), 0)
    """Operations per second over all threads; 0 for no limit."""
    dotransactions: bool = _honoured("dotransactions", boolean, True)
    """False for the load."""
    status_interval_s: int | None = _honoured("status.interval", integer(1, LARGEST_INT), None)
    """Becomes the length of a recorded interval."""
    label: str = _honoured("label", exactly, "")
    """Text to tell this run by."""
    db: str = _honoured("db", _binding, "")
    """A hint at the system; it must not contradict the system's URL."""
    hdrhistogram_percentiles: tuple[float, ...] = _honoured(
        "hdrhistogram.percentiles", percentiles, (50.0, 95.0, 99.0)
    )
    """Percentiles in the exported text."""
    measurement_interval: str = _honoured(
        "measurement.interval", choice("op", "intended", "both"), "op"
    )
    """Which series the exported text has; both are always recorded."""
    given: Mapping[str, Given] = dataclasses.field(
        default_factory=lambda: MappingProxyType({}), compare=False, repr=False
    )
    """Every property that was given, by name, and where."""

    def error(self, name: str, sentence: str) -> SpecError:
        """A complaint about the property of that name, with its place if it was given."""
        complaint = f"property {shown(name)} {sentence}"
        given = self.given.get(name)
        return given.error(complaint) if given else SpecError(complaint)

    @property
    def insert_records(self) -> int:
        """How many records a load inserts, and how many the requests are spread over."""
        if self.insertcount is not None:
            return self.insertcount
        return self.records - self.insertstart

    @property
    def records(self) -> int:
        """The number of records; an error when recordcount was not given."""
        if self.recordcount is None:
            raise self.error("recordcount", "is missing; give it or --records")
        return self.recordcount

    def with_sizes(self, records: int | None, operations: int | None) -> YcsbProperties:
        """The same, with other numbers of records and operations where they are not None."""
        changes: dict[str, Any] = {}
        if records is not None:
            changes["recordcount"] = records
        if operations is not None:
            changes["operationcount"] = operations
        changed = dataclasses.replace(self, **changes)
        _check(changed)
        return changed

    def over(self, base: YcsbProperties) -> YcsbProperties:
        """`base`, overridden by the properties that were given here."""
        return read_ycsb([], tuple(self.given.values()), base)

    def check_driver(self, driver: str) -> None:
        """Raises `SpecError` when the property `db` names another system than the one measured."""
        wanted = _bindings().get(self.db, driver)
        if wanted != driver:
            raise self.error("db", f"asks for {wanted}, but the system measured is {driver}")

    def to_workload(self, name: str) -> WorkloadSpec:
        """The workload of the transactions; `name` is shown in tables."""
        dataset = self._dataset()
        dataset["records"] = self.records - self.insertstart
        checks = self.dataintegrity
        reads = "all_by_name" if self.readallfieldsbyname or checks else "all"
        group = {
            "mix": self._mix(),
            "keys": self._keys(),
            "key_range": self._key_range(),
            "read_fields": reads if self.readallfields else "one",
            "write_fields": "all" if self.writeallfields else "one",
            "scan_length": {
                "distribution": self.scanlengthdistribution,
                "min": self.minscanlength,
                "max": self.maxscanlength,
            },
            "check_values": "full" if checks else "tag",
        }
        return _workload({"name": name, "dataset": dataset, "groups": [group]})

    def to_load(self, name: str) -> WorkloadSpec:
        """The load as a workload of its own: inserts into a store that holds nothing yet."""
        dataset = {**self._dataset(), "records": self.insert_records, "loaded": False}
        group = {"mix": {"insert": 1.0}}
        fixed = {"name": name, "once_per_record": True}
        return _workload({**fixed, "dataset": dataset, "groups": [group]})

    def _dataset(self) -> dict[str, Any]:
        return {
            "table": self.table,
            "start": self.insertstart,
            "key": {
                "prefix": "user",
                "order": "hashed" if self.insertorder == "hashed" else "ordered",
                "zero_padding": self.zeropadding,
            },
            "fields": {
                "count": self.fieldcount,
                "name_prefix": self.fieldnameprefix,
                "length": self._field_length(),
            },
            "values": "integrity" if self.dataintegrity else "random",
        }

    def _field_length(self) -> dict[str, Any]:
        law = self.fieldlengthdistribution
        if law == "constant":
            return {"distribution": law, "size": self.fieldlength}
        if law != "histogram":
            return {"distribution": law, "min": self.minfieldlength, "max": self.fieldlength}
        try:
            block_size, weights = read_length_histogram(self.fieldlengthhistogram)
        except SpecError as problem:
            if problem.file is not None:
                raise
            raise self.error("fieldlengthhistogram", problem.message) from None
        return {"distribution": law, "block_size": block_size, "weights": list(weights)}

    def _mix(self) -> dict[str, float]:
        return {
            "read": self.readproportion,
            "update": self.updateproportion,
            "insert": self.insertproportion,
            "scan": self.scanproportion,
            "read_modify_write": self.readmodifywriteproportion,
            "delete": self.deleteproportion,
        }

    def _keys(self) -> dict[str, Any]:
        law = self.requestdistribution
        if law == "zipfian":
            # In this order, and in doubles, as CoreWorkload computes it.
            expected = self.operationcount * self.insertproportion * 2.0
            if self.records + expected > LARGEST / 2:
                raise self.error("insertproportion", "and operationcount ask for too many keys")
            return {"distribution": "ycsb_zipfian", "expected_new": int(expected)}
        if law == "hotspot":
            data, operations = self.hotspotdatafraction, self.hotspotopnfraction
            return {"distribution": law, "data_fraction": data, "operation_fraction": operations}
        if law == "exponential":
            percentile, fraction = self.exponential_percentile, self.exponential_frac
            return {"distribution": law, "percentile": percentile, "fraction": fraction}
        return {"distribution": law}

    def _key_range(self) -> dict[str, int]:
        if self.requestdistribution in ("latest", "exponential"):
            # Both count back from the newest record, whatever part this client inserted.
            return {"start": 0, "count": self.records}
        return {"start": self.insertstart, "count": self.insert_records}


def _workload(content: dict[str, Any]) -> WorkloadSpec:
    try:
        return WorkloadSpec.model_validate(content)
    except ValidationError as problem:
        first = problem.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise SpecError(f"the properties make no workload: {place}: {first['msg']}") from None


def read_ycsb(
    files: Sequence[Sequence[Given]],
    assigned: Sequence[Given] = (),
    base: YcsbProperties | None = None,
) -> YcsbProperties:
    """Types and checks properties: `-P` files in order, then `-p` and flags, over `base`.

    Raises `UnsupportedProperty` for what YCSB would do and kvmark does not, `SpecError` for an
    unknown property, a value that means nothing and values that contradict each other, all with
    file and line.
    """
    given = merged(files, assigned)
    values: dict[str, object] = {}
    # A class that isn't carried out has properties of its own, which nobody knows here.
    for one in sorted(given.values(), key=lambda one: one.name != "workload"):
        field = _FIELDS.get(one.name)
        parse = field.metadata["parse"] if field else _always(one)
        try:
            value = parse(one.value)
        except SpecError as problem:
            sentence = f"property {shown(one.name)} {problem.message}"
            raise type(problem)(sentence, file=one.file, line=one.line) from None
        if field:
            values[field.name] = value
    start = base or YcsbProperties()
    everything = MappingProxyType({**start.given, **given})
    changed: dict[str, Any] = {**values, "given": everything}
    properties = dataclasses.replace(start, **changed)
    _check(properties)
    return properties


def _always(given: Given) -> Callable[[str], object]:
    """The parser of a property that changes nothing; raises when there is no such property."""
    name = given.name
    if name in ALWAYS:
        return ALWAYS[name]
    prefixed = (why for prefix, why in _refused_beginnings() if name.startswith(prefix))
    reason = REFUSED.get(name) or next(prefixed, None)
    if reason is not None:
        sentence = f"property {shown(name)} is not supported: {reason}"
        raise UnsupportedProperty(sentence, file=given.file, line=given.line)
    hint = did_you_mean(name, [*_FIELDS, *ALWAYS, *REFUSED])
    raise given.error(f"unknown property {shown(name)}{hint}")


def _refused_beginnings() -> Iterator[tuple[str, str]]:
    """How the names of properties begin that are refused, and why."""
    yield from BINDING_PREFIXES.items()
    for scheme in schemes().values():
        is_server = scheme.driver.place is Location.HOSTS
        with_options = f"give options in the URL, --system {scheme.example}?option=value"
        why = REFUSED["host"] if is_server else with_options
        yield from ((beginning, why) for beginning in scheme.driver.ycsb_properties)


def _check(properties: YcsbProperties) -> None:
    """What must hold between properties."""
    lengths = properties.fieldlengthdistribution
    if properties.dataintegrity and lengths != "constant":
        raise properties.error("dataintegrity", "needs fieldlengthdistribution=constant")
    if lengths in ("uniform", "zipfian") and properties.minfieldlength > properties.fieldlength:
        raise properties.error("minfieldlength", "must not be above fieldlength")
    if properties.minscanlength > properties.maxscanlength:
        raise properties.error("minscanlength", "must not be above maxscanlength")
    if sum(properties._mix().values()) <= 0:
        raise properties.error("readproportion", "and the others are all 0: nothing would be done")
    if properties.requestdistribution == "exponential":
        if not 0 < properties.exponential_percentile < 100:
            raise properties.error("exponential.percentile", "must be above 0 and below 100")
        if properties.exponential_frac <= 0:
            raise properties.error("exponential.frac", "must be above 0")
    if properties.recordcount is not None:
        _check_inserts(properties, properties.recordcount)


def _check_inserts(properties: YcsbProperties, recordcount: int) -> None:
    if properties.insertstart >= recordcount:
        raise properties.error("insertstart", f"must be below recordcount ({recordcount})")
    if properties.insertcount == 0:
        raise properties.error("insertcount", "must be above 0")
    if properties.insertstart + properties.insert_records > recordcount:
        sentence = f"and insertstart together must not be above recordcount ({recordcount})"
        raise properties.error("insertcount", sentence)


_FIELDS: Final[Mapping[str, dataclasses.Field[Any]]] = MappingProxyType(
    {
        field.metadata["name"]: field
        for field in dataclasses.fields(YcsbProperties)
        if "name" in field.metadata
    }
)


def flag_properties(
    *,
    threads: int | None = None,
    target: int | None = None,
    label: str | None = None,
    db: str | None = None,
    load: bool = False,
    transactions: bool = False,
    status: bool = False,
) -> tuple[Given, ...]:
    """The properties that YCSB's own flags stand for: -threads -target -l -db -load -t -s."""
    if load and transactions:
        raise SpecError("-load and -t exclude each other; give one of them")
    flags: list[tuple[str, str, str]] = []
    valued = (("-threads", "threadcount", threads), ("-target", "target", target))
    flags += [(flag, name, str(value)) for flag, name, value in valued if value is not None]
    named = (("-l", "label", label), ("-db", "db", db))
    flags += [(flag, name, value) for flag, name, value in named if value is not None]
    flags += [("-load", "dotransactions", "false")] if load else []
    flags += [("-t", "dotransactions", "true")] if transactions else []
    flags += [("-s", "status", "true")] if status else []
    return tuple(Given(name, value, flag) for flag, name, value in flags)


_COMMON: Final = {"recordcount": "1000", "operationcount": "1000", "readallfields": "true"}

_PARTS: Final = (
    "readproportion",
    "updateproportion",
    "insertproportion",
    "scanproportion",
    "readmodifywriteproportion",
)


def _core(distribution: str, *proportions: float, **more: str) -> Mapping[str, str]:
    parts = {name: str(part) for name, part in zip(_PARTS, proportions, strict=True)}
    return MappingProxyType({**_COMMON, "requestdistribution": distribution, **parts, **more})


CORE_WORKLOADS: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        "a": _core("zipfian", 0.5, 0.5, 0, 0, 0),
        "b": _core("zipfian", 0.95, 0.05, 0, 0, 0),
        "c": _core("zipfian", 1.0, 0, 0, 0, 0),
        "d": _core("latest", 0.95, 0, 0.05, 0, 0),
        "e": _core("zipfian", 0, 0, 0.05, 0.95, 0, maxscanlength="100"),
        "f": _core("zipfian", 0.5, 0, 0, 0, 0.5),
    }
)
"""The properties of YCSB's six core workloads."""


def core_workload(letter: str) -> YcsbProperties:
    """The properties of one of YCSB's core workloads, `a` to `f`."""
    if letter not in CORE_WORKLOADS:
        hint = did_you_mean(letter, CORE_WORKLOADS)
        raise SpecError(f"there is no YCSB workload {shown(letter)}{hint}")
    file = f"workload{letter}"
    given = [Given(name, value, file) for name, value in CORE_WORKLOADS[letter].items()]
    return read_ycsb([given])
