"""What the JSON documents of the commands hold, by their names; their JSON Schema is made of it.

A command prints fields by these names, and loads none of this: what the types name takes a second
to load. Tests hold every document that they see against its schema.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import ConfigDict, Field, TypeAdapter, create_model
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from kvmark.analysis import Summary, Verdict
from kvmark.analysis.compare.comparison import Comparison
from kvmark.analysis.compare.history import History
from kvmark.analysis.compare.selection import ExcludedRun
from kvmark.analysis.imported import ImportedRow
from kvmark.analysis.models.scaling import ScalingLaw
from kvmark.analysis.study import StudyEffect, StudyRow
from kvmark.analysis.trace import TraceAnswer
from kvmark.cli.commands.doctor import Diagnosis
from kvmark.cli.output import schema_of
from kvmark.experiment.capacity_search import Capacity
from kvmark.experiment.interleaved_ab import SideFailures
from kvmark.frontends import front_ends
from kvmark.learn import LearnedPart
from kvmark.learn.twin_check import TwinJudgement
from kvmark.records import RunLine
from kvmark.report.model.answers import Ways
from kvmark.stats import Counts, Estimate
from kvmark.trace import TraceInfo

_CONFIG: Final = ConfigDict(arbitrary_types_allowed=True)
_RUN: Final = {"run": str, "summary": Summary, "verdict": Verdict}


def json_schema() -> dict[str, Any]:
    """The schema of any document; that of a kind stands in `$defs` by the kind's name."""
    _, made = TypeAdapter.json_schemas(
        ((name, "serialization", _kind(name, one)) for name, one in documents().items()),
        title="What kvmark prints with --json",
        schema_generator=_Written,
    )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "oneOf": [{"$ref": f"#/$defs/{name}"} for name in documents()],
        **made,
    }


def _kind(name: str, one: Answers) -> TypeAdapter[Any]:
    """The type of a kind's documents."""
    commands = ", ".join(f"kvmark {command}" for command in one.commands)
    fields: dict[str, Any] = {field: (kind, ...) for field, kind in one.fields.items()}
    fields["schema_"] = (Literal[schema_of(name)], Field(alias="schema"))
    doc = f"{one.purpose} ({commands})"
    return TypeAdapter(create_model(name, __config__=_CONFIG, __doc__=doc, **fields))


class _Written(GenerateJsonSchema):
    """The schema of values as `output.document` writes them."""

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

    #: The fields beside `schema` with their types.
    fields: Mapping[str, Any]
    commands: tuple[str, ...]
    purpose: str


@dataclass(frozen=True, slots=True)
class HeldObjective:
    """An objective of a run, and whether it holds; none where that can't be told."""

    objective: str
    value: float | None
    held: bool | None
    sentence: str


@dataclass(frozen=True, slots=True)
class ListedStudy:
    """A ready study."""

    name: str
    question: str


@dataclass(frozen=True, slots=True)
class ListedWorkload:
    """A ready workload."""

    name: str
    description: str


@dataclass(frozen=True, slots=True)
class LawSaid:
    """A law, or why there is none, and the same in a sentence."""

    law: ScalingLaw
    sentence: str


@dataclass(frozen=True, slots=True)
class ImportedRun:
    """A file of another tool, and the run that it became."""

    run: str
    file: str
    recognised_as: str
    tool: str | None
    version: str | None
    notes: tuple[str, ...]
    rows: tuple[ImportedRow, ...]


@dataclass(frozen=True, slots=True)
class KeptRun:
    """A run that isn't removed, and why."""

    run: str
    because: str


@dataclass(frozen=True, slots=True)
class TestbedServer:
    """A server of a testbed; its process is none where it isn't up."""

    name: str
    role: str
    address: str
    pid: int | None
    cores: tuple[int, ...]
    up: bool


@dataclass(frozen=True, slots=True)
class StandingTestbed:
    """A testbed in a list."""

    name: str
    system: str
    version: str
    url: str
    folder: str
    nodes: tuple[TestbedServer, ...]


@dataclass(frozen=True, slots=True)
class DownTestbed:
    """A testbed that was taken down, and the servers that were stopped for it."""

    name: str
    nodes: tuple[TestbedServer, ...]
    removed: bool


@dataclass(frozen=True, slots=True)
class JudgedFigure:
    """A figure of a trace and of a workload, and whether they differ by more than the margin."""

    name: str
    trace: float | None
    twin: float | None
    difference: Estimate | None
    margin: float
    judgement: TwinJudgement


@dataclass(frozen=True, slots=True)
class MarkedFile:
    """A file with marked blocks, and the lines of those that no longer agree."""

    file: Path
    blocks: int
    stale_lines: tuple[int, ...]


_TESTBED: Final = {
    "name": str, "system": str, "version": str, "url": str, "folder": str,
    "nodes": tuple[TestbedServer, ...],
}  # fmt: skip

