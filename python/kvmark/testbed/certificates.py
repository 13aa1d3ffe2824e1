"""Certificates of a testbed's own: an authority, and a server that it vouches for.

They are made with the openssl program, which comes with every Debian; the authority's key is
removed at once, so that nobody can make another certificate that clients of the testbed trust.
"""

from __future__ import annotations

import secrets
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kvmark.errors import SystemUnderTestError, UsageError
from kvmark.removal import remove_file
from kvmark.testbed.ports import HOST
from kvmark.testbed.state import write_private

OWN_FILES: Final = r"tls/(ca\.crt|ca\.key|server\.(crt|key|p12)|p12-password|openssl\.cnf)"
"""What the functions here make, as paths in the testbed's folder."""

_DAYS: Final = "3650"
_PASSWORD_BYTES: Final = 24
_REQUEST: Final = """\
[req]
distinguished_name = name
prompt = no
[name]
CN = kvmark testbed
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign
subjectKeyIdentifier = hash
[server]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth, clientAuth
subjectAltName = DNS:localhost, {addresses}
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
"""


@dataclass(frozen=True, slots=True)
class Certificates:
    """Where the certificates of a testbed are."""

    folder: Path

    @property
    def authority(self) -> Path:
        """What clients trust."""
        return self.folder / "ca.crt"

    @property
    def server(self) -> Path:
        """What servers show."""
        return self.folder / "server.crt"

    @property
    def key(self) -> Path:
        """The servers' private key."""
        return self.folder / "server.key"

    @property
    def keystore(self) -> Path:
        """Certificate and key in one file, once `make_keystore` has made it."""
        return self.folder / "server.p12"


def make_certificates(testbed: Path, hosts: Sequence[str] = (HOST,)) -> Certificates:
    """Makes the certificates for localhost and some of its addresses in a testbed's folder.

    Raises:
        UsageError: openssl isn't installed.
        SystemUnderTestError: it failed.
    """
    program = _find_program()
    made = Certificates(testbed / "tls")
    made.folder.mkdir(mode=0o700)
    request, signing_key = made.folder / "openssl.cnf", made.folder / "ca.key"
    request.write_text(_REQUEST.format(addresses=", ".join(f"IP:{host}" for host in hosts)))
    common = [program, "req", "-x509", "-config", str(request), "-days", _DAYS, "-nodes"]
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    _run(
        [*common, *key, "-keyout", signing_key, "-out", made.authority, "-extensions", "authority"]
    )
    signed: list[str | Path] = [
        "-CA",
        made.authority,
        "-CAkey",
        signing_key,
        "-extensions",
        "server",
    ]
    _run([*common, *key, "-keyout", made.key, "-out", made.server, *signed])
    remove_file(signing_key)
    return made


def make_keystore(made: Certificates) -> str:
    """Puts certificate and key into one file, as Java reads it; the password that opens it.

    Raises:
        UsageError: openssl isn't installed.
        SystemUnderTestError: it failed.
    """
    password, file = secrets.token_urlsafe(_PASSWORD_BYTES), made.folder / "p12-password"
    write_private(file, password)
    shown: list[str | Path] = ["-inkey", made.key, "-in", made.server, "-certfile", made.authority]
    kept: list[str | Path] = ["-out", made.keystore, "-passout", f"file:{file}"]
    _run([_find_program(), "pkcs12", "-export", "-name", "server", *shown, *kept])
    return password


def _find_program() -> str:
    program = shutil.which("openssl")
    if program is None:
        raise UsageError("openssl is missing: install it with `sudo apt-get install openssl`")
    return program


def _run(command: list[str | Path]) -> None:
    finished = subprocess.run(  # noqa: S603 - the words are ours
        [str(word) for word in command], capture_output=True, text=True, check=False
    )
    if finished.returncode != 0:
        lines = finished.stderr.strip().splitlines() or ["it said nothing"]
        raise SystemUnderTestError(f"openssl could not make a certificate: {lines[-1]}")
