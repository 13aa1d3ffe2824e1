"""Every YCSB property is supported or rejected by name; none is ignored."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvmark.errors import KvmarkError, SpecError, UnsupportedProperty
from kvmark.frontends.ycsb.properties import (
    ALWAYS,
    REFUSED,
    REFUSED_PREFIXES,
    STEPS,
    Property,
    parse_assignment,
    parse_properties,
)
from kvmark.frontends.ycsb.workloads import (
    YcsbProperties,
    flag_properties,
    read_ycsb,
    ycsb_run,
)
from kvmark.plan.compile import compile_run
from kvmark.plan.model import Plan
from kvmark.spec.url import parse_system_url

SYSTEM = parse_system_url("null:")
SIZES = "recordcount=1000\noperationcount=1000\n"


def properties(text: str) -> YcsbProperties:
    return read_ycsb([parse_properties(text, "workload")])


def plan_ycsb(step: str, said: YcsbProperties, cores: int | None = None, **more: Any) -> Plan:
    return compile_run(ycsb_run(step, said, SYSTEM, **more), cores)


def plan(text: str, step: str = "run") -> Plan:
    return plan_ycsb(step, properties(SIZES + text), cores=2)


def at(plan: Plan, path: str) -> Any:
    value: Any = plan.model_dump()
    for part in path.split("."):
        value = value[int(part)] if part.isdigit() else value[part]
    return value


def error_of(text: str) -> SpecError:
    with pytest.raises(SpecError) as error:
        plan(text)
    return error.value


UNIFORM = {"law": "uniform"}


def weight(kind: str, weight: float) -> dict[str, object]:
    """An entry of a plan's mix."""
    return {"kind": kind, "statement": None, "weight": weight}


SUPPORTED = [
    ("table=t", "dataset.table", "t"),
    ("fieldcount=3", "dataset.fields.count", 3),
    ("fieldnameprefix=f", "dataset.fields.name_prefix", "f"),
    ("fieldlength=7", "dataset.fields.length", {"law": "constant", "size": 7}),
    ("fieldlengthdistribution=uniform\nminfieldlength=5", "dataset.fields.length",
     {"law": "uniform", "min": 5, "max": 100}),
    ("fieldlengthdistribution=zipfian\nfieldlength=50", "dataset.fields.length",
     {"law": "zipfian", "min": 1, "max": 50}),
    ("readallfields=false", "groups.0.read_fields", "one"),
    ("readallfieldsbyname=true", "groups.0.read_fields", "all_by_name"),
    ("readallfields=TRUE", "groups.0.read_fields", "all"),
    ("writeallfields=true", "groups.0.write_fields", "all"),
    ("dataintegrity=true", "dataset.values", "integrity"),
    ("dataintegrity=true", "groups.0.check_values", "full"),
    ("dataintegrity=true", "groups.0.read_fields", "all_by_name"),
    ("readproportion=0.5", "groups.0.mix.0", weight("read", 0.5)),
    ("readproportion=0\nupdateproportion=1", "groups.0.mix.0", weight("update", 1.0)),
    ("insertproportion=0.3", "groups.0.mix.2", weight("insert", 0.3)),
    ("scanproportion=0.3", "groups.0.mix.2", weight("scan", 0.3)),
    ("readmodifywriteproportion=1", "groups.0.mix.2",
     weight("read_modify_write", 1.0)),
    ("deleteproportion=0.1", "groups.0.mix.2", weight("delete", 0.1)),
    ("requestdistribution=uniform", "groups.0.keys",
     {"start": 0, "count": 1000, "distribution": UNIFORM}),
    ("requestdistribution=zipfian", "groups.0.keys",
     {"start": 0, "count": 1001, "distribution": {"law": "ycsb_zipfian"}}),
    ("requestdistribution=zipfian\ninsertproportion=0.05", "groups.0.keys.count", 1101),
    ("requestdistribution=zipfian\ninsertproportion=0.05\noperationcount=1001",
     "groups.0.keys.count", 1101),
    ("requestdistribution=latest\ninsertstart=100", "groups.0.keys",
     {"start": 0, "count": 1000, "distribution": {"law": "latest"}}),
    ("requestdistribution=sequential\ninsertstart=100\ninsertcount=50", "groups.0.keys",
     {"start": 100, "count": 50, "distribution": {"law": "sequential"}}),
    ("requestdistribution=hotspot\nhotspotdatafraction=0.1", "groups.0.keys.distribution",
     {"law": "hotspot", "data_fraction": 0.1, "operation_fraction": 0.8}),
    ("requestdistribution=hotspot\nhotspotopnfraction=0.9", "groups.0.keys.distribution",
     {"law": "hotspot", "data_fraction": 0.2, "operation_fraction": 0.9}),
    ("requestdistribution=exponential", "groups.0.keys.distribution",
     {"law": "exponential", "percentile": 95.0, "fraction": 0.8571428571}),
    ("requestdistribution=exponential\nexponential.percentile=90", "groups.0.keys.distribution",
     {"law": "exponential", "percentile": 90.0, "fraction": 0.8571428571}),
    ("requestdistribution=exponential\nexponential.frac=0.5", "groups.0.keys",
     {"start": 0, "count": 1000,
      "distribution": {"law": "exponential", "percentile": 95.0, "fraction": 0.5}}),
    ("zeropadding=20", "dataset.key.zero_padding", 20),
    ("minscanlength=5", "groups.0.scan_length", {"law": "uniform", "min": 5, "max": 1000}),
    ("maxscanlength=5", "groups.0.scan_length", {"law": "uniform", "min": 1, "max": 5}),
    ("scanlengthdistribution=zipfian", "groups.0.scan_length",
     {"law": "zipfian", "min": 1, "max": 1000}),
    ("insertorder=hashed", "dataset.key.order", "hashed"),
    ("insertorder=ordered", "dataset.key.order", "ordered"),
    ("insertorder=anything", "dataset.key.order", "ordered"),
    ("insertstart=100", "dataset.start", 100),
    ("insertstart=100", "dataset.count", 900),
    ("insertstart=100\ninsertcount=50", "groups.0.keys",
     {"start": 100, "count": 50, "distribution": UNIFORM}),
    ("recordcount=9223372036854775807", "dataset.count", 2**63 - 1),
    ("operationcount=5000000000", "phases.0.groups.0.operations", 5_000_000_000),
    ("maxexecutiontime=7", "phases.0.duration_ns", 7 * 10**9),
    ("maxexecutiontime=7\noperationcount=0", "phases.0.groups.0.operations", None),
    ("threadcount=8", "groups.0.clients", 8),
    ("target=500", "groups.0.arrival",
     {"process": "constant", "rates": ({"at_ns": 0, "rate": 500.0},)}),
    ("target=0", "groups.0.arrival", {"process": "closed", "think_time_ns": 0}),
    ("status.interval=2", "interval_ns", 2 * 10**9),
]  # fmt: skip
"""Properties, and a path and value in the plan of the transactions."""

