"""The fields of JSON documents by kind, from which their schema is generated.

Commands don't load this module: its types take a second to load. Tests check every document against
its schema.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import ConfigDict, Field, TypeAdapter, create_model
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from kvmark.analysis.capacity import Capacity
from kvmark.analysis.compare.comparison import Comparison
from kvmark.analysis.compare.history import History
from kvmark.analysis.compare.selection import ExcludedRun
from kvmark.analysis.recovery import Recovery
from kvmark.analysis.scaling import ScalingLaw
from kvmark.analysis.study import ProxyCosts, StudyEffect, StudyRow
from kvmark.analysis.summary.imported import ImportedRow
from kvmark.analysis.summary.run import Summary
from kvmark.analysis.trace import TraceAnswer
from kvmark.analysis.verdict.judge import Verdict
from kvmark.cli.commands.doctor import Diagnosis
from kvmark.cli.output import schema_of
from kvmark.experiment.interleaved_ab import SideFailures
from kvmark.frontends import front_ends
from kvmark.learn import LearnedPart
from kvmark.learn.twin_check import TwinJudgement
from kvmark.records import RunLine
from kvmark.records.audit import AuditRecord
from kvmark.stats import Counts, Estimate
from kvmark.testbed.state import SavedDataset
from kvmark.trace.folder import TraceInfo

_CONFIG: Final = ConfigDict(arbitrary_types_allowed=True)
_RUN: Final = {"run": str, "summary": Summary, "verdict": Verdict}


def json_schema() -> dict[str, Any]:
    """The schema of all documents; `$defs` has the schema of each kind."""
    _, definitions = TypeAdapter.json_schemas(
        ((name, "serialization", _adapter(name, one)) for name, one in documents().items()),
        title="What kvmark prints with --json",
        schema_generator=_Written,
    )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "oneOf": [{"$ref": f"#/$defs/{name}"} for name in documents()],
        **definitions,
    }


def _adapter(name: str, one: Answers) -> TypeAdapter[Any]:
    """The type of a kind's documents."""
    commands = ", ".join(f"kvmark {command}" for command in one.commands)
    fields: dict[str, Any] = {field: (kind, ...) for field, kind in one.fields.items()}
    fields["schema_"] = (Literal[schema_of(name)], Field(alias="schema"))
    doc = f"{one.purpose} ({commands})"
    return TypeAdapter(create_model(name, __config__=_CONFIG, __doc__=doc, **fields))


class _Written(GenerateJsonSchema):
    """Values as `output.document` writes them."""

    def float_schema(self, _: core_schema.FloatSchema) -> JsonSchemaValue:
        return {"type": ["number", "null"]}

    def dataclass_args_schema(self, schema: core_schema.DataclassArgsSchema) -> JsonSchemaValue:
        written = [one for one in schema["fields"] if not _are_counts(one["schema"])]
        return super().dataclass_args_schema({**schema, "fields": written})

    def field_is_required(self, *_: Any, **__: Any) -> bool:
        return True

    def field_title_should_be_set(self, *_: Any) -> bool:
        return False


def _are_counts(schema: Any) -> bool:
    """Whether a field's values are a histogram's."""
    name = schema.get("schema_ref", schema.get("ref", ""))
    return str(name).startswith(f"{Counts.__module__}.{Counts.__qualname__}:")


@dataclass(frozen=True, slots=True)
class Answers:
    """A kind of document, and the commands that print it."""

    #: The types of the fields but `schema`.
    fields: Mapping[str, Any]
    commands: tuple[str, ...]
    purpose: str


def _rows(name: str, /, **fields: Any) -> Any:
    """The type of several objects with these fields."""
    typed: dict[str, Any] = {key: (kind, ...) for key, kind in fields.items()}
    return tuple[create_model(name, __config__=_CONFIG, **typed), ...]  # type: ignore[misc]


_IDS: Final = tuple[str, ...]
_NODES: Final = _rows(
    "TestbedServer", name=str, role=str, address=str, pid=int | None, cores=tuple[int, ...], up=bool
)
_TESTBED: Final = dict(  # noqa: C408
    name=str, system=str, version=str, url=str, folder=str, nodes=_NODES,
    dataset=SavedDataset | None,
)  # fmt: skip
_TRACE: Final = {"trace": Path, "info": TraceInfo}


