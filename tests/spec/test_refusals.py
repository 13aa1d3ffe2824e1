"""What is wrong is refused in one sentence that says where, what, and what to write instead."""

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from kvmark.errors import SpecError
from kvmark.frontends.ycsb.properties import parse_assignment, parse_properties, read_properties
from kvmark.frontends.ycsb.workloads import read_ycsb, ycsb_run
from kvmark.plan.compile import compile_run
from kvmark.spec import quantity
from kvmark.spec.curve import parse_curve
from kvmark.spec.faults import load_faults, parse_fault
from kvmark.spec.metric import parse_comparable, parse_condition, parse_metric, parse_objective
from kvmark.spec.url import parse_system_url
from kvmark.spec.workload import load_workload, parse_workload
from plans import plan_of, spec_of

HERE = Path(__file__).parent
TABLE: Mapping[str, list[list[Any]]] = tomllib.loads((HERE / "refusals.toml").read_text())
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


READERS: Mapping[str, Callable[..., object]] = {
    "duration": quantity.duration_ns,
    "count": quantity.count,
    "rate": quantity.rate,
    "size": quantity.size_bytes,
    "share": quantity.share,
    "ramp": quantity.ramp,
    "list": lambda text: quantity.listed(text, quantity.count),
    "metric": parse_metric,
    "comparable metric": parse_comparable,
    "condition": parse_condition,
    "objective": parse_objective,
    "curve": parse_curve,
    "curve of an hour": lambda text: parse_curve(text).points(3600 * 10**9, seed=1),
    "file of rates": file("rates.csv", lambda name: parse_curve(f"file:{name}")),
    "fault": parse_fault,
    "file of faults": file("faults.yaml", lambda name: load_faults(Path(name))),
    "system": parse_system_url,
    "workload": lambda old, new: changed("workload.yaml", old, new),
    "file of a workload": lambda text: parse_workload(text, "w.yaml"),
    "statements": lambda old, new: changed("statements.yaml", old, new),
    "missing file of a workload": lambda name: load_workload(Path(name)),
    "run of a file": run_of_file,
    "property file": lambda text: parse_properties(text, "w"),
    "missing property file": lambda name: read_properties(Path(name)),
    "assignment": parse_assignment,
    "YCSB properties": ycsb,
    "unsupported YCSB property": ycsb,
    "histogram of YCSB": histogram,
    "run": lambda changes, name="ycsb/a": spec_of(name, **changes),
}


@pytest.mark.parametrize("reader", READERS)
def test_a_wrong_input_is_refused_in_one_sentence(
    reader: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for *given, sentence in TABLE[reader]:
        with pytest.raises(SpecError) as refusal:
            READERS[reader](*given)
        assert str(refusal.value) == sentence
    assert set(READERS) == set(TABLE)
