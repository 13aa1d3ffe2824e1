"""What a user writes means what the table says, or is refused in the sentence of another table.

Figures have one grammar wherever they stand. A sentence says where, what, and what to write
instead.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvmark.errors import SpecError, UsageError
from kvmark.frontends.ycsb.properties import parse_assignment, parse_properties, read_properties
from kvmark.frontends.ycsb.workloads import read_ycsb, ycsb_run
from kvmark.plan.compile import compile_run
from kvmark.spec.curve import pace, parse_curve
from kvmark.spec.faults import load_faults, parse_fault
from kvmark.spec.metric import (
    check_operations,
    parse_comparable,
    parse_condition,
    parse_metric,
    parse_objective,
)
from kvmark.spec.quantity import LARGEST, count, duration_ns, listed, ramp, rate, share, size_bytes
from kvmark.spec.url import parse_system_url
from kvmark.spec.workload import load_workload, parse_workload
from plans import plan_of, spec_of
from tables import table

TABLE: Mapping[str, list[list[Any]]] = table(__file__, "accepted.toml")


def metric(text: str) -> tuple[str, ...]:
    found = parse_metric(text)
    assert parse_metric(found.name) == found
    bound = {"throughput": ">5k/s", "errors": "<1%"}.get(found.measure, "<10ms")
    assert parse_objective(f"{text}{bound}").metric == found
    if found.measure not in {"errors", "max"}:
        assert parse_condition(f"{text}>5%").metric == found
    return (found.measure, found.quantile or "", found.time, found.operation or "")


def quantile(text: str) -> float:
    assert parse_metric(parse_metric(text).name) == parse_metric(text)
    return parse_metric(text).q


def objective(text: str) -> tuple[float, bool]:
    found = parse_objective(text)
    beyond, short = (found.bound * factor for factor in (2, 0.5))
    better, worse = (beyond, short) if found.metric.more_is_better else (short, beyond)
    assert found.bound == 0 or (found.met(better), found.met(worse)) == (True, False)
    return found.bound, found.met(found.bound)


def system(text: str) -> tuple[str, dict[str, str]]:
    url = parse_system_url(text)
    assert url.password is None
    return url.driver, dict(url.options)


READERS: Mapping[str, Callable[[str], object]] = {
    "duration": duration_ns,
    "count": count,
    "rate": rate,
    "size": size_bytes,
    "share": share,
    "ramp": ramp,
    "list": lambda text: listed(text, count),
    "pace": pace,
    "metric": metric,
    "quantile": quantile,
    "condition": lambda text: parse_condition(text).text,
    "objective": objective,
    "system": system,
    "properties": lambda text: [(one.name, one.value) for one in parse_properties(text, "w")],
    "assignment": lambda text: (parse_assignment(text).name, parse_assignment(text).value),
}


@pytest.mark.parametrize("reader", READERS)
def test_a_text_means_what_the_table_says(reader: str) -> None:
    for text, *meaning in TABLE[reader]:
        assert [json.loads(json.dumps(READERS[reader](text)))] == (meaning or [None]), text
    assert set(READERS) == set(TABLE)


@pytest.mark.parametrize("parse", [duration_ns, count, rate, share, size_bytes])
@pytest.mark.parametrize(
    "text", ["", " ", "-1", "-1s", "abc", "1x", "s", "1 2", "٣", "1__0", "nan", "inf", "1" * 200]
)
def test_nonsense_is_refused_in_one_sentence(parse: Callable[[str], object], text: str) -> None:
    with pytest.raises(SpecError, match=r"^[^\n]+$"):
        parse(text)


@given(st.integers(0, LARGEST))
def test_every_count_can_be_written_plainly(number: int) -> None:
    assert count(str(number)) == size_bytes(f"{number}") == duration_ns(f"{number}ns") == number


def test_an_operation_that_is_not_there_is_refused_with_those_that_are() -> None:
    known = ["READ", "UPDATE"]
    check_operations([parse_metric("p99"), parse_metric("READ.p99")], known, "there is")
    with pytest.raises(UsageError) as problem:
        check_operations([parse_metric("servce p99")], known, "there is")
    assert str(problem.value) == (
        "'servce.p99': there is no operation 'servce': take one of READ, UPDATE; times are"
        " response, service, wait"
    )


def test_a_property_has_the_line_on_which_it_begins() -> None:
    found = parse_properties("# head\n\na=1\\\n2\nb=3\n", "w")
    assert [(one.name, one.line) for one in found] == [("a", 3), ("b", 5)]
    assert parse_assignment("a=b").file == "-p"


HERE = Path(__file__).parent
REFUSALS: Mapping[str, list[list[Any]]] = table(__file__, "refusals.toml")
SYSTEM = parse_system_url("null:")


def changed(file: str, old: str, new: str) -> None:
    """Reads a right file with a mistake."""
    text = (HERE / file).read_text()
    assert text.count(old) == 1
    parse_workload(text.replace(old, new), "w.yaml")


def run_of_file(file: str, old: str, new: str, changes: dict[str, Any]) -> None:
    """Compiles a run of a right file that is changed."""
    plan_of((HERE / file).read_text().replace(old, new), **changes)


def ycsb(text: str) -> None:
    said = parse_properties(f"recordcount=1000\noperationcount=1000\n{text}", "workload")
    compile_run(ycsb_run("run", read_ycsb([said]), SYSTEM), cores=2)


def histogram(old: str, new: str) -> None:
    Path("hist.txt").write_text("BlockSize\t10\n0\t5\n1\t0\n2\t7\n".replace(old, new))
    ycsb("fieldlengthdistribution=histogram\nfieldlengthhistogram=hist.txt")


def file(name: str, read: Callable[[str], object]) -> Callable[[str], object]:
    return lambda content: (Path(name).write_text(content), read(name))


REFUSING: Mapping[str, Callable[..., object]] = {
    **READERS,
    "comparable metric": parse_comparable,
    "curve": parse_curve,
    "curve of an hour": lambda text: parse_curve(text).points(3600 * 10**9, seed=1),
    "file of rates": file("rates.csv", lambda name: parse_curve(f"file:{name}")),
    "fault": parse_fault,
    "file of faults": file("faults.yaml", lambda name: load_faults(Path(name))),
    "workload": lambda old, new: changed("workload.yaml", old, new),
    "file of a workload": lambda text: parse_workload(text, "w.yaml"),
    "statements": lambda old, new: changed("statements.yaml", old, new),
    "missing file of a workload": lambda name: load_workload(Path(name)),
    "run of a file": run_of_file,
    "property file": lambda text: parse_properties(text, "w"),
    "missing property file": lambda name: read_properties(Path(name)),
    "YCSB properties": ycsb,
    "unsupported YCSB property": ycsb,
    "histogram of YCSB": histogram,
    "run": lambda changes, name="ycsb/a": spec_of(name, **changes),
}


@pytest.mark.parametrize("reader", REFUSALS)
def test_a_wrong_input_is_refused_in_one_sentence(
    reader: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for *words, sentence in REFUSALS[reader]:
        with pytest.raises(SpecError) as refusal:
            REFUSING[reader](*words)
        assert str(refusal.value) == sentence
