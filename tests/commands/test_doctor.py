"""What `kvmark doctor` makes of what it finds."""

from pathlib import Path

import pytest

from kvmark.cli.commands import doctor


@pytest.mark.parametrize("stamp_ns", [19.0, 488.2])
@pytest.mark.parametrize("source", ["", "tsc", "arch_sys_counter", "hpet"])
def test_advice_names_the_clock_source_if_it_is_the_cause(source: str, stamp_ns: float) -> None:
    found = doctor._clock_diagnosis(stamp_ns, 10, source)
    cause = "the kernel uses hpet and not the time stamp counter"
    reason = cause if source == "hpet" else "a time stamp takes long"
    slow = ("mind", f"{reason}: operations under 1 µs are blurred")
    assert (found.state, found.advice) == (("good", "") if stamp_ns == 19.0 else slow)
    assert found.found.endswith(source)


def test_the_clock_source_is_the_kernel_s(tmp_path: Path) -> None:
    file = tmp_path / "current_clocksource"
    assert doctor._kernel_clock(file) == ""
    file.write_text("kvm-clock\n")
    assert doctor._kernel_clock(file) == "kvm-clock"
