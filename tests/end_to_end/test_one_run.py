"""`kvmark run`: the effect of each option."""

import csv
from typing import Any

import pytest
from command_line import Kvmark, phase, totals

# A simulated store has every key: no load is necessary.
SIM = "--system sim:?clock=virtual --load never"
QUICK = "--operations 2000 -q"


def intervals(kvmark: Kvmark) -> list[dict[str, str]]:
    """The intervals of the measured phase, without the drain."""
    rows = csv.DictReader(kvmark("runs export --format csv").out.splitlines())
    return [row for row in rows if row["phase_name"] == "measure" and row["drain"] == "false"]


def test_a_run_prints_text_or_one_json_document(kvmark: Kvmark) -> None:
    result = kvmark(f"run ycsb/a {SIM} --records 500 {QUICK}")
    for part in ("ycsb/a on sim", "Throughput", "response time"):
        assert part in result.out
    assert result.err == ""
    result = kvmark(f"run ycsb/a {SIM} --operations 2000 --json")
    assert set(result.json) == {"schema", "run", "summary", "verdict", "objectives"}
    assert result.json["schema"] == "kvmark/run/1"
    assert result.json["run"] == kvmark.manifest()["id"]
    assert "ycsb/a" in result.err


def test_the_closed_model_has_the_given_clients_on_pinned_cores(kvmark: Kvmark) -> None:
    system = "--system sim:?clock=virtual&servers=4 --load never --pin 0"
    kvmark(f"run ycsb/b {system} --clients 8 {QUICK}")
    manifest = kvmark.manifest()
    assert [worker["cores"] for worker in phase(manifest)["workers"]] == [[0]]
    group = manifest["plan"]["groups"][0]
    assert (group["clients"], group["arrival"]["process"]) == (8, "closed")
    assert sum(total["count"] for total in totals(manifest)) == 2000


@pytest.mark.parametrize("arrival", ["constant", "poisson"])
def test_the_open_model_issues_all_due_operations(kvmark: Kvmark, arrival: str) -> None:
    words = "run ycsb/c --system sim:?clock=virtual&mean_us=50 --load never --rate 2k/s"
    kvmark(f"{words} --arrival {arrival} --duration 2s -q")
    manifest = kvmark.manifest()
    assert manifest["plan"]["groups"][0]["arrival"]["process"] == arrival
    group = phase(manifest)["groups"][0]
    assert group["issued"] == group["due"] == group["completed"]
    # Four deviations of a Poisson count; a constant schedule has none.
    assert abs(group["due"] - 4000) <= (1 if arrival == "constant" else 253)


def test_a_duration_ends_the_measurement_without_its_warm_up(kvmark: Kvmark) -> None:
    kvmark(f"run ycsb/c {SIM} --duration 1s --warmup 250ms --interval 250ms -q")
    manifest = kvmark.manifest()
    assert [one["name"] for one in manifest["engine"]["phases"]][-2:] == ["warm_up", "measure"]
    window = phase(manifest)
    assert window["end_ns"] - window["start_ns"] == 1_000_000_000
    assert window["stopped_by"] == "duration"
    assert len({row["start_ns"] for row in intervals(kvmark)}) == 4


# The operations that are due at the end of each second.
RATES = {
    # 200 t + (5000 - 200) t² / (2 · 10)
    "--ramp 200..5k --duration 10s": [200 * t + 240 * t**2 for t in range(1, 11)],
    "--rate steps:0/1s,4k/1s,500/2s --duration 8s": [
        0, 4000, 4500, 5000, 5000, 9000, 9500, 10_000,
    ],
}  # fmt: skip


@pytest.mark.parametrize("arrival", ["constant", "poisson"])
@pytest.mark.parametrize(("words", "due"), RATES.items())
def test_a_curve_is_integrated(kvmark: Kvmark, words: str, due: list[int], arrival: str) -> None:
    kvmark(f"run ycsb/c {SIM} --clients 64 {words} --interval 1s --arrival {arrival} -q")
    start_ns = phase(kvmark.manifest())["start_ns"]
    rows = [row for row in intervals(kvmark) if row["operation"] == "READ"]
    for second, expected in enumerate(due, start=1):
        end_ns = start_ns + second * 10**9
        issued = sum(int(row["count"]) for row in rows if int(row["start_ns"]) < end_ns)
        # A Poisson count differs by its root.
        assert abs(issued - expected) <= (4 * expected**0.5 if arrival == "poisson" else 3), second


