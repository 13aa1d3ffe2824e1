"""Servers named by the options of their driver, as they come out of a URL: how one is reached."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from pathlib import Path

from kvmark.errors import UsageError
from kvmark.secret import Secret
from kvmark.testbed.connection import Encryption

__all__ = ["encryption_of", "password_of", "place_of"]


def place_of(address: str, usual_port: int) -> tuple[str, int]:
    """Host and port of `host:port`, `host`, `[address]:port` or a Unix socket's path.

    Raises:
        UsageError: it is none of them.
    """
    host, colon, port = address.rpartition(":")
    if address.startswith("/") or address.endswith("]") or not colon:
        return address.strip("[]"), usual_port
    if not port.isdecimal():
        raise UsageError(f"'{address}' is not the address of a server; write host:port")
    return host.strip("[]"), int(port)


def encryption_of(options: Mapping[str, str], host: str) -> Encryption | None:
    """How the connection to a host is encrypted; None where it isn't."""
    if options.get("tls") != "true":
        return None
    context = ssl.create_default_context(cafile=options.get("ca_file"))
    return context, options.get("server_name", host)


def password_of(options: Mapping[str, str], own: Secret | None) -> str | None:
    """The password that isn't among the options, or that they say the place of; None without one.

    Raises:
        UsageError: it can't be read.
    """
    variable, file = options.get("password_env"), options.get("password_file")
    if own is not None:
        return own.reveal()
    if variable is not None and variable not in os.environ:
        raise UsageError(f"password_env names {variable}, which isn't set: set it")
    if variable is not None:
        return os.environ[variable]
    try:
        lines = Path(file).read_text(encoding="utf-8").splitlines() if file else []
    except (OSError, ValueError) as problem:
        raise UsageError(f"the password file {file} can't be read: {problem}") from problem
    return lines[0] if lines else None
