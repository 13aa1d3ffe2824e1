"""`kvmark run`: what each option makes of a run."""

from pathlib import Path
from typing import Any

import pytest
from command_line import Kvmark

# A simulated store holds every key, so that there is nothing to load.
VIRTUAL = "sim:?clock=virtual"
HELD = ("--load", "never")
QUICK = (*HELD, "--operations", "2000", "-q")


def counts(manifest: dict[str, Any]) -> dict[str, int]:
    return {total["operation"]: total["count"] for total in manifest["engine"]["totals"]}


def phase(manifest: dict[str, Any], name: str) -> dict[str, Any]:
    return next(one for one in manifest["engine"]["phases"] if one["name"] == name)


def totals_of(manifest: dict[str, Any], name: str) -> list[dict[str, Any]]:
    index = phase(manifest, name)["index"]
    return [total for total in manifest["engine"]["totals"] if total["phase"] == index]


def test_a_run_answers_in_words(kvmark: Kvmark) -> None:
    result = kvmark("run", "ycsb/a", "--system", VIRTUAL, "--records", "500", *QUICK)
    assert "ycsb/a on sim" in result.out
    assert "Throughput" in result.out
    assert "response time" in result.out
    assert result.err == ""


def test_a_run_answers_as_one_json_document(kvmark: Kvmark) -> None:
    result = kvmark("run", "ycsb/a", "--system", VIRTUAL, *HELD, "--operations", "2000", "--json")
    assert set(result.json) == {"schema", "run", "summary", "verdict", "objectives"}
    assert result.json["schema"] == "kvmark/run/1"
    assert result.json["run"] == kvmark.manifest()["id"]
    assert "ycsb/a" in result.err


def test_the_closed_model_has_the_clients_that_were_asked_for(kvmark: Kvmark) -> None:
    kvmark("run", "ycsb/b", "--system", f"{VIRTUAL}&servers=4", "--clients", "8", *QUICK)
    manifest = kvmark.manifest()
    group = manifest["plan"]["groups"][0]
    assert (group["clients"], group["arrival"]["process"]) == (8, "closed")
    assert sum(total["count"] for total in totals_of(manifest, "measure")) == 2000


@pytest.mark.parametrize("arrival", ["constant", "poisson"])
def test_the_open_model_issues_what_was_due(kvmark: Kvmark, arrival: str) -> None:
    words = ("--rate", "2k/s", "--arrival", arrival, "--duration", "2s", *HELD, "-q")
    kvmark("run", "ycsb/c", "--system", f"{VIRTUAL}&mean_us=50", *words)
    manifest = kvmark.manifest()
    assert manifest["plan"]["groups"][0]["arrival"]["process"] == arrival
    group = phase(manifest, "measure")["groups"][0]
    assert group["issued"] == group["due"] == group["completed"]
    # Four deviations of a Poisson count; a constant schedule has none.
    assert abs(group["due"] - 4000) <= (1 if arrival == "constant" else 253)


def test_a_duration_ends_the_measurement_and_a_warm_up_is_not_counted(kvmark: Kvmark) -> None:
    words = ("--duration", "500ms", "--warmup", "200ms", "--interval", "100ms", *HELD, "-q")
    kvmark("run", "ycsb/c", "--system", VIRTUAL, "--json", *words)
    manifest = kvmark.manifest()
    assert [one["name"] for one in manifest["engine"]["phases"]][-2:] == ["warm_up", "measure"]
    window = phase(manifest, "measure")
    assert window["end_ns"] - window["start_ns"] == 500_000_000
    assert window["stopped_by"] == "duration"


def test_the_interval_is_the_length_of_a_recorded_slice(kvmark: Kvmark) -> None:
    words = ("--duration", "1s", "--interval", "250ms", *HELD, "-q")
    kvmark("run", "ycsb/c", "--system", VIRTUAL, *words)
    header, *lines = kvmark("runs", "export", "--format", "csv").out.splitlines()
    rows = [dict(zip(header.split(","), line.split(","), strict=True)) for line in lines]
    measured = [row for row in rows if row["phase_name"] == "measure"]
    wanted = {row["start_ns"] for row in measured if row["drain"] == "false"}
    assert len(wanted) == 4


@pytest.mark.parametrize("law", ["constant", "poisson"])
def test_operations_of_a_ramp_are_due_as_its_integral_says(kvmark: Kvmark, law: str) -> None:
    ramp = ("--ramp", "200..5k", "--duration", "10s", "--interval", "1s", "--arrival", law)
    kvmark("run", "ycsb/c", "--system", VIRTUAL, "--clients", "64", *ramp, *HELD, "-q")
    header, *lines = kvmark("runs", "export", "--format", "csv").out.splitlines()
    rows = [dict(zip(header.split(","), line.split(","), strict=True)) for line in lines]
    reads = [row for row in rows if row["drain"] == "false" and row["operation"] == "READ"]
    due = 0
    for number, row in enumerate(reads, start=1):
        due += int(row["count"])
        # 200 t + (5000 - 200) t² / (2 · 10), of which a Poisson process is off by its root.
        expected = 200 * number + 240 * number**2
        assert abs(due - expected) <= (4 * expected**0.5 if law == "poisson" else 3), number
    assert number == 10