STORED = [
    ("hdrhistogram.percentiles=50,99.9", "hdrhistogram_percentiles", (50.0, 99.9)),
    ("measurement.interval=op", "measurement_interval", "op"),
    ("measurement.interval=intended", "measurement_interval", "intended"),
    ("measurement.interval=both", "measurement_interval", "both"),
    ("label=night run", "label", "night run"),
    ("db=basic", "db", "basic"),
    ("dotransactions=false", "dotransactions", False),
    ("fieldlengthhistogram=h.txt", "fieldlengthhistogram", "h.txt"),
]
"""Properties, and the field that stores them."""

AS_ALWAYS = [
    "workload=site.ycsb.workloads.CoreWorkload",
    "workload=com.yahoo.ycsb.workloads.CoreWorkload",
    "measurementtype=hdrhistogram",
    "measurementtype=histogram",
    "measurementtype=hdrhistogram+histogram",
    "histogram.buckets=1000",
    "timeseries.granularity=1000",
    "hdrhistogram.fileoutput=true",
    "hdrhistogram.fileoutput=false",
    "measurement.histogram.verbose=false",
    "measurement.trackjvm=false",
    "reportlatencyforeacherror=true",
    "latencytrackederrors=UNEXPECTED_STATE",
    "core_workload_insertion_retry_limit=0",
    "core_workload_insertion_retry_interval=3",
    "spin.sleep=true",
    "status=true",
    "exporter=site.ycsb.measurements.exporter.TextMeasurementsExporter",
]
"""Properties that request kvmark's fixed behaviour."""

