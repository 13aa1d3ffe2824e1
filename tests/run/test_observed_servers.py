"""Observed servers are asked at the same time, and a late answer isn't lost."""

from threading import Event

import pytest

from kvmark.errors import SystemUnderTestError, UsageError
from kvmark.run.faults import ServerInfo
from kvmark.run.sampler import ObservedServers
from kvmark.spec.observe import parse_source
from kvmark.testbed.sources.sample import ServerSample, Source
from redis_testbeds import Up


class Scripted(Source):
    """A source that answers when its event is set, or never."""

    def __init__(self, name: str, *, answers: bool = True) -> None:
        super().__init__(parse_source(f"{name}=ssh:h"))
        self.asked, self.may_answer, self._answers = 0, Event(), answers

    def read(self) -> ServerSample:
        self.asked += 1
        self.may_answer.wait()
        if not self._answers:
            raise SystemUnderTestError("doesn't answer")
        return ServerSample(at_wall_ns=self.asked)


def test_no_server_waits_for_another_and_a_late_answer_is_taken_later() -> None:
    prompt, late, silent = Scripted("prompt"), Scripted("late"), Scripted("silent", answers=False)
    prompt.may_answer.set()
    silent.may_answer.set()
    servers = ObservedServers([late, silent, prompt])
    assert {row["node"] for row in servers.rows(1)} == {"prompt"}
    late.may_answer.set()
    names = [row["node"] for _ in range(2) for row in servers.rows(60)]
    assert names.count("prompt") == 2
    assert names.count("late") >= 2
    assert silent.asked == 3
    servers.close()


def test_an_observed_server_has_another_name_than_those_of_the_testbed(up: Up) -> None:
    servers = ServerInfo(up(), None)
    servers.check_names(["db"])
    with pytest.raises(UsageError, match="the testbed has a server primary-1"):
        servers.check_names(["db", "primary-1"])
