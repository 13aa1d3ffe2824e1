"""`kvmark stress` with the simulated and the null driver."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import Kvmark, Result

from kvmark.errors import SpecError
from kvmark.frontends.cassandra_stress.output import HEAD, printed_by_tool
from kvmark.records import Records, Run

Stress = Callable[..., Result]
SIM = "sim:?service=constant&mean_us=100&servers=4&clock=virtual"
FAST = "-node null: -log no-settings"


@pytest.fixture
def kvmark(tmp_path: Path) -> Kvmark:
    """The program, in an empty folder."""
    return Kvmark(tmp_path, tmp_path / "runs")


@pytest.fixture
def stress(kvmark: Kvmark) -> Stress:
    """The command, with kvmark's own options after cassandra-stress's words."""

    def run(words: str, *own: str, exits: int = 0) -> Result:
        return kvmark("stress", *own, *words.split(), exits=exits)

    return run


def stored_runs(kvmark: Kvmark) -> list[Run]:
    records = Records(kvmark.runs)
    return [records.open(one.id) for one in records.list()]


def lines_of(result: Result) -> list[str]:
    """The lines of its operations."""
    return re.findall(r"^\w+, +\d.*$", result.out, re.MULTILINE)


def figure(result: Result, name: str) -> float:
    """A figure of the Results block."""
    match = re.search(rf"^{name}\s*:\s*([\d,.]+)", result.out, re.MULTILINE)
    assert match, result
    return float(match[1].replace(",", ""))


def test_a_stored_run_is_printed_as_before(kvmark: Kvmark, stress: Stress) -> None:
    result = stress(f"write n=200k no-warmup -rate threads=8 -node {SIM} -log no-settings")
    (run,) = stored_runs(kvmark)
    assert len(lines_of(result)) > 1
    assert (printed_by_tool(run) or "?").strip() in result.out


def test_a_write_prints_cassandra_stress_s_columns_and_results(stress: Stress) -> None:
    result = stress(f"write n=20k no-warmup -rate threads=8 {FAST}")
    assert "Running WRITE with 8 threads for 20000 iteration" in result.out
    assert HEAD in result.out
    assert int(lines_of(result)[-1].split(",")[1]) == 20_000
    assert len(lines_of(result)[-1]) == len(HEAD)
    assert lines_of(result)[-1].endswith("NaN,     NaN,     NaN,     NaN,     NaN")
    assert figure(result, "Total partitions") == 20_000
    assert figure(result, "Total errors") == 0
    assert "Total GC count            : not known" in result.out
    assert result.out.rstrip().endswith("END")


def test_a_pinned_core_has_one_worker_and_the_dataset_is_the_population(
    kvmark: Kvmark, stress: Stress
) -> None:
    core = min(os.sched_getaffinity(0))
    words = f"write n=20k no-warmup -rate threads=8 -pop seq=101..300 {FAST}"
    stress(words, "--pin", str(core))
    (run,) = stored_runs(kvmark)
    plan = run.manifest.plan
    assert (plan["workers"], plan["pin"]) == (1, [core])
    assert (plan["dataset"]["start"], plan["dataset"]["count"]) == (101, 200)
    shown = kvmark("runs", "show", run.id)
    assert " records of 5 fields of 34 bytes\n" in shown.out


@pytest.mark.parametrize(
    ("own", "words", "sentence"),
    [
        ("--pin 0,0", "", "pin: a core is named twice; name each core once"),
        ("--pin 99999999999", "", "pin: must be from 0 to 4294967295, not 99999999999"),
        ("", "-log hdrfile=gone/x.hdr", "-log: hdrfile= there is no folder gone; make it"),
        ("", "-graph file=gone/x.html", "-graph: file= there is no folder gone; make it"),
    ],
)
def test_wrong_options_are_reported_before_the_measurement(
    kvmark: Kvmark, stress: Stress, own: str, words: str, sentence: str
) -> None:
    line = f"write n=100 no-warmup -rate threads=2 -node null: {words}"
    result = stress(line, *own.split(), exits=2)
    assert sentence in result.err
    assert result.out == ""
    assert stored_runs(kvmark) == []


def test_ten_thousand_threads_are_clients_of_one_process(stress: Stress) -> None:
    """Each is served within its turn: the queue's throughput is that of its servers."""
    result = stress(f"write n=200k no-warmup -rate threads=10000 -node {SIM} -log no-settings")
    assert figure(result, "Total partitions") == 200_000
    # Four servers of 100 µs; ten thousand clients keep them busy.
    assert figure(result, "Op rate") == pytest.approx(40_000, rel=0.01)
    assert figure(result, "Latency median") == pytest.approx(250.0, rel=0.01)


def test_a_run_ends_when_the_error_of_its_mean_is_small(stress: Stress) -> None:
    result = stress(f"write err<0.02 n>30 n<40 no-warmup -rate threads=4 -node {SIM}")
    lines = [line for line in lines_of(result) if line.startswith("total,")]
    assert 30 <= len(lines) <= 42
    assert float(lines[29].split(",")[12]) < 0.02
    assert "******************** Stress Settings ********************" in result.out
    assert f"Url: {SIM}" in result.out
    assert "  Port:" not in result.out


