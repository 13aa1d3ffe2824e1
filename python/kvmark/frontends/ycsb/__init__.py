"""YCSB: its property files, its sequence of workloads, its text output, its results."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kvmark.frontends import FrontEnd

if TYPE_CHECKING:
    from kvmark.cli.commands.study import StudyOptions
    from kvmark.cli.documents import Answers


_PUBLISHED: Final = "ycsb-published"


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

    def studies(self) -> Mapping[str, str]:
        question = (
            "What do RocksDB, or the system of --system, do under YCSB's sequence with the sizes of"
            " the published comparison: 1000 to 10000 records, 5 to 20 repetitions?"
        )
        return {_PUBLISHED: question}

    def run_study(self, name: str, options: StudyOptions) -> None:
        from kvmark.frontends.ycsb.execution import run_published

        run_published(name, options)


FRONT_END: Final = _Ycsb()
