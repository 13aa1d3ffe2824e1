"""A workload's statements, decided: every argument with its generator and how often it is drawn.

The spec's laws and the plan's differ in the name of the tag.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from kvmark.plan.model import Argument, Statement, Words
from kvmark.spec import laws
from kvmark.spec import statements as spec_of
from kvmark.spec.workload import WorkloadSpec

_DEVIATIONS: Final = 6
"""cassandra-stress's normal range: three standard deviations to each side of the mean."""

_RENAMED: Final = {"divide": "divisor", "modulo": "modulus", "times": "factor"}


def compile_statements(
    workload: WorkloadSpec, records: int, depth: int | None
) -> tuple[Statement, ...]:
    """The plan's statements, in the file's order; `depth` replaces how many commands each sends."""
    given = workload.statements.items()
    return tuple(_statement(name, one, workload, records, depth) for name, one in given)


def _statement(
    name: str, one: spec_of.StatementSpec, workload: WorkloadSpec, records: int, depth: int | None
) -> Statement:
    described = {**workload.arguments, **one.arguments}
    names = one.named(workload.arguments)
    indices = {other: index for index, other in enumerate(workload.statements)}
    commands = words(one.commands)
    if depth is not None and one.pipelines:
        commands = {"law": "constant", "size": depth}
    return Statement(
        name=name,
        texts=one.run,
        commands=commands,
        items=words(one.items),
        record=one.record,
        rows=None,
        arguments=tuple(
            _argument(each, one, described.get(each), records, names) for each in names
        ),
        expects=tuple(names.index(expected) for expected in one.expect),
        checks=tuple(_check(check, names) for check in one.check),
        when_full=None if one.when_full is None else indices[one.when_full],
        options=dict(one.options),
    )


def _argument(
    name: str,
    one: spec_of.StatementSpec,
    described: spec_of.ArgumentSpec | None,
    records: int,
    names: Sequence[str],
) -> Argument:
    if described is None:
        # The record's own: its key or its ordinal.
        return Argument(name=name, each="command", generator={"generator": name})
    each = described.each or one.each(name)
    return Argument(name=name, each=each, generator=_generator(described, records, names))


def _check(one: spec_of.CheckSpec, names: Sequence[str]) -> Words:
    if one.column is None:
        least = one.rows if one.least is None else one.least
        most = one.rows if one.most is None else one.most
        return {"check": "rows", "least": least or 0, "most": most}
    if one.argument is None:
        return {"check": "same", "column": one.column}
    kind = "each" if one.sum is None else "sum"
    return {"check": kind, "column": one.column, "argument": names.index(one.argument)}


def _generator(one: Any, records: int, names: Sequence[str]) -> Words:
    kind = {"set": "list", "udt": "tuple"}.get(one.generator, one.generator)
    content = {**_content(one, records, names), "generator": kind}
    if "length" in content:
        content["length"] = words(one.length)
    for name in {"of", "keys", "values"} & content.keys():
        match content[name]:
            case str():
                continue
            case tuple() as several:
                content[name] = [_generator(each, records, names) for each in several]
            case inside:
                content[name] = _generator(inside, records, names)
    return content


def _content(one: Any, records: int, names: Sequence[str]) -> dict[str, Any]:
    """The fields of an argument in the plan's words."""
    content = {_RENAMED.get(name, name): value for name, value in one if name != "each"}
    match one:
        case spec_of.NumberArgument() | spec_of.NameArgument():
            count = records if one.count is None else one.count
            law = words(one.law)
            content = {"choice": {"start": one.start, "count": count, "distribution": law}}
            if isinstance(one, spec_of.NameArgument):
                content["text"] = one.model_dump(include={"prefix", "zero_padding", "order"})
        case spec_of.GaussianArgument():
            mean = (one.min + one.max) / 2 if one.mean is None else one.mean
            stddev = (one.max - one.min) / _DEVIATIONS if one.stddev is None else one.stddev
            content |= {"mean": mean, "stddev": stddev}
        case spec_of.TimestampArgument():
            content["step_ms"] = content.pop("step_ns") // 1_000_000
        case spec_of.TtlArgument():
            content["unit_ms"] = {"s": 1000, "ms": 1}[content.pop("unit")]
        case spec_of.SplitArgument():
            content["rest"] = content.pop("part") == "rest"
        case spec_of.CheckedArgument():
            content["prefix"] = names.index(one.prefix)
        case spec_of.FormatArgument():
            parts = (
                (literal, None if name is None else names.index(name), digits)
                for literal, name, digits in one.parts
            )
            keys = ("literal", "argument", "zero_padding")
            content = {"parts": [dict(zip(keys, part, strict=True)) for part in parts]}
    return content


def words(law: laws.Length | laws.Keys) -> Words:
    """How long something is, how many there are, or which of several is chosen."""
    return _tagged(law.model_dump(mode="json"))


def _tagged(content: dict[str, Any]) -> Words:
    content.pop("expected_new", None)
    if "of" in content:
        content["of"] = _tagged(content["of"])
    return {"law": content.pop("distribution"), **content}
