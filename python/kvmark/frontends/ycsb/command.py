"""`kvmark ycsb`: the YCSB sequence, with YCSB's own properties and flags."""

from __future__ import annotations

from kvmark.frontends.ycsb.options import YcsbOptions
from kvmark.frontends.ycsb.properties import parse_assignment, read_properties


def ycsb(options: YcsbOptions) -> None:
    """Runs YCSB's sequence of workloads and prints its table."""
    files = [read_properties(path) for path in options.property_files or ()]
    assigned = [parse_assignment(text) for text in options.properties or ()]
    # It takes a second to load, and usage errors are reported before it.
    from kvmark.frontends.ycsb.execution import execute_sequence
    from kvmark.frontends.ycsb.workloads import flag_properties, read_ycsb

    execute_sequence(read_ycsb(files, [*assigned, *flag_properties(options)]), options)
