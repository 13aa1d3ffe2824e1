"""YCSB's properties as workloads and runs. Each property is supported or rejected by name.

`YcsbProperties` has a typed value for every property that has a choice; its defaults are those of
CoreWorkload and Client. Counts have 64 bits, where YCSB cuts several of them to 31.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from pydantic import ValidationError

from kvmark.drivers import Location, drivers, schemes
from kvmark.errors import SpecError, UnsupportedProperty
from kvmark.frontends.ycsb.options import YcsbOptions
from kvmark.frontends.ycsb.properties import (
    ALWAYS,
    CORE_WORKLOADS,
    LARGEST_INT,
    REFUSED,
    REFUSED_PREFIXES,
    STEPS,
    Property,
    boolean,
    choice,
    integer,
    number,
    percentiles,
    read_length_histogram,
    text,
)
from kvmark.spec.quantity import LARGEST
from kvmark.spec.run import RunSpec
from kvmark.spec.suggest import did_you_mean, shown
from kvmark.spec.url import SystemUrl
from kvmark.spec.workload import LARGEST_U32, WorkloadSpec

_T = TypeVar("_T")


def _supported(parse: Callable[[str], _T], default: _T, name: str = "") -> _T:
    """The dataclass field of a property, typed as its value; `name` if the field has another."""
    return dataclasses.field(default=default, metadata={"name": name, "parse": parse})


def _drivers_by_binding() -> Mapping[str, str]:
    """YCSB's bindings, and the drivers for the same systems."""
    return {name: one.name for one in drivers().values() for name in one.ycsb_bindings}


