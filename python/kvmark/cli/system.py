"""The system a user names."""

from __future__ import annotations

from typing import Final

from kvmark.errors import UsageError
from kvmark.spec.suggest import refuse_credentials
from kvmark.spec.url import SystemName, SystemUrl, parse_system_url

__all__ = ["named_system"]

_UP: Final = "up:"


def named_system(name: SystemName) -> SystemUrl:
    """The system of a URL, or with `up:NAME` of a testbed; `up:` is the only one that is up.

    Proxies don't count for that: they are ways to a system.

    A driver's options may follow as in a URL: `up:NAME?consistency=one`.

    Raises:
        UsageError: the URL is wrong, or there is no such testbed.
    """
    text = name.reveal()
    if text.startswith(_UP):
        testbed, _, options = text.removeprefix(_UP).partition("?")
        refuse_credentials("system", testbed, "the name of a testbed alone")
        url = _url_of(testbed)
        text = f"{url}{'&' if '?' in url else '?'}{options}" if options else url
    return parse_system_url(text)


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
