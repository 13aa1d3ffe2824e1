"""A program beside its peers as a page: on top what was compared, then medians, ratios, bounds."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from kvmark.analysis.peers import PeerBound, PeerRatio, Peers
from kvmark.report.format import units
from kvmark.report.format.grid import Cell, Column, Grid, escape_markdown, to_markdown
from kvmark.report.views.gather import NO_COMMIT, machine_words
from kvmark.report.views.plan_words import listed

_RATIO_DIGITS = 3
_NOTE = (
    "A ratio to a peer is the geometric mean over the pairs within a block, a figure by itself the"
    " mean over blocks. A bound is met when the whole interval is within it, NOT met when the whole"
    " is beyond, else open."
)


def peers_parts(peers: Peers) -> dict[str, str]:
    """The parts of a page below its title: `top`, `medians`, `ratios`."""
    return {
        "top": "\n\n".join(_top(peers)),
        "medians": to_markdown(medians_grid(peers)).strip(),
        "ratios": to_markdown(ratios_grid(peers)).strip(),
    }


def medians_grid(peers: Peers) -> Grid:
    """Each program's medians over the blocks."""
    return Grid(
        title="Medians",
        columns=(
            Column("case", number=False, key=True),
            Column("program", number=False, key=True),
            *(Column(figure.heading) for figure in peers.figures),
            Column("blocks"),
        ),
        rows=tuple(
            (
                Cell(row.case),
                Cell(row.program),
                *(Cell(units.significant(row.figures[one.name])) for one in peers.figures),
                Cell(units.whole(row.blocks)),
            )
            for row in peers.rows()
        ),
    )


def ratios_grid(peers: Peers) -> Grid:
    """The first program over each other one, with the bounds."""
    return Grid(
        title=_title(peers),
        columns=(
            Column("case", number=False, key=True),
            Column("peer", number=False, key=True),
            Column("figure", number=False, key=True),
            Column("value"),
            Column("95 % interval"),
            Column("bound"),
            Column("held", number=False),
        ),
        rows=tuple(
            (
                Cell(one.case),
                Cell(one.peer or units.ABSENT),
                Cell(one.figure),
                Cell(_number(one.estimate.value), "strong"),
                Cell(_interval(one)),
                Cell("" if one.bound is None else _bound(one.bound)),
                Cell(one.held or ""),
            )
            for one in peers.ratios()
        ),
        notes=(_NOTE,),
    )


def _top(peers: Peers) -> Iterator[str]:
    yield f"{escape_markdown(peers.subject)}."
    facts = [
        f"- Measured: {peers.created[:10]}",
        f"- Commit: {peers.commit or NO_COMMIT}",
        f"- Machine: {', '.join(machine_words(peers.host))}",
        f"- System: {escape_markdown(peers.system)}",
        *(
            f"- {escape_markdown(name)}: {escape_markdown(one)}"
            for name, one in peers.versions.items()
        ),
        f"- Verdicts: {_verdicts(peers)}",
        f"- Command: `{shlex.join(peers.command)}`",
    ]
    yield "\n".join(facts)


def _title(peers: Peers) -> str:
    compared = [case.programs[0] for case in peers.cases if len(case.programs) > 1]
    return f"{compared[0]} ÷ peer" if compared else "Bounds"


def _verdicts(peers: Peers) -> str:
    """How many bounds are met, and which are not."""
    held = [one for one in peers.ratios() if one.bound is not None]
    failed = sum(run.figures is None for run in peers.runs)
    told = []
    for word in ("met", "open", "NOT met"):
        found = [one for one in held if one.held == word]
        if found:
            names = "" if word == "met" else f" ({'; '.join(map(_named, found))})"
            told.append(f"{len(found)} {word}{names}")
    known = {(one.case, one.figure, one.peer) for one in held}
    lacking = [
        f"{bound.figure} of {case.name}" + (f" beside {bound.peer}" if bound.peer else "")
        for case in peers.cases
        for bound in case.bounds
        if (case.name, bound.figure, bound.peer) not in known
    ]
    if lacking:
        told.append(f"{len(lacking)} not known ({'; '.join(lacking)})")
    all_bounds = len(held) + len(lacking)
    bounds = f"of {all_bounds} bounds {listed(told)}" if all_bounds else "no bounds"
    return escape_markdown(f"{bounds}; {failed} of {len(peers.runs)} repetitions failed")


def _named(one: PeerRatio) -> str:
    beside = f" beside {one.peer}" if one.peer else ""
    return f"{one.figure} of {one.case}{beside}"


def _bound(bound: PeerBound) -> str:
    return f"{'≤' if bound.most else '≥'} {bound.limit:g}"


def _interval(one: PeerRatio) -> str:
    low, high = one.estimate.low, one.estimate.high
    if low is None or high is None:
        return units.ABSENT
    return f"{_number(low)} to {_number(high)}"


def _number(value: float) -> str:
    return units.significant(value, _RATIO_DIGITS)
