"""Applications from command lines, as `kvmark app` makes them."""

from typing import Any

from kvmark.frontends.yugabyte_apps.dialect import Server
from kvmark.frontends.yugabyte_apps.flags import AppRequest, parse_request
from kvmark.frontends.yugabyte_apps.workload import (
    nodes_url,
    run_of,
    with_flag_options,
    workload_of,
)
from kvmark.plan.compile import compile_run
from kvmark.plan.model import Plan, Statement
from kvmark.spec.run import RunSpec
from kvmark.spec.workload import WorkloadSpec

CASSANDRA = Server("cassandra", "5.0.3", has_transactions=False)
ACCORD = Server("cassandra", "6.0-alpha1", has_transactions=True)
YUGABYTE = Server("yugabyte", "3.9-SNAPSHOT", has_transactions=True)


def request(line: str) -> AppRequest:
    parsed = parse_request(line.split())
    assert parsed is not None
    return parsed


def workload(line: str, server: Server = CASSANDRA) -> WorkloadSpec:
    return workload_of(request(line), server)


def run(line: str) -> RunSpec:
    parsed = request(f"{line} --nodes 127.0.0.1:1")
    return run_of(parsed, workload(line), with_flag_options(nodes_url(parsed), parsed))


def plan(line: str) -> Plan:
    return compile_run(run(line), 2)


def statement(plan: Plan, name: str) -> Statement:
    return next(one for one in plan.statements if one.name == name)


def operation_limits(plan: Plan) -> dict[str, int | None]:
    """The number of operations that ends each group."""
    return {plan.groups[one.group].name: one.operations for one in plan.phases[0].groups}


def generators(plan: Plan, name: str) -> dict[str, dict[str, Any]]:
    """The argument generators of a statement."""
    return {one.name: one.generator for one in statement(plan, name).arguments}
