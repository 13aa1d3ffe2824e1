"""The command as a user has it, on the simulated and the null driver."""

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

import preloaded
import pytest

from kvmark.errors import SpecError
from kvmark.frontends.cassandra_stress.printed import text_of_run
from kvmark.frontends.cassandra_stress.text import HEAD
from kvmark.records import Entry, Records

PATIENCE_S = 300.0
SIM = "sim:?service=constant&mean_us=100&servers=4&clock=virtual"
FAST = "-node null: -log no-settings"


@dataclass(frozen=True)
class Said:
    """What a command printed, and its exit code."""

    code: int
    output: str
    errors: str

    @property
    def lines(self) -> list[str]:
        """The lines of its operations."""
        return re.findall(r"^\w+, +\d.*$", self.output, re.MULTILINE)


@dataclass(frozen=True)
class Stress:
    """Runs the command in a folder of its own."""

    folder: Path

    def __call__(self, words: str, *own: str) -> Said:
        variables = {**os.environ, "KVMARK_RUNS": str(self.folder / "runs")}
        command = ("stress", *own, *words.split())
        ended = preloaded.run(command, self.folder, variables, PATIENCE_S)
        return Said(ended.code, ended.out, ended.err)


@pytest.fixture
def stress(tmp_path: Path) -> Stress:
    """The command."""
    return Stress(tmp_path)


def stored_runs(stress: Stress) -> list[Entry]:
    """All that were kept."""
    return list(Records(stress.folder / "runs").list())


def test_a_run_has_as_many_records_as_its_population(stress: Stress) -> None:
    for words, start, count in (
        ("write n=500 no-warmup", 1, 500),
        ("write n=10 no-warmup -pop seq=101..300", 101, 200),
    ):
        said = stress(f"{words} -rate threads=2 {FAST}")
        assert said.code == 0, said
        plan = stored_runs(stress)[0].path / "manifest.json"
        dataset = json.loads(plan.read_text())["plan"]["dataset"]
        assert (dataset["start"], dataset["count"]) == (start, count)


def figure(said: Said, name: str) -> float:
    """A figure of the Results block."""
    match = re.search(rf"^{name}\s*:\s*([\d,.]+)", said.output, re.MULTILINE)
    assert match, said
    return float(match[1].replace(",", ""))


def test_a_stored_run_reads_as_it_was_printed(stress: Stress) -> None:
    said = stress(f"write n=200k no-warmup -rate threads=8 -node {SIM} -log no-settings")
    (run,) = (Records(stress.folder / "runs").open(one.id) for one in stored_runs(stress))
    assert len(said.lines) > 1
    told = text_of_run(run)
    assert told.strip() in said.output


def test_a_stored_run_of_another_command_is_no_line_of_cassandra_stress(stress: Stress) -> None:
    words = ("run", "ycsb/c", "--system", "null:", "--operations", "100", "-q")
    preloaded.run(words, stress.folder, dict(os.environ), PATIENCE_S)
    (run,) = (Records(stress.folder / "runs").open(one.id) for one in stored_runs(stress))
    with pytest.raises(SpecError, match="none of kvmark stress"):
        text_of_run(run)


def test_a_write_prints_cassandra_stress_s_columns_and_results(stress: Stress) -> None:
    said = stress(f"write n=20k no-warmup -rate threads=8 {FAST}")
    assert said.code == 0, said
    assert "Running WRITE with 8 threads for 20000 iteration" in said.output
    assert HEAD in said.output
    assert int(said.lines[-1].split(",")[1]) == 20_000
    assert figure(said, "Total partitions") == 20_000
    assert figure(said, "Total errors") == 0
    assert "Total GC count            : not known" in said.output
    assert said.output.rstrip().endswith("END")


def test_a_pinned_core_has_one_worker_and_what_is_written_is_told(stress: Stress) -> None:
    core = min(os.sched_getaffinity(0))
    words = f"write n=20k no-warmup -rate threads=8 -node {SIM} -log no-settings"
    assert stress(words, "--pin", str(core)).code == 0
    (run,) = (Records(stress.folder / "runs").open(one.id) for one in stored_runs(stress))
    assert (run.manifest.plan["workers"], run.manifest.plan["pin"]) == (1, [core])
    shown = preloaded.run(("runs", "show", run.id), stress.folder, dict(os.environ), PATIENCE_S)
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
def test_what_can_not_be_is_told_before_anything_is_measured(
    stress: Stress, own: str, words: str, sentence: str
) -> None:
    said = stress(f"write n=100 no-warmup -rate threads=2 -node null: {words}", *own.split())
    assert said.code == 2
    assert sentence in said.errors
    assert said.output == ""
    assert stored_runs(stress) == []


def test_ten_thousand_threads_are_clients_of_one_process(stress: Stress) -> None:
    """Each is served within its turn: the queue's throughput is that of its servers."""
    said = stress(f"write n=200k no-warmup -rate threads=10000 -node {SIM} -log no-settings")
    assert said.code == 0, said
    assert figure(said, "Total partitions") == 200_000
    # Four servers of 100 µs; ten thousand clients keep them busy.
    assert figure(said, "Op rate") == pytest.approx(40_000, rel=0.01)
    assert figure(said, "Latency median") == pytest.approx(250.0, rel=0.01)


