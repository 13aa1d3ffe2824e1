"""The words of cassandra-stress's command line, each with what kvmark makes of it.

They are those of Apache's tool and of ScyllaDB's fork (`settings/*.java`). A word that ends in `=`
or `(` has a value; `<` and `>` belong to the word before them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True)
class Word:
    """One word: how its value looks, what it means, or why it can't be honoured."""

    name: str
    value: str = ""
    """A regular expression for the value; empty for words without one."""
    shown: str = ""
    """The value as help shows it."""
    default: str | None = None
    meaning: str = ""
    refused: str = ""
    """Why kvmark doesn't do it, and what to do instead."""
    secret: bool = False
    """Whether the value is printed nowhere."""

    @property
    def usage(self) -> str:
        """The word as help shows it."""
        return f"{self.name}{self.shown}" + (")" if self.name.endswith("(") else "")


ANYWHERE: Final = "a list of nodes"
"""The name of the one word that is only a value: the nodes after -node."""

_WHOLE: Final = r"[0-9]+"
_COUNT: Final = r"[0-9]+[bmkBMK]?"
_LAW: Final = r"~?[A-Za-z]+\(.+\)"
_RATIO: Final = rf"{_LAW}/[0-9]+[bmkBMK]?"
_ANY: Final = r".+"

_LENGTH: Final = (
    Word("n=", _COUNT, "N", meaning="operations; k, m and b stand for thousands and so on"),
    Word("duration=", r"[0-9]+[smhSMH]", "TIME", meaning="how long to run: 30s, 5m, 1h"),
    Word("err<", r"0?\.[0-9]+", "BOUND", "0.02", "run until the rate's relative error is less"),
    Word("n>", _COUNT, "N", "30", "intervals that it takes at least"),
    Word("n<", _COUNT, "N", "200", "intervals that it takes at most"),
    Word("no-warmup", meaning="don't warm up"),
    Word("truncate=", r"(?i:never|once|always)", "never|once|always", "never", "empty the table"),
    Word("cl=", r"[A-Za-z_]+", "LEVEL", "LOCAL_ONE", "consistency level"),
    Word("serial-cl=", r"[A-Za-z_]+", "LEVEL", "SERIAL", "consistency level of conditions"),
)
_KEY: Final = (Word("keysize=", _COUNT, "N", "10", "bytes of a key"),)
_ADD: Final = (Word("add=", _LAW, "DIST", "fixed(1)", "what a counter is raised by"),)
_CLUSTERING: Final = Word(
    "clustering=", _LAW, "DIST", "FIXED(1)", "operations of one kind in a row; FIXED(1) alone"
)
_RATIOS: Final = Word(
    "ratio(", _ANY, "read=1,write=1", meaning="shares of read, write, counter_read, counter_write"
)
_PREDEFINED: Final = (*_LENGTH, *_KEY, *_ADD)

COMMANDS: Final[Mapping[str, tuple[Word, ...]]] = MappingProxyType(
    {
        "write": _PREDEFINED,
        "read": _PREDEFINED,
        "mixed": (*_PREDEFINED, _RATIOS, _CLUSTERING),
        "counter_write": _PREDEFINED,
        "counter_read": _PREDEFINED,
        "user": (
            *_LENGTH,
            Word("profile=", _ANY, "FILE[,FILE]", meaning="the user's tables and statements"),
            Word("ops(", _ANY, "insert=1,query=1", meaning="shares of the profile's operations"),
            _CLUSTERING,
        ),
    }
)
"""Each command and its own words."""

_ONE_CLIENT: Final = "kvmark has one client of its own; leave it out"
_JMX: Final = "kvmark reads collections of garbage from nodes it started, without JMX; leave it out"
_PEM: Final = "kvmark reads PEM files, which have none; leave it out"
_RETRY: Final = "kvmark counts every failure and repeats none; leave it out or give retries=0"