def test_a_curve_comes_from_a_file_or_a_workload(kvmark: Kvmark) -> None:
    rates = kvmark.folder / "day.csv"
    rates.write_text("seconds,rate\n0,1000\n2,3000\n")
    groups = f"groups: [{{mix: {{read: 1}}, rate: 'file:{rates}'}}]"
    (kvmark.folder / "own.yaml").write_text(f"name: own\ndataset: {{records: 10}}\n{groups}\n")
    words = f"{SIM} --clients 64 --duration 2s -q --json"
    for work in (f"ycsb/c --rate file:{rates}", "own.yaml"):
        (measured,) = kvmark(f"run {work} {words}").json["summary"]["phases"]
        assert measured["throughput"]["value"] == pytest.approx(2000, rel=0.01)
    sentence = kvmark.refuses(f"run ycsb/c --rate file:no.csv {words}")
    assert "no.csv can't be read as rates: No such file" in sentence


def test_the_mean_rate_of_a_ramp_has_no_interval_and_no_caveat(kvmark: Kvmark) -> None:
    answer = kvmark(f"run ycsb/c {SIM} --ramp 0..1000 --duration 10s -q --json").json
    throughput = answer["summary"]["phases"][0]["throughput"]
    assert (throughput["low"], throughput["high"]) == (None, None)
    assert throughput["method"] == "no interval: the rate was meant to change"
    assert answer["verdict"]["reasons"] == []


def test_a_bound_on_the_standard_error_ends_the_measurement(kvmark: Kvmark) -> None:
    kvmark(f"run ycsb/c {SIM} --until-stderr 0.05 --interval 20ms -q")
    measured = phase(kvmark.manifest())
    assert measured["stopped_by"] == "until"
    assert measured["relative_stderr"] < 0.05


def test_only_the_same_seed_gives_the_same_totals(kvmark: Kvmark) -> None:
    def measure(seed: int) -> list[dict[str, Any]]:
        kvmark(f"run ycsb/a {SIM} --rate 1000 --arrival poisson --seed {seed} {QUICK}")
        return totals(kvmark.manifest())

    first, repeated, other = measure(1), measure(1), measure(2)
    assert first == repeated
    assert first != other


def test_a_timeout_ends_operations_during_a_stall(kvmark: Kvmark) -> None:
    system = "sim:?clock=virtual&service=constant&mean_us=100&stall=0.5+0.2"
    load = "--load never --rate 1000 --duration 1s --timeout 50ms -q"
    kvmark(f"run ycsb/c --system {system} {load}", exits=1)
    (timeout,) = (one for one in totals(kvmark.manifest()) if one["outcome"] == "timeout")
    assert timeout["count"] > 0
    # Its duration is recorded like any other.
    assert timeout["service"]["min"] >= 50_000_000


def test_a_ready_workload_can_be_copied_and_changed(kvmark: Kvmark) -> None:
    text = kvmark("workloads ycsb/a").out.replace("name: ycsb/a", "name: mine")
    (kvmark.folder / "mine.yaml").write_text(text.replace("records: 1000", "records: 70"))
    words = f"run mine.yaml --system null: --load never --report mine.html {QUICK}"
    assert str(kvmark.folder / "mine.html") in kvmark(words).err
    plan = kvmark.manifest()["plan"]
    assert (plan["name"], plan["dataset"]["count"]) == ("mine", 70)
    assert "mine on null" in (kvmark.folder / "mine.html").read_text()


GROUPS = """\
name: two-groups
dataset: {records: 100}
groups:
  - {name: writers, mix: {update: 1}, keys: uniform, clients: 2, rate: 500}
  - {name: readers, mix: {read: 1}, keys: uniform, clients: 4, rate: 1500, arrival: poisson}
"""


def test_each_group_has_its_rate_or_runs_alone(kvmark: Kvmark) -> None:
    (kvmark.folder / "two.yaml").write_text(GROUPS)
    system = "--system sim:?clock=virtual&servers=8 --load never"
    kvmark(f"run two.yaml {system} --duration 2s -q")
    issued = {group["group"]: group["issued"] for group in phase(kvmark.manifest())["groups"]}
    assert abs(issued["writers"] - 1000) <= 1
    assert abs(issued["readers"] - 3000) <= 219
    kvmark(f"run two.yaml {SIM} --group readers --clients 3 --operations 100 -q")
    assert [group["group"] for group in phase(kvmark.manifest())["groups"]] == ["readers"]


def test_a_second_run_finds_the_loaded_records(kvmark: Kvmark) -> None:
    words = f"run ycsb/c --system rocksdb:{kvmark.folder}/db --records 300 {QUICK}"
    for clients, stopped_by in (("1", "operations"), ("2", "skipped")):
        kvmark(words, "--clients", clients)
        assert phase(kvmark.manifest(), "load")["stopped_by"] == stopped_by
    assert {one["outcome"] for one in totals(kvmark.manifest())} == {"ok"}


def test_clients_that_write_the_same_records_of_rocksdb_lose_no_write(kvmark: Kvmark) -> None:
    words = f"run ycsb/a --system rocksdb:{kvmark.folder}/db --records 50 --clients 8"
    assert kvmark.sweep(f"{words} --operations 50000", exits=0)["intact"] == 50
    counters = phase(kvmark.manifest())["statistics"]
    waits = counters["record_lock_waits"]
    assert 0 <= waits["before"] <= waits["after"]
    assert "rocksdb.estimate-num-keys" in counters


