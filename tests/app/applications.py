"""Applications made from words, as `kvmark app` makes them."""

from kvmark import catalog
from kvmark.frontends.yugabyte_apps.run_spec import nodes_url, run_of, with_flags
from kvmark.frontends.yugabyte_apps.servers import REDIS, Server
from kvmark.frontends.yugabyte_apps.words import Asked, parse_words
from kvmark.frontends.yugabyte_apps.workload import workload_of
from kvmark.plan.compile import compile_run
from kvmark.plan.model import Plan, Statement
from kvmark.spec.run import RunSpec
from kvmark.spec.workload import WorkloadSpec

CASSANDRA = Server("cassandra", "5.0.3", has_transactions=False)
ACCORD = Server("cassandra", "6.0-alpha1", has_transactions=True)
YUGABYTE = Server("yugabyte", "3.9-SNAPSHOT", has_transactions=True)


def asked(words: str) -> Asked:
    return parse_words(words.split())


def workload(words: str, server: Server | None = None) -> WorkloadSpec:
    given = asked(words)
    assert given.app is not None
    default = REDIS if given.app.store == "redis" else CASSANDRA
    return workload_of(given, catalog.text(f"apps/{given.app.name}"), server or default)


def run(words: str, server: Server | None = None) -> RunSpec:
    given = asked(f"{words} --nodes 127.0.0.1:1")
    made = workload(words, server)
    return run_of(given, made, with_flags(nodes_url(given), given))


def plan(words: str, server: Server | None = None) -> Plan:
    return compile_run(run(words, server), 2)


def statement(plan: Plan, name: str) -> Statement:
    return next(one for one in plan.statements if one.name == name)
