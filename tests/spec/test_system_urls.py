"""System URLs name a driver and its options, and never show a password."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvmark.errors import SpecError
from kvmark.spec.url import SCHEMES, Place, Scheme, parse_system_url


def test_the_folder_of_rocksdb_is_the_option_path() -> None:
    url = parse_system_url("rocksdb:/tmp/db?sync=true&block_cache=64MB")
    assert url.driver == "rocksdb"
    assert dict(url.options) == {"path": "/tmp/db", "sync": "true", "block_cache": "64MB"}


def test_options_stay_raw_text_and_a_plus_is_a_plus() -> None:
    url = parse_system_url("sim:?servers=1&stall=10s+1s&clock=virtual")
    assert dict(url.options) == {"servers": "1", "stall": "10s+1s", "clock": "virtual"}


def test_percent_escapes_in_options_are_resolved() -> None:
    assert parse_system_url("null:?a=x%26y").options["a"] == "x&y"


def test_a_system_without_options_needs_none() -> None:
    assert dict(parse_system_url("null:").options) == {}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("rockdb:/x", "unknown kind of system 'rockdb' — did you mean 'rocksdb'?"),
        ("x:", "unknown kind of system 'x'; known are cql, null, redis, rediss, rocksdb, sim"),
        ("redis://h", "this build has no driver for redis; it has rocksdb:, null:, sim:"),
        ("rediss://h", "this build has no driver for rediss; it has rocksdb:, null:, sim:"),
        ("cql://h/k", "this build has no driver for cql; it has rocksdb:, null:, sim:"),
        ("rocksdb:", "rocksdb: needs a folder; write rocksdb:PATH"),
        ("rocksdb:?sync=1", "rocksdb: needs a folder; write rocksdb:PATH"),
        (
            "rocksdb:a?path=b",
            "rocksdb: the folder stands after the colon, not in the option 'path'",
        ),
        ("null:x", "null: takes options only, like null:, not 'x'"),
        ("null:?a", "null: option 'a' needs a value; write option=value"),
        ("null:?a=1&a=2", "null: option 'a' is given twice"),
    ],
)
def test_a_wrong_url_is_refused_in_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(SpecError) as refusal:
        parse_system_url(text)
    assert str(refusal.value) == sentence


@pytest.mark.parametrize("text", ["", "foo", "/tmp/db"])
def test_a_text_without_a_scheme_is_answered_with_the_forms(text: str) -> None:
    with pytest.raises(SpecError, match="write one of rocksdb:PATH, null:"):
        parse_system_url(text)


def test_a_new_driver_needs_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    schemes = {**SCHEMES, "redis": Scheme("redis", Place.HOSTS, True, "redis://host:6379")}
    monkeypatch.setattr("kvmark.spec.url.SCHEMES", schemes)
    url = parse_system_url("redis://user:secret@host:6379?password=hidden&db=1")
    assert url.driver == "redis"
    assert url.options["address"] == "user:secret@host:6379"


def test_credentials_are_not_in_the_text_that_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    schemes = {**SCHEMES, "redis": Scheme("redis", Place.HOSTS, True, "redis://host:6379")}
    monkeypatch.setattr("kvmark.spec.url.SCHEMES", schemes)
    url = parse_system_url("redis://user:se@cret@host:6379?password=hidden&db=1")
    assert str(url) == "redis://host:6379?password=***&db=1"


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(SpecError, match="not UTF-8 text"):
        parse_system_url("rocksdb:/tmp/\udcff")


@given(st.text(max_size=60) | st.text(max_size=30).map(lambda text: f"rocksdb:{text}"))
def test_no_text_raises_anything_but_a_spec_error(text: str) -> None:
    try:
        parse_system_url(text)
    except SpecError as refusal:
        assert "\n" not in str(refusal)
