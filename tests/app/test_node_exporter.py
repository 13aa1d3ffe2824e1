"""A node exporter's text becomes a row, and one that isn't there is told before a run begins."""

import threading
from collections.abc import Iterator
from functools import partial
from http.server import HTTPServer, SimpleHTTPRequestHandler
from pathlib import Path

import pytest

from kvmark.errors import SystemUnderTestError, UsageError
from kvmark.testbed.observe import NodeExporter, row_of

TEXT = """# HELP node_cpu_seconds_total Seconds the CPUs spent in each mode.
# TYPE node_cpu_seconds_total counter
node_cpu_seconds_total{cpu="0",mode="idle"} 1000
node_cpu_seconds_total{cpu="0",mode="user"} 10.5
node_cpu_seconds_total{cpu="0",mode="nice"} 0.5
node_cpu_seconds_total{cpu="0",mode="system"} 3
node_cpu_seconds_total{cpu="1",mode="user"} 20
node_cpu_seconds_total{cpu="1",mode="softirq"} 1
node_disk_read_bytes_total{device="sda"} 4096
node_disk_read_bytes_total{device="sda1"} 4096
node_disk_read_bytes_total{device="dm-0"} 4096
node_memory_MemTotal_bytes 1e+09
node_memory_MemAvailable_bytes 4e+08
node_network_transmit_bytes_total{device="eth0"} 700
node_network_transmit_bytes_total{device="lo"} 9999
"""


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """A server with the text at /metrics, and another one at /elsewhere."""
    (tmp_path / "metrics").write_text(TEXT)
    (tmp_path / "elsewhere").write_text("nothing")
    handler = partial(SimpleHTTPRequestHandler, directory=tmp_path)
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_row_sums_processors_and_leaves_out_what_would_count_twice() -> None:
    expected = {
        "node": "db1", "cores": 2, "cpu_user_s": 31.0, "cpu_system_s": 4.0,
        "resident_bytes": 600_000_000, "disk_read_bytes": 4096, "disk_written_bytes": None,
        "network_sent_bytes": 700,
    }  # fmt: skip
    assert (row_of(TEXT, "db1") or {}).items() >= expected.items()
    assert row_of("node_load1 3\nnot a sample at all {{{\n", "db1") is None


def test_the_path_may_be_left_out(url: str) -> None:
    rows = [NodeExporter(address).sample() for address in (url, f"{url}/metrics")]
    assert [row["node"] for row in rows if row] == ["127.0.0.1"] * 2


def test_who_does_not_answer_or_is_no_exporter_is_refused_before_the_run(url: str) -> None:
    with pytest.raises(SystemUnderTestError, match="has no node_cpu_seconds_total"):
        NodeExporter(f"{url}/elsewhere")
    with pytest.raises(SystemUnderTestError, match="doesn't answer"):
        NodeExporter("http://127.0.0.1:1/metrics")
    with pytest.raises(UsageError, match="is not a node exporter's address"):
        NodeExporter("file:///etc/hostname")
