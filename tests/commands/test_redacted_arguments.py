"""Commands as they are stored: without secrets."""

from __future__ import annotations

import inspect
import shlex
from typing import get_args, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvmark.cli.command_line import redacted_words
from kvmark.cli.registry import COMMANDS, function_of
from kvmark.secret import Secret
from kvmark.spec.other_commands import without_secrets
from kvmark.spec.url import SystemName

WORDS = st.text(alphabet=st.characters(blacklist_categories=("Z", "C")), min_size=1, max_size=12)


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        ("run ycsb/a --system redis://u:pw@h/1 -q", "run ycsb/a --system redis://h/1 -q"),
        ("run ycsb/a --system=redis://u:pw@h", "run ycsb/a --system=redis://h"),
        ("run ycsb/a --system rocksdb:/a@b", "run ycsb/a --system rocksdb:/a@b"),
        ("study mine --through a=cql://u:pw@h,g", "study mine --through a=cql://h,g"),
        ("app X --username u --password pw -q", "app X --username u --password *** -q"),
        ("app X -password=pw --tag a", "app X -password=*** --tag a"),
        ("app X --password", "app X --password"),
        ("app X --password -q --tag a", "app X --password *** --tag a"),
        ("app X --system redis://u:pw@h --strict", "app X --system redis://h --strict"),
        ("app X --num_reads 7 --nothing=4", "app X --num_reads 7 --nothing=4"),
        ("stress write n=1 -mode user=u password=pw", "stress write n=1 -mode user=u password=***"),
        ("stress read -mode password = pw user = u", "stress read -mode password=*** user=u"),
        ("stress read -MODE PassWord= pw", "stress read -MODE password=***"),
        ("stress read -node cql://u:pw@h -rate auto", "stress read -node cql://h -rate auto"),
        ("stress read -transport keystore-password=pw",
         "stress read -transport keystore-password=***"),
        ("stress --tag password=x read n=1", "stress --tag password=x read n=1"),
        ("ycsb -p recordcount=10 -P file", "ycsb -p recordcount=10 -P file"),
        ("ab --base '--system redis://u:pw@h --clients 3' --candidate '--clients 4'",
         "ab --base '--system redis://h --clients 3' --candidate '--clients 4'"),
        ("audit --to redis://h -- memtier_benchmark -p {port} -a pw --ratio 1:9",
         "audit --to redis://h -- memtier_benchmark -p {port} -a *** --ratio 1:9"),
        ("audit --to redis://h -- x --pass=pw --authenticate u:pw -p redis.password=pw",
         "audit --to redis://h -- x --pass=*** --authenticate *** -p redis.password=***"),
        ("audit --to redis://h -- x -apw -auth pw", "audit --to redis://h -- x -a*** -a*** ***"),
        ("audit --to redis://u:pw@h -- env REDISCLI_AUTH=pw x -u redis://u:pw@{host}:{port}",
         "audit --to redis://h -- env REDISCLI_AUTH=*** x -u redis://{host}:{port}"),
        ("audit --to redis://h -- sh -c 'x -a pw -c 5 {port}' '--pass=a secret'",
         "audit --to redis://h -- sh -c 'x -a *** -c 5 {port}' --pass=***"),
        ("audit --to redis://h -- sh -c 'KEY=0 API_KEY=pw x'",
         "audit --to redis://h -- sh -c 'KEY=0 API_KEY=*** x'"),
        ("audit --to redis://h -- x --token", "audit --to redis://h -- x --token"),
        ("audit --to redis://h -- redis-cli AUTH pw", "audit --to redis://h -- redis-cli AUTH ***"),
        ("audit --to redis://h -- x -H 'Authorization: Bearer pw' -H 'Accept: all'",
         "audit --to redis://h -- x -H 'Authorization: ***' -H 'Accept: all'"),
        ("audit --to redis://h -- sh -c 'cp -a x y; z -apw && redis-cli -a pw'",
         "audit --to redis://h -- sh -c 'cp -a x y; z -a*** && redis-cli -a ***'"),
        ("audit --to redis://h -- rsync -a x y", "audit --to redis://h -- rsync -a x y"),
        ("audit --to redis://h -- sshpass -f pw ssh -p 22 h mysql -ppw -u me",
         "audit --to redis://h -- sshpass -f pw ssh -p 22 h mysql -p*** -u me"),
        ("audit --to redis://h -- x auth-service:80 authors",
         "audit --to redis://h -- x auth-service:80 authors"),
    ],
)  # fmt: skip
def test_secrets_are_redacted_by_the_grammar_of_the_command(typed: str, kept: str) -> None:
    assert redacted_words(shlex.split(typed)) == tuple(shlex.split(kept))


@given(WORDS)
def test_every_form_of_a_password_is_redacted(word: str) -> None:
    secret = f"S3{word}CR"
    for words in (
        ("app", "X", "--username", "u", "--password", secret),
        ("app", "X", f"-password={secret}"),
        ("stress", "write", "n=1", "-mode", "user=u", f"password={secret}"),
        ("run", "w", "--system", f"redis://u:{secret}@h"),
        ("audit", "--", "memtier_benchmark", "-a", secret, f"--password={secret}"),
        ("audit", "--", "sh", "-c", shlex.join(["x", "--pass", secret])),
        ("audit", "--", "/usr/bin/mysql", "-u", "root", f"-p{secret}", "-e", "select 1"),
        ("audit", "--", "curl", "-su", "x", "-u", f"user:{secret}", "http://h"),
        ("audit", "--", "sh", "-c", shlex.join(["sshpass", "-p", secret, "ssh", "-p", "22", "h"])),
    ):
        kept = " ".join(redacted_words(words))
        assert "S3" not in kept
        assert "CR" not in kept


@given(st.lists(st.text(max_size=12), max_size=6))
def test_any_arguments_can_be_redacted(words: list[str]) -> None:
    for first in ("app", "stress", "run"):
        assert redacted_words([first, *words])[0] == first


def test_every_url_option_is_a_system_name() -> None:
    found = []
    for command in COMMANDS:
        function = function_of(command)
        for name, hint in get_type_hints(function, include_extras=True).items():
            told = get_args(hint)[1:]
            if any(getattr(one, "metavar", None) == "URL" for one in told):
                found.append((command, name))
                assert "SystemName" in str(get_args(hint)[0]), (command, name)
    assert len(inspect.signature(function_of("run")).parameters) > 10
    assert {("run", "system"), ("study", "through"), ("up", "to"), ("ycsb", "systems")} <= {*found}


def test_a_secret_is_never_printed() -> None:
    secret, name = Secret("pw"), SystemName("redis://u:pw@h")
    assert secret == Secret("pw") != Secret("pw2")
    assert secret != "pw"
    assert name != Secret("redis://u:pw@h")
    assert {secret, Secret("pw")} == {secret}
    assert secret.reveal() == "pw"
    for said in (str(secret), repr([secret]), f"{secret}", f"{secret!r}"):
        assert "pw" not in said
    for said in (str(name), repr({"system": name}), f"{name}"):
        assert "pw" not in said


def test_a_text_has_no_secret_of_a_command_or_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("REDISCLI_AUTH", "ours")
    words = ["sh", "-c", "API_KEY=first x -a second", "--pass=third word", "redis://u:fourth@h"]
    text = without_secrets("first, second, third word, fourth, ours and u", words)
    assert text == "***, ***, ***, ***, *** and u"
