"""A tap's trace as the facts of an audit, independent of the protocol."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import polars as pl

from kvmark.analysis.audit.pacing import (
    Exchanges,
    Numbers,
    at_once,
    load_model,
    omission,
    pace,
    pool_pace,
    sharing_clients,
    unused_share,
)
from kvmark.analysis.trace import TraceAnswer, describe
from kvmark.records.audit import (
    AnnouncedLoad,
    ComparedFigures,
    ConnectionsRecord,
    DriftRecord,
    LoadModel,
    OmissionRecord,
    PaceRecord,
    SentLoad,
    ThreadsRecord,
)
from kvmark.stats import drift
from kvmark.trace.folder import Trace
from kvmark.trace.recording import TapProgress

OPERATIONS_MAX: Final = 1 << 23
"""The most operations whose instants are analysed: the first ones of a longer trace."""
ALL: Final = "all"
"""The name of all commands together."""
_SLOT_NS: Final = 100_000_000
_SLOTS_MAX: Final = 600
_LEAST_FOR_DRIFT: Final = 10
_P_VALUE: Final = 0.01
_RARE: Final = 0.001
"""The share of the requests below which a command has no figures."""
_COLUMNS: Final = (
    "at_ns", "client", "kind", "statement", "key_size", "items", "completed_ns", "outcome",
)  # fmt: skip
_SERVICE: Final = pl.col("completed_ns") - pl.col("at_ns")
_COMMAND: Final = pl.col("statement").str.split(" ").list.first().str.to_uppercase()


@dataclass(frozen=True)
class ObservedLoad:
    """What a trace shows of a load."""

    sent: SentLoad
    connections: ConnectionsRecord
    pace: PaceRecord
    omission: OmissionRecord | None
    drift: DriftRecord | None
    figures: tuple[ComparedFigures, ...]
    intervals: pl.DataFrame
    """By `command` and `slot` the number of requests and p50, p99 and max of their service."""
    slot_ns: int
    services: dict[str, Numbers]
    """Service times by command."""
    answer: TraceAnswer


def observe(
    trace: Trace, tap: TapProgress, announced: AnnouncedLoad, threads: ThreadsRecord | None
) -> ObservedLoad:
    """Analyses a trace, with the last progress of the tap.

    Raises:
        UsageError: a file is damaged.
    """
    answer, rows = describe(trace), _rows(trace)
    with_keys = rows.filter(pl.col("has_key").any().over("client"))
    load = rows if with_keys.is_empty() else with_keys
    exchanges, busiest = _exchanges(load), None if threads is None else threads.busiest_share
    if tap.pools_clients:
        connections = _connections(exchanges, "closed", 0, AnnouncedLoad())
        load, is_bound = _by_sharing_clients(load)
        exchanges = _exchanges(load)
        paced = pool_pace(exchanges, *load_model(exchanges.pipelines, busiest), is_bound=is_bound)
        clients = int(exchanges.client.max()) + 1
        connections = replace(connections, clients=clients, unused_share=0, pipeline=1)
    else:
        model, busy = load_model(exchanges.pipelines, busiest)
        paced = pace(exchanges, model, busy)
        silent = tap.connections - rows["client"].n_unique()
        connections = _connections(exchanges, model, silent, announced)
    answered = load.sort("client", "at_ns", maintain_order=True)["completed_ns"].is_not_null()
    span_ns = max(1, trace.info.end_ns)
    slot_ns = _SLOT_NS * (1 + span_ns // (_SLOT_NS * _SLOTS_MAX))
    common = rows.filter(pl.len().over("command") >= len(rows) * _RARE)
    intervals = _intervals(common, slot_ns)
    services = common.filter(pl.col("completed_ns").is_not_null())
    return ObservedLoad(
        sent=_sent(answer, rows),
        connections=connections,
        pace=paced,
        omission=None if paced.model == "open" else omission(exchanges, answered.to_numpy()),
        drift=_drift(intervals),
        figures=tuple(_figures(common)),
        intervals=intervals,
        slot_ns=slot_ns,
        services={
            str(name): part.select(_SERVICE).to_series().to_numpy()
            for (name,), part in services.group_by("command", maintain_order=True)
        },
        answer=answer,
    )


def _rows(trace: Trace) -> pl.DataFrame:
    """The first operations, a row each."""
    parts: list[pl.DataFrame] = []
    for batch in trace.batches(_COLUMNS):
        first = batch.filter(pl.col("items") > 0)
        parts.append(
            first.select(
                "at_ns", "client", "completed_ns", pl.col("outcome").cast(pl.Categorical),
                _COMMAND.cast(pl.Categorical).alias("command"),
                (pl.col("key_size") > 0).alias("has_key"), (pl.col("kind") == "read").alias("read"),
            )
        )  # fmt: skip
        if sum(map(len, parts)) >= OPERATIONS_MAX:
            break
    return pl.concat(parts).head(OPERATIONS_MAX)


def _exchanges(load: pl.DataFrame) -> Exchanges:
    columns = (load[name].fill_null(-1) for name in ("client", "at_ns", "completed_ns"))
    return Exchanges.of(*(one.cast(pl.Int64).to_numpy() for one in columns))


def _by_sharing_clients(load: pl.DataFrame) -> tuple[pl.DataFrame, bool]:
    """The requests by the clients that share connections, and whether their number is bound."""
    load = load.sort("at_ns", maintain_order=True)
    sent = load["at_ns"].cast(pl.Int64)
    end_ns = max(sent[-1], load["completed_ns"].cast(pl.Int64).max() or 0)
    answered = load["completed_ns"].cast(pl.Int64).fill_null(end_ns)
    clients, is_bound = sharing_clients(sent.to_numpy(), answered.to_numpy())
    return load.with_columns(client=pl.Series(clients)), is_bound


def _sent(answer: TraceAnswer, rows: pl.DataFrame) -> SentLoad:
    outcomes = {one.name: one.operations for one in answer.outcomes}
    ends = rows.filter("read").group_by(pl.col("outcome").cast(pl.String)).len()
    reads = dict(ends.iter_rows())
    sizes = {one.what: round(one.mean) for one in answer.sizes}
    mix: dict[str, float] = {}
    for part in answer.statements:
        name = part.name.split()[0].upper()
        mix[name] = mix.get(name, 0.0) + part.share
    population = answer.population
    return SentLoad(
        operations=answer.operations,
        span_ns=round(answer.span_s * 1e9),
        mix=mix,
        looked=reads.get("ok", 0) + reads.get("miss", 0),
        missed=reads.get("miss", 0),
        failed=sum(n for name, n in outcomes.items() if name not in ("ok", "miss", "unanswered")),
        unanswered=outcomes.get("unanswered", 0),
        keys=answer.keys,
        population=population.size if population else None,
        key_law=_key_law(answer),
        top_share=answer.top_share,
        key_bytes=sizes.get("key_size"),
        value_bytes=sizes.get("value_size"),
    )


def _key_law(answer: TraceAnswer) -> str:
    population, zipf, gaussian = answer.population, answer.popularity, answer.gaussian
    if population is None:
        return "none"
    fits = zipf is not None and gaussian is not None and gaussian.off < zipf.off
    if population.spread == "uneven" and fits and gaussian is not None:
        return f"gaussian, standard deviation {gaussian.deviation:,.0f} keys"
    if population.spread == "uneven" and zipf is not None:
        return f"zipfian, theta {zipf.theta:.2f}"
    texts = {"one": "one key", "once": "each once", "even": "uniform"}
    return texts.get(population.spread, population.spread)


def _connections(
    exchanges: Exchanges, model: LoadModel, silent: int, announced: AnnouncedLoad
) -> ConnectionsRecord:
    counts, pipelines = np.bincount(exchanges.client), exchanges.pipelines
    together = int(counts.sum()) / len(pipelines.depth)
    expected = max(len(counts) + max(0, silent), announced.clients or 0)
    return ConnectionsRecord(
        at_once=at_once(exchanges),
        expected=expected,
        unused_share=unused_share(counts, expected),
        busiest_share=float(counts.max() / counts.sum()),
        pipeline=round(together) if model == "open" else int(np.median(pipelines.depth)),
    )


def _intervals(rows: pl.DataFrame, slot_ns: int) -> pl.DataFrame:
    """Counts and service times by command and slot, of all commands first."""
    slots = rows.with_columns(
        (pl.col("at_ns") // slot_ns).alias("slot"), pl.col("command").cast(pl.String)
    )
    statistics = (
        pl.len().alias("count"),
        *(_SERVICE.quantile(q).alias(name) for name, q in (("p50", 0.5), ("p99", 0.99))),
        _SERVICE.max().alias("max"),
    )
    whole = slots.with_columns(pl.lit(ALL).alias("command"))
    parts = [one.group_by("command", "slot").agg(statistics) for one in (whole, slots)]
    return pl.concat(parts).sort("command", "slot")


def _drift(intervals: pl.DataFrame) -> DriftRecord | None:
    """The largest significant drift of a command's rate, while the command was sent at all."""
    found = []
    for (command,), rows in intervals.filter(pl.col("command") != ALL).group_by("command"):
        slots = rows["slot"].to_numpy()
        counts = np.zeros(int(slots.max() - slots.min()) + 1)
        counts[slots - slots.min()] = rows["count"].to_numpy()
        # The first and the last slot aren't full.
        if len(counts) >= _LEAST_FOR_DRIFT + 2:
            moved = drift(counts[1:-1].tolist())
            if moved.p_value < _P_VALUE:
                found.append(DriftRecord(str(command), moved.change, moved.p_value, moved.n))
    return max(found, key=lambda one: abs(one.change), default=None)


def _figures(rows: pl.DataFrame) -> Iterator[ComparedFigures]:
    """The rate and the service times of all commands, and of each from its first to its last."""
    columns = (
        pl.len(), pl.col("at_ns").max() - pl.col("at_ns").min(),
        _SERVICE.quantile(0.5).alias("p50"), _SERVICE.quantile(0.99).alias("p99"),
    )  # fmt: skip
    by_command = rows.group_by("command").agg(columns).sort("len", descending=True)
    whole = rows.select(pl.lit(ALL).alias("command"), *columns)
    for name, count, span_ns, p50, p99 in (*whole.iter_rows(), *by_command.iter_rows()):
        yield ComparedFigures(str(name), count * 1e9 / span_ns if span_ns else None, p50, p99)
