"""One run, as often as was asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Final

from kvmark.experiment.design import (
    PreparedRun,
    RunOutcome,
    RunRequest,
    experiment_name,
    prepare_run,
)
from kvmark.experiment.executor import Executor
from kvmark.plan.compile import compile_run
from kvmark.plan.model import Plan
from kvmark.spec.run import RunSpec
from kvmark.testbed.observe import NodeExporter

_OF_THE_COMMAND: Final = frozenset(
    {
        "commit", "fleet", "insecure-fleet", "json", "machines", "output_json_metrics",
        "prometheus", "quiet", "on-existing", "report", "resume", "runs", "strict", "tag",
    }
)  # fmt: skip


@dataclass(kw_only=True)
class AppRuns:
    """The runs of a sample application."""

    kind: ClassVar[str] = "app"
    redoes_invalid: ClassVar[bool] = False

    #: Makes the run; keys have another prefix each time where nobody named one.
    make: Callable[[], RunSpec]
    #: What each run keeps of the application.
    application: Mapping[str, Any]
    repetitions: int = 1
    exporters: tuple[NodeExporter, ...] = ()
    #: Makes room for the application's tables before each run.
    prepare: Callable[[], None] = lambda: None
    outcomes: list[RunOutcome] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The same for the same words."""
        return experiment_name(self.kind, self.definition())

    def definition(self) -> Mapping[str, Any]:
        """What was asked for."""
        # Flags that say how it goes and what is written make no other experiment.
        flags = self.application.get("flags", {})
        own = {name: value for name, value in flags.items() if name not in _OF_THE_COMMAND}
        asked = {"application": {**self.application, "flags": own}}
        return {**asked, "repetitions": self.repetitions}

    def typical_plan(self) -> Plan:
        """The plan of each run but for its seed and keys."""
        return compile_run(self.make())

    def other_plans(self) -> Mapping[str, Plan]:
        """None: all runs are alike."""
        return {}

    def execute(self, runs: Executor) -> None:
        """One run after the other.

        Raises:
            KvmarkError: one came to no end.
        """
        for repetition in range(self.repetitions):
            name = self.application["name"]
            several = f", repetition {repetition + 1}" if self.repetitions > 1 else ""
            outcome = runs.run(
                RunRequest(
                    case=name,
                    repetition=repetition,
                    title=f"{name}{several}",
                    number=repetition + 1,
                    total=self.repetitions,
                    make=partial(self._made, repetition),
                )
            )
            self.outcomes.append(outcome)
            outcome.id_or_raise()

    def _made(self, repetition: int) -> PreparedRun:
        self.prepare()
        spec = self.make()
        spec = replace(spec, seed=spec.seed + repetition)
        own = prepare_run(spec, compile_run(spec), {"app": self.application})
        return replace(own, exporters=self.exporters)
