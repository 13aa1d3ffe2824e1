"""A run repeated, or once with each value of some of its words: a study made of a command line."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kvmark.errors import SpecError
from kvmark.spec.suggest import did_you_mean, shown

if TYPE_CHECKING:
    from kvmark.spec.faults import FaultSpec
    from kvmark.spec.run import RunSpec
    from kvmark.spec.study import StudyFile

__all__ = ["swept"]

_TIMES: Final = ("duration", "warmup", "interval", "timeout", "drain_limit", "stall_limit")
_PLAIN: Final = (
    "clients", "arrival", "operations", "until_stderr", "precision", "warmup_until", "workers",
    "records", "pipeline_depth", "settle", "verify",
)  # fmt: skip
_OF_TRACES: Final = ("speed", "keep_order", "scale_keys", "loop")
_PART: Final = {"from_": "from", "until": "until"}
"""Options whose values are instants of a trace, and their words in a study."""
_WORDS: Final = (*_PLAIN, *_TIMES, *_OF_TRACES, *_PART.values())


def swept(
    given: Mapping[str, Any], spec: RunSpec, sweep: Sequence[str], repetitions: int | None
) -> StudyFile:
    """The study of the options of a run, by their names: a case for each combination of values.

    Raises:
        SpecError: something can't be varied, or a value isn't one.
    """
    from kvmark.spec.study import parse_study
    from kvmark.spec.suggest import without_credentials

    factors = dict(map(_factor, sweep))
    if len(factors) < len(sweep):
        raise SpecError("--sweep: a word is swept twice; give all of its values at once")
    varied = f", and how does it vary with {' and '.join(factors)}" if factors else ""
    study = {
        "question": f"What does {spec.workload.name} do{varied}?",
        "system": without_credentials(given["system"].reveal()),
        **_workload(given["workload"], spec),
        "run": {**_words(given, spec), "faults": _faults(spec)},
        "factors": factors,
        "repetitions": repetitions or 1,
        "seed": given["seed"],
    }
    if len(factors) == 1:
        study["figure"] = {"across": next(iter(factors))}
    # The same words have the same name, by which --resume finds what was begun.
    name = f"sweep-{sha256(json.dumps(study).encode()).hexdigest()[:8]}"
    return parse_study(json.dumps({"name": name, **study}, indent=2) + "\n", "--sweep")


def _workload(name: str, spec: RunSpec) -> dict[str, Any]:
    """A ready workload by its name, one of the user's as it stands in its file now."""
    from kvmark.spec.yaml_file import read_document, read_text

    path = Path(name)
    if path.suffix not in {".yaml", ".yml"}:
        return {"workload": name}
    content: Any = read_document(read_text(path), name).value
    own = {"name": spec.workload.name, **content}
    return {"workload": path.stem, "workloads": {path.stem: own}}


def _factor(text: str) -> tuple[str, list[str]]:
    name, sign, values = text.partition("=")
    name, known = name.strip().lstrip("-").replace("-", "_"), ("rate", "load", *_WORDS)
    if not sign or not values.strip():
        raise SpecError(f"--sweep: {shown(text)} isn't a word and its values: clients=1,10,100")
    if "." not in name and name not in known:
        raise SpecError(f"--sweep: {shown(name)} can't be swept{did_you_mean(name, known)}")
    return name, [value.strip() for value in values.split(",")]


def _words(given: Mapping[str, Any], spec: RunSpec) -> dict[str, Any]:
    """What a study's file says of one run, where it was said here."""
    plain = (*_PLAIN, *_OF_TRACES)
    words: dict[str, Any] = {name: given[name] for name in plain if given[name] is not None}
    words |= {word: f"{given[name]}ns" for name, word in _PART.items() if given[name] is not None}
    if spec.replay is not None and spec.replay.skip:
        words["skip"] = spec.replay.skip
    if given["map_"] is not None:
        words["map"] = str(given["map_"])
    if spec.rate is not None:
        words["rate"] = spec.rate
    words |= {name: f"{given[name]}ns" for name in _TIMES if given[name]}
    if given["stall_limit"] == 0:
        words["stall_limit"] = "off"
    if given["load"] != "auto":
        # Each case loads its own records where nobody says how.
        words["load"] = given["load"]
    if spec.groups:
        words["groups"] = spec.groups
    if spec.pin:
        words["pin"] = spec.pin
    return words


def _faults(spec: RunSpec) -> list[dict[str, Any]]:
    """Those of the command line; those of the workload's file come with it."""
    return [_fault(one) for one in spec.faults[len(spec.workload.faults) :]]


def _fault(fault: FaultSpec) -> dict[str, Any]:
    lasting = {} if fault.for_ns is None else {"for": f"{fault.for_ns}ns"}
    others = {"from": fault.others} if fault.others else {}
    by = {} if fault.by is None else {"by": fault.by}
    at = {"at": f"{fault.at_ns}ns", "do": fault.do, "node": fault.node}
    return {**at, **by, **others, **lasting}