GROUPS: Final[Mapping[str, tuple[Word, ...]]] = MappingProxyType(
    {
        "-rate": (
            Word("threads=", _WHOLE, "N", meaning="clients, each with one operation at a time"),
            Word("throttle=", rf"{_WHOLE}(/s)?", "N/s", meaning="at most so many operations"),
            Word(
                "fixed=", rf"{_WHOLE}(/s)?", "N/s", meaning="so many, due whatever the store does"
            ),
            Word("threads>=", _WHOLE, "N", "4", "the ladder's first number of clients"),
            Word("threads<=", _WHOLE, "N", "1000", "its last number at most"),
            Word("auto", meaning="climb the ladder until more clients bring nothing"),
        ),
        "-pop": (
            Word(
                "seq=", r"[0-9]+[bmkBMK]?\.\.+[0-9]+[bmkBMK]?", "A..B", meaning="one after another"
            ),
            Word("no-wrap", meaning="end when every number was taken"),
            Word(
                "read-lookback=",
                _LAW,
                "DIST",
                refused="kvmark's readers don't follow its writers' numbers; leave it out",
            ),
            Word("dist=", _LAW, "DIST", meaning="numbers of partitions by a law"),
            Word(
                "contents=",
                r"(?i:sorted|shuffled)",
                "sorted|shuffled",
                meaning="order of a partition's rows",
            ),
        ),
        "-col": (
            Word("n=", r"~?[A-Za-z]+\(.+\)|[0-9]+", "FIXED(N)", "FIXED(5)", "columns"),
            Word("names=", r"[\w.-]+(,[\w.-]+)*", "A,B", meaning="the columns' names"),
            Word("size=", _LAW, "DIST", "FIXED(34)", "bytes of a value"),
            Word("slice", meaning="read all columns without naming them"),
            Word("timestamp=", _WHOLE, "US", meaning="time of every write, in microseconds"),
            Word("comparator=", r"(?i:AsciiType)", "AsciiType", "AsciiType", "type of names"),
            Word("super=", _ANY, "N", refused="Cassandra has no super columns any more"),
        ),
        "-insert": (
            Word("partitions=", _LAW, "DIST", meaning="partitions of one operation"),
            Word("visits=", _LAW, "FIXED(1)", meaning="operations that a partition is split into"),
            Word(
                "revisit=",
                _LAW,
                "DIST",
                refused="kvmark splits no partition over several operations; leave it out",
            ),
            Word("select-ratio=", _RATIO, "DIST/N", meaning="share of a partition's rows"),
            Word("row-population-ratio=", _RATIO, "DIST/N", meaning="share of a row's columns"),
            Word("batchtype=", r"(?i:unlogged|logged|counter)", "TYPE", meaning="kind of batch"),
        ),
        "-schema": (
            Word("replication(", _ANY, "strategy=S,factor=N", meaning="copies of the keyspace"),
            Word("keyspace=", r"\w+", "NAME", "keyspace1", "the keyspace"),
            Word("compaction(", _ANY, "strategy=S,…", meaning="compaction of the table"),
            Word(
                "compression=", _ANY, "CLASS", meaning="compression of the table; none if not said"
            ),
            Word("storage(", _ANY, "type=T,…", meaning="where ScyllaDB keeps the keyspace"),
        ),
        "-mode": (
            Word("native", meaning="what there is"),
            Word("cql3", meaning="what there is"),
            Word("4x", meaning="what there is"),
            Word("prepared", meaning="what there is"),
            Word("unprepared", refused="kvmark prepares every statement; leave it out"),
            Word("simplenative", refused=_ONE_CLIENT),
            Word("thrift", refused=_ONE_CLIENT),
            Word("smart", refused=_ONE_CLIENT),
            Word(
                "protocolVersion=",
                r"4|DEFAULT|NEWEST_SUPPORTED",
                "4",
                "4",
                "version of the protocol; 4 is the one there is",
            ),
            Word("compression=", r"(?i:none|lz4|snappy)", "none|lz4|snappy", "none", "of frames"),
            Word("port=", _WHOLE, "PORT", "9042", "where nodes listen"),
            Word("user=", _ANY, "NAME", meaning="whom to log in as"),
            Word("password=", _ANY, "TEXT", meaning="with this password", secret=True),
            Word(
                "auth-provider=",
                r"(.+\.)?PlainTextAuthProvider",
                "CLASS",
                meaning="PlainTextAuthProvider is the one there is",
            ),
            Word("maxPending=", _WHOLE, "N", "128", "operations in flight on a connection"),
            Word("connectionsPerHost=", _WHOLE, "N", "8", "connections to each node"),
            Word("requestTimeout=", _WHOLE, "MS", "12000", "limit on an operation"),
        ),
        "-node": (
            Word(
                ANYWHERE,
                r"[^=,]+(,[^=,]+)*|(sim|null|cql):.*",
                "HOST[,HOST]",
                "localhost",
                "nodes to begin with",
            ),
            Word("file=", _ANY, "FILE", meaning="a file with a node on each line"),
            Word("datacenter=", _ANY, "NAME", meaning="whose nodes are asked"),
            Word("whitelist", refused="kvmark asks all nodes of the cluster; leave it out"),
            Word("rack=", _ANY, refused="kvmark prefers a datacenter, not a rack; leave it out"),
            Word(
                "loadbalance=", _ANY, refused="kvmark asks a node that has the data; leave it out"
            ),
            Word("remote-dc=", _ANY, refused="kvmark uses all nodes of other datacenters or none"),
        ),
        "-port": (
            Word("native=", _WHOLE, "PORT", "9042", "where nodes listen"),
            Word("jmx=", _WHOLE, "PORT", refused=_JMX),
            Word("thrift=", _WHOLE, "PORT", refused=_ONE_CLIENT),
        ),
        "-transport": (
            Word("truststore=", _ANY, "FILE", meaning="PEM file of the authorities to trust"),
            Word("truststore-password=", _ANY, refused=_PEM, secret=True),
            Word("keystore=", _ANY, refused="kvmark logs in by password, not by certificate"),
            Word("keystore-password=", _ANY, refused=_PEM, secret=True),
            Word("ssl-protocol=", r"TLS", "TLS", "TLS", "TLS is the one there is"),
            Word("ssl-alg=", _ANY, refused="it is Java's; leave it out"),
            Word("store-type=", r"(?i:PEM)", "PEM", "PEM", "PEM is the one there is"),
            Word("ssl-ciphers=", _ANY, refused="kvmark takes the best that both sides have"),
            Word(
                "hostname-verification=",
                r"(?i:true)",
                "true",
                "true",
                "true is the one there is",
            ),
        ),
        "-errors": (
            Word("ignore", meaning="end as if nothing had failed"),
            Word("retries=", r"0", "0", "0", "failed operations are counted and not repeated"),
            Word("fail-fast", refused="kvmark goes on and counts; leave it out"),
            Word("skip-read-validation", meaning="don't look at what was read"),
            Word("skip-unsupported-columns", meaning="every column is supported"),
            Word("delay-policy=", _ANY, refused=_RETRY),
            Word("min-delay-ms=", _ANY, refused=_RETRY),
            Word("max-delay-ms=", _ANY, refused=_RETRY),
        ),
        "-log": (
            Word(
                "level=",
                r"(?i:minimal|normal|verbose)",
                "minimal|normal|verbose",
                "normal",
                "whether failures are told",
            ),
            Word("no-summary", meaning="leave the ladder's table out"),
            Word("no-settings", meaning="leave the settings out"),
            Word("file=", _ANY, "FILE", meaning="append what would be printed"),
            Word("hdrfile=", _ANY, "FILE", meaning="write the histograms here"),
            Word("interval=", r"[0-9]+(ms|s)?", "TIME", "1s", "time between two lines"),
        ),
        "-graph": (
            Word("file=", _ANY, "FILE", meaning="write a page here"),
            Word("revision=", _ANY, "TEXT", meaning="kept with the run as a tag"),
            Word("title=", _ANY, "TEXT", meaning="kept with the run as a tag"),
            Word("op=", _ANY, refused="the page shows every operation; leave it out"),
        ),
        "-tokenrange": (
            Word("wrap", meaning="begin again when every range was read"),
            Word("split-factor=", _COUNT, "N", "1", "parts of each node's range"),
        ),
    }
)
"""Each group of options and its words."""

REFUSED_GROUPS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "-send-to": "kvmark has no daemon; run it on that machine",
        "-sendto": "kvmark has no daemon; run it on that machine",
        "-jmx": _JMX,
        "-credential-file": "give -mode user= password=",
        "-reporting": "give -log interval=",
        "-sample": "kvmark keeps every operation; leave it out",
        "-key": "give keysize= behind the command and -pop",
    }
)
"""Groups that kvmark knows and doesn't carry out."""
