"""The package as a program or a notebook uses it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

import kvmark
from kvmark.errors import RecordsError, UsageError
from kvmark.records import Records
from kvmark.stats import Counts
from runs_on_disk import OPERATIONS, begun, two_runs
from waiting import PATIENCE_S, wait_until


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Records:
    return two_runs(tmp_path_factory.mktemp("api"))


@pytest.fixture(scope="module")
def loaded(records: Records) -> kvmark.MeasuredRun:
    return kvmark.load("last~1", folder=records.root)


def output_of(program: str) -> str:
    command = [sys.executable, "-c", program]
    return subprocess.check_output(command, text=True, timeout=PATIENCE_S)


def test_importing_the_package_loads_nothing_else() -> None:
    heavy = "name.startswith(('kvmark', 'polars', 'numpy', 'pydantic', 'altair', 'typer'))"
    printed = output_of(f"import kvmark, sys; print(*[name for name in sys.modules if {heavy}])")
    assert printed == "kvmark\n"


@pytest.mark.parametrize(
    "imports",
    [
        "import kvmark; import kvmark.run.context",
        "import kvmark.run.context, kvmark",
        "import kvmark; kvmark.run; from kvmark.run.context import RunContext",
    ],
)
def test_run_is_the_function_after_any_import(imports: str) -> None:
    assert output_of(f"{imports}; print(kvmark.run.__module__)") == "kvmark.api\n"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'rnu'"):
        _ = kvmark.rnu


def test_runs_are_listed(records: Records) -> None:
    table = kvmark.runs(records.root)
    assert table["workload"].to_list() == ["ycsb/e", "ycsb/c"]
    assert table["tags"].to_list() == [[], ["nightly"]]
    assert table["throughput"].to_list() == [250.0, 250.0]


def test_a_run_is_loaded_by_word_id_and_folder(records: Records) -> None:
    last = kvmark.load("last", folder=records.root)
    loaded = (kvmark.load(last.path), kvmark.load(str(last.path)))
    assert {run.id for run in (*loaded, kvmark.load(last.id, folder=records.root))} == {last.id}
    with pytest.raises(RecordsError, match="there is no run 'nothing'"):
        kvmark.load("nothing", folder=records.root)
    running = begun(Records(records.root.parent / "going"))
    with pytest.raises(RecordsError, match="still going"):
        kvmark.load(running.path)


def test_tables_are_polars_frames(loaded: kvmark.MeasuredRun) -> None:
    assert loaded.intervals.filter(pl.col("operation") == "READ").height == 4
    assert set(loaded.resources["node"]) == {"generator", "primary-1"}
    summary = loaded.summary.row(0, named=True)
    assert (summary["operation"], summary["ok"]) == ("READ", OPERATIONS)
    assert summary["response_ns_p50"] == loaded.histogram("READ").quantile(0.5)
    assert summary["response_ns_p999"] is None


def test_histograms_are_rows_and_merge(loaded: kvmark.MeasuredRun, records: Records) -> None:
    response = loaded.histograms.filter(pl.col("time") == "response")
    assert response["count"].sum() == OPERATIONS
    assert (response["low_ns"] <= response["high_ns"]).all()
    other = kvmark.load("last", folder=records.root)
    both = Counts.merge([loaded.histogram("READ"), other.histogram("READ")])
    assert both.n == 2 * OPERATIONS
    assert loaded.histogram("NOTHING").n == 0


def test_a_run_has_its_throughput_its_verdict_and_a_report(
    loaded: kvmark.MeasuredRun, tmp_path: Path
) -> None:
    assert loaded.throughput.unit == "ops/s"
    assert loaded.verdict.judgement.value in {"VALID", "SUSPECT", "INVALID"}
    assert loaded.manifest.tags == ("nightly",)
    assert "Can it be believed?" in loaded.write_report(tmp_path / "r.html").read_text()
    # A notebook shows its answer and tables.
    html = loaded._repr_html_()
    assert all(part in html for part in ("<table>", "ycsb/c"))
    assert "<script" not in html


def test_a_notebook_shows_a_figure_from_one_specification(loaded: kvmark.MeasuredRun) -> None:
    assert {"rate", "response", "quantiles", "cores", "memory"} <= set(loaded.figures)
    figure = loaded.figures["rate"]
    bundle = figure._repr_mimebundle_()
    assert bundle["image/svg+xml"].startswith("<svg")
    specification = bundle["application/vnd.vegalite.v6+json"]
    assert figure.data.to_dicts() in list(specification["datasets"].values())
    assert json.dumps(bundle)


def test_a_figure_is_saved_in_the_format_of_its_ending(
    loaded: kvmark.MeasuredRun, tmp_path: Path
) -> None:
    figure = loaded.figures["rate"]
    begins = {"svg": b"<svg", "png": b"\x89PNG", "pdf": b"%PDF", "csv": b"start_ns,"}
    for ending, beginning in begins.items():
        figure.save(tmp_path / f"rate.{ending}")
        assert (tmp_path / f"rate.{ending}").read_bytes().startswith(beginning)
    with pytest.raises(ValueError, match="ends in none of"):
        figure.save(tmp_path / "rate.gif")


def test_a_run_is_executed_and_loaded(tmp_path: Path) -> None:
    run = kvmark.run(
        "ycsb/c", "null:", operations="1k", records=100, tags=["api"], folder=tmp_path / "runs"
    )
    assert run.summary["ok"].sum() == 1_000
    assert run.manifest.tags == ("api",)
    assert run.path.parent == tmp_path / "runs"
    assert run.manifest.command[:3] == ("kvmark", "run", "ycsb/c")


def test_an_invalid_argument_has_the_command_s_message(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no workload") as caught:
        kvmark.run("ycsb/aa", "null:", folder=tmp_path)
    assert not str(caught.value).startswith("kvmark:")


@pytest.mark.parametrize("more", [["--sweep", "clients=1,2"], ["--slo", "p99<1s"], ["--resume"]])
def test_options_for_several_runs_are_rejected(tmp_path: Path, more: list[str]) -> None:
    with pytest.raises(UsageError, match=f"{more[0]} is not for a part of a command"):
        kvmark.run("ycsb/c", "null:", more=more, folder=tmp_path)


INTERRUPTED = """
import sys, kvmark
from kvmark.errors import Interrupted
try:
    kvmark.run("ycsb/c", "null:", rate=100, duration="1h", interval="100ms", records=100)
except Interrupted as stop:
    print(kvmark.load("last").manifest.engine.interrupted, stop)
"""


def test_an_interrupted_program_keeps_the_measured_data(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "KVMARK_RUNS": str(runs)},
    )

    def measures() -> bool:
        assert process.poll() is None
        return any(log.stat().st_size for log in runs.glob("*/intervals.jsonl"))

    wait_until(measures, "an interval is written")
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=PATIENCE_S)
    assert out.startswith("True interrupted")