_OF_CORE: Final[Mapping[str, Answers]] = {
    "run": Answers(
        {**_RUN, "objectives": tuple[HeldObjective, ...]},
        ("run", "replay"),
        "One run, and whether what `--slo` asks for holds.",
    ),
    "shown-run": Answers(_RUN, ("show", "runs show"), "A run that is kept."),
    "comparison": Answers(
        {"comparison": Comparison, "failures": tuple[SideFailures, ...], "said": tuple[str, ...]},
        ("compare", "runs compare", "ab"),
        "Two sides of runs, each figure's ratio and the conditions that were asked for; both sides'"
        " INVALID runs in an interleaved comparison, where there are any.",
    ),
    "capacity": Answers(
        {
            "workload": str,
            "system": str,
            "objectives": tuple[str, ...],
            "tag": str,
            "capacity": Estimate | None,
            "search": Capacity,
            "sentence": str,
        },
        ("capacity",),
        "The maximum throughput within objectives, and the runs of the search.",
    ),
    "study": Answers(
        {
            "study": str,
            "rows": tuple[StudyRow, ...],
            "effects": tuple[StudyEffect, ...],
            "notes": tuple[str, ...],
            "published_source": str | None,
            "missing": int,
            "ways": Ways | None,
            "runs": tuple[str, ...],
            "report": Path | None,
        },
        ("study", "run"),
        "A study's answer, or that of `kvmark run` with `--sweep` or `--repetitions`.",
    ),
    "studies": Answers({"studies": tuple[ListedStudy, ...]}, ("study",), "The ready studies."),
    "study-cases": Answers(
        {"cases": tuple[Mapping[str, str], ...]},
        ("study",),
        "A study's cases, the level of each factor.",
    ),
    "runs": Answers({"runs": tuple[RunLine, ...]}, ("runs list",), "The runs, newest first."),
    "history": Answers(
        {
            "histories": tuple[History, ...],
            "invalid": int,
            "excluded": tuple[ExcludedRun, ...],
        },
        ("runs history",),
        "A figure over the runs of each case; which runs are excluded, and how many they are.",
    ),
    "scaling": Answers(
        {"laws": tuple[LawSaid, ...], "report": Path | None},
        ("runs scaling",),
        "The Universal Scalability Law of each case, or why there is none.",
    ),
    "report": Answers(
        {"runs": tuple[str, ...], "report": Path}, ("runs report",), "Where a report is."
    ),
    "export": Answers(
        {
            "run": str,
            "format": Literal["ycsb", "json", "csv", "hlog"],
            "output": Path | None,
            "text": str | None,
        },
        ("runs export",),
        "A run as text of another form; the text is in the file where one was named.",
    ),
    "exported-run": Answers(
        {"manifest": Mapping[str, Any], "summary": Summary},
        ("runs export",),
        "`--format json`: the run's manifest, which has a format of its own, and its figures.",
    ),
    "archive": Answers(
        {"runs": tuple[str, ...], "studies": tuple[str, ...], "output": Path, "bytes": int},
        ("runs archive",),
        "What is kept in one file: runs and studies by their ids.",
    ),
    "imported-trace": Answers(
        {"trace": Path, "info": TraceInfo}, ("import",), "A file, now a trace."
    ),
    "recorded-trace": Answers(
        {"trace": Path, "info": TraceInfo}, ("record",), "What a tap recorded, now a trace."
    ),
    "learnt-workload": Answers(
        {"trace": Path, "output": Path, "operations": int, "parts": tuple[LearnedPart, ...]},
        ("learn",),
        "A workload that is like a trace, part by part.",
    ),
    "likeness": Answers(
        {
            "trace": Path,
            "workload": Path,
            "judgement": TwinJudgement,
            "figures": tuple[JudgedFigure, ...],
            "runs": tuple[str, ...],
        },
        ("learn",),
        "`--check`: by how much a workload differs from its trace.",
    ),
    "trace": Answers({"trace": Path, "answer": TraceAnswer}, ("trace",), "What is in a trace."),
    "import": Answers({"runs": tuple[ImportedRun, ...]}, ("runs import",), "Files, now runs."),
    "removal": Answers(
        {
            "dry_run": bool,
            "runs": tuple[str, ...],
            "bytes": int,
            "kept": tuple[KeptRun, ...],
            "studies": tuple[str, ...],
        },
        ("runs rm", "runs prune"),
        "What was removed, or would be.",
    ),
    "serve": Answers({"address": str}, ("serve",), "Where the runs are shown, on one line."),
    "testbed": Answers(_TESTBED, ("up",), "A testbed that is up."),
    "testbeds": Answers({"testbeds": tuple[StandingTestbed, ...]}, ("up",), "All testbeds."),
    "down": Answers({"stopped": tuple[DownTestbed, ...]}, ("down",), "What was taken down."),
    "doctor": Answers({"findings": tuple[Diagnosis, ...]}, ("doctor",), "What matters here."),
    "workloads": Answers(
        {"workloads": tuple[ListedWorkload, ...]}, ("workloads",), "The ready workloads."
    ),
    "workload": Answers({"name": str, "text": str}, ("workloads",), "A ready workload's file."),
    "doc": Answers(
        {"files": tuple[MarkedFile, ...], "written": tuple[Path, ...]},
        ("doc",),
        "Marked blocks of files, and the files that were written.",
    ),
}


def documents() -> dict[str, Answers]:
    """All kinds of documents, those of the front ends last."""
    found = dict(_OF_CORE)
    for front_end in front_ends():
        found |= front_end.documents()
    return found


if __name__ == "__main__":
    print(json.dumps(json_schema(), indent=1, ensure_ascii=False))
