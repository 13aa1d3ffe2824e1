"""`kvmark ycsb`: the published sequence on embedded RocksDB, property files and flags of YCSB."""

import re
from pathlib import Path

import pytest
from command_line import Kvmark, Result, counts, levels, outcomes, run_folders

QUIET = "--report none --repetitions 1 -q"
SEQUENCE = ("load", "A", "B", "C", "F", "D", "delete", "reload", "E")
SHORT_SEQUENCE = ("load", "A", "B", "C", "F", "D", "E")


@pytest.fixture(scope="module")
def default(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """A sequence with its repetitions by default."""
    folder = tmp_path_factory.mktemp("sequence")
    words = "ycsb --system rocksdb: --records 100 --operations 100 --workloads load,a,e"
    # It estimates the variation in a further process, which a preloaded process can't start.
    return (
        Kvmark(folder, folder / "runs").start(f"{words} --report none --json").finish(exits=(0, 1))
    )


def test_each_case_has_the_repetitions_that_were_announced(default: Result) -> None:
    assert default.err.splitlines()[0] == (
        "3 cases, each 5 times, then up to 20 times until its throughput is within ± 5 %;"
        " time limit 10 min (--budget)."
    )
    document = default.json
    plan = document["repetitions"]
    limits = ("first_stage", "most", "within", "budget_s")
    assert [plan[name] for name in limits] == [5, 20, 0.05, 600]
    assert 0 < plan["used_s"] < 600
    made = {case["workload"]: case["repetitions"] for case in plan["cases"]}
    assert all(5 <= count <= 20 for count in made.values())
    assert made == {
        row["case"]["workload"].lower(): len(row["figures"]["runs"]) for row in document["rows"]
    }
    assert all(made[case["workload"]] >= case["wanted"] for case in plan["cases"])
    steps = [manifest["spec"]["sequence"] for manifest in default.kvmark.manifests()]
    assert all(step["stage"] == (1 if step["repetition"] < 5 else 2) for step in steps)


def test_a_too_short_budget_runs_each_case_once(kvmark: Kvmark) -> None:
    done = kvmark(
        "ycsb --system rocksdb: --records 100 --workloads load,a --report none --budget 1ms"
    )
    out = " ".join(done.out.split())
    assert "load with 100 records and A with 100 records ran once instead of 5" in out
    assert "--budget 1m is enough." in out
    # Without a report it names the command that writes one, with every note.
    (command,) = re.findall(r"kvmark (runs report study:\S+)", out)
    kvmark(f"{command} -o notes.md")
    assert (kvmark.folder / "notes.md").read_text().startswith("# 2 runs\n")


def test_a_wrong_budget_is_refused(kvmark: Kvmark) -> None:
    for budget, part in (
        ("0s", "must be longer than 0; write none for no limit"),
        ("soon", "'soon' is not a duration; write it like 30s, 500ms or 1h30m"),
    ):
        assert kvmark.refuses(f"ycsb --budget {budget}").endswith(part)


ENGINES = ("fjall", "LMDB", "redb", "RocksDB", "SQLite")


def test_without_options_it_measures_all_engines_in_blocks_and_prints_one_screen(
    kvmark: Kvmark,
) -> None:
    result = kvmark("ycsb --records 200 --duration 20ms --repetitions 2", exits=(0, 1))
    lines = result.out.splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 100
    assert lines[0] == f"YCSB on {', '.join(ENGINES)}, 200 records: ops/s"
    assert lines[2].split() == ["workload", *ENGINES]
    assert tuple(line.split()[0] for line in lines[4:11]) == SHORT_SEQUENCE
    for engine in ENGINES:
        (line,) = (line for line in lines if line.startswith(f"{engine}: "))
        assert "; durability process; " in line
        assert line.endswith(" of memory")
    assert "[70/70]" in result.err
    assert "kvmark serve" in result.err
    manifests = sorted(kvmark.manifests(), key=lambda one: one["created"])
    systems = [one["engine"]["system"]["system"] for one in manifests]
    # A repetition of an engine ends before another's begins, and each block has all of them.
    for block in (systems[:35], systems[35:]):
        turns = [block[at : at + 7] for at in range(0, 35, 7)]
        assert {turn[0] for turn in turns} == {*ENGINES}
        assert all(len(set(turn)) == 1 for turn in turns)
    # A load has all records, whatever the duration of the others.
    ended = {one["engine"]["phases"][-1]["stopped_by"] for one in manifests}
    assert ended == {"duration", "operations"}
    (memory,) = {
        one["plan"]["system"]["options"]["block_cache_bytes"]
        for one in manifests
        if one["plan"]["system"]["driver"] == "rocksdb"
    }
    assert int(memory) == 128 << 20
    assert not list(kvmark.runs.glob("scratch*"))


def test_engines_of_unequal_durability_are_said_to_be_so_first(kvmark: Kvmark) -> None:
    words = "ycsb --system lmdb: --system redb:?durability=none --records 50 --duration 20ms"
    done = kvmark(f"{words} --workloads load,c --report none --repetitions 1 --json", exits=(0, 1))
    assert done.json["said"][0] == (
        "The durability of writes differs, and their speed with it: process on LMDB and none on"
        " redb."
    )


def test_a_sequence_is_not_resumed_with_another_memory(kvmark: Kvmark) -> None:
    words = "ycsb --system lmdb: --system redb: --records 50 --workloads load --repetitions 1"
    kvmark(f"{words} --report none --memory 64MiB", exits=(0, 1))
    again = f"{words} --report none --resume"
    assert "no ycsb with these words was begun" in kvmark.refuses(f"{again} --memory 128MiB")
    assert "Nothing was missing." in kvmark(f"{again} --memory 64MiB", exits=(0, 1)).err


def test_two_systems_of_one_kind_are_two_columns(kvmark: Kvmark) -> None:
    words = "ycsb --system lmdb:one --system lmdb:two --records 50 --workloads load,c"
    rows = kvmark(f"{words} --duration 20ms --repetitions 1 --report none --json", exits=(0, 1))
    found = [(row["case"]["workload"], row["case"]["apart"]) for row in rows.json["rows"]]
    expected = [(name, system) for name in ("load", "C") for system in ("lmdb:one", "lmdb:two")]
    assert sorted(found) == sorted(expected)


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ("--system lmdb: --system lmdb:", "lmdb is named twice"),
        ("--system null: --memory 1MB", "only embedded engines have this limit"),
        ("--system redb: --workloads a", "a new database has no records: write --workloads load,a"),
        ("--system rocksdb: --memory 1MB", "an engine needs 4MiB at least"),
    ],
)
def test_systems_that_make_no_sequence_are_refused(kvmark: Kvmark, words: str, part: str) -> None:
    assert part in kvmark.refuses(f"ycsb {words}")