@pytest.mark.parametrize("law", ["constant", "poisson"])
def test_operations_of_a_curve_are_due_as_its_integral_says(kvmark: Kvmark, law: str) -> None:
    curve = ("--rate", "steps:0/1s,4k/1s,500/2s", "--duration", "8s", "--arrival", law)
    more = ("--clients", "64", "--interval", "1s", *HELD, "-q")
    kvmark("run", "ycsb/c", "--system", VIRTUAL, *curve, *more)
    header, *lines = kvmark("runs", "export", "--format", "csv").out.splitlines()
    rows = [dict(zip(header.split(","), line.split(","), strict=True)) for line in lines]
    reads = [row for row in rows if row["drain"] == "false" and row["operation"] == "READ"]
    found = {int(row["start_ns"]) // 10**9: int(row["count"]) for row in reads}
    begin = min(found) - 1
    for second in range(8):
        expected = (0, 4000, 500, 500)[second % 4]
        counted = found.get(begin + second, 0)
        off = 4 * expected**0.5 if law == "poisson" else 3
        assert abs(counted - expected) <= off, second


def test_a_curve_comes_from_a_file_or_a_workload(kvmark: Kvmark, tmp_path: Path) -> None:
    rates, own = tmp_path / "day.csv", tmp_path / "own.yaml"
    rates.write_text("seconds,rate\n0,1000\n2,3000\n")
    groups = f"groups: [{{mix: {{read: 1}}, rate: 'file:{rates}'}}]"
    own.write_text(f"name: own\ndataset: {{records: 10}}\n{groups}\n")
    words = ("--system", VIRTUAL, "--clients", "64", "--duration", "2s", *HELD, "-q", "--json")
    for asked in (("ycsb/c", "--rate", f"file:{rates}"), (str(own),)):
        (measured,) = kvmark("run", *asked, *words).json["summary"]["phases"]
        assert measured["throughput"]["value"] == pytest.approx(2000, rel=0.01)
    wrong = kvmark.refuses("run", "ycsb/c", "--rate", "file:no.csv", *words)
    assert "no.csv can't be read as rates: No such file" in wrong


def test_the_mean_of_a_ramp_has_no_error_and_that_is_no_doubt(kvmark: Kvmark) -> None:
    words = ("--ramp", "0..1000", "--duration", "10s", *HELD, "-q", "--json")
    answer = kvmark("run", "ycsb/c", "--system", VIRTUAL, *words).json
    (measured,) = answer["summary"]["phases"]
    throughput = measured["throughput"]
    assert (throughput["low"], throughput["high"]) == (None, None)
    assert throughput["method"] == "no interval: the rate was meant to change"
    assert answer["verdict"]["reasons"] == []


def test_a_bound_on_the_standard_error_ends_the_measurement(kvmark: Kvmark) -> None:
    words = ("--until-stderr", "0.05", "--interval", "20ms")
    kvmark("run", "ycsb/c", "--system", VIRTUAL, *words, *HELD, "-q")
    measured = phase(kvmark.manifest(), "measure")
    assert measured["stopped_by"] == "until"
    assert measured["relative_stderr"] < 0.05


def test_the_same_seed_gives_the_same_totals_and_another_one_does_not(kvmark: Kvmark) -> None:
    def totals(seed: int) -> list[dict[str, Any]]:
        words = ("--rate", "1000", "--arrival", "poisson", "--seed", seed, *QUICK)
        kvmark("run", "ycsb/a", "--system", VIRTUAL, *words)
        return totals_of(kvmark.manifest(), "measure")

    first, again, other = totals(1), totals(1), totals(2)
    assert first == again
    assert first != other


def test_a_timeout_decides_operations_that_a_stall_holds_up(kvmark: Kvmark) -> None:
    system = f"{VIRTUAL}&service=constant&mean_us=100&stall=0.5+0.2"
    words = ("--rate", "1000", "--duration", "1s", "--timeout", "50ms", *HELD, "-q")
    kvmark("run", "ycsb/c", "--system", system, *words, exits=1)
    outcomes = {one["outcome"]: one for one in totals_of(kvmark.manifest(), "measure")}
    assert outcomes["timeout"]["count"] > 0
    # The limit decides, and its duration is recorded like any other.
    assert outcomes["timeout"]["service"]["min"] >= 50_000_000


def test_pinned_workers_run_where_they_were_told(kvmark: Kvmark) -> None:
    kvmark("run", "ycsb/c", "--system", "null:", "--pin", "0", *QUICK)
    workers = phase(kvmark.manifest(), "measure")["workers"]
    assert [worker["cores"] for worker in workers] == [[0]]


def test_a_ready_workload_can_be_copied_and_changed(kvmark: Kvmark) -> None:
    text = kvmark("workloads", "ycsb/a").out
    mine = kvmark.folder / "mine.yaml"
    mine.write_text(
        text.replace("name: ycsb/a", "name: mine").replace("records: 1000", "records: 70")
    )
    kvmark("run", mine, "--system", "null:", *QUICK)
    plan = kvmark.manifest()["plan"]
    assert (plan["name"], plan["dataset"]["count"]) == ("mine", 70)


GROUPS = """\
name: two-groups
dataset: {records: 100}
groups:
  - name: writers
    mix: {update: 1}
    keys: uniform
    clients: 2
    rate: 500
  - name: readers
    mix: {read: 1}
    keys: uniform
    clients: 4
    rate: 1500
    arrival: poisson
"""


def test_groups_have_rates_of_their_own(kvmark: Kvmark) -> None:
    (kvmark.folder / "two.yaml").write_text(GROUPS)
    kvmark("run", "two.yaml", "--system", f"{VIRTUAL}&servers=8", "--duration", "2s", *HELD, "-q")
    issued = {
        group["group"]: group["issued"] for group in phase(kvmark.manifest(), "measure")["groups"]
    }
    assert abs(issued["writers"] - 1000) <= 1
    assert abs(issued["readers"] - 3000) <= 219


def test_one_group_can_take_part_alone(kvmark: Kvmark) -> None:
    (kvmark.folder / "two.yaml").write_text(GROUPS)
    words = ("--group", "readers", "--clients", "3", "--operations", "100", *HELD, "-q")
    kvmark("run", "two.yaml", "--system", VIRTUAL, *words)
    measured = phase(kvmark.manifest(), "measure")
    assert [group["group"] for group in measured["groups"]] == ["readers"]


def test_records_are_loaded_once_into_a_folder_and_found_again(kvmark: Kvmark) -> None:
    words = (
        "ycsb/c",
        "--system",
        f"rocksdb:{kvmark.folder}/db",
        "--records",
        "300",
        "-q",
        "--operations",
        "2000",
    )
    kvmark("run", *words)
    assert phase(kvmark.manifest(), "load")["stopped_by"] == "operations"
    kvmark("run", *words, "--clients", "2")
    assert phase(kvmark.manifest(), "load")["stopped_by"] == "skipped"
    assert {one["outcome"] for one in totals_of(kvmark.manifest(), "measure")} == {"ok"}


def test_clients_that_write_the_same_records_of_rocksdb_lose_nothing(kvmark: Kvmark) -> None:
    database = f"rocksdb:{kvmark.folder / 'db'}"
    words = (
        "--records",
        "50",
        "--clients",
        "8",
        "--operations",
        "50000",
        "--verify",
        "-q",
        "--json",
    )
    document = kvmark("run", "ycsb/a", "--system", database, *words).json
    assert document["summary"]["sweep"]["intact"] == 50
    counters = phase(kvmark.manifest(), "measure")["statistics"]
    waits = counters["record_lock_waits"]
    assert 0 <= waits["before"] <= waits["after"]
    assert "rocksdb.estimate-num-keys" in counters


def test_a_report_can_be_written_at_once(kvmark: Kvmark) -> None:
    result = kvmark("run", "ycsb/c", "--system", "null:", "--report", "mine.html", *QUICK)
    assert str(kvmark.folder / "mine.html") in result.err
    assert "ycsb/c" in (kvmark.folder / "mine.html").read_text()


@pytest.mark.parametrize("clock", ["virtual", "real"])
def test_a_simulated_store_is_found_loaded(kvmark: Kvmark, clock: str) -> None:
    words = ("--system", f"sim:?clock={clock}&mean_us=200", "--operations", "2000", "-q")
    kvmark("run", "ycsb/c", *words)
    assert phase(kvmark.manifest(), "load")["stopped_by"] == "skipped"


def test_an_objective_that_is_missed_or_not_known_is_a_no(kvmark: Kvmark) -> None:
    words = ("run", "ycsb/c", "--system", "sim:?clock=virtual&service=constant&mean_us=100")
    measured = (*words, "--operations", "2000", "--load", "never")
    held = kvmark(*measured, "--slo", "p99<1ms", "--slo", "errors<0.1%")
    assert "p99<1ms held with 100 µs." in held.out.splitlines()
    assert "errors<0.1% held with 0.000%." in held.out.splitlines()
    missed = kvmark(*measured, "--slo", "p99<1ms", "--slo", "READ.p50<99us", exits=1)
    assert "READ.p50<99us was missed with 100 µs" in missed.err
    assert "p99<1ms" not in missed.err
    unknown = kvmark(*measured, "--slo", "p99.99<1ms", "--json", exits=1)
    assert "p99.99<1ms needs 100,000 operations and there are 2,000" in unknown.err
    (told,) = unknown.json["objectives"]
    assert (told["objective"], told["held"], told["value"]) == ("p99.99<1ms", None, None)
    assert "no operation 'UPDATE'" in kvmark.refuses(*measured, "--slo", "UPDATE.p99<1ms")
