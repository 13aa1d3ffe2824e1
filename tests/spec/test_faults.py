"""Faults are read from sentences and files."""

from pathlib import Path

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
"""
    sentences = (
        "10s pause primary-1 for 2s",
        "20s kill replica-1",
        "1500ms restart n2",
        "1s delay n3 by 20ms from n1 for 5s",
        "9s loss n3 by 2.5%",
        "3s partition n1 from n2,n4",
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
    ends = ("1s pause n for 2s", "1s kill n", "1s restart n", "1s restart n for 4s")
    assert [parse_fault(text).end_ns for text in ends] == [3 * S, None, S, 5 * S]
