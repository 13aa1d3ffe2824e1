"""YugabyteDB's sample applications: their flags, workloads, published table and results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from kvmark.frontends import FrontEnd

if TYPE_CHECKING:
    from kvmark.cli.documents import Answers
    from kvmark.experiment.study.answer import StudyResults
    from kvmark.experiment.study.definition import Study
    from kvmark.records import Run
    from kvmark.report.model.page import Section


class _YugabyteApps(FrontEnd):
    command = "app"
    module = "kvmark.frontends.yugabyte_apps.command"
    purpose = "Runs a YugabyteDB sample application and prints the table of its published report."

    def documents(self) -> Mapping[str, Answers]:
        from kvmark.analysis.verdict.judge import Verdict
        from kvmark.cli.documents import Answers
        from kvmark.frontends.yugabyte_apps.table import AppRun, AppTable

        one = {"run": str, "table": AppTable, "verdict": Verdict}
        several = {"runs": tuple[AppRun, ...]}
        return {
            "app": Answers(one, ("app",), "A sample application's table."),
            "app-runs": Answers(several, ("app",), "A sample application that was repeated."),
        }

    def without_secrets(self, words: Sequence[str]) -> tuple[str, ...] | None:
        from kvmark.frontends.yugabyte_apps.flags import without_secrets

        return without_secrets(words)

    def commands_per_operation(self, run: Run) -> Mapping[str, int]:
        from kvmark.frontends.yugabyte_apps.table import commands_per_operation

        return commands_per_operation(run.manifest.plan)

    def study_sections(self, study: Study, found: StudyResults) -> Sequence[Section]:
        from kvmark.frontends.yugabyte_apps.table import study_sections

        return study_sections(study, found)


FRONT_END: Final = _YugabyteApps()
