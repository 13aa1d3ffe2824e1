"""What is wanted becomes a settings file, or is refused in a sentence. No server is needed."""

from pathlib import Path
from typing import Any

import pytest

from kvmark.errors import UsageError
from kvmark.secret import Secret
from kvmark.testbed import redis
from kvmark.testbed.redis.config import Place, Wanted, check, settings_text

PLACE = Place(Path("testbeds/redis/primary-1"), "127.0.0.1", 16379, None)


def lines(**wishes: Any) -> list[str]:
    return settings_text(Wanted(**wishes), PLACE, None).splitlines()


def test_nothing_is_kept_on_the_disk_unless_it_is_wanted() -> None:
    assert {"appendonly no", 'save ""'} <= set(lines())


def test_clients_beyond_those_wanted_are_kept_for_the_testbed() -> None:
    assert "maxclients 10032" in lines()
    assert "maxclients 132" in lines(maxclients=100)


def test_snapshots_are_one_line_each() -> None:
    assert {"save 3600 1", "save 60 10000"} <= set(lines(save="3600 1 60 10000"))


def test_a_password_with_blanks_and_quotation_marks_stays_one_word() -> None:
    assert r'requirepass "a \"b\" \\c #d"' in lines(password=Secret(r'a "b" \c #d'))


def test_further_settings_come_last_and_may_be_empty() -> None:
    given = (("maxmemory", "1gb"), ("notify-keyspace-events", ""))
    assert lines(settings=given)[-2:] == ["maxmemory 1gb", 'notify-keyspace-events ""']


def test_the_password_is_not_shown_with_the_wishes() -> None:
    assert "sesame" not in repr(Wanted(password=Secret("sesame")))


@pytest.mark.parametrize(
    ("wishes", "sentence"),
    [
        ({"appendfsync": "often"}, "appendfsync: 'often' is not known; give always, everysec, no"),
        ({"save": "3600"}, "save: '3600' is not a list of seconds and changes"),
        ({"replicas": -1}, "replicas: must be at least 0, not -1"),
        ({"cluster": 0}, "cluster: must be at least 1, not 0"),
        ({"settings": (("port", "1"),)}, "set: port is the testbed's own; give --port"),
        ({"settings": (("PORT", "1"),)}, "set: port is the testbed's own; give --port"),
        ({"settings": (("requirepass", "x"),)}, "requirepass is the testbed's own"),
        ({"settings": (("max memory", "x"),)}, "'max memory' is not the name of a setting"),
        ({"settings": (("maxmemory", "1\nport 1"),)}, "must be one line of printable characters"),
        ({"password": Secret("")}, "the password must have 1 to 512 bytes, not 0"),
        ({"password": Secret("a\nb")}, "the password must be one line"),
    ],
)
def test_a_wrong_wish_is_refused(wishes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError) as refused:
        check(Wanted(**wishes))
    assert sentence in str(refused.value)


def test_a_missing_server_names_the_package(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no-redis is missing: .*apt-get install redis-server"):
        redis.up(Wanted(server="no-redis"), tmp_path)
    assert not list(tmp_path.iterdir())


def test_more_memory_than_there_is_is_refused(tmp_path: Path) -> None:
    wanted = Wanted(server="true", settings=(("maxmemory", "900000gb"),), replicas=1)
    with pytest.raises(UsageError, match=r"2 servers of \d+ MiB need more memory than the"):
        redis.up(wanted, tmp_path)
