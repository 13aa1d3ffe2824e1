"""A server that is measured without a study is warmed up by the rule of studies."""

from types import SimpleNamespace

import measure
import pytest

from kvmark.errors import SystemUnderTestError


@pytest.fixture(autouse=True)
def a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """A testbed with one server that has all cores."""
    here = SimpleNamespace(name="here", nodes=[SimpleNamespace(process=None, cores=None)])
    monkeypatch.setattr(measure, "all_testbeds", lambda _: [here])


def test_a_server_is_loaded_until_it_gets_no_faster() -> None:
    rounds: list[int] = []

    def load(number: int) -> float:
        rounds.append(number)
        return min(number, 8)

    measure.warm_up("up:here", load)
    assert rounds == list(range(1, 14))


def test_a_server_that_answers_nothing_is_not_measured() -> None:
    def load(_: int) -> float:
        raise SystemUnderTestError("no operation succeeded")

    with pytest.raises(SystemExit, match="nothing warmed up"):
        measure.warm_up("up:here", load)