@pytest.mark.parametrize("clock", ["virtual", "real"])
def test_a_simulated_store_needs_no_load(kvmark: Kvmark, clock: str) -> None:
    kvmark(f"run ycsb/c --system sim:?clock={clock}&mean_us=200 {QUICK}")
    assert phase(kvmark.manifest(), "load")["stopped_by"] == "skipped"


def test_a_missed_or_undecided_objective_has_exit_code_1(kvmark: Kvmark) -> None:
    system = "sim:?clock=virtual&service=constant&mean_us=100"
    words = f"run ycsb/c --system {system} --load never --operations 2000"
    objectives = ("--slo", "p99<1ms", "--slo", "p50<1s", "--slo", "errors<0.1%")
    met = kvmark(words, *objectives).out.splitlines()
    # In the unit of the bound, unless the time is far below it.
    assert met[2:5] == [
        "p99<1ms held with 0.1 ms.", "p50<1s held with 100 µs.", "errors<0.1% held with 0.000%."
    ]  # fmt: skip
    missed = kvmark(words, "--slo", "p99<1ms", "--slo", "READ.p50<99us", exits=1)
    assert "READ.p50<99us was missed with 100 µs" in missed.err
    assert "p99<1ms" not in missed.err
    undecided = kvmark(words, "--slo", "p99.99<1ms", "--json", exits=1)
    assert "p99.99<1ms needs 100,000 operations and there are 2,000" in undecided.err
    (objective,) = undecided.json["objectives"]
    fields = ("objective", "held", "value")
    assert [objective[name] for name in fields] == ["p99.99<1ms", None, None]
    assert "no operation 'UPDATE'" in kvmark.refuses(words, "--slo", "UPDATE.p99<1ms")


def test_an_objective_is_the_headline_of_the_run_and_of_its_report(kvmark: Kvmark) -> None:
    system = "sim:?clock=virtual&service=constant&mean_us=100"
    words = f"run ycsb/c --system {system} --load never --operations 2000 --report run.html"
    kvmark(words, "--slo", "p99<50us", exits=1)
    sentence = "p99<50us was missed with 100 µs."
    assert sentence in kvmark("show last").out.splitlines()
    assert "p99&lt;50us was missed with 100" in (kvmark.folder / "run.html").read_text()


def test_a_screen_has_40_lines_of_100_columns_and_options_show_the_rest(kvmark: Kvmark) -> None:
    words = f"run ycsb/a {SIM.replace('virtual', 'virtual&outage=1+0.1')} --rate 500 --duration 2s"
    ran = kvmark(words, "-q", exits=(0, 1)).out.splitlines()
    assert ran == kvmark("show last").out.splitlines()
    assert len(ran) <= 40
    assert max(map(len, ran)) <= 100
    notes = next(line for line in ran if line.endswith("--notes"))
    assert "unpinned" not in "\n".join(ran)
    command = notes.partition("kvmark ")[2]
    assert "Advice: " in kvmark(command).out
    assert "wait time" in kvmark("show last --notes").out
    assert "Timeline" in kvmark("show last --charts").out


def test_a_server_that_is_gone_is_the_first_reason(kvmark: Kvmark) -> None:
    system = "--system sim:?clock=virtual&outage=2+100 --load never"
    out = kvmark(f"run ycsb/c {system} --rate 500 --duration 5s -q", exits=1).out
    reasons = [line for line in out.splitlines() if line.startswith(("INVALID", "SUSPECT"))]
    assert reasons[0].startswith(
        "INVALID server_gone: Nothing succeeded from 2 s to the end at 5 s"
    )
    for outage, duration_s, gone in (("2+1", 5, False), ("0.4+9", 1, True), ("0.6+9", 1, False)):
        words = f"{system.replace('2+100', outage)} --rate 500 --duration {duration_s}s"
        kvmark(f"run ycsb/c {words} -q", exits=1)
        assert ("server_gone" in kvmark("show last --notes").out) == gone


def test_misses_that_are_meant_are_no_reason(kvmark: Kvmark) -> None:
    workload = kvmark.folder / "deletes.yaml"
    workload.write_text("groups: [{mix: {read: 0.5, delete: 0.5}}]\n")
    words = "run ./deletes.yaml --system rocksdb:{} --records 100 --operations 5000 -q"
    assert "INVALID misses" in kvmark(words.format("one"), exits=1).out
    assert "say `expect_misses: true`" in kvmark("show last --notes").out
    workload.write_text("expect_misses: true\n" + workload.read_text())
    kvmark(words.format("two"), exits=(0, 1))
    assert "misses:" not in kvmark("show last --notes").out