def test_a_run_ends_when_the_error_of_its_mean_is_small(stress: Stress) -> None:
    said = stress(f"write err<0.02 n>30 n<40 no-warmup -rate threads=4 -node {SIM}")
    assert said.code == 0, said
    lines = [line for line in said.lines if line.startswith("total,")]
    assert 30 <= len(lines) <= 42
    assert float(lines[29].split(",")[12]) < 0.02
    assert "******************** Stress Settings ********************" in said.output


def test_a_mix_has_a_line_for_each_operation(stress: Stress) -> None:
    # The null driver holds nothing, so that what is read can't be what must be there.
    words = f"mixed ratio(write=1,read=3) n=8k no-warmup -rate threads=4 {FAST}"
    said = stress(f"{words} -errors skip-read-validation")
    assert said.code == 0, said
    assert {line.split(",")[0] for line in said.lines} == {"READ", "WRITE", "total"}
    assert re.search(r"Op rate .*\[READ: [\d,]+ op/s, WRITE: [\d,]+ op/s\]", said.output)


def test_failed_operations_end_a_run_with_failure_unless_they_are_ignored(stress: Stress) -> None:
    words = f"write n=2k no-warmup -rate threads=4 -node {SIM}&error_share=0.1 -log no-settings"
    failed = stress(words)
    assert failed.code == 1
    assert failed.output.rstrip().endswith("FAILURE")
    assert "operations failed" in failed.errors
    assert figure(failed, "Total errors") > 100
    ignored = stress(f"{words} -errors ignore")
    assert ignored.code == 0
    assert ignored.output.rstrip().endswith("END")


def test_a_fixed_rate_shows_response_service_and_wait_time(stress: Stress) -> None:
    said = stress(f"write n=2k no-warmup -rate threads=50 fixed=1000/s -node {SIM}")
    assert said.code == 0, said
    shown = {line.split()[0] for line in said.output.splitlines() if line[:7].strip()}
    assert {"response", "service", "wait"} <= shown
    assert figure(said, "Op rate") == pytest.approx(1000, rel=0.05)


def test_files_are_written_where_they_were_asked_for(stress: Stress) -> None:
    said = stress(
        f"write n=5k -rate threads=4 -node {SIM} -log no-settings file=out.log"
        " hdrfile=out.hdr -graph file=page.html title=first"
    )
    assert said.code == 0, said
    assert said.output == ""
    assert HEAD in (stress.folder / "out.log").read_text()
    tags = set(re.findall(r"^Tag=([^,]+),", (stress.folder / "out.hdr").read_text(), re.MULTILINE))
    assert tags == {"WRITE-rt", "WRITE-st", "WRITE-wt"}
    assert (stress.folder / "page.html").read_text().startswith("<!")


def test_a_graph_is_drawn_in_the_terminal_too_and_only_when_it_is_asked_for(stress: Stress) -> None:
    words = f"write n=100k no-warmup -rate threads=8 -node {SIM} -log no-settings"
    plain, drawn = stress(words), stress(f"{words} -graph file=page.html")
    assert "Timeline" not in plain.output
    results, _, pictures = drawn.output.partition("Response time\n")
    assert "Results:" in results
    assert "logarithmic axis" in pictures
    assert re.search(r"ops/s 40,0\d\d ┤██", pictures)
    assert pictures.rstrip().endswith("END")


def test_a_ladder_climbs_until_more_clients_bring_nothing(stress: Stress) -> None:
    said = stress(
        f"read n=2k no-warmup -rate auto threads>=2 threads<=32 -node {SIM} -log no-settings"
        " -errors skip-read-validation"
    )
    assert said.code == 0, said
    climbed = [int(one) for one in re.findall(r"Running with (\d+) threadCount", said.output)]
    assert climbed == [2, 4, 8, 16, 24]
    assert said.output.count("Improvement over") == len(climbed) - 1
    assert "id, type" in said.output


def test_a_profile_s_rows_are_counted(stress: Stress, data: Path) -> None:
    said = stress(
        f"user profile={data / 'user-profile-clustering.yaml'} ops(insert=1) n=1k no-warmup"
        f" -rate threads=4 {FAST}"
    )
    assert said.code == 0, said
    assert "Running [insert] with 4 threads for 1000 iteration" in said.output
    assert figure(said, "Total partitions") == 1000


def test_an_operation_s_partitions_are_counted_and_n_is_theirs(stress: Stress, data: Path) -> None:
    """Uniform from 1 to 50: far fewer operations than partitions."""
    said = stress(
        f"user profile={data / 'example.yaml'},{data / 'lwt-example.yaml'} ops(wide.insert=1)"
        f" n=5003 no-warmup -rate threads=4 {FAST}"
    )
    assert said.code == 0, said
    assert figure(said, "Total partitions") == 5003
    assert 150 < int(said.lines[-1].split(",")[1]) < 250


def test_one_json_document_stands_on_standard_output(stress: Stress) -> None:
    said = stress(f"write n=1k no-warmup -rate threads=4 {FAST}", "--json")
    assert said.code == 0, said
    (run,) = json.loads(said.output)["runs"]
    assert run["results"]["total"]["operations"] == 1000
    assert HEAD in said.errors


def test_wrong_words_exit_with_2_and_help_with_0(stress: Stress) -> None:
    wrong = stress("write n=1 -rate threds=1")
    assert wrong.code == 2
    assert wrong.errors.count("\n") == 1
    assert stress("help -rate").output.startswith("-rate\n")
    assert stress("version").output.startswith("kvmark ")
