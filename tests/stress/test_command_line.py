"""The command line: every parameter is supported or rejected by name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvmark.errors import SpecError
from kvmark.frontends.cassandra_stress.grammar import (
    COMMANDS,
    OPTIONS,
    UNSUPPORTED_OPTIONS,
    help_text,
    parse_line,
)
from kvmark.frontends.cassandra_stress.options import read_stress
from kvmark.secret import Secret
from tables import table

CASES = table(__file__, "refusals.toml")
PARAMETERS = {
    (option, one.name): one
    for option, section in OPTIONS.items()
    for one in section.parameters.values()
}


def test_every_supported_parameter_is_parsed() -> None:
    used = set()
    for words in CASES["accepted"]:
        read_stress(words.split())
        values = parse_line(words.split()).values
        used |= {(option, name) for option, names in values.items() for name in names}
    unused = {place for place, one in PARAMETERS.items() if not one.unsupported} - used
    assert {place for place in unused if place[0] != "-transport"} == {("-node", "file=")}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (f"{option} {name}{'uniform(1..9)' if one.metavar == 'DIST' else '5' * bool(one.value)}",
         f"{option}: {name} is not supported: {one.unsupported}")
        for (option, name), one in PARAMETERS.items() if one.unsupported
    ]
    + [(f"{option} x", f"{option} is not supported: {why}")
       for option, why in UNSUPPORTED_OPTIONS.items()],
)  # fmt: skip
def test_an_unsupported_parameter_or_option_is_rejected_by_name(words: str, sentence: str) -> None:
    with pytest.raises(SpecError) as error:
        read_stress(f"write n=1 {words}".split())
    assert str(error.value) == sentence


@pytest.mark.parametrize(("text", "sentence"), CASES["command line"])
def test_wrong_use_is_reported_in_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(SpecError) as error:
        read_stress(text.split())
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


LAWS = st.sampled_from(
    ["uniform(1..9)", "~exp(1..9)", "gaussian(1..9,5,2)", "extreme(1..9,2)", "qextr(1..9,2,3)"]
)


@given(
    count=st.integers(1, 10**6),
    threads=st.integers(1, 10**4),
    law=LAWS,
    order=st.permutations(["-rate", "-pop", "-col", "-node"]),
    slices=st.booleans(),
)
def test_options_and_parameters_have_any_order(
    count: int, threads: int, law: str, order: list[str], *, slices: bool
) -> None:
    groups = {
        "-rate": [f"threads={threads}"],
        "-pop": [f"dist={law}", "contents=sorted"],
        "-col": ["size=fixed(9)", *(["slice"] if slices else [])],
        "-node": ["datacenter=dc1", "a,b"],
    }
    plain = ["read", f"n={count}", *(word for name in groups for word in (name, *groups[name]))]
    turned = ["read", f"n={count}"]
    for name in order:
        turned += [name, *reversed(groups[name])]
    assert read_stress(plain) == read_stress(turned)


@given(LAWS, st.sampled_from(["", "k", "m", "b", "K", "M", "B"]))
def test_numbers_have_suffixes(law: str, suffix: str) -> None:
    times = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9}[suffix.lower()]
    assert read_stress([f"read n=3{suffix} -pop dist={law}"]).operations == 3 * times


def test_a_password_is_not_recorded() -> None:
    spec = read_stress(["write n=1 -mode user=me password=hunter2"])
    assert spec.target.password == Secret("hunter2")
    assert "hunter2" not in repr(spec)
    assert "hunter2" not in str(spec.as_json())


def test_help_has_every_parameter() -> None:
    overview = help_text()
    for name, section in {**COMMANDS, **OPTIONS}.items():
        assert name in overview
        described = help_text([name])
        assert all(parameter in described for parameter in section.parameters)
    with pytest.raises(SpecError, match="unknown topic 'frob'"):
        help_text(["frob"])