def test_a_mix_has_a_line_for_each_operation(stress: Stress) -> None:
    # The null driver stores no values, so reads can't be checked.
    words = f"mixed ratio(write=1,read=3) n=8k no-warmup -rate threads=4 {FAST}"
    result = stress(f"{words} -errors skip-read-validation")
    assert {line.split(",")[0] for line in lines_of(result)} == {"READ", "WRITE", "total"}
    assert re.search(r"Op rate .*\[READ: [\d,]+ op/s, WRITE: [\d,]+ op/s\]", result.out)


def test_failed_operations_end_a_run_with_failure_unless_they_are_ignored(stress: Stress) -> None:
    words = f"write n=2k no-warmup -rate threads=4 -node {SIM}&error_share=0.1 -log no-settings"
    failed = stress(words, exits=1)
    assert failed.out.rstrip().endswith("FAILURE")
    assert "operations failed" in failed.err
    assert figure(failed, "Total errors") > 100
    ignored = stress(f"{words} -errors ignore")
    assert ignored.out.rstrip().endswith("END")


def test_a_fixed_rate_shows_response_service_and_wait_time(stress: Stress) -> None:
    result = stress(f"write n=2k no-warmup -rate threads=50 fixed=1000/s -node {SIM}")
    table = re.search(r"^time \(ms\) .*\n(response .*)\n(service .*)\n(wait .*)$", result.out, re.M)
    assert table
    response, service, wait = ([float(cell) for cell in row.split()[1:]] for row in table.groups())
    assert response[0] == pytest.approx(service[0] + wait[0], abs=0.1)
    assert len(response) == 6
    assert figure(result, "Op rate") == pytest.approx(1000, rel=0.05)


def test_log_and_graph_files_are_written(kvmark: Kvmark, stress: Stress) -> None:
    result = stress(
        f"write n=5k -rate threads=4 -node {SIM} -log no-settings file=out.log"
        " hdrfile=out.hdr -graph file=page.html title=first"
    )
    assert result.out == ""
    assert HEAD in (kvmark.folder / "out.log").read_text()
    tags = set(re.findall(r"^Tag=([^,]+),", (kvmark.folder / "out.hdr").read_text(), re.MULTILINE))
    assert tags == {"WRITE-rt", "WRITE-st", "WRITE-wt"}
    assert (kvmark.folder / "page.html").read_text().startswith("<!")


def test_a_graph_is_also_drawn_in_the_terminal(stress: Stress) -> None:
    words = f"write n=100k no-warmup -rate threads=8 -node {SIM} -log no-settings"
    plain, drawn = stress(words), stress(f"{words} -graph file=page.html")
    assert "Timeline" not in plain.out
    results, _, pictures = drawn.out.partition("Response time\n")
    assert "Results:" in results
    assert "logarithmic axis" in pictures
    assert re.search(r"ops/s 40,0\d\d ┤██", pictures)
    assert pictures.rstrip().endswith("END")


def test_a_ramp_ends_when_more_clients_bring_no_gain(stress: Stress) -> None:
    result = stress(
        f"read n=2k no-warmup -rate auto threads>=2 threads<=32 -node {SIM} -log no-settings"
        " -errors skip-read-validation"
    )
    clients = [int(one) for one in re.findall(r"Running with (\d+) threadCount", result.out)]
    assert clients == [2, 4, 8, 16, 24]
    assert result.out.count("Improvement over") == len(clients) - 1
    header, *rows = re.findall(r"^ *(?:id|\d+ threadCount), +.*$", result.out, re.MULTILINE)
    assert header.endswith(HEAD)
    assert [int(row.split()[0]) for row in rows] == clients
    assert {len(row) for row in rows} == {len(header)}


def test_n_counts_partitions(kvmark: Kvmark, stress: Stress, data: Path) -> None:
    """Uniform from 1 to 50: far fewer operations than partitions."""
    result = stress(
        f"user profile={data / 'example.yaml'},{data / 'lwt-example.yaml'} ops(wide.insert=1)"
        f" n=5003 no-warmup -rate threads=4 {FAST}"
    )
    assert "Running [wide.insert] with 4 threads for 5003 iteration" in result.out
    assert figure(result, "Total partitions") == 5003
    assert 150 < int(lines_of(result)[-1].split(",")[1]) < 250
    (run,) = stored_runs(kvmark)
    with pytest.raises(SpecError, match="none of kvmark stress"):
        printed_by_tool(run)


def test_json_prints_one_document_on_standard_output(stress: Stress) -> None:
    result = stress(f"write n=1k no-warmup -rate threads=4 {FAST}", "--json")
    (run,) = json.loads(result.out)["runs"]
    assert run["results"]["total"]["operations"] == 1000
    assert HEAD in result.err


def test_an_unknown_parameter_exits_with_2_and_help_with_0(stress: Stress) -> None:
    wrong = stress("write n=1 -rate threds=1", exits=2)
    assert wrong.err.count("\n") == 1
    assert stress("help -rate").out.startswith("-rate\n")
    assert stress("version").out.startswith("kvmark ")