@dataclass(frozen=True, kw_only=True)
class YcsbProperties:
    """A set of YCSB properties. Field names are the properties', without dots."""

    table: str = _supported(text, "usertable")
    fieldcount: int = _supported(integer(1, LARGEST_U32), 10)
    fieldnameprefix: str = _supported(str, "field")
    fieldlength: int = _supported(integer(0, LARGEST_INT), 100)
    minfieldlength: int = _supported(integer(0, LARGEST_INT), 1)
    fieldlengthdistribution: str = _supported(
        choice("constant", "uniform", "zipfian", "histogram"), "constant"
    )
    fieldlengthhistogram: str = _supported(text, "hist.txt")
    readallfields: bool = _supported(boolean, True)
    readallfieldsbyname: bool = _supported(boolean, False)
    writeallfields: bool = _supported(boolean, False)
    dataintegrity: bool = _supported(boolean, False)
    readproportion: float = _supported(number(0), 0.95)
    updateproportion: float = _supported(number(0), 0.05)
    insertproportion: float = _supported(number(0), 0.0)
    scanproportion: float = _supported(number(0), 0.0)
    readmodifywriteproportion: float = _supported(number(0), 0.0)
    deleteproportion: float = _supported(number(0), 0.0)
    """Not YCSB's: its CoreWorkload cannot delete."""
    requestdistribution: str = _supported(
        choice("uniform", "zipfian", "latest", "hotspot", "sequential", "exponential"), "uniform"
    )
    hotspotdatafraction: float = _supported(number(0, 1), 0.2)
    hotspotopnfraction: float = _supported(number(0, 1), 0.8)
    exponential_percentile: float = _supported(number(0, 100), 95.0, "exponential.percentile")
    exponential_frac: float = _supported(number(0), 0.8571428571, "exponential.frac")
    zeropadding: int = _supported(integer(0, 1000), 1)
    minscanlength: int = _supported(integer(0, LARGEST_INT), 1)
    maxscanlength: int = _supported(integer(0, LARGEST_INT), 1000)
    scanlengthdistribution: str = _supported(choice("uniform", "zipfian"), "uniform")
    insertorder: str = _supported(str, "hashed")
    """Any value but `hashed` means ordered, as in YCSB."""
    insertstart: int = _supported(integer(0), 0)
    insertcount: int | None = _supported(integer(0), None)
    """None for recordcount − insertstart."""
    recordcount: int | None = _supported(integer(1), None)
    operationcount: int = _supported(integer(0), 0)
    """0 for no limit."""
    maxexecutiontime_s: int = _supported(integer(0, LARGEST_INT), 0, "maxexecutiontime")
    """0 for no limit."""
    threadcount: int = _supported(integer(1, LARGEST_U32), 1)
    target: int = _supported(integer(0), 0)
    """Operations per second over all threads; 0 for no limit."""
    dotransactions: bool = _supported(boolean, True)
    """False for the load."""
    status_interval_s: int | None = _supported(integer(1, LARGEST_INT), None, "status.interval")
    """The length of a recorded interval."""
    label: str = _supported(str, "")
    """A tag of the run."""
    db: str = _supported(choice(*_drivers_by_binding()), "")
    """Must agree with the system's URL."""
    hdrhistogram_percentiles: tuple[float, ...] = _supported(
        percentiles, (50.0, 95.0, 99.0), "hdrhistogram.percentiles"
    )
    """Percentiles in the exported text."""
    measurement_interval: str = _supported(
        choice("op", "intended", "both"), "op", "measurement.interval"
    )
    """The series in the exported text; both are always recorded."""
    given: Mapping[str, Property] = dataclasses.field(
        default_factory=dict, compare=False, repr=False
    )
    """The properties that a file or option sets, by name."""

    def error(self, name: str, message: str) -> SpecError:
        """An error about a property, with its place if it was set."""
        message = f"property {shown(name)} {message}"
        return self.given[name].error(message) if name in self.given else SpecError(message)

    @property
    def insert_records(self) -> int:
        """Number of records that a load inserts and requests choose from."""
        inserted = self.insertcount
        return self.records - self.insertstart if inserted is None else inserted

    @property
    def records(self) -> int:
        """Number of records.

        Raises:
            SpecError: recordcount is missing.
        """
        if self.recordcount is None:
            raise self.error("recordcount", "is missing; give it or --records")
        return self.recordcount

    def to_workload(self, name: str) -> WorkloadSpec:
        """The workload of the transactions."""
        dataset = {**self._dataset(), "records": self.records - self.insertstart}
        # Some distributions count back from the newest record, also if this client inserted a part.
        backwards = self.requestdistribution in ("latest", "exponential")
        start, count = (0, self.records) if backwards else (self.insertstart, self.insert_records)
        reads = "all_by_name" if self.readallfieldsbyname or self.dataintegrity else "all"
        group = {
            "mix": self._mix(),
            "keys": self._keys(),
            "key_range": {"start": start, "count": count},
            "read_fields": reads if self.readallfields else "one",
            "write_fields": "all" if self.writeallfields else "one",
            "scan_length": {
                "distribution": self.scanlengthdistribution,
                "min": self.minscanlength,
                "max": self.maxscanlength,
            },
            "check_values": "full" if self.dataintegrity else "tag",
        }
        return _workload({"name": name, "dataset": dataset, "groups": [group]})

    def to_load(self, name: str) -> WorkloadSpec:
        """The workload of the load: it inserts each record once into an empty store."""
        dataset = {**self._dataset(), "records": self.insert_records, "loaded": False}
        content = {"name": name, "once_per_record": True, "dataset": dataset}
        return _workload({**content, "groups": [{"mix": {"insert": 1.0}}]})

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
        kinds = ("read", "update", "insert", "scan", "read_modify_write", "delete")
        return {kind: getattr(self, f"{kind.replace('_', '')}proportion") for kind in kinds}

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


_FIELDS: Final[Mapping[str, dataclasses.Field[Any]]] = {
    field.metadata["name"] or field.name: field
    for field in dataclasses.fields(YcsbProperties)
    if field.metadata
}


