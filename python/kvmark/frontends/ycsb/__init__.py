"""YCSB: its property files, its sequence of workloads, its text output, its results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kvmark.frontends import FrontEnd

if TYPE_CHECKING:
    from kvmark.cli.documents import Answers
    from kvmark.imports.reading import Format


class _Ycsb(FrontEnd):
    command = "ycsb"
    module = "kvmark.frontends.ycsb.command"
    purpose = "Runs YCSB's sequence of workloads and prints its table."

    def formats(self) -> Sequence[Format]:
        from kvmark.frontends.ycsb.importer import YCSB_JSON, YCSB_TEXT

        return (YCSB_JSON, YCSB_TEXT)

    def documents(self) -> Mapping[str, Answers]:
        from kvmark.analysis import SequenceRow
        from kvmark.cli.documents import Answers
        from kvmark.frontends.ycsb.rounds import Course

        fields = {
            "rows": tuple[SequenceRow, ...],
            "published_source": str,
            "runs": tuple[str, ...],
            "report": Path | None,
            "repetitions": Course,
            "said": tuple[str, ...],
        }
        purpose = "YCSB's sequence, a row for each workload and size."
        return {"sequence": Answers(fields, ("ycsb",), purpose)}


FRONT_END: Final = _Ycsb()
