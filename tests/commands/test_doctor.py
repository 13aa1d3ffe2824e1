"""What `kvmark doctor` makes of what it finds."""

from pathlib import Path

import pytest

from kvmark.cli.commands import doctor


@pytest.mark.parametrize("source", ["", "tsc", "arch_sys_counter", "kvm-clock", "hpet"])
def test_a_quick_time_stamp_is_good_with_any_clock_source(source: str) -> None:
    found = doctor._clock_diagnosis(19.0, 10, source)
    assert (found.state, found.advice) == ("good", "")
    assert found.found.endswith(source)


def test_advice_names_the_clock_source_only_where_it_is_the_cause() -> None:
    other = doctor._clock_diagnosis(488.2, 10, "hpet")
    assert other.state == "mind"
    assert "the kernel uses hpet and not the time stamp counter" in other.advice
    for source in ("tsc", "arch_sys_counter", ""):
        slow = doctor._clock_diagnosis(488.2, 10, source)
        assert slow.state == "mind"
        assert slow.advice == "a time stamp takes long: operations under 1 µs are blurred"


def test_the_clock_source_is_the_kernel_s(tmp_path: Path) -> None:
    file = tmp_path / "current_clocksource"
    assert doctor._kernel_clock(file) == ""
    file.write_text("kvm-clock\n")
    assert doctor._kernel_clock(file) == "kvm-clock"