_FIELDS: Final[Mapping[str, Mapping[str, Any]]] = {
    "run": {
        **_RUN,
        "objectives": _rows(
            "HeldObjective", objective=str, value=float | None, held=bool | None, sentence=str
        ),
    },
    "shown-run": _RUN,
    "comparison": {
        "comparison": Comparison, "failures": tuple[SideFailures, ...], "said": _IDS,
    },
    "capacity": {
        "workload": str, "system": str, "objectives": _IDS, "tag": str,
        "capacity": Estimate | None, "search": Capacity, "sentence": str,
    },
    "recovery": {
        "workload": str, "system": str, "trigger": str, "limit_ns": int, "tag": str,
        "recoveries": tuple[Recovery, ...], "search": Capacity | None, "sentence": str,
    },
    "study": {
        "study": str, "rows": tuple[StudyRow, ...], "effects": tuple[StudyEffect, ...],
        "notes": _IDS, "published_source": str | None, "missing": int, "ways": ProxyCosts | None,
        "runs": _IDS, "report": Path | None,
    },
    "studies": {"studies": _rows("ListedStudy", name=str, question=str)},
    "study-cases": {"cases": tuple[Mapping[str, str], ...]},
    "runs": {"runs": tuple[RunLine, ...]},
    "history": {
        "histories": tuple[History, ...], "invalid": int, "excluded": tuple[ExcludedRun, ...],
    },
    "scaling": {"laws": _rows("LawSaid", law=ScalingLaw, sentence=str), "report": Path | None},
    "report": {"runs": _IDS, "report": Path},
    "export": {
        "run": str, "format": Literal["ycsb", "json", "csv", "hlog"], "output": Path | None,
        "text": str | None,
    },
    "exported-run": {"manifest": Mapping[str, Any], "summary": Summary},
    "archive": {"runs": _IDS, "studies": _IDS, "output": Path, "bytes": int},
    "imported-trace": _TRACE,
    "recorded-trace": _TRACE,
    "learnt-workload": {
        "trace": Path, "output": Path, "operations": int, "parts": tuple[LearnedPart, ...],
    },
    "likeness": {
        "trace": Path, "workload": Path, "judgement": TwinJudgement,
        "figures": _rows(
            "JudgedFigure", name=str, trace=float | None, twin=float | None,
            difference=Estimate | None, margin=float, judgement=TwinJudgement,
        ),
        "runs": _IDS,
    },
    "trace": {"trace": Path, "answer": TraceAnswer},
    "import": {
        "runs": _rows(
            "ImportedRun", run=str, file=str, recognised_as=str, tool=str | None,
            version=str | None, notes=_IDS, rows=tuple[ImportedRow, ...],
        ),
    },
    "audit": {"run": str, "audit": AuditRecord, "verdict": Verdict},
    "removal": {
        "dry_run": bool, "runs": _IDS, "bytes": int, "kept": _rows("KeptRun", run=str, because=str),
        "studies": _IDS,
    },
    "serve": {"address": str},
    "testbed": _TESTBED,
    "testbeds": {
        "testbeds": _rows("StandingTestbed", **_TESTBED), "datasets": tuple[SavedDataset, ...],
    },
    "down": {
        "stopped": _rows(
            "DownTestbed", name=str, nodes=_NODES, removed=bool, saved=SavedDataset | None
        ),
    },
    "doctor": {"findings": tuple[Diagnosis, ...]},
    "workloads": {"workloads": _rows("ListedWorkload", name=str, description=str)},
    "workload": {"name": str, "text": str},
    "doc": {
        "files": _rows("MarkedFile", file=Path, blocks=int, stale_lines=tuple[int, ...]),
        "written": tuple[Path, ...],
    },
}  # fmt: skip
_ABOUT: Final = tomllib.loads((files(__package__) / "documents.toml").read_text("utf-8"))


def documents() -> dict[str, Answers]:
    """All kinds of documents, those of the front ends last."""
    kinds = {
        name: Answers(_FIELDS[name], tuple(about["commands"]), about["purpose"])
        for name, about in _ABOUT.items()
    }
    for front_end in front_ends():
        kinds |= front_end.documents()
    return kinds
