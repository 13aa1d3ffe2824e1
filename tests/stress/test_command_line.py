"""The command line: every parameter is supported or rejected by name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvmark.errors import SpecError
from kvmark.frontends.cassandra_stress.grammar import (
    COMMANDS,
    NODES,
    OPTIONS,
    UNSUPPORTED_OPTIONS,
    Parameter,
    help_text,
)
from kvmark.frontends.cassandra_stress.options import StressSpec, UntilSpec, read_stress
from kvmark.frontends.cassandra_stress.profiles import Law, fixed
from kvmark.secret import Secret

#: Values of parameters, if their metavariable is none.
VALUES = {
    "ratio(": "write=1,read=3)", "ops(": "insert=1)", "profile=": "profile.yaml",
    "partitions=": "FIXED(1)", "select-ratio=": "fixed(1)/1", "row-population-ratio=": "fixed(1)/1",
    "replication(": "strategy=SimpleStrategy,factor=2)", "storage(": "type=S3)",
    "compaction(": "strategy=LeveledCompactionStrategy)", "seq=": "1..10", "dist=": "uniform(1..9)",
    "auth-provider=": "com.datastax.driver.core.PlainTextAuthProvider", "contents=": "sorted",
    "batchtype=": "LOGGED", "compression=": "lz4", "level=": "verbose", "throttle=": "100/s",
    "fixed=": "100/s", "datacenter=": "dc1", "keyspace=": "name",
}  # fmt: skip
#: Parameters that need another one.
TOGETHER = {
    "no-wrap": "-pop seq=1..9 no-wrap",
    "user=": "-mode user=me password=secret",
    "password=": "-mode user=me password=secret",
    "revision=": "-graph file=a.html revision=1",
    "title=": "-graph file=a.html title=x",
}
PARAMETERS = [
    (option, parameter)
    for option, section in OPTIONS.items()
    for parameter in section.parameters.values()
    if parameter.name != NODES
]
SUPPORTED = [
    (option, one)
    for option, one in PARAMETERS
    if not one.unsupported and option != "-transport" and (option, one.name) != ("-node", "file=")
]
UNSUPPORTED = [(option, one) for option, one in PARAMETERS if one.unsupported]


def line(text: str) -> StressSpec:
    return read_stress(text.split())


def used(option: str, parameter: Parameter) -> str:
    """A command line with this parameter."""
    value = VALUES.get(parameter.name) or parameter.default or ("5" if parameter.value else "")
    if parameter.name in ("file=", "hdrfile="):
        value = "a.html"
    command = "user profile=p.yaml ops(insert=1)" if option == "-insert" else "write n=10"
    return f"{command} {TOGETHER.get(parameter.name, f'{option} {parameter.name}{value}')}"


@pytest.mark.parametrize(("option", "one"), SUPPORTED, ids=lambda one: getattr(one, "name", one))
def test_every_supported_parameter_is_parsed(option: str, one: Parameter) -> None:
    line(used(option, one))


@pytest.mark.parametrize(("option", "one"), UNSUPPORTED, ids=lambda one: getattr(one, "name", one))
def test_an_unsupported_parameter_is_rejected_by_name(option: str, one: Parameter) -> None:
    value = "uniform(1..9)" if one.metavar == "DIST" else "5" if one.value else ""
    with pytest.raises(SpecError) as error:
        read_stress(f"write n=1 {option} {one.name}{value}".split())
    assert str(error.value) == f"{option}: {one.name} is not supported: {one.unsupported}"


@pytest.mark.parametrize("option", UNSUPPORTED_OPTIONS)
def test_an_unsupported_option_is_rejected_by_name(option: str) -> None:
    with pytest.raises(SpecError, match=f"^{option} is not supported: "):
        read_stress(["write", "n=1", option, "x"])


def test_the_published_command_line_is_parsed() -> None:
    spec = line("write -rate threads=8 -mode native cql3 connectionsPerHost=8 -node 127.0.0.1")
    assert (spec.command, spec.threads, spec.until) == ("write", 8, UntilSpec(0.02, 30, 200))
    assert (spec.target.connections, spec.target.address) == (8, "127.0.0.1:9042")
    assert (spec.population.first, spec.population.last) == (1, 1_000_000)
    assert (spec.columns.names, spec.columns.size) == (("C0", "C1", "C2", "C3", "C4"), fixed(34))


def test_blanks_around_commas_equals_signs_and_parentheses_are_ignored() -> None:
    spec = line("mixed ratio ( write = 1 , read = 3 ) n = 1k -pop dist = gaussian( 1..10 , 5, 2 )")
    assert spec.shares == {"write": 1.0, "read": 3.0}
    assert spec.operations == 1000
    assert spec.population.law == Law(1, 10, "gaussian", mean=5.0, stddev=2.0)


def test_by_default_writes_are_sequential_and_reads_gaussian() -> None:
    assert line("write n=50").population.law is None
    assert line("counter_write n=50").population.last == 50
    law = line("read n=50").population.law
    assert law == Law(1, 50, "gaussian", mean=25.5, stddev=49 / 2 / 3)
    assert line("mixed n=50").population.law == law
    assert line("user profile=p ops(insert=1) n=50").population.law is None
    assert line("user profile=p ops(insert=1,q=1) n=50").population.law == law


def test_a_write_of_a_number_has_200_clients_and_others_a_thread_ramp() -> None:
    assert line("write n=50").threads == 200
    assert line("write").threads is None
    assert line("read n=50").threads is None
    assert line("write -rate threads>=8 threads<=64 auto").ladder.first == 8


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "stress needs a command; give one of write, read, mixed"),
        ("frob", "stress: 'frob' is not a command"),
        ("write n=1 -rat threads=1", "'-rat' is not an option — did you mean '-rate'?"),
        ("write n=1 -rate threds=1", "unknown parameter 'threds=' — did you mean 'threads="),
        ("write n=1 -rate threads=x", "-rate: threads= can't be 'x'; give threads=N"),
        ("write n=1 -rate threads=0", "-rate: threads= must be at least 1, not 0"),
        ("write n=1 -rate threads=99999999999", "-rate: threads= must be at most 4294967295, not"),
        (
            "write n=1 -rate threads>=1 threads<=99999999999",
            "-rate: threads<= must be at most 4294967295, not 99999999999",
        ),
        (
            "write duration=99999999999h",
            "write: duration= '99999999999h' is too large; at most 9223372036854775807",
        ),
        (
            "write n=1 -log interval=99999999999999s",
            "-log: interval= '99999999999999s' is too large",
        ),
        ("write n=1 n=2", "write: n= is given twice"),
        ("write n=1 -rate threads=1 -rate auto", "-rate is given twice"),
        ("write n=1 duration=5s", "n= and duration= are different ends of a run"),
        ("write n=1 err<0.1", "n= and err< are different ends of a run"),
        ("write n>50 n<40", "n< (40) must not be below n> (50)"),
        ("write -rate threads=5 auto", "threads= is one number and auto a ramp"),
        ("write -rate throttle=5/s fixed=5/s threads=1", "both set the rate"),
        ("write -rate auto fixed=5/s", "a ramp has no rate"),
        ("write -rate threads>=9 threads<=8", "threads<= (8) must not be below threads>= (9)"),
        ("write -pop seq=1..5 dist=uniform(1..5)", "both choose partitions"),
        ("write -pop seq=9..5", "begins above its end"),
        ("read -pop dist=frob(1..5)", "'frob' is not a distribution"),
        ("read -pop dist=uniform(5..1)", "begins above its end"),
        ("read -pop dist=uniform(1..5) no-wrap", "no-wrap is for seq="),
        ("write -col n=uniform(1..5)", "n= is supported as FIXED(N) only"),
        ("write -col names=A,A", "names a column twice"),
        ("write -errors retries=9", "-errors: retries= can't be '9'; give retries=0"),
        ("mixed clustering=gaussian(1..10)", "clustering= is supported as FIXED(1) only"),
        ("mixed ratio(wrote=1)", "'wrote' is no kind — did you mean 'write'?"),
        ("mixed ratio(write)", "'write' needs a weight; write write=1"),
        ("user ops(insert=1)", "user: needs profile=FILE"),
        ("user profile=x", "user: needs ops(…), such as ops(insert=1)"),
        ("user profile=x ops(insert=1) -schema keyspace=k", "a profile has its own keyspace"),
        ("write -insert partitions=fixed(2)", "it is for user"),
        ("write -mode user=me", "user= and password= go together"),
        ("write -port native=70000", "must be from 1 to 65535"),
        ("write -node a file=b", "both name nodes"),
        ("write -node file=/nonexistent/x", "can't be read because No such file"),
        ("write -graph title=x", "-graph: needs file=FILE.html"),
        ("write -graph file=x.pdf", "must end in .html or .md"),
        ("write -transport store-type=PEM", "needs truststore=FILE"),
        ("print dist=uniform(1..5)", "print is not supported"),
    ],
)
def test_wrong_use_is_reported_in_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(SpecError) as error:
        line(text)
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


@given(st.lists(st.text(max_size=12), max_size=6))
def test_any_arguments_are_parsed_or_rejected_in_one_sentence(words: list[str]) -> None:
    try:
        read_stress(["write", "n=1", *words])
    except SpecError as error:
        assert str(error)
        assert "\n" not in str(error)


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
    spec = line("write n=1 -mode user=me password=hunter2")
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
