"""Applications from command lines, as `kvmark app` makes them."""

from typing import Any

from kvmark.frontends.yugabyte_apps.flags import AppRequest, parse_request
from kvmark.frontends.yugabyte_apps.workload import (
    Server,
    nodes_url,
    run_of,
    with_flag_options,
    workload_of,
)
from kvmark.plan.compile import compile_run
from kvmark.spec.run import RunSpec
from kvmark.spec.workload import WorkloadSpec

SERVERS = {
    "cassandra": Server("cassandra", "5.0.3", has_transactions=False),
    "accord": Server("cassandra", "6.0-alpha1", has_transactions=True),
    "yugabyte": Server("yugabyte", "3.9-SNAPSHOT", has_transactions=True),
}


def request(line: str) -> AppRequest:
    parsed = parse_request(line.split())
    assert parsed is not None
    return parsed


def workload(line: str, server: str = "cassandra") -> WorkloadSpec:
    return workload_of(request(line), SERVERS[server])


def run(line: str, server: str = "cassandra") -> RunSpec:
    parsed = request(f"{line} --nodes 127.0.0.1:1")
    return run_of(parsed, workload(line, server), with_flag_options(nodes_url(parsed), parsed))


def plan(line: str, server: str = "cassandra") -> dict[str, Any]:
    """The plan, with the number of operations that ends each group under `limits`."""
    made = compile_run(run(line, server), 2)
    limits = {made.groups[one.group].name: one.operations for one in made.phases[0].groups}
    return made.model_dump(mode="json") | {"limits": limits}
