"""PostgreSQL: one server with its own data folder.

Also the records of databases that anyone may have started: their owner and removal. Records are the
rows of tables with YCSB's key; other tables are never touched. A database that kvmark found empty
has an additional table, its mark.

PostgreSQL refuses to run as root, so root starts it in a user namespace, in which root's files and
processes are another user's.
"""

from __future__ import annotations

import os
import pwd
import re
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from kvmark.errors import SystemUnderTestError
from kvmark.secret import Secret
from kvmark.spec.owned_tables import TABLE_MARK
from kvmark.testbed import console as consoles
from kvmark.testbed import launch as launching
from kvmark.testbed import process, state, system
from kvmark.testbed.console import Console, connect, naming_server
from kvmark.testbed.launch import Certificates, launch, planned
from kvmark.testbed.network import HOST, choose_ports
from kvmark.testbed.state import Node, Testbed, make_folder
from kvmark.testbed.system import Contents, DriverOptions, IsOwnKey, Meter, Saving, System, Tell
from kvmark.testbed.system import TestbedOptions as _Options

_DATA_FILES: Final = (
    r"PG_VERSION|postgresql(\.auto)?\.conf|pg_(hba|ident)\.conf|postmaster\.(opts|pid)"
    r"|current_logfiles|(base|global|pg_[a-z_]+)/[\w./-]+"
)
_OWN_FILES: Final = re.compile(
    rf"({state.OWN_FILES}|password|{launching.CERTIFICATE_FILES}"
    rf"|node-1/(server\.log|data/({_DATA_FILES})))"
)
_HEALTHY_WITHIN_S: Final = 60.0
_PROGRAMS: Final = "/usr/lib/postgresql"
"""Debian's folder of versions, whose programs aren't on the search path."""
_USERNAME: Final = "postgres"
_DAEMON: Final = "daemon"
"""A user that every Linux has."""
_AFTER_KILL: Final = 'exec env PG_GRANDPARENT_PID="$(head -n 1 "$0" 2>/dev/null)" "$@"'
"""Keeps a killed server, whose number the kernel may not have released, from being another server
that uses the data. PostgreSQL still refuses data that a process has in shared memory."""
_RESERVED_CLIENTS: Final = 32
"""Connections beyond the option: the driver's own, those that the server reserves, and manual
inspection."""
_LONGEST_PASSWORD: Final = 512
_NAME: Final = re.compile(r"[a-z][a-z0-9_.]*")
_REFUSED: Final = re.compile(r"FATAL: +((?:unrecognized|invalid|parameter|\d|could not map).*)")

# Settings that a testbed decides itself, by the advice.
_DECIDED: Final = {
    "give --maxclients": "max_connections",
    "give --tls": "ssl ssl_cert_file ssl_key_file",
    "a testbed listens on this machine only": "listen_addresses unix_socket_directories",
    "the testbed has its own folder": "data_directory config_file hba_file ident_file",
    "kvmark keeps the log": "logging_collector log_destination external_pid_file",
}

# These differ between testbeds and don't affect measurements.
_PLACES: Final = re.compile(r"port|\w+_(directory|file|directories)|application_name")
_SETTINGS: Final = "SELECT name, setting FROM pg_settings"

