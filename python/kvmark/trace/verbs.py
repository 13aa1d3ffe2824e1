"""What names of operations mean: commands of Redis and memcached, and the kinds themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from kvmark.trace.schema import KINDS

__all__ = ["CommandRow", "kind_of", "redis_command", "shape_of"]

_KINDS: Final = {
    "read": "get gets mget gat getrange exists strlen hget hgetall hmget hexists hlen lrange lindex"
    " llen smembers sismember scard zscore zrange zrank zcard ttl pttl type",
    "update": "set add replace cas append prepend incr incrby decr decrby setex psetex setnx"
    " setrange put write getset mset msetnx hset hmset hsetnx hincrby hdel lpush rpush lpop rpop"
    " ltrim lset sadd srem spop zadd zrem zincrby expire pexpire persist touch",
    "delete": "del unlink getdel",
}
_OF: Final = {verb: kind for kind, verbs in _KINDS.items() for verb in verbs.split()}
_VALUED: Final = frozenset({"update", "insert", "read_modify_write"})
_WITHOUT_VALUE: Final = frozenset({"incr", "decr", "touch", "expire", "persist", "lpop", "rpop"})
_OF_MANY_KEYS: Final = frozenset({"MGET", "DEL", "UNLINK", "EXISTS", "TOUCH"})
_OF_PAIRS: Final = frozenset({"MSET", "MSETNX"})
_TTL_SECOND: Final = {"SETEX": b"EX", "PSETEX": b"PX", "EXPIRE": b"EX", "PEXPIRE": b"PX"}
_VALUES: Final = {
    **dict.fromkeys(("SET", "SETNX", "APPEND", "GETSET"), slice(1, 2)),
    **dict.fromkeys(("SETEX", "PSETEX", "SETRANGE", "LSET"), slice(2, 3)),
    **dict.fromkeys(("HSET", "HMSET", "HSETNX"), slice(2, None, 2)),
    **dict.fromkeys(("LPUSH", "RPUSH", "SADD"), slice(1, None)),
    **dict.fromkeys(("MSET", "MSETNX"), slice(1, None, 2)),
    "ZADD": slice(2, None, 2),
}
"""Where the values of a command stand among what follows its name."""


def kind_of(verb: str) -> str:
    """The kind of an operation of that name; `other` for one that isn't known."""
    verb = verb.lower()
    return verb if verb in KINDS else _OF.get(verb, "other")


def shape_of(verb: str, *, expires: bool) -> str:
    """The command with its key, value and time to live left out, such as `set {key} {value}`."""
    if kind_of(verb) == "other":
        # Where its keys stand, nobody said.
        return verb
    has_value = kind_of(verb) in _VALUED and verb.lower() not in _WITHOUT_VALUE
    words = [verb, "{key}", *(["{value}"] if has_value else []), *(["{ttl}"] if expires else [])]
    return " ".join(words)


class CommandRow(NamedTuple):
    """A row of an operation, as texts; none is what it doesn't say."""

    key: str
    kind: str
    key_size: str
    value_size: str | None
    ttl: str | None
    items: int


def redis_command(words: Sequence[bytes]) -> Sequence[CommandRow]:
    """The rows of a command of Redis: one for each of its keys, and at least one."""
    verb, arguments = words[0].decode(errors="replace").upper(), words[1:]
    value, ttl_s = _value_size(verb, arguments), _ttl(verb, arguments)
    keys = _keys(verb, arguments) or [b""]
    return [
        CommandRow(
            # Bytes that are no text are told apart by their code.
            key.decode(errors="backslashreplace"),
            verb,
            str(len(key)),
            None if value is None else str(value),
            ttl_s,
            len(keys) if place == 0 else 0,
        )
        for place, key in enumerate(keys)
    ]


def _keys(verb: str, arguments: Sequence[bytes]) -> Sequence[bytes]:
    if verb in _OF_MANY_KEYS:
        return arguments
    if verb in _OF_PAIRS:
        return arguments[::2]
    return () if kind_of(verb) == "other" else arguments[:1]


def _value_size(verb: str, arguments: Sequence[bytes]) -> int | None:
    """Bytes of the values that a command writes; None of one that writes none."""
    places = _VALUES.get(verb)
    return None if places is None else sum(map(len, arguments[places]))


def _ttl(verb: str, arguments: Sequence[bytes]) -> str | None:
    """Seconds until what is written is gone."""
    words = [word.upper() for word in arguments]
    unit, place = _TTL_SECOND.get(verb), 1
    for option in (b"EX", b"PX"):
        if verb == "SET" and option in words[2:]:
            unit, place = option, words.index(option, 2) + 1
    if unit is None or place >= len(arguments) or not arguments[place].isdigit():
        return None
    seconds = int(arguments[place]) / (1000 if unit == b"PX" else 1)
    return str(seconds)
