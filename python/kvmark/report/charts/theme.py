"""Colours and type of figures; series have Okabe and Ito's colours, safe for the colour-blind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

_SANS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', sans-serif"


@dataclass(frozen=True, slots=True)
class Theme:
    """Colours by their part in a figure, as CSS colours."""

    background: str
    ink: str
    muted: str
    rule: str
    band: str
    series: tuple[str, ...]
    font: str = _SANS


LIGHT = Theme(
    background="#ffffff", ink="#1d2126", muted="#59616b", rule="#e3e6ea", band="#f1f3f6",
    series=("#0072b2", "#d55e00", "#009e73", "#cc79a7"),
)  # fmt: skip
#: A page's own colours, which change with light, dark and paper.
PAGE = Theme(
    background="transparent", ink="var(--ink)", muted="var(--muted)", rule="var(--rule)",
    band="var(--band)", series=tuple(f"var(--series-{n})" for n in range(1, 5)),
)  # fmt: skip


def config(theme: Theme) -> dict[str, Any]:
    """Vega-Lite's configuration for a theme."""
    text = {"font": theme.font, "fontSize": 11}
    return {
        "background": theme.background,
        "font": theme.font,
        "aria": False,
        "padding": 4,
        "view": {"stroke": None},
        "range": {"category": list(theme.series)},
        "axis": {
            "domainColor": theme.rule, "tickColor": theme.rule, "gridColor": theme.rule,
            "labelColor": theme.muted, "titleColor": theme.muted, "labelFontSize": 11,
            "titleFontSize": 11, "titleFontWeight": "normal", "titlePadding": 8,
            "tickSize": 4, "labelPadding": 4,
        },
        "axisY": {"domain": False, "ticks": False},
        "header": {
            "labelColor": theme.ink, "labelFontSize": 13, "labelFontWeight": 600,
            "labelAnchor": "start", "labelPadding": 8,
        },
        "legend": {
            "orient": "top", "labelColor": theme.ink, "labelFontSize": 12, "symbolSize": 60,
            "symbolStrokeWidth": 2, "columnPadding": 18, "offset": 14,
        },
        "facet": {"spacing": 26},
        "line": {"strokeWidth": 1.8, "strokeJoin": "round"},
        "rule": {"strokeWidth": 1.8, "color": theme.muted},
        "text": {**text, "color": theme.muted},
        "rect": {"color": theme.band},
    }  # fmt: skip
