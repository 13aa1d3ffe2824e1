"""Options become settings files and arguments, or are refused. No server is needed."""

from pathlib import Path
from typing import Any

import pytest

from kvmark.errors import UsageError
from kvmark.secret import Secret
from kvmark.testbed import cassandra, memcached, redis
from kvmark.testbed.cassandra import CassandraOptions
from kvmark.testbed.memcached import MemcachedOptions
from kvmark.testbed.redis import RedisOptions
from kvmark.testbed.state import Node, Testbed
from kvmark.testbed.system import TestbedOptions, read_size

CHECKS = {
    RedisOptions: redis.check,
    MemcachedOptions: memcached.check,
    CassandraOptions: cassandra.check,
}
NODE = Node(name="primary-1", role="primary", host="127.0.0.1", port=16379, command=())
TESTBED = Testbed(
    name="redis", system="redis", version="", created="", url="", nodes=(NODE,), folder=Path("t")
)


def lines(**options: Any) -> list[str]:
    return redis.settings_text(RedisOptions(**options), TESTBED, NODE, None).splitlines()


@pytest.mark.parametrize(
    ("text", "size"),
    [("512K", 2**19), ("64M", 2**26), ("512m", 2**29), ("512MiB", 2**29), ("2GiB", 2**31)],
)
def test_a_size_is_written_as_java_and_memcached_do(text: str, size: int) -> None:
    assert read_size("memory", text) == size
    with pytest.raises(UsageError, match="heap: 'much' is not a size; write it like 512M or 2G"):
        read_size("heap", "much")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        # Nothing is kept on the disk by default, and the testbed has connections of its own.
        ({}, ["appendonly no", 'save ""', "maxclients 10032"]),
        ({"maxclients": 100}, ["maxclients 132"]),
        ({"save": "3600 1 60 10000"}, ["save 3600 1", "save 60 10000"]),
        ({"password": Secret(r'a "b" \c #d')}, [r'requirepass "a \"b\" \\c #d"']),
    ],
)
def test_options_become_settings_of_redis(options: dict[str, Any], expected: list[str]) -> None:
    assert set(expected) <= set(lines(**options))


def test_further_settings_come_last_and_may_be_empty() -> None:
    settings = (("maxmemory", "1gb"), ("notify-keyspace-events", ""))
    assert lines(settings=settings)[-2:] == ["maxmemory 1gb", 'notify-keyspace-events ""']


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "--listen=127.0.0.1 --port=11211 --udp-port=0 --memory-limit=1024 --conn-limit=10032"),
        ({"threads": 2, "item_size_bytes": 2**23, "memory_bytes": 2**26},
         "--threads=2 --max-item-size=8388608 --memory-limit=64"),
        ({"settings": (("slab-growth-factor", "1.1"), ("disable-evictions", "yes"))},
         "--slab-growth-factor=1.1 --disable-evictions"),
        ({"password": Secret("sesame"), "tls": True},
         "--auth-file=t/users --enable-ssl"
         " --extended=ssl_chain_cert=t/tls/server.crt,ssl_key=t/tls/server.key"),
    ],
)  # fmt: skip
def test_options_become_arguments_of_memcached(options: dict[str, Any], expected: str) -> None:
    found = set(memcached.arguments(MemcachedOptions(**options), Path("t"), 11211))
    assert set(expected.split()) <= found
    assert "sesame" not in repr(found)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (RedisOptions(appendfsync="often"), "appendfsync: 'often' is not known; give always"),
        (RedisOptions(save="3600"), "save: '3600' is not a list of seconds and changes"),
        (RedisOptions(replicas=-1), "replicas: must be at least 0, not -1"),
        (RedisOptions(cluster=0), "cluster: must be at least 1, not 0"),
        (RedisOptions(io_threads=0), "io-threads: must be at least 1, not 0"),
        (RedisOptions(settings=(("PORT", "1"),)), "set: port is the testbed's own; give --port"),
        (RedisOptions(settings=(("save", "1"),)), "set: save is the testbed's own; give --save"),
        (RedisOptions(settings=(("requirepass", "x"),)), "requirepass is the testbed's own"),
        (RedisOptions(settings=(("max memory", "x"),)), "'max memory' is not the name of a"),
        (RedisOptions(settings=(("maxmemory", "1\nx"),)), "must be one line of printable"),
        (RedisOptions(password=Secret("")), "the password must have 1 to 512 bytes, not 0"),
        (RedisOptions(password=Secret("a\nb")), "the password must be one line"),
        (MemcachedOptions(threads=65), "threads: must be from 1 to 64, not 65"),
        (MemcachedOptions(memory_bytes=1), "memory: must be at least 1M"),
        (MemcachedOptions(item_size_bytes=1), "item-size: must be from 1K to 1G"),
        (MemcachedOptions(item_size_bytes=2**30), "item-size: must be at most half of"),
        (MemcachedOptions(settings=(("port", "1"),)), "set: port is the testbed's own; give"),
        (MemcachedOptions(settings=(("auth-file", "x"),)), "set: auth-file is the testbed's own"),
        (MemcachedOptions(settings=(("Z", "yes x"),)), "'Z' is not the name of a setting"),
        (MemcachedOptions(password=Secret("a:b")), "the password must have no blanks and"),
        (MemcachedOptions(password=Secret("")), "the password must have 1 to 128 bytes, not 0"),
        (CassandraOptions(nodes=0), "nodes: must be from 1 to 64, not 0"),
        (CassandraOptions(version="3.11"), "version: '3.11' of Cassandra can't be started"),
        (CassandraOptions(settings=(("rpc_address", "::"),)), "set: rpc_address is the testbed's"),
        (CassandraOptions(settings=(("authenticator", "x"),)), "set: authenticator is the testb"),
        (CassandraOptions(settings=(("client_encryption_options.enabled", "true"),)),
         "set: client_encryption_options.enabled is the testbed's own; give --tls"),
        (CassandraOptions(settings=(("a b", "1"),)), "'a b' is not the name of a"),
        (CassandraOptions(settings=(("a", "1\nb: 2"),)), "the value of a must be one line"),
        (CassandraOptions(settings=(("a", "[1, 2"),)), "set: the value of a is not YAML: "),
        (CassandraOptions(settings=(("a", "1"), ("a.b", "2"))), "set: a.b is inside a, which was"),
        (CassandraOptions(password=Secret("")), "the password must have 1 to 72 bytes, not 0"),
    ],
)  # fmt: skip
def test_wrong_options_are_refused_in_a_sentence(options: TestbedOptions, sentence: str) -> None:
    with pytest.raises(UsageError) as refused:
        CHECKS[type(options)](options)  # type: ignore[index]
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)
