"""The metrics of a run for Prometheus."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kvmark.errors import UsageError
from kvmark.records import RunFolder
from kvmark.run.prometheus import NAMES, Exporter, exporting
from plans import plan_of

ROOT = Path(__file__).parent.parent.parent
KVMARK = [sys.executable, "-c", "import sys; from kvmark.cli import main; sys.exit(main())"]
SECOND = 1_000_000_000
READ = ("kvmark_operations_total", "measure", "clients", "READ", "ok")


@pytest.fixture(scope="module")
def exporter() -> Iterator[Exporter]:
    with exporting(0) as exporter:
        yield exporter


@dataclass(frozen=True)
class Followed:
    """A run of the open model in progress, with at most four in flight, and its exporter."""

    exporter: Exporter
    folder: RunFolder

    def write(self, *rows: dict[str, Any]) -> None:
        """Appends intervals."""
        with (self.folder.path / "intervals.jsonl").open("a") as log:
            log.write("".join(json.dumps(each) + "\n" for each in rows))

    def scraped(self) -> dict[tuple[str, ...], float]:
        """The current metrics."""
        return scraped(self.exporter.address)


@contextmanager
def following(exporter: Exporter, path: Path) -> Iterator[Followed]:
    path.mkdir()
    folder = RunFolder(path, datetime.now(UTC))
    plan = plan_of("ycsb/a", clients=4, rate=500.0, duration_ns=SECOND)
    with exporter.following(folder, plan):
        yield Followed(exporter, folder)


@pytest.fixture
def run(exporter: Exporter, tmp_path: Path) -> Iterator[Followed]:
    with following(exporter, tmp_path / "run") as run:
        yield run


def row(second: int, operation: str, outcome: str, count: int, **more: Any) -> dict[str, Any]:
    return {
        "phase": 0, "phase_name": "measure", "drain": False, "group": "clients",
        "start_ns": second * SECOND, "end_ns": (second + 1) * SECOND, "part": False,
        "operation": operation, "outcome": outcome, "count": count,
        "response_ns_p99": 2_000_000 + second, **more,
    }  # fmt: skip


def scraped(address: str) -> dict[tuple[str, ...], float]:
    """Each sample by its name and the values of its labels."""
    with urlopen(address, timeout=300) as answer:
        text = answer.read().decode()
    return {
        (sample.name, *(sample.labels[name] for name in NAMES[sample.name][1])): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_counts_grow_with_each_whole_line(run: Followed) -> None:
    line = json.dumps(row(0, "READ", "ok", 100)) + "\n"
    log = run.folder.path / "intervals.jsonl"
    log.write_text(line[:30])
    assert READ not in run.scraped()
    log.write_text(line)
    # Parts of operations don't count.
    run.write(row(0, "READ", "timeout", 3), row(0, "READ", "ok", 40, part=True))
    assert run.scraped()[READ] == 100
    run.write(row(1, "READ", "ok", 50))
    assert run.scraped()[READ] == 150
    assert run.scraped()[*READ[:-1], "timeout"] == 3


def test_times_and_rates_are_those_of_the_newest_interval(run: Followed) -> None:
    total = row(0, "TOTAL", "any", 103, backlog=7, in_flight=4, late=2)
    run.write(total, row(0, "READ", "ok", 100), row(0, "UPDATE", "ok", 3))
    run.write(row(1, "TOTAL", "any", 50, backlog=5, in_flight=1, late=1))
    run.write(row(1, "READ", "ok", 50))
    expected = {
        ("kvmark_completed_per_second", "clients", "READ"): 50,
        ("kvmark_completed_per_second", "clients", "UPDATE"): None,
        ("kvmark_response_seconds", "clients", "READ", "0.99"): pytest.approx(2.000001e-3),
        ("kvmark_backlog_operations", "clients"): 5,
        ("kvmark_in_flight_operations", "clients"): 1,
        ("kvmark_late_operations_total", "clients"): 3,
    }
    found = run.scraped()
    assert {name: found.get(name) for name in expected} == expected


def test_the_plan_the_phase_and_the_machine_are_exported(run: Followed) -> None:
    run.folder.append_event({"at_ns": 0, "kind": "phase_started", "name": "warm_up"})
    run.folder.append_event({"at_ns": 9, "kind": "phase_started", "name": "measure"})
    used = {"cpu_user_s": 1.5, "cpu_system_s": 0.5, "resident_bytes": 4096}
    run.folder.append_resources([{"node": "generator", **used, "machine_cpu_percent": 40.0}])
    found = run.scraped()
    assert ("kvmark_phase", "warm_up") not in found
    expected = {
        ("kvmark_clients", "clients"): 4,
        ("kvmark_target_per_second", "clients"): 500,
        ("kvmark_phase", "measure"): 1,
        ("kvmark_cpu_seconds_total", "generator", "user"): 1.5,
        ("kvmark_resident_bytes", "generator"): 4096,
        ("kvmark_machine_cpu_ratio",): 0.4,
        ("kvmark_run_info", "run", "ycsb/a", "null"): 1,
    }
    assert {name: found[name] for name in expected} == expected


def test_the_next_run_restarts_the_counters(run: Followed, tmp_path: Path) -> None:
    run.write(row(0, "READ", "ok", 100))
    run.scraped()
    with following(run.exporter, tmp_path / "other") as other:
        other.write(row(0, "READ", "ok", 1))
        assert run.scraped()[READ] == 1
    (other.folder.path / "intervals.jsonl").unlink()
    assert run.scraped()[READ] == 1


def test_a_request_with_another_host_name_is_rejected(exporter: Exporter) -> None:
    with pytest.raises(HTTPError) as refusal:
        urlopen(Request(exporter.address, headers={"Host": "evil.example"}), timeout=300)
    assert refusal.value.code == 421
    refusal.value.close()


def test_incomplete_requests_take_no_thread_and_block_no_others(exporter: Exporter) -> None:
    threads = threading.active_count()
    address = urlsplit(exporter.address)
    with ExitStack() as open_ones:
        for _ in range(3):
            half = socket.create_connection((str(address.hostname), int(address.port or 0)))
            open_ones.enter_context(half).sendall(b"GET /metrics HTTP/1.1\r\nHost:")
        assert isinstance(scraped(exporter.address), dict)
        assert threading.active_count() == threads


def test_a_port_in_use_is_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"prometheus: port {port} on 127.0.0.1"):
            exporting(port).__enter__()


def test_the_guide_names_every_metric_and_the_dashboard_uses_only_these() -> None:
    guide = (ROOT / "docs/guide/prometheus.md").read_text()
    assert set(re.findall(r"`(kvmark_\w+)", guide)) == set(NAMES)
    panels = json.loads((ROOT / "docs/grafana/kvmark.json").read_text())["panels"]
    queries = [target["expr"] for panel in panels for target in panel.get("targets", ())]
    asked = set(re.findall(r"\bkvmark_\w+", " ".join(queries)))
    assert asked <= set(NAMES)
    assert len(asked) >= 10


def test_a_command_is_scraped(tmp_path: Path) -> None:
    words = ["run", "ycsb/a", "--system", "null:", "--rate", "2k", "--duration", "1h"]
    words += ["--records", "100", "--interval", "100ms", "--prometheus", "0"]
    process = subprocess.Popen(
        [*KVMARK, *words],
        cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        address = line.split()[3]
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/metrics", address), line
        wanted = ("kvmark_response_seconds", "clients", "READ", "0.99")
        while wanted not in (found := scraped(address)):
            assert process.poll() is None
        assert found["kvmark_target_per_second", "clients"] == 2_000
        assert {name for name, *_ in found} <= set(NAMES)
    finally:
        process.kill()
        process.communicate()
