"""A program beside its peers, computed from the repetitions that were kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvmark.analysis.peers import SCHEMA, read_peers
from kvmark.errors import RecordsError
from kvmark.report.document_blocks import peers_parts
from kvmark.report.views.figures import peers_figure
from kvmark.stats import keeps_within


def kept(folder: Path, theirs: list[float], bounds: list[dict[str, Any]]) -> Path:
    """kvmark at 1.0 with a little scatter, beside a peer."""
    ours = [1.0, 1.02, 0.98, 1.01, 0.99]
    runs = [
        {"block": n, "case": "GET", "program": program, "figures": {"cost": value}}
        for n, pair in enumerate(zip(ours, theirs, strict=True))
        for program, value in zip(("kvmark", "peer"), pair, strict=True)
    ]
    document = {
        "schema": SCHEMA, "subject": "kvmark beside a peer", "system": "a server",
        "created": "2026-11-23T00:00:00", "commit": "0123", "command": ["python", "-m", "bench.a"],
        "host": {"processor": "CPU", "cores": 2}, "versions": {"peer": "1"},
        "figures": [{"name": "cost", "heading": "cost, µs"}],
        "cases": [{"name": "GET", "programs": ["kvmark", "peer"], "bounds": bounds}],
        "runs": runs,
    }  # fmt: skip
    path = folder / "peers.json"
    path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize(
    ("bound", "held"),
    [
        ({"figure": "cost", "peer": "peer", "limit": 0.6}, "met"),
        ({"figure": "cost", "peer": "peer", "limit": 0.5}, "open"),
        ({"figure": "cost", "peer": "peer", "limit": 0.4}, "NOT met"),
        ({"figure": "cost", "peer": "peer", "limit": 0.4, "most": False}, "met"),
        ({"figure": "cost", "limit": 1.1}, "met"),
        ({"figure": "cost", "limit": 0.9}, "NOT met"),
    ],
)
def test_the_whole_interval_meets_a_bound(bound: dict[str, Any], held: str, tmp_path: Path) -> None:
    peers = read_peers(kept(tmp_path, [2.0, 2.0, 2.0, 2.0, 2.0], [bound]))
    assert [one.held for one in peers.ratios() if one.bound] == [held]
    top = peers_parts(peers)["top"]
    assert f"of 1 bounds 1 {held}" in top
    assert "- Measured: 2026-11-23, commit 0123" in top
    assert "- Tools: peer: 1" in top


def test_ratios_are_of_pairs_and_medians_of_blocks(tmp_path: Path) -> None:
    peers = read_peers(kept(tmp_path, [2.0, 2.04, 1.96, 2.02, 1.98], []))
    [ratio] = peers.ratios()
    assert ratio.estimate.value == pytest.approx(0.5)
    assert ratio.held is None
    assert [row.figures["cost"] for row in peers.rows()] == [1.0, 2.0]
    bars = peers_figure(peers, "cost").data
    assert bars.rows() == [("GET", "kvmark", 1.0), ("GET", "peer", 2.0)]


@pytest.mark.parametrize(
    ("text", "told"), [("{}", "schema"), ("[", "is no comparison"), (None, "can't be read")]
)
def test_what_is_no_comparison_is_refused(text: str | None, told: str, tmp_path: Path) -> None:
    path = tmp_path / "peers.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(RecordsError, match=told):
        read_peers(path)


def test_an_interval_keeps_within_a_bound_as_a_whole() -> None:
    for low, high, most, within in (
        (1.0, 2.0, True, True),
        (1.0, 2.1, True, None),
        (2.1, 3.0, True, False),
        (2.0, 3.0, False, True),
        (1.9, 3.0, False, None),
        (1.0, 1.9, False, False),
        (None, None, True, None),
    ):
        assert keeps_within(low, high, 2.0, most=most) is within


def test_a_bound_that_can_not_be_held_is_said_to_be_unknown(tmp_path: Path) -> None:
    bound = {"figure": "cost", "peer": "peer", "limit": 1.1, "most": True}
    read = read_peers(kept(tmp_path, [1.0, 1.0, 1.0, 0.0, 1.0], [bound]))
    told = peers_parts(read)["top"]
    assert "of 1 bounds 1 not known (cost of GET beside peer)" in told