_HAS_MARK: Final = """SELECT to_regclass('"kvmark:dataset"') AS mark"""
_CLAIM: Final = 'SELECT claim FROM "kvmark:dataset"'
_UNMARK: Final = 'DROP TABLE IF EXISTS "kvmark:dataset"'
_DO_MARK: Final = """
CREATE TABLE "kvmark:dataset" (claim text);
INSERT INTO "kvmark:dataset" VALUES ({claim})
"""
_LISTING_MS: Final = 300_000
"""Finding a row takes long where many were deleted."""
_ANY: Final = "SELECT FROM {table} LIMIT 1"
_KEYS: Final = "SELECT ycsb_key AS key FROM {table} WHERE {rest} ORDER BY 1 LIMIT 10000"
_TABLES: Final = """
SELECT format('%I.%I', n.nspname, c.relname) AS name, obj_description(c.oid, 'pg_class') AS comment
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'ycsb_key' AND NOT a.attisdropped
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND pg_table_is_visible(c.oid)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresOptions(_Options):
    """The options of a PostgreSQL testbed."""

    port: int | None = system.port_option("of the server; else a free one.")
    maxclients: int = system.option(1000, "connections for clients.", "N", least=1)
    password: Secret | None = None
    tls: bool = False
    settings: system.Settings = system.settings_option("any setting of postgresql.conf.")
    server: str = system.option("postgres", "the server's program.", "PROGRAM", in_studies=False)


def up(options: PostgresOptions, root: Path, _tell: Tell = lambda _: None) -> Testbed:
    """Starts a testbed in a new folder below `root`, and waits until it is healthy.

    If that fails, neither a process nor the folder is left.

    Raises:
        UsageError: the testbed can't be started here.
        SystemUnderTestError: the server doesn't start, or isn't healthy in time.
    """
    system.check_options(options, _NAME, _DECIDED, _LONGEST_PASSWORD)
    versions = map(str, Path(_PROGRAMS).glob("*/bin"))
    places = os.pathsep.join([os.environ.get("PATH", os.defpath), *sorted(versions, reverse=True)])
    program = launching.find_server(options.server, "postgresql", places)
    (port,) = choose_ports(options.port, 1)
    folder = make_folder(root, "postgres", options.name)
    lock = str(folder / "node-1" / "data" / "postmaster.pid")
    command = ("sh", "-c", _AFTER_KILL, lock, *_as_other_user(), program)
    node = Node(
        name="node-1",
        role="primary",
        host=HOST,
        port=port,
        command=(*command, *arguments(options, folder, port)),
        cores=options.cores,
        stop_signal=signal.SIGINT,
    )
    url = f"postgres://{node.address}/postgres"
    testbed = planned("postgres", folder, options, [node], url, username=_USERNAME)
    return launch(testbed, options, SYSTEM, partial(_prepare, program=Path(program)))


def _as_other_user() -> list[str]:
    """The beginning of a command that root must not execute."""
    if os.geteuid() != 0:
        return []
    unshare = process.find_program("unshare", "unshare is missing: install util-linux")
    user = pwd.getpwnam(_DAEMON)
    return [unshare, "--user", f"--map-user={user.pw_uid}", f"--map-group={user.pw_gid}"]


def arguments(options: PostgresOptions, folder: Path, port: int) -> list[str]:
    """The arguments of the server; no secret in them."""
    found = [f"listen_addresses={HOST}", f"port={port}", "unix_socket_directories="]
    found += [f"max_connections={options.maxclients + _RESERVED_CLIENTS}"]
    if options.tls:
        made = Certificates(folder / "tls")
        found += ["ssl=on", f"ssl_cert_file={made.server}", f"ssl_key_file={made.key}"]
    found += (f"{name}={value}" for name, value in options.settings)
    return ["-D", str(folder / "node-1" / "data"), *(word for one in found for word in ("-c", one))]


def _prepare(
    testbed: Testbed, options: PostgresOptions, _: Certificates | None, *, program: Path
) -> None:
    """Creates the data folder, unless it was saved."""
    if options.dataset is not None:
        return
    # Links to the programs may lead into the version's folder.
    initdb = process.find_program("initdb", "initdb is missing", str(program.resolve().parent))
    login = [f"--username={_USERNAME}", "--auth=trust"]
    if options.password is not None:
        login = [login[0], "--auth=scram-sha-256", f"--pwfile={testbed.folder / 'password'}"]
    place = str(testbed.folder_of(testbed.nodes[0]) / "data")
    words = [initdb, "-D", place, *login, "--encoding=UTF8", "--locale=C"]
    finished = process.run_captured([*_as_other_user(), *words])
    if finished.returncode != 0:
        why = " ".join(finished.stderr.split())
        raise SystemUnderTestError(f"initdb can't create the data folder: {why}")


def _version_of(testbed: Testbed) -> str:
    (row,) = connect(testbed, testbed.nodes[0]).ask("SHOW server_version")
    return str(row["server_version"]).partition(" ")[0]


def _refusal(log: Path) -> str | None:
    """The setting that a server refused, if that is why it ended."""
    refused = _REFUSED.search(process.tail(log))
    return refused and f"the server refused a setting: {refused[1].strip()}"


def _settings(console: Console) -> Mapping[str, str]:
    return {row["name"]: row["setting"] for row in console.ask(_SETTINGS)}


def _wait_for_answer(testbed: Testbed, node: Node, within_s: float) -> None:
    def answers() -> bool:
        # Another program may have taken the port.
        (row,) = connect(testbed, node).ask("SHOW data_directory")
        return bool(row["data_directory"] == str(testbed.folder_of(node) / "data"))

    testbed.wait_until(answers, "answer a query", within_s, node)


def contents(options: DriverOptions, password: Secret | None) -> Contents:
    """The records of a database.

    Raises:
        SystemUnderTestError: the server can't be reached, or refuses.
        UsageError: the password can't be read.
    """
    patient = {**options, "connect_timeout_ms": str(_LISTING_MS)}
    database = _Database(options["address"], Console("postgres", patient, password))
    tables = database.tables()
    return Contents(
        found=f"records in {', '.join(tables)}" if tables else None,
        others="name another database such as postgres://HOST:PORT/DATABASE",
        claim=database.claim(),
        foreign=database.foreign_key,
        remove=database.remove,
        mark=database.mark,
    )


@dataclass(frozen=True, slots=True)
class _Database:
    """The database that a driver's options name."""

    address: str
    console: Console

    def ask(self, sql: str, failure: str = "doesn't report its contents") -> list[dict[str, str]]:
        # Rows that a policy hides would be emptied unseen: the server refuses instead.
        with naming_server(self.address, failure):
            rows: list[dict[str, str]] = self.console.ask(f"SET row_security = off; {sql}")
        return rows

    def tables(self) -> dict[str, bool]:
        """The quoted names of tables with records, and whether kvmark made each."""
        tables = {row["name"]: row["comment"] == TABLE_MARK for row in self.ask(_TABLES)}
        return {name: tables[name] for name in tables if self.ask(_ANY.format(table=name))}

    def claim(self) -> str | None:
        """The claim in the mark; None without one."""
        (row,) = self.ask(_HAS_MARK)
        marks = self.ask(_CLAIM) if row["mark"] else []
        return marks[0]["claim"] if marks else None

    def foreign_key(self, is_own: IsOwnKey) -> str | None:
        """A description of a record whose key isn't one's own; None without one."""
        for table in self.tables():
            for key in self._keys(table):
                if key is None:
                    return f"a row of {table} without a key"
                if not is_own(key):
                    return f"the key {key!r}"
        return None

    def _keys(self, table: str) -> Iterator[str | None]:
        rest = "true"
        while rows := self.ask(_KEYS.format(table=table, rest=rest)):
            yield from (row["key"] for row in rows)
            rest = f"ycsb_key > {_quoted(rows[-1]['key'])}"

    def remove(self) -> None:
        """Drops the tables that kvmark made and empties the others, in one transaction."""
        verbs = {True: "DROP TABLE", False: "TRUNCATE"}
        removals = [f"{verbs[made]} {table}" for table, made in self.tables().items()]
        self.ask("; ".join([*removals, _UNMARK]), consoles.CANNOT_EMPTY)

    def mark(self, claim: str) -> None:
        """Writes the mark."""
        self.ask(f"{_UNMARK}; {_DO_MARK.format(claim=_quoted(claim))}", consoles.CANNOT_MARK)


def _quoted(text: str) -> str:
    escaped = text.replace("'", "''")
    return f"'{escaped}'"


SYSTEM: Final = System(
    "postgres",
    PostgresOptions,
    up,
    _wait_for_answer,
    _wait_for_answer,
    partial(consoles.describe, read=_settings, places=_PLACES),
    lambda _, __: Meter(),
    _OWN_FILES,
    _HEALTHY_WITHIN_S,
    refusal=_refusal,
    version_of=_version_of,
    driver="postgres",
    contents=contents,
    saving=Saving(("data",), has_password=True),
)
