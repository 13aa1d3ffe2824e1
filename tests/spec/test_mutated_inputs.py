"""Damaged inputs end in what they say or in a sentence: never in a traceback, never in a hang.

Workloads, studies, property files, profiles, words of `stress` and URLs are changed by a seed,
2,000 cases in all; `KVMARK_MUTATIONS=50000 pytest -k every_damaged_input` looks for longer.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvmark import _engine, catalog
from kvmark.errors import KvmarkError, SpecError
from kvmark.frontends.cassandra_stress.options import read_stress
from kvmark.frontends.cassandra_stress.profiles import read_profile
from kvmark.frontends.ycsb.properties import STEPS, parse_properties
from kvmark.frontends.ycsb.workloads import read_ycsb, ycsb_run
from kvmark.plan.compile import compile_run
from kvmark.spec.curve import pace
from kvmark.spec.metric import parse_condition, parse_metric, parse_objective
from kvmark.spec.quantity import count, duration_ns, rate, share, size_bytes
from kvmark.spec.study import parse_study
from kvmark.spec.url import parse_system_url
from kvmark.spec.workload import parse_workload
from plans import plan_of

CASES = int(os.environ.get("KVMARK_MUTATIONS", "2000"))
PROFILES = Path(__file__).parent.parent / "stress" / "data"
ODD = (
    "0", "-1", "-0", ".inf", "-.inf", ".nan", "1e999", "1e308", "1e-320", "1E400", "1ns", "1e30s",
    "9" * 20, "9" * 400, "9" * 5000, "0x10", "0o7", "1_000", "١٢", "²", "", "~", "null", "true",
    "[]", "{}", "[[[[[[[[", "{{{{", "&a [*a, *a]", "*a", "<<: *a", "!!python/object:os.system x",
    "!!binary x", "? x", "|", ">", "'", '"', '"\\ud800"', '"\\x00"', "\x00", "\x1b[2J", "\u202e",
    "\ufeff", "- " * 300, "[" * 3000, "a: " * 50, "%", "@", "`", "#", "1..2", "1..9" + "9" * 30,
    "uniform(1..0)", "gaussian(1..2,,)", "../../etc/passwd", "/dev/zero", "file:/dev/zero",
    "u:p@h:1", "::1", "[::1", "h:99999", "h:-1", ",", "?", "=", "&", "?a=b=c",
)  # fmt: skip
PART = re.compile(r"[\w.]+")


def workload(text: str) -> None:
    spec = parse_workload(text, "damaged.yaml")
    _engine.check_plan(plan_of(spec, records=100, operations=10).to_json())


def study(text: str) -> None:
    parse_study(text, "damaged.yaml", Path("/nowhere"))


def properties(text: str) -> None:
    said = read_ycsb([parse_properties(text, "damaged")])
    for step in STEPS:
        compile_run(ycsb_run(step, said, parse_system_url("null:")), cores=2)


def profile(text: str) -> None:
    read_profile(text, "damaged.yaml")


def stress(text: str) -> None:
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()
    read_stress(words)


PROPERTIES = """\
# YCSB's own
workload=site.ycsb.workloads.CoreWorkload
recordcount=1000
operationcount=1000
readproportion=0.5
updateproportion=0.5
scanproportion=0
insertproportion=0
requestdistribution=zipfian
fieldcount=10
fieldlength=100
hdrhistogram.percentiles=95,99
measurementtype=hdrhistogram
maxexecutiontime=10
"""
STRESS = (
    "write n=100000 cl=ONE -rate threads=16 -node 10.0.0.1,10.0.0.2 -mode native cql3",
    "mixed ratio(write=1,read=3) duration=10m -pop dist=gaussian(1..1000,500,10) -rate "
    "threads>=4 threads<=64 auto -col n=fixed(5) size=uniform(10..100) -log file=x hdrfile=y",
    "read n>1000 err<0.02 no-warmup -schema replication(factor=3) -rate threads=10 throttle=100/s",
)
URLS = (
    "redis://user:password@127.0.0.1:6379/0?tls=on", "rocksdb:/tmp/x?sync=on", "null:?yields=1",
    "cql://10.0.0.1,10.0.0.2:9042/keyspace?consistency=one", "memcached://[::1]:11211", "up:redis",
    "sim:?servers=2&service=exponential(1ms)",
)  # fmt: skip
INPUTS: Mapping[str, tuple[Callable[[str], object], Sequence[str]]] = {
    "workload": (workload, [catalog.text(name) for name in catalog.names()]),
    "study": (study, [catalog.study_text(name) for name in catalog.study_names()]),
    "properties": (properties, [PROPERTIES]),
    "profile": (profile, [path.read_text() for path in sorted(PROFILES.glob("*.yaml"))]),
    "stress": (stress, STRESS),
    "url": (parse_system_url, URLS),
}


def damaged(chance: Random, text: str) -> str:
    """The text after an accident."""
    lines = text.splitlines(keepends=True)
    first, second = chance.randrange(len(lines)), chance.randrange(len(lines))
    match chance.randrange(7):
        case 0 | 1 | 2:
            place = chance.choice(list(PART.finditer(text)) or [re.match("", text)])
            assert place is not None
            return text[: place.start()] + chance.choice(ODD) + text[place.end() :]
        case 3:
            at = chance.randrange(len(text) + 1)
            return text[:at] + chance.choice(ODD) + text[at:]
        case 4:
            lines[first], lines[second] = lines[second], lines[first]
        case 5:
            lines[first] = lines[second].rstrip("\n") + lines[first]
        case _:
            lines[first] = " " * chance.randrange(4) + lines[first][chance.randrange(4) :]
    return "".join(lines) or text


@pytest.mark.parametrize("kind", INPUTS)
def test_every_damaged_input_is_read_or_refused_in_one_sentence(kind: str) -> None:
    read, samples = INPUTS[kind]
    for case in range(CASES // len(INPUTS) + 1):
        chance = Random(f"{kind} {case}")
        text = chance.choice(samples)
        for _ in range(chance.choice((1, 1, 2, 3))):
            text = damaged(chance, text)
        try:
            read(text)
        except KvmarkError as problem:
            assert str(problem).isprintable(), f"case {case} of {kind}: {problem}"
        except Exception as problem:
            raise AssertionError(f"case {case} of {kind} ended in {problem!r}") from problem


FORMS = ("", "ramp:", "steps:", "sine:", "onoff:", "file:")
READERS: Mapping[str, Callable[[str], object]] = {
    **{parse.__name__: parse for parse in (duration_ns, count, rate, share, size_bytes)},
    **{parse.__name__: parse for parse in (parse_metric, parse_objective, parse_condition)},
    **{form: lambda text, form=form: pace(form + text) for form in FORMS},
    "system": parse_system_url,
    "folder": lambda text: parse_system_url(f"rocksdb:{text}"),
    "workload": lambda text: parse_workload(text, "any.yaml"),
    "properties": lambda text: parse_properties(text, "any"),
}


@pytest.mark.parametrize("reader", READERS)
@given(text=st.text(max_size=60))
def test_any_text_is_read_or_refused_in_one_sentence(reader: str, text: str) -> None:
    try:
        READERS[reader](text)
    except SpecError as problem:
        assert "\n" not in str(problem)