def _workload(content: dict[str, Any]) -> WorkloadSpec:
    try:
        return WorkloadSpec.model_validate(content)
    except ValidationError as problem:
        first = problem.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise SpecError(f"the properties make no workload: {place}: {first['msg']}") from None


def read_ycsb(
    files: Sequence[Sequence[Property]],
    assigned: Sequence[Property] = (),
    base: YcsbProperties | None = None,
) -> YcsbProperties:
    """Parses and checks properties: `-P` files in order, then `-p` and flags, over `base`.

    Raises:
        UnsupportedProperty: only YCSB supports a property or its value.
        SpecError: a property is unknown, its value is invalid, or values contradict each other.
    """
    given = {one.name: one for one in (*(one for file in files for one in file), *assigned)}
    values: dict[str, Any] = {}
    # An unsupported class is reported before its own properties, which are unknown here.
    for one in sorted(given.values(), key=lambda one: one.name != "workload"):
        field = _FIELDS.get(one.name)
        parse = field.metadata["parse"] if field else _parser_of_fixed(one)
        try:
            value = parse(one.value)
        except SpecError as problem:
            message = f"property {shown(one.name)} {problem.message}"
            raise type(problem)(message, file=one.file, line=one.line) from None
        if field:
            values[field.name] = value
    start = base or YcsbProperties()
    properties = replace(start, **values, given={**start.given, **given})
    _check(properties)
    return properties


def _parser_of_fixed(given: Property) -> Callable[[str], object]:
    """The parser of a property without a choice.

    Raises:
        SpecError: the property is unknown or unsupported.
    """
    name = given.name
    if name in ALWAYS:
        return ALWAYS[name]
    prefixes = dict(REFUSED_PREFIXES)
    for scheme in schemes().values():
        in_url = f"give options in the URL, --system {scheme.example}?option=value"
        why = REFUSED["host"] if scheme.driver.place is Location.HOSTS else in_url
        for prefix in scheme.driver.ycsb_properties:
            prefixes.setdefault(prefix, why)
    prefixed = (reason for prefix, reason in prefixes.items() if name.startswith(prefix))
    reason = REFUSED.get(name) or next(prefixed, None)
    if reason is not None:
        message = f"property {shown(name)} is not supported: {reason}"
        raise UnsupportedProperty(message, file=given.file, line=given.line)
    hint = did_you_mean(name, [*_FIELDS, *ALWAYS, *REFUSED])
    raise given.error(f"unknown property {shown(name)}{hint}")


def _check(one: YcsbProperties) -> None:
    """Checks properties against each other."""
    lengths = one.fieldlengthdistribution
    if one.dataintegrity and lengths != "constant":
        raise one.error("dataintegrity", "needs fieldlengthdistribution=constant")
    if lengths in ("uniform", "zipfian") and one.minfieldlength > one.fieldlength:
        raise one.error("minfieldlength", "must not be above fieldlength")
    if one.minscanlength > one.maxscanlength:
        raise one.error("minscanlength", "must not be above maxscanlength")
    if sum(one._mix().values()) <= 0:
        raise one.error("readproportion", "and the others are all 0: nothing would be done")
    if one.requestdistribution == "exponential":
        if not 0 < one.exponential_percentile < 100:
            raise one.error("exponential.percentile", "must be above 0 and below 100")
        if one.exponential_frac <= 0:
            raise one.error("exponential.frac", "must be above 0")
    if one.recordcount is None:
        return
    if one.insertstart >= one.recordcount:
        raise one.error("insertstart", f"must be below recordcount ({one.recordcount})")
    if one.insertcount == 0:
        raise one.error("insertcount", "must be above 0")
    if one.insertstart + one.insert_records > one.recordcount:
        limit = f"must not be above recordcount ({one.recordcount})"
        raise one.error("insertcount", f"and insertstart together {limit}")


