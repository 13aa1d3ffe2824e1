"""The command line: every word is honoured or refused by name."""

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvmark.errors import SpecError
from kvmark.frontends.cassandra_stress.command_line import StressSpec, UntilSpec, read_stress
from kvmark.frontends.cassandra_stress.help import help_text
from kvmark.frontends.cassandra_stress.laws import Law, fixed
from kvmark.frontends.cassandra_stress.words import ANYWHERE, COMMANDS, GROUPS, REFUSED_GROUPS, Word
from kvmark.secret import Secret

Line = Callable[[str], StressSpec]

#: A value that each word takes, for those whose pattern alone doesn't say one.
VALUES = {
    "ratio(": "write=1,read=3)",
    "ops(": "insert=1)",
    "profile=": "profile.yaml",
    "clustering=": "FIXED(1)",
    "visits=": "FIXED(1)",
    "partitions=": "FIXED(1)",
    "select-ratio=": "fixed(1)/1",
    "row-population-ratio=": "fixed(1)/1",
    "replication(": "strategy=SimpleStrategy,factor=2)",
    "compaction(": "strategy=LeveledCompactionStrategy)",
    "storage(": "type=S3)",
    "auth-provider=": "com.datastax.driver.core.PlainTextAuthProvider",
    "store-type=": "PEM",
    "ssl-protocol=": "TLS",
    "hostname-verification=": "true",
    "comparator=": "AsciiType",
    "protocolVersion=": "4",
    "n=": "7",
    "names=": "A,B",
    "seq=": "1..10",
    "throttle=": "100/s",
    "fixed=": "100/s",
    "interval=": "500ms",
    "duration=": "5m",
    "err<": "0.05",
    "cl=": "QUORUM",
    "serial-cl=": "LOCAL_SERIAL",
    "truncate=": "once",
    "contents=": "sorted",
    "batchtype=": "LOGGED",
    "level=": "verbose",
    "compression=": "lz4",
    "retries=": "0",
}
#: Words that need another beside them, or a file.
TOGETHER = {
    "no-wrap": "-pop seq=1..9 no-wrap",
    "user=": "-mode user=me password=secret",
    "password=": "-mode user=me password=secret",
    "revision=": "-graph file=a.html revision=1",
    "title=": "-graph file=a.html title=x",
}


def value_of(word: Word) -> str:
    """A value that a word takes."""
    if word.name in VALUES:
        return VALUES[word.name]
    if not word.value:
        return ""
    for value in ("5", "uniform(1..9)", "a.html", "name"):
        if re.fullmatch(word.value, value):
            return value
    raise AssertionError(word)


HONOURED = [
    (group, word)
    for group, words in GROUPS.items()
    for word in words
    if not word.refused and word.name != ANYWHERE and group != "-transport"
]
REFUSED = [(group, word) for group, words in GROUPS.items() for word in words if word.refused]


def used(group: str, word: Word) -> str:
    """A command line with that word."""
    said = TOGETHER.get(word.name) or f"{group} {word.name}{value_of(word)}"
    if group == "-graph" and word.name == "file=":
        said = "-graph file=a.html"
    if group == "-node" and word.name == "file=":
        said = "-node localhost"
    command = "write n=10"
    if group == "-insert" or word.name in ("ops(", "profile="):
        command = "user profile=p.yaml ops(insert=1)"
    return f"{command} {said}"


@pytest.mark.parametrize(("group", "word"), HONOURED, ids=lambda one: getattr(one, "name", one))
def test_every_word_that_is_not_refused_is_read(group: str, word: Word) -> None:
    read_stress(used(group, word).split())


@pytest.mark.parametrize(("group", "word"), REFUSED, ids=lambda one: getattr(one, "name", one))
def test_every_other_word_is_refused_by_its_name_in_one_sentence(group: str, word: Word) -> None:
    value = "x" if word.value in (".+", "") else value_of(word)
    with pytest.raises(SpecError) as refusal:
        read_stress(f"write n=1 {group} {word.name}{value if word.value else ''}".split())
    assert str(refusal.value) == f"{group}: {word.name} is not carried out: {word.refused}"
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("group", REFUSED_GROUPS)
def test_groups_that_are_not_carried_out_are_refused_by_name(group: str) -> None:
    with pytest.raises(SpecError, match=f"^{group} is not carried out: "):
        read_stress(["write", "n=1", group, "x"])


def test_the_published_command_line_is_read_as_it_stands(line: Line) -> None:
    spec = line("write -rate threads=8 -mode native cql3 connectionsPerHost=8 -node 127.0.0.1")
    assert (spec.command, spec.threads, spec.until) == ("write", 8, UntilSpec(0.02, 30, 200))
    assert (spec.target.connections, spec.target.address) == (8, "127.0.0.1:9042")
    assert (spec.population.first, spec.population.last) == (1, 1_000_000)
    assert (spec.columns.names, spec.columns.size) == (("C0", "C1", "C2", "C3", "C4"), fixed(34))


def test_spaces_around_commas_equals_signs_and_parentheses_separate_nothing(line: Line) -> None:
    spec = line("mixed ratio ( write = 1 , read = 3 ) n = 1k -pop dist = gaussian( 1..10 , 5, 2 )")
    assert spec.shares == {"write": 1.0, "read": 3.0}
    assert spec.operations == 1000
    assert spec.population.law == Law(1, 10, "gaussian", mean=5.0, stddev=2.0)