UNSUPPORTED = [
    "workload=site.ycsb.workloads.RestWorkload",
    "measurementtype=raw",
    "measurementtype=timeseries",
    "measurementtype=hdrhistogram+raw",
    "measurement.histogram.verbose=true",
    "measurement.trackjvm=true",
    "core_workload_insertion_retry_limit=3",
    "exporter=site.ycsb.measurements.exporter.JSONMeasurementsExporter",
    "exportfile=out.txt",
    "hdrhistogram.output.path=/tmp/x",
    "measurement.raw.output_file=x",
    "measurement.raw.no_summary=true",
    "hosts=10.0.0.1",
    "host=10.0.0.1",
    "port=6379",
    "htrace.span.receiver.classes=x",
    "basicdb.verbose=true",
    "rocksdb.dir=/tmp/x",
    "redis.host=h",
    "cassandra.keyspace=ycsb",
    "scylla.hosts=h",
]
"""Properties that only YCSB supports."""

PROPERTY_NAMES = [
    *(
        field.metadata["name"] or name
        for name, field in YcsbProperties.__dataclass_fields__.items()
        if field.metadata
    ),
    *ALWAYS,
    *REFUSED,
]


def names_with_a_row() -> set[str]:
    texts = [text for text, *_ in [*SUPPORTED, *STORED]] + AS_ALWAYS + UNSUPPORTED
    return {line.partition("=")[0] for text in texts for line in text.splitlines()}


def test_every_property_has_a_row_here() -> None:
    names = names_with_a_row()
    assert set(PROPERTY_NAMES) <= names
    assert all(any(name.startswith(prefix) for name in names) for prefix in REFUSED_PREFIXES)


@pytest.mark.parametrize(("text", "path", "expected"), SUPPORTED)
def test_a_property_is_in_the_plan(text: str, path: str, expected: object) -> None:
    assert at(plan(text), path) == expected


@pytest.mark.parametrize(("text", "field", "expected"), STORED)
def test_a_property_is_stored(text: str, field: str, expected: object) -> None:
    assert getattr(properties(text), field) == expected


@pytest.mark.parametrize("text", AS_ALWAYS)
def test_a_property_that_requests_the_fixed_behaviour_is_accepted(text: str) -> None:
    assert plan(text) == plan("")


@pytest.mark.parametrize("text", UNSUPPORTED)
def test_an_unsupported_property_is_rejected_with_its_line(text: str) -> None:
    with pytest.raises(UnsupportedProperty) as error:
        plan(text)
    name = text.partition("=")[0]
    assert str(error.value).startswith(f"workload:3: property '{name}' is not supported")


