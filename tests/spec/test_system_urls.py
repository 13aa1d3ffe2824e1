"""System URLs name a driver and its options, and never show a password."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvmark.errors import SpecError
from kvmark.frontends.ycsb.properties import parse_assignment
from kvmark.secret import Secret
from kvmark.spec.suggest import without_credentials
from kvmark.spec.url import PASSWORD_VARIABLE, SystemName, parse_system_url


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(SpecError, match="not UTF-8 text"):
        parse_system_url("rocksdb:/tmp/\udcff")
    with pytest.raises(SpecError, match="is not an assignment; write -p key=value"):
        parse_assignment("a=\udcff")


def test_a_password_reaches_the_driver_by_a_variable_and_no_option() -> None:
    url = parse_system_url("redis://user%40x:p%2Fa%3Fss@host:6379/0")
    assert url.password == Secret("p/a?ss")
    assert dict(url.options) == {
        "address": "host:6379", "database": "0", "username": "user@x",
        "password_env": PASSWORD_VARIABLE,
    }  # fmt: skip
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
