"""Studies in a folder of the test's own; the helpers are a module of this folder."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "end_to_end"))

from studies import MakeStudy, Program, make_study

from kvmark.testbed import proxy, redis
from kvmark.testbed.state import Testbed
from programs import needs
from redis_testbeds import root as testbeds
from redis_testbeds import with_redis

__all__ = ["testbeds", "with_redis"]


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """Runs commands in the test's folder, in processes that have everything loaded already."""
    return Program(tmp_path)


@pytest.fixture
def own_testbeds(testbeds: Path, with_redis: None) -> Path:
    """The folder of the testbeds that studies start; skips the test where there is no Redis."""
    return testbeds


@pytest.fixture
def system(own_testbeds: Path) -> Testbed:
    """A Redis."""
    return redis.up(redis.RedisOptions(), own_testbeds)


@pytest.fixture
def haproxy(system: Testbed, own_testbeds: Path) -> Testbed:
    """An HAProxy before it."""
    needs("haproxy")
    target = proxy.Target("redis", system.nodes[0].address, system.url)
    return proxy.up(proxy.ProxyOptions(kind="haproxy", to=target, threads=1), own_testbeds)


@pytest.fixture
def study(tmp_path: Path) -> MakeStudy:
    """Makes a study of a text."""
    return lambda text, **asked: make_study(text, tmp_path, **asked)
