"""Every YCSB property is supported or rejected by name; none is ignored."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kvmark.errors import SpecError, UnsupportedProperty
from kvmark.frontends.ycsb.options import YcsbOptions
from kvmark.frontends.ycsb.properties import (
    ALWAYS,
    REFUSED,
    REFUSED_PREFIXES,
    STEPS,
    Property,
    parse_assignment,
    parse_properties,
)
from kvmark.frontends.ycsb.workloads import YcsbProperties, flag_properties, read_ycsb, ycsb_run
from kvmark.plan.compile import compile_run
from kvmark.plan.model import Plan
from kvmark.spec.url import parse_system_url
from plans import at
from tables import table

SYSTEM = parse_system_url("null:")
SIZES = "recordcount=1000\noperationcount=1000\n"


def properties(text: str) -> YcsbProperties:
    return read_ycsb([parse_properties(text, "workload")])


def plan_ycsb(step: str, said: YcsbProperties, cores: int | None = None, **more: Any) -> Plan:
    return compile_run(ycsb_run(step, said, SYSTEM, **more), cores)


def plan(text: str, step: str = "run") -> Plan:
    return plan_ycsb(step, properties(SIZES + text), cores=2)


ROWS: Mapping[str, list[Any]] = table(__file__, "ycsb.toml")


def test_every_property_has_a_row() -> None:
    refusals = table(__file__, "refusals.toml")["unsupported YCSB property"]
    unsupported = [text for text, _ in refusals]
    supported = [text for text, *_ in [*ROWS["plan"], *ROWS["stored"]]]
    texts = [*supported, *ROWS["always"], *unsupported]
    names = {line.partition("=")[0] for text in texts for line in text.splitlines()}
    fields = YcsbProperties.__dataclass_fields__.items()
    own = {field.metadata["name"] or name for name, field in fields if field.metadata}
    assert {*own, *ALWAYS, *REFUSED} <= names
    assert all(any(name.startswith(prefix) for name in names) for prefix in REFUSED_PREFIXES)


@pytest.mark.parametrize(("text", "path", "expected"), ROWS["plan"])
def test_a_property_is_in_the_plan(text: str, path: str, expected: object) -> None:
    assert at(plan(text), path) == expected


def test_time_alone_ends_a_run_without_an_operation_count() -> None:
    timed = plan("maxexecutiontime=7\noperationcount=0")
    assert timed.phases[0].groups[0].operations is None


@pytest.mark.parametrize(("text", "field", "expected"), ROWS["stored"])
def test_a_property_is_stored(text: str, field: str, expected: object) -> None:
    stored = getattr(properties(text), field)
    assert (list(stored) if isinstance(stored, tuple) else stored) == expected


def test_an_unsupported_property_has_its_own_error() -> None:
    with pytest.raises(UnsupportedProperty):
        plan("exportfile=out.txt")


@pytest.mark.parametrize("text", ROWS["always"])
def test_a_property_that_requests_the_fixed_behaviour_is_accepted(text: str) -> None:
    assert plan(text) == plan("")


def test_a_missing_recordcount_is_an_error() -> None:
    with pytest.raises(SpecError, match="property 'recordcount' is missing; give it or --records"):
        plan_ycsb("load", properties(""))


def test_a_field_length_histogram_is_read(tmp_path: Path) -> None:
    file = tmp_path / "hist.txt"
    file.write_text("BlockSize\t10\n0\t5\n1\t0\n2\t7\n")
    law = at(
        plan(f"fieldlengthdistribution=histogram\nfieldlengthhistogram={file}"),
        "dataset.fields.length",
    )
    assert law == {"law": "histogram", "block_size": 10, "weights": [5, 0, 7]}


def test_later_files_win_and_the_command_line_wins_over_files() -> None:
    first = parse_properties("fieldcount=1\nfieldlength=1\nthreadcount=1", "first")
    second = parse_properties("fieldlength=2\nthreadcount=2", "second")
    read = read_ycsb([first, second], [parse_assignment("threadcount=3")])
    assert (read.fieldcount, read.fieldlength, read.threadcount) == (1, 2, 3)


def flags(**passed: Any) -> tuple[Property, ...]:
    return flag_properties(YcsbOptions(**passed))


def test_flags_set_their_properties() -> None:
    read = read_ycsb([], flags(label="x", database="basic", load=True))
    assert (read.label, read.db, read.dotransactions) == ("x", "basic", False)
    assert read_ycsb([], flags(transactions=True, status=True)).dotransactions
    with pytest.raises(SpecError, match="-load and -t exclude each other"):
        flags(load=True, transactions=True)
    with pytest.raises(SpecError, match=r"^-db: property 'db' has no value 'x'"):
        read_ycsb([], flags(database="x"))
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
    assert group.keys.distribution["law"] == law
    assert group.keys.count == {"d": 3000, "e": 3000 + 600 + 1}.get(letter, 3001)
    assert at(made, "groups.0.scan_length.max") == (100 if letter == "e" else 1000)
    assert at(made, "phases.0.groups.0.operations") == 6000


def test_a_changed_core_workload_has_another_name() -> None:
    changed = plan_ycsb("a", properties("requestdistribution=uniform"))
    assert changed.name == "ycsb/a-modified"
    assert changed.groups[0].keys.distribution == {"law": "uniform"}


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
