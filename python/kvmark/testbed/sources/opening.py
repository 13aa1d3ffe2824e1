"""Opens the sources of observed servers, and reports one that doesn't answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final

from kvmark.errors import SystemUnderTestError, UsageError
from kvmark.interrupts import wait_for
from kvmark.records.files import is_ours
from kvmark.spec.observe import ServerSource, SourceKind
from kvmark.testbed.sources.exporter import ExporterSource
from kvmark.testbed.sources.sample import Source
from kvmark.testbed.sources.ssh import SshSource
from kvmark.testbed.sources.store import StoreSource

_KINDS: Final[dict[SourceKind, type[Source]]] = {
    SourceKind.PROMETHEUS: ExporterSource,
    SourceKind.SSH: SshSource,
    SourceKind.STORE: StoreSource,
}


@contextmanager
def opened(servers: Sequence[ServerSource]) -> Iterator[tuple[Source, ...]]:
    """The sources of these servers. Each has answered once, so that a wrong address is reported.

    Raises:
        UsageError: a name is given twice, or is one of kvmark's own processes; or the store can't
            be observed by its own commands.
        SystemUnderTestError: a source doesn't answer.
    """
    names = [one.name for one in servers]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"observe: the name {name} is given twice; write NAME=SOURCE")
        if is_ours(name):
            raise UsageError(f"observe: {name} is the name of kvmark's own process; give another")
    with ExitStack() as stack:
        sources = []
        for one in servers:
            source = _KINDS[one.kind](one)
            stack.callback(source.close)
            try:
                wait_for(source.read)
            except SystemUnderTestError as problem:
                raise SystemUnderTestError(
                    f"observe: {one} {problem}; correct the source, or leave --observe out"
                ) from problem
            sources.append(source)
        yield tuple(sources)