def flag_properties(options: YcsbOptions) -> tuple[Property, ...]:
    """The properties that YCSB's flags -db, -l, -load, -t and -s set."""
    if options.load and options.transactions:
        raise SpecError("-load and -t exclude each other; give one of them")
    flags = (
        ("-db", "db", options.database),
        ("-l", "label", options.label),
        ("-load", "dotransactions", "false" if options.load else None),
        ("-t", "dotransactions", "true" if options.transactions else None),
        ("-s", "status", "true" if options.status else None),
    )
    return tuple(Property(name, value, flag) for flag, name, value in flags if value is not None)


def _core_workload(letter: str) -> YcsbProperties:
    file = f"workload{letter}"
    return read_ycsb([[Property(*one, file) for one in CORE_WORKLOADS[letter].items()]])


def ycsb_run(
    step: str,
    properties: YcsbProperties,
    system: SystemUrl,
    *,
    records: int | None = None,
    operations: int | None = None,
    **overrides: Any,
) -> RunSpec:
    """One step as a run.

    A core workload's own properties are overridden by those that were set. `records` is the number
    of records at the beginning of the step; with `operations` it overrides the properties.
    `overrides` are fields of `RunSpec`.

    Raises:
        SpecError: the step is unknown, or the properties contradict it or each other.
    """
    if step not in STEPS:
        raise SpecError(f"there is no YCSB step {shown(step)}{did_you_mean(step, STEPS)}")
    driver = _drivers_by_binding().get(properties.db, system.driver)
    if driver != system.driver:
        message = f"asks for {driver}, but the system measured is {system.driver}"
        raise properties.error("db", message)
    if step != "load" and not properties.dotransactions:
        raise properties.error("dotransactions", f"asks for the load, but the step is {step}")
    if step in CORE_WORKLOADS:
        properties = read_ycsb([], tuple(properties.given.values()), _core_workload(step))
    sizes = {"recordcount": records, "operationcount": operations}
    changes: dict[str, Any] = {name: size for name, size in sizes.items() if size is not None}
    properties = replace(properties, **changes)
    _check(properties)
    workload = _step_workload(step, properties)
    # Load and delete process each record once: operationcount doesn't apply.
    count = None if workload.once_per_record else properties.operationcount or None
    limit_s = properties.maxexecutiontime_s
    ends = (count, limit_s, overrides.get("duration_ns"), overrides.get("until_stderr"))
    if not workload.once_per_record and not any(ends):
        raise properties.error("operationcount", "is missing, and nothing else ends the run")
    fields: dict[str, Any] = {
        "workload": workload,
        "system": system,
        "operations": count,
        "duration_ns": limit_s * 10**9 if limit_s else None,
        "clients": properties.threadcount,
        "rate": float(properties.target) if properties.target else None,
        "load": "never",
        "settle": False,
    }
    if properties.status_interval_s is not None:
        fields["interval_ns"] = properties.status_interval_s * 10**9
    return RunSpec(**{**fields, **overrides})


def _step_workload(step: str, properties: YcsbProperties) -> WorkloadSpec:
    if step == "load":
        return properties.to_load("ycsb/load")
    if step == "delete":
        load = properties.to_load("ycsb/delete").model_dump(by_alias=True)
        dataset = {**load["dataset"], "loaded": True}
        groups = [{"mix": {"delete": 1.0}, "keys": "sequential"}]
        return WorkloadSpec.model_validate({**load, "dataset": dataset, "groups": groups})
    workload = properties.to_workload(f"ycsb/{step}")
    if step == "run":
        return workload
    sizes = ("recordcount", "operationcount", "insertstart", "insertcount")
    own: dict[str, Any] = {name: getattr(properties, name) for name in sizes}
    original = replace(_core_workload(step), **own)
    if workload.groups == original.to_workload(workload.name).groups:
        return workload
    # Tables must not show a changed workload under the original's name.
    return workload.model_copy(update={"name": f"{workload.name}-modified"})