def test_an_unsupported_class_is_rejected_before_its_properties() -> None:
    text = "tagcount=4\nsparsity=0.0\nworkload=site.ycsb.workloads.TimeSeriesWorkload\n"
    error = error_of(text)
    assert error.line == 5
    assert "kvmark supports CoreWorkload only" in str(error)
    assert "statements in a workload file" in str(error)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("recrodcount=5", "unknown property 'recrodcount' — did you mean 'recordcount'?"),
        ("zzz=5", "unknown property 'zzz'"),
        ("recordcount=1e3", "property 'recordcount' must be a whole number, not '1e3'"),
        ("recordcount=0", "property 'recordcount' must be a whole number from 1 to "
         "9223372036854775807, not '0'"),
        ("operationcount=9223372036854775808", "property 'operationcount' must be a whole number "
         "from 0 to 9223372036854775807, not '9223372036854775808'"),
        ("threadcount=0", "property 'threadcount' must be a whole number from 1 to 4294967295, "
         "not '0'"),
        ("readproportion=x", "property 'readproportion' must be a number, not 'x'"),
        ("readproportion=-1", "property 'readproportion' must not be below 0, not '-1'"),
        ("readproportion=NaN", "property 'readproportion' must be a number, not 'NaN'"),
        ("hotspotdatafraction=2", "property 'hotspotdatafraction' must be from 0 to 1, not '2'"),
        ("readallfields=yes", "property 'readallfields' must be true or false, not 'yes'"),
        ("requestdistribution=zipfain", "property 'requestdistribution' has no value 'zipfain' "
         "— did you mean 'zipfian'?"),
        ("table=", "property 'table' must not be empty"),
        ("hdrhistogram.percentiles=50,x", "property 'hdrhistogram.percentiles' must be a number, "
         "not 'x'"),
        ("db=mongodb", "property 'db' has no value 'mongodb'; known are basic, cassandra-cql, "
         "memcached, redis, rocksdb, scylla, site.ycsb.BasicDB, "
         "site.ycsb.db.CassandraCQLClient, site.ycsb.db.MemcachedClient, "
         "site.ycsb.db.RedisClient, site.ycsb.db.rocksdb.RocksDBClient"),
        ("dataintegrity=true\nfieldlengthdistribution=uniform",
         "property 'dataintegrity' needs fieldlengthdistribution=constant"),
        ("minfieldlength=200\nfieldlengthdistribution=uniform",
         "property 'minfieldlength' must not be above fieldlength"),
        ("minscanlength=2000", "property 'minscanlength' must not be above maxscanlength"),
        ("readproportion=0\nupdateproportion=0",
         "property 'readproportion' and the others are all 0: nothing would be done"),
        ("insertstart=1000", "property 'insertstart' must be below recordcount (1000)"),
        ("insertcount=0", "property 'insertcount' must be above 0"),
        ("insertcount=600\ninsertstart=500", "property 'insertcount' and insertstart together "
         "must not be above recordcount (1000)"),
        ("exponential.percentile=100\nrequestdistribution=exponential",
         "property 'exponential.percentile' must be above 0 and below 100"),
        ("exponential.frac=0\nrequestdistribution=exponential",
         "property 'exponential.frac' must be above 0"),
        ("db=redis", "property 'db' asks for redis, but the system measured is null"),
        ("dotransactions=false", "property 'dotransactions' asks for the load, but the step is "
         "run"),
        ("operationcount=0", "property 'operationcount' is missing, and nothing else ends the "
         "run"),
        ("insertproportion=1e30\nrequestdistribution=zipfian",
         "property 'insertproportion' and operationcount ask for too many keys"),
        ("fieldlengthhistogram=/no/hist.txt\nfieldlengthdistribution=histogram",
         "property 'fieldlengthhistogram' names the file '/no/hist.txt', which cannot be read: "
         "no such file or directory"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_one_sentence_with_file_and_line(text: str, sentence: str) -> None:
    assert str(error_of(text)) == f"workload:3: {sentence}"


def test_a_missing_recordcount_is_an_error() -> None:
    with pytest.raises(SpecError, match="property 'recordcount' is missing; give it or --records"):
        plan_ycsb("load", properties(""))


HISTOGRAM = "BlockSize\t10\n0\t5\n1\t0\n2\t7\n"


def histogram_plan(tmp_path: Path, content: str) -> Plan:
    file = tmp_path / "hist.txt"
    file.write_text(content)
    return plan(f"fieldlengthdistribution=histogram\nfieldlengthhistogram={file}")


def test_a_field_length_histogram_is_read(tmp_path: Path) -> None:
    law = at(histogram_plan(tmp_path, HISTOGRAM), "dataset.fields.length")
    assert law == {"law": "histogram", "block_size": 10, "weights": (5, 0, 7)}


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("BlockSize", "Size", r"hist\.txt:1: the first line must be BlockSize"),
        ("\t10", "\tx", r"hist\.txt:1: the number must be a whole number, not 'x'"),
        ("1\t0", "3\t0", r"hist\.txt:3: the line must be 1, a tab and the bucket's weight"),
        ("\t7", "\t-7", r"hist\.txt:4: the number must be a whole number from 0"),
        (HISTOGRAM, "BlockSize\t10\n0\t0\n", r"hist\.txt: one of the buckets must have a weight"),
    ],
)
def test_a_broken_histogram_is_an_error_with_its_line(
    tmp_path: Path, old: str, new: str, sentence: str
) -> None:
    with pytest.raises(SpecError, match=sentence):
        histogram_plan(tmp_path, HISTOGRAM.replace(old, new))


def test_later_files_win_and_the_command_line_wins_over_files() -> None:
    first = parse_properties("fieldcount=1\nfieldlength=1\nthreadcount=1", "first")
    second = parse_properties("fieldlength=2\nthreadcount=2", "second")
    read = read_ycsb([first, second], [parse_assignment("threadcount=3")])
    assert (read.fieldcount, read.fieldlength, read.threadcount) == (1, 2, 3)


def flags(**passed: Any) -> tuple[Property, ...]:
    none: dict[str, Any] = {"db": None, "label": None}
    return flag_properties(
        **{**none, "load": False, "transactions": False, "status": False, **passed}
    )


