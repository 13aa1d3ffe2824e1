"""What is wanted becomes the words that a server is started with, or is refused in a sentence."""

from pathlib import Path
from typing import Any

import pytest

from kvmark.errors import UsageError
from kvmark.secret import Secret
from kvmark.testbed import memcached
from kvmark.testbed.certificates import Certificates
from kvmark.testbed.memcached.up import Place, Wanted, check, words

PLACE = Place("127.0.0.1", 11211, None)


def told(**wishes: Any) -> set[str]:
    return set(words(Wanted(**wishes), PLACE, None))


def test_a_server_listens_on_this_machine_with_room_for_a_dataset_and_its_clients() -> None:
    usual = {"--listen=127.0.0.1", "--port=11211", "--udp-port=0", "--memory-limit=1024"}
    assert usual | {"--conn-limit=10032"} <= told()


def test_wishes_become_memcacheds_own_options() -> None:
    settings = (("slab-growth-factor", "1.1"), ("disable-evictions", "yes"))
    found = told(threads=2, item_size_bytes=2**23, memory_bytes=2**26, settings=settings)
    expected = {"--threads=2", "--max-item-size=8388608", "--memory-limit=64"}
    assert expected | {"--slab-growth-factor=1.1", "--disable-evictions"} <= found


def test_users_and_certificates_are_files() -> None:
    place = Place("127.0.0.1", 11211, "testbeds/memcached/users")
    wanted = Wanted(password=Secret("sesame"), tls=True)
    found = words(wanted, place, Certificates(Path("tls")))
    assert "--auth-file=testbeds/memcached/users" in found
    assert {"--enable-ssl", "--extended=ssl_chain_cert=tls/server.crt,ssl_key=tls/server.key"} <= {
        *found
    }
    assert "sesame" not in repr(wanted) + repr(found)


@pytest.mark.parametrize(
    ("wishes", "sentence"),
    [
        ({"threads": 65}, "threads: must be from 1 to 64, not 65"),
        ({"memory_bytes": 1}, "memory: must be at least 1M"),
        ({"item_size_bytes": 1}, "item-size: must be from 1K to 1G"),
        ({"item_size_bytes": 2**30}, "item-size: must be at most half of the memory"),
        ({"settings": (("port", "1"),)}, "set: port is the testbed's own; give --port"),
        ({"settings": (("auth-file", "x"),)}, "set: auth-file is the testbed's own"),
        ({"settings": (("Z", "yes x"),)}, "'Z' is not the name of a setting"),
        ({"password": Secret("a:b")}, "the password must have no blanks and no colons"),
        ({"password": Secret("")}, "the password must have 1 to 128 bytes, not 0"),
    ],
)
def test_a_wrong_wish_is_refused(wishes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError) as refused:
        check(Wanted(**wishes))
    assert sentence in str(refused.value)


def test_a_missing_server_names_the_package(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no-server is missing: .*apt-get install memcached"):
        memcached.up(Wanted(server="no-server"), tmp_path)
    assert not list(tmp_path.iterdir())


def test_more_memory_than_there_is_is_refused(tmp_path: Path) -> None:
    wanted = Wanted(server="true", memory_bytes=2**50, nodes=2)
    with pytest.raises(UsageError, match=r"2 servers of \d+ MiB need more memory than the"):
        memcached.up(wanted, tmp_path)
