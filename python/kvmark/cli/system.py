"""The system a user names, and its password: to the driver, and nowhere else.

What was typed in a command can be read by anybody on the machine while the command runs. So those
words are overwritten as soon as they were read. A variable or a file, which `password_env` and
`password_file` name, doesn't show the password even for that moment.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from kvmark.errors import UsageError
from kvmark.spec.url import PASSWORD_VARIABLE, SystemUrl, masked, parse_system_url

__all__ = ["command_line", "named_system", "password_lent"]

_UP: Final = "up:"
# Fields of /proc/self/stat after the name in parentheses: where the command's words lie.
_WORDS_BEGIN: Final = 45
_WORDS_END: Final = 46


def named_system(text: str) -> SystemUrl:
    """The system of a URL, or with `up:NAME` of a testbed; `up:` is the only one that is up.

    Proxies don't count for that: they are ways to a system.

    A driver's options may follow as in a URL: `up:NAME?consistency=one`.

    Raises:
        UsageError: the URL is wrong, or there is no such testbed.
    """
    _hide_password(text)
    if text.startswith(_UP):
        name, _, options = text.removeprefix(_UP).partition("?")
        url = _url_of(name)
        text = f"{url}{'&' if '?' in url else '?'}{options}" if options else url
    return parse_system_url(text)


def command_line() -> tuple[str, ...]:
    """The command as it was typed, for the manifest, without its secrets."""
    return ("kvmark", *map(masked, sys.argv[1:]))


@contextmanager
def password_lent(system: SystemUrl) -> Iterator[None]:
    """Sets this process's own variable to the URL's password while drivers may open."""
    if system.password is None:
        yield
        return
    os.environ[PASSWORD_VARIABLE] = system.password
    try:
        yield
    finally:
        del os.environ[PASSWORD_VARIABLE]


def _url_of(name: str) -> str:
    # Testbeds bring a library that only those who name one need.
    from kvmark.testbed.state import all_testbeds, find_testbed, testbeds_root

    root = testbeds_root()
    if name:
        testbed = find_testbed(root, name)
        if not any(node.lives for node in testbed.nodes):
            raise UsageError(f"testbed '{name}' is down; bring it back with kvmark up {name}")
        return testbed.url
    living = [one for one in all_testbeds(root) if one.lives and one.system != "proxy"]
    if len(living) != 1:
        names = ", ".join(f"{_UP}{testbed.name}" for testbed in living)
        raise UsageError(
            f"system: several testbeds are up; say which of {names}"
            if living
            else "system: no testbed is up; start one with kvmark up"
        )
    return living[0].url


def _hide_password(typed: str) -> None:
    """Overwrites a URL's password, as it was typed, in what `ps` shows of this process.

    Where the kernel doesn't allow that, or isn't Linux, the words stay as they are.
    """
    who, _, _ = typed.partition("://")[2].rpartition("@")
    _, colon, password = who.partition(":")
    if not (colon and password):
        return
    secret = os.fsencode(f":{password}@")
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        begin, end = int(fields[_WORDS_BEGIN]), int(fields[_WORDS_END])
        with Path("/proc/self/mem").open("r+b", buffering=0) as memory:
            memory.seek(begin)
            words = memory.read(end - begin)
            memory.seek(begin)
            memory.write(words.replace(secret, b":%s@" % (b"*" * (len(secret) - 2))))
    except (OSError, IndexError, ValueError):
        return
