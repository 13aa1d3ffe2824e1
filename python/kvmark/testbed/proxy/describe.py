"""What a proxy is: kind, version, build, threads, and its configuration."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any, Final

from kvmark.testbed.state import Node, Testbed
from kvmark.testbed.system import Counted

__all__ = ["NoMeter", "describe"]

# Where it listens and where the system is differs from testbed to testbed and means nothing.
_PLACE: Final = re.compile(r"([\w.-]+|\[[0-9a-f:]+\]):\d+|(?<=port: )\d+")


def describe(testbed: Testbed) -> Mapping[str, Any]:
    """What a manifest keeps: kind, version, build, threads, and the files that the proxy reads."""
    facts = testbed.facts
    known = {name: facts[name] for name in ("kind", "build", "threads", "files")}
    kept = {**known, "files": {n: _PLACE.sub("", text) for n, text in facts["files"].items()}}
    text = json.dumps({**kept, "version": testbed.version}, sort_keys=True)
    return {
        **testbed.described(),
        "kind": facts["kind"],
        "build": facts["build"],
        "threads": facts["threads"],
        "to": facts["to"],
        "fingerprint": hashlib.sha256(text.encode()).hexdigest(),
        "settings": facts["files"],
    }


class NoMeter:
    """Asks a proxy nothing: what its process uses is seen from outside."""

    def __init__(self, testbed: Testbed, node: Node) -> None:
        """Takes what every meter is given."""

    def look(self) -> Counted:
        """Nothing."""
        return Counted()

    def close(self) -> None:
        """Lets go of nothing."""
