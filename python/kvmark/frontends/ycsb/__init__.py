"""YCSB: its property files, its sequence of workloads, its text output, its results."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kvmark.frontends import FrontEnd

if TYPE_CHECKING:
    from kvmark.cli.documents import Answers


class _Ycsb(FrontEnd):
    command = "ycsb"
    module = "kvmark.frontends.ycsb.command"
    purpose = "Runs YCSB's sequence of workloads and prints its table."

    def documents(self) -> Mapping[str, Answers]:
        from kvmark.analysis.verdict.cases import SequenceRow
        from kvmark.cli.documents import Answers
        from kvmark.frontends.ycsb.scheduling import SequenceRepetitions

        fields = {
            "rows": tuple[SequenceRow, ...],
            "published_source": str,
            "runs": tuple[str, ...],
            "report": Path | None,
            "repetitions": SequenceRepetitions,
            "said": tuple[str, ...],
        }
        purpose = "YCSB's sequence, a row for each workload and size."
        return {"sequence": Answers(fields, ("ycsb",), purpose)}


FRONT_END: Final = _Ycsb()
