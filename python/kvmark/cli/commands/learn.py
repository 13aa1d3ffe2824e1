"""`kvmark learn` makes a workload of a trace, or holds one against it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from kvmark.cli import options
from kvmark.cli.commands.compare import Allow, allowed
from kvmark.cli.experiment import (
    ExperimentOptions,
    execute_design,
    experiment_options,
    open_journal,
)
from kvmark.cli.output import print_answer, print_json, terminal_width
from kvmark.errors import AnswerIsNo, SpecError
from kvmark.outputs import refuse_existing, write_output

if TYPE_CHECKING:
    from kvmark.experiment.interleaved_ab import InterleavedAB
    from kvmark.learn import TwinCheck, TwinCheckRequest
    from kvmark.spec.run import RunSpec

_BLOCKS: Final = 5

TracePath = Annotated[
    Path, typer.Argument(metavar="TRACE", help="A trace's folder, X.trace.", show_default=False)
]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="The workload's file, .yaml.")
]
Check = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Hold a workload's file against the trace: each in turn on --system."
    ),
]
Blocks = Annotated[
    int, typer.Option(metavar="N", help="How often the trace and the workload are measured.")
]


@experiment_options
def learn(
    path: TracePath,
    output: Output = None,
    records: options.Records = None,
    check: Check = None,
    system: options.System = None,
    speed: options.Speed = None,
    clients: options.Clients = None,
    duration: options.Duration = None,
    map_: options.Map = None,
    blocks: Blocks = _BLOCKS,
    seed: options.Seed = 1,
    allow: Allow = "",
    force: options.Force = False,
    *,
    shared: ExperimentOptions,
) -> None:
    """Makes a workload that is like a trace, and says how like it one is."""
    if (output is None) == (check is None):
        raise SpecError("learn: give -o FILE to make a workload, or --check FILE to judge one")
    if check is None:
        for name, value in (("system", system), ("speed", speed), ("map", map_)):
            if value is not None:
                raise SpecError(f"--{name} is for --check, and nothing is measured without it")
        refuse_existing(Path(str(output)), "output: ", force=force)
        _learnt(path, Path(str(output)), records, json=shared.json)
        return
    if system is None:
        raise SpecError("--check measures a system: give --system, such as redis://HOST")
    if records is not None:
        raise SpecError("--records: the workload's file says how many records there are")
    if shared.fleet is not None:
        raise SpecError("--fleet: a replay is on one machine, and so is its twin")
    from kvmark.cli.session import named_system
    from kvmark.learn import TwinCheckRequest
    from kvmark.spec.replay import parse_speed

    asked = TwinCheckRequest(
        system=named_system(system),
        speed=parse_speed(speed or "1"),
        clients=clients,
        duration_ns=duration,
        map_file=map_,
    )
    _checked((path, check), asked, (blocks, seed), allowed(allow), shared)


def _learnt(path: Path, output: Path, records: int | None, *, json: bool) -> None:
    from kvmark.learn import learn as fitted
    from kvmark.learn import workload_text
    from kvmark.trace import Trace

    if output.suffix not in (".yaml", ".yml"):
        raise SpecError(f"{output} doesn't end in .yaml, as a workload's file does")
    learned = fitted(Trace.open(path), output.stem, records)
    write_output(output, workload_text(learned))
    if json:
        answer = {"operations": learned.operations, "parts": learned.parts}
        print_json("learnt-workload", {"trace": path, "output": output, **answer})
        return
    from kvmark.report.views.trace import learnt_text

    print_answer(learnt_text(learned.parts, terminal_width()))
    typer.echo(f"{output} is the workload; kvmark learn {path} --check {output} judges it.")


def _checked(
    files: tuple[Path, Path],
    asked: TwinCheckRequest,
    blocks: tuple[int, int],
    allow: tuple[str, ...],
    shared: ExperimentOptions,
) -> None:
    """Measures both in turn, and says by how much they differ.

    Raises:
        AnswerIsNo: the workload is no twin, or nobody can tell.
    """
    from kvmark.learn import check_twin, twin_sides
    from kvmark.spec.workload import load_workload
    from kvmark.trace import Trace

    trace, workload = Trace.open(files[0]), load_workload(files[1])
    paired = _paired(twin_sides(trace, workload, asked), blocks, allow)
    paired.check()
    journal = open_journal(paired, shared)
    with execute_design(paired, shared, journal) as problem:
        if problem is not None:
            raise problem
        base, twin = (
            [journal.records.open(run) for run in paired.blocks.runs(side)] for side in paired.sides
        )
        found = check_twin(trace, workload, (base, twin), allow)
        _answer(files, found, [run.id for run in (*base, *twin)], json=shared.json)


def _paired(
    sides: tuple[RunSpec, RunSpec], blocks: tuple[int, int], allow: tuple[str, ...]
) -> InterleavedAB:
    from kvmark.experiment.interleaved_ab import InterleavedAB, Precision, SideRequest
    from kvmark.spec.metric import parse_comparable

    count, seed = blocks
    base, candidate = map(SideRequest, sides)
    return InterleavedAB(
        sides={"base": base, "candidate": candidate},
        metric=parse_comparable("throughput"),
        precision=Precision(None, None, count, exactly=count),
        seed=seed,
        # A replay and what a workload generates are never one plan.
        allow=(*allow, "plan", "system"),
    )


def _answer(files: tuple[Path, Path], found: TwinCheck, runs: list[str], *, json: bool) -> None:
    from kvmark.report.views.trace import likeness_sentence, likeness_text

    if json:
        figures = [
            {"name": one.name, "trace": one.trace, "twin": one.twin, "difference": one.difference,
             "margin": one.margin, "judgement": one.judgement}
            for one in found.figures
        ]  # fmt: skip
        answer = {"judgement": found.judgement, "figures": figures, "runs": runs}
        print_json("likeness", {"trace": files[0], "workload": files[1], **answer})
    else:
        print_answer(likeness_text(found, terminal_width()))
    if found.judgement != "alike":
        raise AnswerIsNo(likeness_sentence(found).rstrip("."))