def test_writes_go_in_sequence_and_reads_by_a_law_unless_said(line: Line) -> None:
    assert line("write n=50").population.law is None
    assert line("counter_write n=50").population.last == 50
    law = line("read n=50").population.law
    assert law == Law(1, 50, "gaussian", mean=25.5, stddev=49 / 2 / 3)
    assert line("mixed n=50").population.law == law
    assert line("user profile=p ops(insert=1) n=50").population.law is None
    assert line("user profile=p ops(insert=1,q=1) n=50").population.law == law


def test_a_write_of_a_number_has_200_clients_and_all_else_climbs(line: Line) -> None:
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
        ("write n=1 -rate threds=1", "'threds=' is not one of its words — did you mean 'threads="),
        ("write n=1 -rate threads=x", "-rate: threads= can't be 'x'; give threads=N"),
        ("write n=1 -rate threads=0", "-rate: threads= must be at least 1, not 0"),
        ("write n=1 -rate threads=99999999999", "-rate: threads= must be at most 4294967295, not"),
        (
            "write n=1 -rate threads>=1 threads<=99999999999",
            "-rate: threads<= must be at most 4294967295, not 99999999999",
        ),
        (
            "write duration=99999999999h",
            "write: duration= '99999999999h' is too long; at most 2^63",
        ),
        (
            "write n=1 -log interval=99999999999999s",
            "-log: interval= '99999999999999s' is too long",
        ),
        ("write n=1 n=2", "write: n= is given twice"),
        ("write n=1 -rate threads=1 -rate auto", "-rate is given twice"),
        ("write n=1 duration=5s", "n= and duration= are different ends of a run"),
        ("write n=1 err<0.1", "n= and err< are different ends of a run"),
        ("write n>50 n<40", "n< (40) must not be below n> (50)"),
        ("write -rate threads=5 auto", "threads= is one number and auto a ladder"),
        ("write -rate throttle=5/s fixed=5/s threads=1", "two ways to say the rate"),
        ("write -rate auto fixed=5/s", "a ladder has no rate"),
        ("write -rate threads>=9 threads<=8", "threads<= (8) must not be below threads>= (9)"),
        ("write -pop seq=1..5 dist=uniform(1..5)", "two ways to choose"),
        ("write -pop seq=9..5", "begins above its end"),
        ("read -pop dist=frob(1..5)", "'frob' is not a law"),
        ("read -pop dist=uniform(5..1)", "begins above its end"),
        ("read -pop dist=uniform(1..5) no-wrap", "no-wrap is for seq="),
        ("write -col n=uniform(1..5)", "n= is carried out as FIXED(N) only"),
        ("write -col names=A,A", "names a column twice"),
        ("write -errors retries=9", "-errors: retries= can't be '9'; give retries=0"),
        ("mixed clustering=gaussian(1..10)", "clustering= is carried out as FIXED(1) only"),
        ("mixed ratio(wrote=1)", "'wrote' is no kind — did you mean 'write'?"),
        ("mixed ratio(write)", "'write' needs a weight; write write=1"),
        ("user ops(insert=1)", "user: needs profile=FILE"),
        ("user profile=x", "user: needs ops(…), such as ops(insert=1)"),
        ("user profile=x ops(insert=1) -schema keyspace=k", "a profile says its own keyspace"),
        ("write -insert partitions=fixed(2)", "it is for user"),
        ("write -mode user=me", "user= and password= go together"),
        ("write -port native=70000", "must be from 1 to 65535"),
        ("write -node a file=b", "two ways to name nodes"),
        ("write -node file=/nonexistent/x", "can't be read because No such file"),
        ("write -graph title=x", "-graph: needs file=FILE.html"),
        ("write -graph file=x.pdf", "must end in .html or .md"),
        ("write -transport store-type=PEM", "needs truststore=FILE"),
        ("print dist=uniform(1..5)", "print is not carried out"),
    ],
)
def test_wrong_use_is_told_in_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(SpecError) as refusal:
        read_stress(text.split())
    assert sentence in str(refusal.value)
    assert "\n" not in str(refusal.value)


@given(st.lists(st.text(max_size=12), max_size=6))
def test_whatever_is_typed_is_read_or_refused_in_one_sentence(words: list[str]) -> None:
    try:
        read_stress(["write", "n=1", *words])
    except SpecError as refusal:
        assert str(refusal)
        assert "\n" not in str(refusal)


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
def test_the_order_of_options_and_words_doesn_t_matter(
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
def test_numbers_have_their_thousands(law: str, suffix: str) -> None:
    times = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9}[suffix.lower()]
    assert read_stress([f"read n=3{suffix} -pop dist={law}"]).operations == 3 * times


def test_a_password_is_kept_nowhere(line: Line) -> None:
    spec = line("write n=1 -mode user=me password=hunter2")
    assert spec.target.password == Secret("hunter2")
    assert "hunter2" not in repr(spec)
    assert "hunter2" not in str(spec.as_json())


def test_help_describes_every_word() -> None:
    overview = help_text()
    for name in [*COMMANDS, *GROUPS]:
        assert name in overview
        described = help_text([name])
        assert all(word.name in described for word in COMMANDS.get(name) or GROUPS[name])
    with pytest.raises(SpecError, match="nothing is known of 'frob'"):
        help_text(["frob"])