def test_the_published_sequence_has_its_sizes_and_leaves_a_page(kvmark: Kvmark) -> None:
    # Two repetitions of few operations may be imprecise: exit code 1.
    words = "study ycsb-published --repetitions 1 --report kvmark-ycsb.html"
    result = kvmark(words, exits=(0, 1))
    rows = [line.split()[:2] for line in result.out.splitlines() if line.split()[:1]]
    sizes = ("1,000", "3,000", "6,000", "10,000")
    expected = [[name, size] for name in SEQUENCE for size in sizes]
    assert [row for row in rows if row[0] in SEQUENCE] == expected
    assert "[36/36]" in result.err
    assert "[36/36]" not in result.out
    assert str(kvmark.folder / "kvmark-ycsb.html") in result.err
    page = (kvmark.folder / "kvmark-ycsb.html").read_text()
    assert page.lower().startswith("<!doctype html>")
    assert "RocksDB" in page
    assert len(run_folders(kvmark.runs)) == 36
    assert not list(kvmark.runs.glob("scratch*"))


def test_each_step_of_the_sequence_finds_the_records_of_the_others(kvmark: Kvmark) -> None:
    words = f"ycsb --system rocksdb: --records 1000 --workloads {','.join(SEQUENCE).lower()}"
    options = "--operations 1000 --repetitions 1 --report none --json"
    rows = kvmark(f"{words} {options}").json["rows"]
    assert not list(kvmark.folder.glob("*.html"))
    assert [row["case"]["workload"] for row in rows] == list(SEQUENCE)
    assert all(row["case"]["records"] == 1000 for row in rows)
    assert all(row["figures"]["throughput"]["value"] > 0 for row in rows)
    published = [row["case"]["workload"] for row in rows if row["published"]]
    assert published == [name for name in SEQUENCE if name not in ("delete", "reload")]
    manifests = {one["plan"]["name"]: one for one in kvmark.manifests()}
    assert set.union(*map(outcomes, manifests.values())) == {"ok"}
    inserted = counts(manifests["ycsb/d"])["INSERT"]
    assert inserted > 0
    assert counts(manifests["ycsb/delete"]) == {"DELETE": 1000 + inserted}
    assert counts(manifests["ycsb/reload"]) == {"INSERT": 1000}
    assert manifests["ycsb/e"]["plan"]["dataset"]["count"] == 1000
    assert counts(manifests["ycsb/e"])["SCAN"] > 900


