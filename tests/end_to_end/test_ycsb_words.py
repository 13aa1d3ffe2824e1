"""YCSB's own property files and flags, unchanged."""

import textwrap
from pathlib import Path
from typing import Any

import pytest
from command_line import Kvmark, run_folders

LICENSE = """\
# Copyright (c) 2010 Yahoo! Inc. All rights reserved.
#
# Licensed under the Apache License, Version 2.0 (the "License"); you
# may not use this file except in compliance with the License.
"""

CORE = {
    "a": ("0.5", "0.5", "0", "0", "zipfian"),
    "b": ("0.95", "0.05", "0", "0", "zipfian"),
    "c": ("1", "0", "0", "0", "zipfian"),
    "d": ("0.95", "0", "0", "0.05", "latest"),
}

# With the comments, blank lines and order of the files that come with YCSB.
FILES = {
    **{
        name: f"""
        #   Application example: Session store recording recent actions

        recordcount=1000
        operationcount=1000
        workload=site.ycsb.workloads.CoreWorkload

        readallfields=true

        readproportion={read}
        updateproportion={update}
        scanproportion={scan}
        insertproportion={insert}

        requestdistribution={law}
        """
        for name, (read, update, scan, insert, law) in CORE.items()
    },
    "e": """
        recordcount=1000
        operationcount=1000
        workload=site.ycsb.workloads.CoreWorkload

        readallfields=true

        readproportion=0
        updateproportion=0
        scanproportion=0.95
        insertproportion=0.05

        requestdistribution=zipfian

        maxscanlength=100

        scanlengthdistribution=uniform
        """,
    "f": """
        recordcount=1000
        operationcount=1000
        workload=site.ycsb.workloads.CoreWorkload

        readallfields=true

        readproportion=0.5
        updateproportion=0
        scanproportion=0
        insertproportion=0
        readmodifywriteproportion=0.5

        requestdistribution=zipfian

        """,
}

KINDS = {
    "a": {"READ", "UPDATE"},
    "b": {"READ", "UPDATE"},
    "c": {"READ"},
    "d": {"READ", "INSERT"},
    "e": {"SCAN", "INSERT"},
    "f": {"READ", "UPDATE", "READ-MODIFY-WRITE"},
}


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """The six property files as they come with YCSB."""
    made = {}
    for letter, content in FILES.items():
        path = tmp_path / f"workload{letter}"
        path.write_text(LICENSE + textwrap.dedent(content))
        made[letter] = path
    return made


def manifests(kvmark: Kvmark) -> list[dict[str, Any]]:
    return [kvmark.manifest(folder.name) for folder in run_folders(kvmark.runs)]


def names(kvmark: Kvmark) -> list[str]:
    return [manifest["plan"]["name"] for manifest in manifests(kvmark)]


def operations(manifest: dict[str, Any]) -> dict[str, int]:
    return {total["operation"]: total["count"] for total in manifest["engine"]["totals"]}


QUIET = ("--report", "none", "--repetitions", "1", "-q")


def test_each_file_of_ycsb_loads_and_then_runs_its_transactions(
    kvmark: Kvmark, files: dict[str, Path]
) -> None:
    for letter, file in files.items():
        kvmark("ycsb", "-P", file, "-s", *QUIET)
        load, run = manifests(kvmark)[-2:]
        assert (load["plan"]["name"], run["plan"]["name"]) == ("ycsb/load", "ycsb/run")
        assert operations(load) == {"INSERT": 1000}
        assert set(operations(run)) == KINDS[letter]
        whole = [total for total in run["engine"]["totals"] if not total["part"]]
        assert sum(total["count"] for total in whole) == 1000
        assert {total["outcome"] for total in whole} == {"ok"}


def test_load_and_transactions_are_two_commands_on_one_folder(
    kvmark: Kvmark, files: dict[str, Path]
) -> None:
    db = ("--system", f"rocksdb:{kvmark.folder}/db")
    words = ("-P", files["a"], "-p", "recordcount=300", "-p", "operationcount=400", *db, *QUIET)
    kvmark("ycsb", "-load", "-threads", "2", *words)
    paced = ("-threads", "2", "-target", "4000")
    # On a busy machine the schedule is late, and the answer is no.
    kvmark("ycsb", "-t", *paced, "-l", "tuesday", "-s", *words, exits=(0, 1))
    load, run = manifests(kvmark)
    assert operations(load) == {"INSERT": 300}
    assert sum(operations(run).values()) == 400
    assert run["plan"]["groups"][0]["clients"] == 2
    assert run["plan"]["groups"][0]["arrival"]["rates"] == [{"at_ns": 0, "rate": 4000.0}]
    assert "tuesday" in run["tags"]


def test_a_property_of_the_command_line_wins_over_the_file(
    kvmark: Kvmark, files: dict[str, Path]
) -> None:
    kvmark("ycsb", "-P", files["c"], "-p", "recordcount=50", "-p", "fieldlength=7", *QUIET)
    dataset = manifests(kvmark)[-1]["plan"]["dataset"]
    assert dataset["count"] == 50
    assert dataset["fields"]["length"] == {"law": "constant", "size": 7}


def test_every_step_can_be_named_in_any_order_that_makes_sense(kvmark: Kvmark) -> None:
    steps = "load,c,d,a,delete,reload,e,f,b,run"
    kvmark("ycsb", "--records", "100", "--workloads", steps, *QUIET)
    assert names(kvmark) == [f"ycsb/{step}" for step in steps.split(",")]
    for manifest in manifests(kvmark):
        totals = manifest["engine"]["totals"]
        assert {total["outcome"] for total in totals} == {"ok"}, manifest["plan"]["name"]


def test_each_workload_runs_at_each_target_and_the_load_once(kvmark: Kvmark) -> None:
    words = ("--system", "sim:?clock=virtual", "--records", "100", "--workloads", "load,a,c")
    targets = ("--target", "1000,2000,max", "--operations", "2000")
    rows = kvmark("ycsb", *words, *targets, *QUIET, "--json").json["rows"]
    cases = [(row["case"]["workload"], row["case"]["target_rate"]) for row in rows]
    rates = [1000.0, 2000.0, None]
    assert cases == [("load", None), *[(name, rate) for name in "AC" for rate in rates]]


def test_data_integrity_is_verified_by_every_read(kvmark: Kvmark) -> None:
    words = ("--records", "200", "--workloads", "load,a,f", "-p", "dataintegrity=true")
    kvmark("ycsb", *words, *QUIET)
    _, a, _ = manifests(kvmark)
    assert a["plan"]["dataset"]["values"] == "integrity"
    assert a["plan"]["groups"][0]["check_values"] == "full"
    outcomes = {total["outcome"] for one in manifests(kvmark) for total in one["engine"]["totals"]}
    assert outcomes == {"ok"}


def test_many_records_and_clients_load_and_read_without_a_miss(kvmark: Kvmark) -> None:
    words = ("--records", "20000", "--clients", "4", "--workloads", "load,c")
    kvmark("ycsb", *words, *QUIET)
    load, c = manifests(kvmark)
    assert operations(load) == {"INSERT": 20_000}
    assert operations(c) == {"READ": 20_000}
    assert {total["outcome"] for total in c["engine"]["totals"]} == {"ok"}
    assert c["plan"]["groups"][0]["clients"] == 4