def test_flags_set_their_properties() -> None:
    read = read_ycsb([], flags(label="x", db="basic", load=True))
    assert (read.label, read.db, read.dotransactions) == ("x", "basic", False)
    assert read_ycsb([], flags(transactions=True, status=True)).dotransactions
    with pytest.raises(SpecError, match="-load and -t exclude each other"):
        flags(load=True, transactions=True)
    with pytest.raises(SpecError, match=r"^-db: property 'db' has no value 'x'"):
        read_ycsb([], flags(db="x"))
    with pytest.raises(SpecError, match="-p: unknown property 'recrodcount'"):
        read_ycsb([], [parse_assignment("recrodcount=5")])


CORE: Mapping[str, tuple[dict[str, float], str]] = {
    "a": ({"read": 0.5, "update": 0.5}, "ycsb_zipfian"),
    "b": ({"read": 0.95, "update": 0.05}, "ycsb_zipfian"),
    "c": ({"read": 1.0}, "ycsb_zipfian"),
    "d": ({"read": 0.95, "insert": 0.05}, "latest"),
    "e": ({"scan": 0.95, "insert": 0.05}, "ycsb_zipfian"),
    "f": ({"read": 0.5, "read_modify_write": 0.5}, "ycsb_zipfian"),
}


@pytest.mark.parametrize("letter", CORE)
def test_a_core_workload_is_ycsbs(letter: str) -> None:
    made = plan_ycsb(letter, properties(""), records=3000, operations=6000)
    mix, law = CORE[letter]
    group = made.groups[0]
    assert made.name == f"ycsb/{letter}"
    assert {weight.kind: weight.weight for weight in group.mix} == mix
    assert group.keys.distribution.law == law
    assert group.keys.count == {"d": 3000, "e": 3000 + 600 + 1}.get(letter, 3001)
    assert at(made, "groups.0.scan_length.max") == (100 if letter == "e" else 1000)
    assert at(made, "phases.0.groups.0.operations") == 6000


def test_a_changed_core_workload_has_another_name() -> None:
    changed = plan_ycsb("a", properties("requestdistribution=uniform"))
    assert changed.name == "ycsb/a-modified"
    assert changed.groups[0].keys.distribution.law == "uniform"


def test_sizes_do_not_change_a_core_workload_s_name() -> None:
    sized = properties("recordcount=5000\noperationcount=7\nfieldcount=20\nthreadcount=3")
    assert plan_ycsb("a", sized).name == "ycsb/a"


def test_the_load_inserts_each_record_once() -> None:
    made = plan("insertstart=100\ninsertcount=50", step="load")
    assert (made.dataset.start, made.dataset.count) == (100, 0)
    assert [weight.kind for weight in made.groups[0].mix] == ["insert"]
    assert [phase.name for phase in made.phases] == ["measure"]
    assert at(made, "phases.0.groups.0.operations") == 50


def test_the_delete_deletes_each_record_once_in_order() -> None:
    made = plan_ycsb("delete", properties(SIZES), records=1050)
    assert (made.dataset.start, made.dataset.count) == (0, 1050)
    assert [weight.kind for weight in made.groups[0].mix] == ["delete"]
    assert at(made, "groups.0.keys") == {
        "start": 0, "count": 1050, "distribution": {"law": "sequential"},
    }  # fmt: skip
    assert at(made, "phases.0.groups.0.operations") == 1050


def test_an_unknown_step_is_an_error() -> None:
    with pytest.raises(SpecError, match="there is no YCSB step 'lod' — did you mean 'load'"):
        ycsb_run("lod", properties(SIZES), SYSTEM)


@pytest.mark.parametrize("step", STEPS)
def test_the_same_seed_makes_the_same_plan(step: str) -> None:
    first = plan_ycsb(step, properties(SIZES), seed=7, cores=2)
    assert first == plan_ycsb(step, properties(SIZES), seed=7, cores=2)
    assert first.seeds != plan_ycsb(step, properties(SIZES), seed=8, cores=2).seeds


NAMES = st.sampled_from(PROPERTY_NAMES)
VALUES = st.sampled_from(
    ["0", "1", "-1", "10", "0.5", "true", "false", "uniform", "zipfian", "hashed", "9" * 19, "x"]
) | st.text(max_size=6)


@given(st.dictionaries(NAMES, VALUES, max_size=8), st.sampled_from(STEPS))
def test_no_properties_raise_anything_but_a_kvmark_error(
    content: dict[str, str], step: str
) -> None:
    rows = [Property(name, value, "workload", 1) for name, value in content.items()]
    try:
        spec = ycsb_run(step, read_ycsb([rows]), SYSTEM)
        compile_run(spec, 2).to_json()
    except KvmarkError as error:
        assert "\n" not in str(error)
