"""Faults are read from sentences and files."""

from pathlib import Path

import pytest

from kvmark.errors import SpecError
from kvmark.spec.faults import load_faults, parse_fault

S = 10**9


def test_a_sentence_and_a_mapping_say_the_same(tmp_path: Path) -> None:
    text = """
faults:
  - {at: 10s, do: pause, node: primary-1, for: 2s}
  - {at: 20s, do: kill, node: replica-1}
  - {at: 1500ms, do: restart, node: n2}
  - {at: 1s, do: delay, node: n3, by: 20ms, from: n1, for: 5s}
  - {at: 9s, do: loss, node: n3, by: 2.5%}
  - {at: 3s, do: partition, node: n1, from: [n2, n4]}
  - {at: 4s, do: run, command: ssh db2 stop it, for: 2s, undo: ssh db2 'start it'}
  - {at: 5s, do: run, command: sync}
"""
    sentences = (
        "10s pause primary-1 for 2s",
        "20s kill replica-1",
        "1500ms restart n2",
        "1s delay n3 by 20ms from n1 for 5s",
        "9s loss n3 by 2.5%",
        "3s partition n1 from n2,n4",
        """4s run 'ssh db2 stop it' for 2s undo 'ssh db2 '"'"'start it'"'"''""",
        "5s run sync",
    )
    (tmp_path / "faults.yaml").write_text(text)
    faults = load_faults(tmp_path / "faults.yaml")
    assert faults == tuple(map(parse_fault, sentences))
    assert tuple(fault.text for fault in faults) == sentences


def test_a_link_is_disturbed_by_as_much_as_is_said() -> None:
    assert parse_fault("0s delay n by 2ms for 1s").delay_ns == 2_000_000
    assert parse_fault("0s loss n by 2.5% for 1s").loss == 0.025
    cut = parse_fault("0s partition n from m for 1s")
    assert (cut.delay_ns, cut.loss, cut.others, cut.is_of_link) == (0, 0.0, ("m",), True)
    assert not parse_fault("0s pause n for 1s").is_of_link


def test_a_fault_ends_when_it_says_or_with_the_measurement() -> None:
    ends = {
        "1s pause n for 2s": 3 * S,
        "1s kill n": None,
        "1s restart n": S,
        "1s restart n for 4s": 5 * S,
        "1s run a": S,
        "1s run a undo b": None,
        "1s run a undo b for 2s": 3 * S,
    }
    assert {text: parse_fault(text).end_ns for text in ends} == ends


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("1s run", "write it like \"10s run 'COMMAND' for 15s undo 'COMMAND'\""),
        ("1s run 'a", "is not a fault"),
        ("1s run ''", "an empty command"),
        ("1s run a for", "is not a fault"),
        ("1s run a undo b undo c", "is not a fault"),
        ("1s run a for 2s", "leave 'for' out or give 'undo'"),
        ("1s run a for 0s undo b", "lasts no time"),
        ("1s run 'mysql --password PASSW0RD'", "has a password here"),
        ("1s run a undo 'b redis://u:PASSW0RD@h'", "has a password here"),
        ("1s run 'curl -u me:PASSW0RD http://h'", "has a password here"),
        ("1s run 'ssh db2 mysql -pPASSW0RD -e x'", "has a password here"),
        ("1s run 'redis-cli AUTH PASSW0RD'", "has a password here"),
        ("1s run 'redis-cli config set requirepass PASSW0RD'", "has a password here"),
        ("1s run 'curl -H \"Authorization: Bearer PASSW0RD\" h'", "has a password here"),
        ('1s run \'sh -c "curl -H \\"X-Api-Key: PASSW0RD\\" h"\'', "has a password here"),
    ],
)
def test_a_command_that_cannot_be_a_fault_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(SpecError) as raised:
        parse_fault(text)
    assert sentence in str(raised.value)
    assert "PASSW0RD" not in str(raised.value)


@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        ("{at: 1s, do: run}", "run needs a command"),
        ("{at: 1s, do: run, node: n, command: a}", "leave 'node' out"),
        ("{at: 1s, do: kill, node: n, command: a}", "leave 'command' out"),
        ("{at: 1s, do: kill, node: n, undo: a}", "leave 'undo' out"),
        ("{at: 1s, do: kill}", "needs the name of a server"),
    ],
)
def test_a_mapping_names_a_server_or_a_command(tmp_path: Path, entry: str, sentence: str) -> None:
    (tmp_path / "faults.yaml").write_text(f"faults:\n  - {entry}\n")
    with pytest.raises(SpecError, match=f"faults.yaml:2.*{sentence}"):
        load_faults(tmp_path / "faults.yaml")
