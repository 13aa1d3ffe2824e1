"""Dependencies run one way.

plan ← {workload, schedule, record, driver, trace} ← engine ← pyext;  trace ← tap ← pyext;
driver ← driver-server ← {driver-*, tap} ← pyext;
{spec, trace} ← plan ← run;  spec ← testbed ← run;  records ← {run, imports, analysis};
{stats, spec, trace} ← analysis ← {report, experiment};  run ← experiment;
{analysis, plan} ← learn ← report;
report ← serve;  all ← cli ← api
"""

import tomllib
from collections.abc import Iterator, Mapping

from findings import Finding, Source
from python_rules import imported

Arrows = Mapping[str, frozenset[str]]


def arrows(text: str) -> Arrows:
    """What each part may use, from lines `user: used used`, and all that those use in turn."""
    direct: dict[str, frozenset[str]] = {}
    for line in text.strip().splitlines():
        user, _, used = line.partition(":")
        direct[user.strip()] = frozenset(used.split())
    return {part: below(part, direct) for part in direct}


def below(part: str, direct: Arrows) -> frozenset[str]:
    """Everything that can be reached from a part."""
    reached = direct[part]
    return reached.union(*(below(used, direct) for used in reached))


RUST = arrows("""
    plan:
    workload:      plan
    schedule:      plan
    record:        plan
    trace:         plan
    driver:        plan
    driver-server: driver
    driver-*:      driver-server
    engine:        workload schedule record driver trace
    testing:       driver
    tap:           trace driver-server
    pyext:         engine driver-* tap
""")
# What the picture leaves out: `errors`, `interrupts` and `secret` are beneath everything, `cache`
# names a folder, `processes` tells processes apart, `removal` removes files, `outputs` writes what
# users name, `foreign_text` makes text from outside harmless,
# `catalog` holds ready specs, `_engine` is the door to Rust, `drivers` what is behind it.
PYTHON = arrows("""
    errors:
    interrupts:
    removal:  errors
    outputs:  errors removal
    foreign_text:
    cache:
    processes:
    _engine:
    drivers:  _engine
    secret:
    spec:     errors secret drivers foreign_text
    catalog:  spec
    plan:     catalog trace
    testbed:  spec cache processes interrupts removal
    records:  stats processes _engine outputs foreign_text
    run:      plan testbed records _engine
    trace:    errors cache _engine removal
    imports:  records
    stats:    errors
    analysis: records spec trace
    report:   learn cache interrupts outputs
    learn:    analysis plan
    experiment: analysis run
    serve:    report secret interrupts
    cli:      experiment report imports serve
    api:      cli
""")


def kind(crate: str) -> str:
    """The crate's place among the arrows, from its name without `kvmark-`."""
    is_driver = crate.startswith("driver-") and crate not in RUST
    return "driver-*" if is_driver else crate


def crate_arrows(manifest: Source) -> Iterator[Finding]:
    """Dependencies of a crate that run against the arrows."""
    content = tomllib.loads(manifest.text)
    name = content["package"]["name"].removeprefix("kvmark-")
    if manifest.path.split("/")[1] != name:
        yield manifest.find(1, f"the crate in this folder must be called kvmark-{name}")
    if kind(name) not in RUST:
        yield manifest.find(1, f"{name} has no place among the arrows in tests/tidy/layers.py")
        return
    used = [*content.get("dependencies", {}), *content.get("build-dependencies", {})]
    for dependency in used:
        own = dependency.removeprefix("kvmark-")
        if own != dependency and kind(own) not in RUST[kind(name)]:
            line = 1 + manifest.text[: manifest.text.find(dependency)].count("\n")
            yield manifest.find(line, f"{name} must not use {own}")


def package_arrows(source: Source) -> Iterator[Finding]:
    """Imports of a Python module that run against the arrows."""
    own = part_of(source.path.removeprefix("python/").removesuffix(".py").replace("/", "."))
    if own in {"__init__", "__main__"}:
        return
    if own not in PYTHON:
        yield source.find(1, f"{own} has no place among the arrows in tests/tidy/layers.py")
        return
    for line, name in imported(source):
        used = part_of(name) if name.startswith("kvmark.") else own
        if used != own and used in PYTHON and used not in PYTHON[own]:
            yield source.find(line, f"{own} must not use {used}")


def part_of(module: str) -> str:
    """The part a module belongs to: the name after `kvmark.`."""
    return module.split(".")[1]