def test_the_flag_load_of_ycsb_loads_once(kvmark: Kvmark) -> None:
    done = kvmark("ycsb -load --records 50 --system null: --report none")
    assert done.err.splitlines()[0] == "One case, once; no time limit."
    assert len(run_folders(kvmark.runs)) == 1


def test_a_list_has_verdicts_of_runs_and_a_table_those_of_cases(default: Result) -> None:
    lines = default.kvmark("runs --limit 1000 --json").json["runs"]
    listed = {line["entry"]["id"]: line["judgement"] for line in lines}
    for row in default.json["rows"]:
        verdict, runs = row["figures"]["verdict"], row["figures"]["runs"]
        assert verdict["runs"] == len(runs)
        shown = default.kvmark(f"show {runs[0]} --json").json["verdict"]
        assert shown["judgement"] == listed[runs[0]]
        # A run of a hundred operations alone is too short; a case of five such runs isn't.
        assert levels(shown)["too_short"] == "SUSPECT"
        assert "too_short" not in levels(verdict)


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


def property_file(folder: Path, workload: str) -> Path:
    """A property file of YCSB."""
    shares, law, _ = CORE[workload]
    pairs = zip(SHARES, shares, strict=True)
    lines = "\n".join(f"{name}proportion={share}" for name, share in pairs)
    path = folder / f"workload{workload}"
    path.write_text(LICENSE + TEXT.format(shares=lines, law=law))
    return path


@pytest.mark.parametrize("workload", CORE)
def test_a_file_of_ycsb_loads_and_then_runs_its_transactions(kvmark: Kvmark, workload: str) -> None:
    kvmark(f"ycsb --system rocksdb: -P {property_file(kvmark.folder, workload)} -s {QUIET}")
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
        f" -p fieldlength=7 --system rocksdb:{kvmark.folder}/db {QUIET} -threads 2 -s"
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
    # A property of the command line overrides the file.
    dataset = run["plan"]["dataset"]
    assert dataset["count"] == 300
    assert dataset["fields"]["length"] == {"law": "constant", "size": 7}


def test_steps_run_in_the_given_order(kvmark: Kvmark) -> None:
    steps = "load,c,d,a,delete,reload,e,f,b,run"
    kvmark(f"ycsb --system rocksdb: --records 100 --workloads {steps} {QUIET}")
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
    kvmark(
        f"ycsb --system rocksdb: --records 200 --workloads load,a,f -p dataintegrity=true {QUIET}"
    )
    manifests = kvmark.manifests()
    plan = manifests[1]["plan"]
    assert plan["dataset"]["values"] == "integrity"
    assert plan["groups"][0]["check_values"] == "full"
    assert set.union(*map(outcomes, manifests)) == {"ok"}


def test_many_records_and_clients_load_and_read_without_a_miss(kvmark: Kvmark) -> None:
    kvmark(
        f"ycsb --system rocksdb: --records 20000 --operations 20000 --clients 4 {QUIET}",
        "--workloads",
        "load,c",
    )
    load, c = kvmark.manifests()
    assert counts(load) == {"INSERT": 20_000}
    assert counts(c) == {"READ": 20_000}
    assert outcomes(c) == {"ok"}
    assert c["plan"]["groups"][0]["clients"] == 4
