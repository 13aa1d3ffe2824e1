"""What the runs of one command are made with: the system, who generates load, and where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import typer

from kvmark.errors import SpecError, UsageError
from kvmark.spec.suggest import refuse_credentials
from kvmark.spec.url import SystemName, SystemUrl, parse_system_url

if TYPE_CHECKING:
    from kvmark.plan.model import Plan
    from kvmark.records import Records
    from kvmark.run.context import RunContext
    from kvmark.run.generator import Generator

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
    from kvmark.testbed import testbeds_root
    from kvmark.testbed.state import all_testbeds, find_testbed

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


@dataclass(frozen=True, slots=True)
class FleetRequest:
    """What the user said of the machines."""

    address: str
    machines: int | None
    #: Whether one that asks for no token is taken.
    insecure: bool = False


def fleet_request(
    address: str | None, machines: int | None, *, insecure: bool = False
) -> FleetRequest | None:
    """The fleet that was named, if one was.

    Raises:
        SpecError: machines are asked for and no fleet.
    """
    if address is None:
        if machines is not None:
            raise SpecError("--machines counts the machines of a fleet: give --fleet ADDRESS too")
        if insecure:
            raise SpecError("--insecure-fleet is for a fleet: give --fleet ADDRESS too")
        return None
    return FleetRequest(address, machines, insecure)


@contextmanager
def session(
    command: tuple[str, ...],
    records: Records,
    plan: Plan,
    tags: tuple[str, ...] = (),
    commit: str | None = None,
    *,
    others: Mapping[str, Plan] | None = None,
    fleet: FleetRequest | None = None,
    prometheus: int | None = None,
    quiet: bool = False,
    stall_limit_ns: int | None = None,
) -> Iterator[RunContext]:
    """The setting of all runs of a command, whose first or typical plan this is.

    `others` are plans of cases whose engine may cost something else, by their titles. Where
    `stall_limit_ns` is given, it holds for all runs.

    Load comes from one process of this machine, or from a fleet, until the context is left.
    Prometheus is told of each run where a port was named.

    Raises:
        UsageError: the plan makes no sense on a fleet, it can't be joined, or the port can't be
            used.
    """
    from kvmark.run.context import engine_overhead, make_run_context
    from kvmark.run.generator import LocalGenerator
    from kvmark.run.shares import check_divisible

    with ExitStack() as stack:
        generator = stack.enter_context(LocalGenerator())
        setting = make_run_context(command, plan, generator, records, tags, commit)
        overheads = {case: engine_overhead(one, generator) for case, one in (others or {}).items()}
        setting = replace(setting, overheads=overheads, stall_limit_ns=stall_limit_ns)
        if fleet is not None:
            for one in (others or {}).values():
                check_divisible(one)
            setting = replace(setting, generator=stack.enter_context(_joined(fleet, plan)))
        if prometheus is not None:
            # Only those who ask for metrics pay for the library.
            from kvmark.run.prometheus import exporting

            exporter = stack.enter_context(exporting(prometheus))
            if not quiet:
                typer.echo(f"Metrics are at {exporter.address} while it measures", err=True)
            setting = replace(setting, exporter=exporter)
        yield setting


def _joined(asked: FleetRequest, plan: Plan) -> AbstractContextManager[Generator]:
    from kvmark.run.shares import check_divisible

    check_divisible(plan)
    # Only those who have a fleet pay for it.
    from kvmark.run.fleet import joined

    return joined(asked.address, asked.machines, insecure=asked.insecure)
