"""A workload's statements, decided: every argument with its generator and how often it is drawn.

The spec's laws and the plan's differ in the name of the tag.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from pydantic import TypeAdapter

from kvmark.plan.model import (
    Argument,
    Check,
    ConstantSize,
    Distribution,
    Generator,
    KeyChoice,
    KeyText,
    SizeLaw,
    Statement,
)
from kvmark.spec import laws
from kvmark.spec import statements as spec_of
from kvmark.spec.workload import WorkloadSpec

_CHECKS: Final[TypeAdapter[Check]] = TypeAdapter(Check)
_GENERATORS: Final[TypeAdapter[Generator]] = TypeAdapter(Generator)
_DEVIATIONS: Final = 6
"""cassandra-stress's normal range: three standard deviations to each side of the mean."""

_SIZE_LAWS: Final[TypeAdapter[SizeLaw]] = TypeAdapter(SizeLaw)
_DISTRIBUTIONS: Final[TypeAdapter[Distribution]] = TypeAdapter(Distribution)


def compile_statements(
    workload: WorkloadSpec, records: int, depth: int | None
) -> tuple[Statement, ...]:
    """The plan's statements, in the file's order; `depth` replaces how many commands each sends."""
    given = workload.statements.items()
    return tuple(_statement(name, one, workload, records, depth) for name, one in given)


def _statement(
    name: str,
    one: spec_of.StatementSpec,
    workload: WorkloadSpec,
    records: int,
    depth: int | None,
) -> Statement:
    described = {**workload.arguments, **one.arguments}
    names = one.named(workload.arguments)
    indices = {other: index for index, other in enumerate(workload.statements)}
    commands = size_law(one.commands)
    if depth is not None and one.pipelines:
        commands = ConstantSize(law="constant", size=depth)
    return Statement(
        name=name,
        texts=one.run,
        commands=commands,
        items=size_law(one.items),
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
        generator = _GENERATORS.validate_python({"generator": name})
        return Argument(name=name, each="command", generator=generator)
    each = described.each or one.each(name)
    made = _made(described, names)
    generator = _generator(described, records) if made is None else _read(made)
    return Argument(name=name, each=each, generator=generator)


def _made(one: spec_of.ArgumentSpec, names: Sequence[str]) -> dict[str, Any] | None:
    """The generator in the plan's words, if it is no law of chance."""
    if isinstance(one, spec_of.FormatArgument):
        parts = tuple(
            {
                "literal": literal,
                "argument": None if name is None else names.index(name),
                "zero_padding": digits,
            }
            for literal, name, digits in one.parts
        )
        return {"generator": "format", "parts": parts}
    if isinstance(one, spec_of.ComputedArgument):
        law = {"divisor": one.divide, "modulus": one.modulo, "factor": one.times}
        computed = {"generator": "computed", "of": one.of, "start": one.start, "step": one.step}
        return {**computed, **law}
    if isinstance(one, spec_of.TtlArgument):
        return {"generator": "ttl", "unit_ms": {"s": 1000, "ms": 1}[one.unit]}
    if isinstance(one, spec_of.ScanLengthArgument):
        return {"generator": "scan_length"}
    if isinstance(one, spec_of.SplitArgument):
        return {"generator": "split", "rest": one.part == "rest"}
    if isinstance(one, spec_of.CheckedArgument):
        length, prefix = size_law(one.length), names.index(one.prefix)
        return {"generator": "checked", "prefix": prefix, "length": length, "ascii": one.ascii}
    return None


def _check(one: spec_of.CheckSpec, names: Sequence[str]) -> Check:
    if one.column is None:
        least = one.rows if one.least is None else one.least
        most = one.rows if one.most is None else one.most
        return _CHECKS.validate_python({"check": "rows", "least": least or 0, "most": most})
    if one.argument is None:
        return _CHECKS.validate_python({"check": "same", "column": one.column})
    kind = "each" if one.sum is None else "sum"
    argument = names.index(one.argument)
    return _CHECKS.validate_python({"check": kind, "column": one.column, "argument": argument})


def _read(content: dict[str, Any]) -> Generator:
    return _GENERATORS.validate_python(content)


def _generator(one: spec_of.ArgumentSpec, records: int) -> Generator:
    return _read(_content(one, records))


def _content(one: Any, records: int) -> dict[str, Any]:
    """The generator in the plan's words."""
    match one:
        case spec_of.NumberArgument():
            return {"generator": "number", "choice": _choice(one, records)}
        case spec_of.NameArgument():
            text = KeyText(prefix=one.prefix, zero_padding=one.zero_padding, order=one.order)
            return {"generator": "name", "text": text, "choice": _choice(one, records)}
        case spec_of.GaussianArgument():
            mean = (one.min + one.max) / 2 if one.mean is None else one.mean
            stddev = (one.max - one.min) / _DEVIATIONS if one.stddev is None else one.stddev
            law = {"mean": float(mean), "stddev": float(stddev)}
            return {"generator": "gaussian", "min": one.min, "max": one.max, **law}
        case spec_of.TextArgument() | spec_of.BlobArgument():
            return {"generator": one.generator, "length": size_law(one.length)}
        case spec_of.TimestampArgument():
            step_ms = one.step_ns // 1_000_000
            return {"generator": "timestamp", "start_ms": one.start_ms, "step_ms": step_ms}
        case spec_of.ListArgument():
            length = size_law(one.length)
            return {"generator": "list", "of": _generator(one.of, records), "length": length}
        case spec_of.TupleArgument():
            return {"generator": "tuple", "of": tuple(_generator(each, records) for each in one.of)}
        case spec_of.MapArgument():
            keys, values = _generator(one.keys, records), _generator(one.values, records)
            length = size_law(one.length)
            return {"generator": "map", "keys": keys, "values": values, "length": length}
        case spec_of.FractionArgument():
            return {"generator": "fraction", "min": float(one.min), "max": float(one.max)}
    return dict(one.model_dump(exclude={"each"}))


def _choice(one: spec_of.NumberArgument | spec_of.NameArgument, records: int) -> KeyChoice:
    count = records if one.count is None else one.count
    return KeyChoice(start=one.start, count=count, distribution=distribution(one.law))


def size_law(law: laws.Length) -> SizeLaw:
    """How long something is, or how many there are."""
    return _SIZE_LAWS.validate_python(_tagged(law.model_dump()))


def distribution(law: laws.Keys) -> Distribution:
    """The choice of one of several; their number is another field."""
    return _DISTRIBUTIONS.validate_python(_tagged(law.model_dump()))


def _tagged(content: dict[str, Any]) -> dict[str, Any]:
    content.pop("expected_new", None)
    if "of" in content:
        content["of"] = _tagged(content["of"])
    return {"law": content.pop("distribution"), **content}
