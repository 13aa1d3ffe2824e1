"""YCSB's property files and flags, unchanged."""

from pathlib import Path

import pytest
from command_line import Kvmark, counts, outcomes

LICENSE = """\
# Copyright (c) 2010 Yahoo! Inc. All rights reserved.
#
# Licensed under the Apache License, Version 2.0 (the "License"); you
# may not use this file except in compliance with the License.
"""

SHARES = ("read", "update", "scan", "insert", "readmodifywrite")
# The shares of each core workload, its key distribution, and the operations that it executes.
CORE = {
    "a": ((0.5, 0.5, 0, 0, 0), "zipfian", {"READ", "UPDATE"}),
    "b": ((0.95, 0.05, 0, 0, 0), "zipfian", {"READ", "UPDATE"}),
    "c": ((1, 0, 0, 0, 0), "zipfian", {"READ"}),
    "d": ((0.95, 0, 0, 0.05, 0), "latest", {"READ", "INSERT"}),
    "e": ((0, 0, 0.95, 0.05, 0), "zipfian", {"SCAN", "INSERT"}),
    "f": ((0.5, 0, 0, 0, 0.5), "zipfian", {"READ", "UPDATE", "READ-MODIFY-WRITE"}),
}
# The comments, blank lines and order of the files of YCSB.
TEXT = """
#   Application example: Session store recording recent actions

recordcount=1000
operationcount=1000
workload=site.ycsb.workloads.CoreWorkload

readallfields=true

{shares}

requestdistribution={law}

maxscanlength=100

scanlengthdistribution=uniform

"""
QUIET = "--report none --repetitions 1 -q"


def property_file(folder: Path, workload: str) -> Path:
    """A property file of YCSB."""
    shares, law, _ = CORE[workload]
    lines = "\n".join(
        f"{name}proportion={share}" for name, share in zip(SHARES, shares, strict=True)
    )
    path = folder / f"workload{workload}"
    path.write_text(LICENSE + TEXT.format(shares=lines, law=law))
    return path


@pytest.mark.parametrize("workload", CORE)
def test_a_file_of_ycsb_loads_and_then_runs_its_transactions(kvmark: Kvmark, workload: str) -> None:
    kvmark(f"ycsb -P {property_file(kvmark.folder, workload)} -s {QUIET}")
    load, run = kvmark.manifests()
    assert (load["plan"]["name"], run["plan"]["name"]) == ("ycsb/load", "ycsb/run")
    assert counts(load) == {"INSERT": 1000}
    assert set(counts(run)) == CORE[workload][2]
    whole = [total for total in run["engine"]["totals"] if not total["part"]]
    assert sum(total["count"] for total in whole) == 1000
    assert {total["outcome"] for total in whole} == {"ok"}


def test_load_and_transactions_are_two_commands_on_one_folder(kvmark: Kvmark) -> None:
    words = (
        f"ycsb -P {property_file(kvmark.folder, 'a')} -p recordcount=300 -p operationcount=400"
        f" --system rocksdb:{kvmark.folder}/db {QUIET} -threads 2 -s"
    )
    kvmark(words, "-load")
    # On a busy machine the schedule is late: exit code 1.
    kvmark(f"{words} -t -target 4000 -l tuesday", exits=(0, 1))
    load, run = kvmark.manifests()
    assert counts(load) == {"INSERT": 300}
    assert sum(counts(run).values()) == 400
    group = run["plan"]["groups"][0]
    assert group["clients"] == 2
    assert group["arrival"]["rates"] == [{"at_ns": 0, "rate": 4000.0}]
    assert "tuesday" in run["tags"]


def test_a_property_of_the_command_line_overrides_the_file(kvmark: Kvmark) -> None:
    file = property_file(kvmark.folder, "c")
    kvmark(f"ycsb -P {file} -p recordcount=50 -p fieldlength=7 {QUIET}")
    dataset = kvmark.manifest()["plan"]["dataset"]
    assert dataset["count"] == 50
    assert dataset["fields"]["length"] == {"law": "constant", "size": 7}


def test_steps_run_in_the_given_order(kvmark: Kvmark) -> None:
    steps = "load,c,d,a,delete,reload,e,f,b,run"
    kvmark(f"ycsb --records 100 --workloads {steps} {QUIET}")
    manifests = kvmark.manifests()
    names = [f"ycsb/{step}" for step in steps.split(",")]
    assert [manifest["plan"]["name"] for manifest in manifests] == names
    for manifest in manifests:
        assert outcomes(manifest) == {"ok"}, manifest["plan"]["name"]


def test_each_workload_runs_at_each_target_and_the_load_once(kvmark: Kvmark) -> None:
    words = "ycsb --system sim:?clock=virtual --records 100 --workloads load,a,c --operations 2000"
    rows = kvmark(f"{words} --target 1000,2000,max {QUIET} --json").json["rows"]
    cases = [(row["case"]["workload"], row["case"]["target_rate"]) for row in rows]
    rates = [1000.0, 2000.0, None]
    assert cases == [("load", None), *[(name, rate) for name in "AC" for rate in rates]]


def test_every_read_verifies_data_integrity(kvmark: Kvmark) -> None:
    kvmark(f"ycsb --records 200 --workloads load,a,f -p dataintegrity=true {QUIET}")
    manifests = kvmark.manifests()
    plan = manifests[1]["plan"]
    assert plan["dataset"]["values"] == "integrity"
    assert plan["groups"][0]["check_values"] == "full"
    assert set.union(*map(outcomes, manifests)) == {"ok"}


def test_many_records_and_clients_load_and_read_without_a_miss(kvmark: Kvmark) -> None:
    kvmark(f"ycsb --records 20000 --clients 4 --workloads load,c {QUIET}")
    load, c = kvmark.manifests()
    assert counts(load) == {"INSERT": 20_000}
    assert counts(c) == {"READ": 20_000}
    assert outcomes(c) == {"ok"}
    assert c["plan"]["groups"][0]["clients"] == 4
