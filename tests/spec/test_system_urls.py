"""System URLs name a driver and its options, and never show a password."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvmark.errors import SpecError
from kvmark.secret import Secret
from kvmark.spec.suggest import without_credentials
from kvmark.spec.url import (
    PASSWORD_VARIABLE,
    SystemName,
    parse_system_url,
)


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
        (
            "x:",
            "unknown kind of system 'x'; known are cql, memcached, null, redis, rediss,"
            " rocksdb, sim",
        ),
        ("redis:", "redis: needs a host; write redis://host:6379"),
        ("redis:h", "redis: needs a host; write redis://host:6379"),
        ("redis://user:se@cret@", "redis: needs a host; write redis://host:6379"),
        (
            "redis://h?address=g",
            "redis: the host stands after the colon, not in the option 'address'",
        ),
        ("redis://h/1?database=2", "redis: database is given twice; leave the option out"),
        ("rediss://h?tls=false", "rediss: tls is given twice; leave the option out"),
        (
            "redis://h?password=se",
            "redis: a password is no option; name its place with password_env or password_file",
        ),
        (
            "redis://u:p@h?password_file=f",
            "redis: the password is given twice; leave it out of the URL",
        ),
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


def test_a_redis_server_is_named_by_address_and_database() -> None:
    url = parse_system_url("redis://host:6379/3?protocol=3")
    assert url.driver == "redis"
    assert dict(url.options) == {"address": "host:6379", "database": "3", "protocol": "3"}
    assert url.password is None


def test_encryption_is_the_schemes_own_word() -> None:
    assert dict(parse_system_url("rediss://h").options) == {"address": "h", "tls": "true"}


def test_several_hosts_are_one_address() -> None:
    options = parse_system_url("redis://h1:7000,h2:7001?cluster=true").options
    assert dict(options) == {"address": "h1:7000,h2:7001", "cluster": "true"}


def test_a_path_without_a_host_is_a_unix_socket() -> None:
    assert dict(parse_system_url("redis:///run/redis.sock").options) == {
        "address": "/run/redis.sock"
    }


def test_a_password_reaches_the_driver_by_a_variable_and_no_option() -> None:
    url = parse_system_url("redis://user%40x:p%2Fa%3Fss@host:6379/0")
    assert url.password == Secret("p/a?ss")
    assert dict(url.options) == {
        "address": "host:6379",
        "database": "0",
        "username": "user@x",
        "password_env": PASSWORD_VARIABLE,
    }
    assert "ss" not in repr(url).replace("address", "").replace("password", "")


@pytest.mark.parametrize("who", [":secret@", "user:secret@", "user:sec/secret@", "a:se@secret@"])
def test_credentials_are_not_in_the_text_that_is_shown(who: str) -> None:
    url = parse_system_url(f"redis://{who}host:6379?database=1")
    assert str(url) == "redis://host:6379?database=1"


def test_names_of_places_of_secrets_are_shown_and_secrets_are_not() -> None:
    text = "redis://host?password_file=/etc/word&password_env=WORD&ca_file=/etc/ca"
    assert str(parse_system_url(text)) == text
    with pytest.raises(SpecError, match="a password is no option") as refused:
        parse_system_url("redis://host?token=abc&x=1")
    assert "abc" not in str(refused.value)


@pytest.mark.parametrize(
    ("word", "kept"),
    [
        ("--system=redis://u:secret@h/1", "--system=redis://h/1"),
        ("redis://u:se?cret@h", "redis://h"),
        ("mine=redis://u:secret@h:1", "mine=redis://h:1"),
        ("--system redis://u:a@h --tag x://y@z", "--system redis://z"),
        ("rocksdb:/db?sync=true", "rocksdb:/db?sync=true"),
        ("a@b", "a@b"),
    ],
)
def test_a_word_is_kept_without_the_credentials_of_its_url(word: str, kept: str) -> None:
    assert without_credentials(word) == kept
    assert str(SystemName(word)) == kept


@given(st.text(alphabet="ab:/?@&=%,1", max_size=20))
def test_no_password_is_shown_however_it_is_written(password: str) -> None:
    secret = f"S3{password}CR"
    text = f"redis://user:{secret}@host:6379/0"
    try:
        shown = str(parse_system_url(text))
    except SpecError as refusal:
        shown = str(refusal)
    assert "S3" not in shown
    assert "CR" not in shown
    for said in (str(SystemName(text)), repr(SystemName(text)), without_credentials(text)):
        assert "S3" not in said
        assert "CR" not in said


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(SpecError, match="not UTF-8 text"):
        parse_system_url("rocksdb:/tmp/\udcff")


@given(st.text(max_size=60) | st.text(max_size=30).map(lambda text: f"rocksdb:{text}"))
def test_no_text_raises_anything_but_a_spec_error(text: str) -> None:
    try:
        parse_system_url(text)
    except SpecError as refusal:
        assert "\n" not in str(refusal)


@pytest.mark.parametrize("option", ["token_aware", "initial_token", "authenticator"])
def test_a_word_that_only_sounds_like_a_secret_is_an_option(option: str) -> None:
    assert parse_system_url(f"cql://h?{option}=x").options[option] == "x"
