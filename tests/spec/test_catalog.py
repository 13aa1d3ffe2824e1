"""The catalogue's workloads are YCSB's, found by name, and files are found by path."""

from pathlib import Path

import pytest

from kvmark import catalog
from kvmark.errors import SpecError
from kvmark.frontends.ycsb.workloads import read_ycsb, ycsb_run
from kvmark.frontends.yugabyte_apps.flags import APPS
from kvmark.plan.compile import compile_run
from kvmark.spec.url import parse_system_url
from plans import plan_of

CORE = ["a", "b", "c", "d", "e", "f", "load", "delete"]


READY = {
    "replay": {"redis", "memcached", "cql"},
    "ycsb": set(CORE),
    "redis": {"cache-aside", "counter", "get", "hash-pipelined", "kv", "list", "mset",
              "pipelined", "set", "sorted-set", "stream"},
    "memcached": {"get", "gets", "kv", "set"},
    "cql": {"counter", "kv", "time-series", "transaction"},
    "apps": set(APPS),
}  # fmt: skip


def test_the_catalogue_has_ycsbs_workloads_and_each_systems_own() -> None:
    names = {f"{kind}/{name}" for kind, ready in READY.items() for name in ready}
    assert set(catalog.names()) == names


@pytest.mark.parametrize("name", CORE)
def test_a_ready_workload_and_ycsbs_properties_make_the_same_plan(name: str) -> None:
    operations = None if name in ("load", "delete") else 1000
    ready = plan_of(f"ycsb/{name}", operations=operations, load="never", clients=1)
    same = ycsb_run(name, read_ycsb([]), parse_system_url("null:"), records=1000)
    assert ready == compile_run(same, 2)


@pytest.mark.parametrize("name", catalog.names())
def test_a_ready_workload_says_what_it_is(name: str) -> None:
    workload = catalog.load(name)
    assert workload.name == name
    assert workload.description.endswith(".")
    assert catalog.text(name).startswith("#")


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(SpecError) as refusal:
        catalog.load("ycbs/a")
    assert str(refusal.value) == "there is no workload 'ycbs/a' — did you mean 'ycsb/a'?"


def test_an_argument_that_ends_in_yaml_is_a_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(catalog.text("ycsb/c").replace("ycsb/c", "mine"))
    assert catalog.find(str(file)).name == "mine"
    assert catalog.find("ycsb/c").name == "ycsb/c"
