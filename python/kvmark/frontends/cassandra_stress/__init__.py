"""cassandra-stress: its command line, profiles, thread ramp, columns and results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from kvmark.frontends import FrontEnd

if TYPE_CHECKING:
    from kvmark.cli.documents import Answers
    from kvmark.records import Run


class _CassandraStress(FrontEnd):
    command = "stress"
    module = "kvmark.frontends.cassandra_stress.command"
    purpose = "Takes the command line of cassandra-stress, and prints what it would print."

    def documents(self) -> Mapping[str, Answers]:
        from kvmark.cli.documents import Answers
        from kvmark.frontends.cassandra_stress.output import StressRun

        purpose = "cassandra-stress's results of each run."
        return {"stress": Answers({"runs": tuple[StressRun, ...]}, ("stress",), purpose)}

    def without_secrets(self, words: Sequence[str]) -> tuple[str, ...] | None:
        from kvmark.frontends.cassandra_stress.grammar import without_secrets

        return without_secrets(words)

    def printed_by_tool(self, run: Run) -> str | None:
        from kvmark.frontends.cassandra_stress.output import text_of_run

        return text_of_run(run) if "stress" in run.manifest.spec else None


FRONT_END: Final = _CassandraStress()
