"""The process that generates load: one for plan after plan, with nothing else loaded."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import psutil
import pytest

from kvmark.cli.registry import GROUPS
from kvmark.errors import GeneratorDied, Interrupted, RunError
from kvmark.plan.model import Plan
from kvmark.records import Records, RunFolder, files
from kvmark.run.context import RunContext
from kvmark.run.execution import ExecutedRun, execute
from kvmark.run.generator import Caller, LocalGenerator
from kvmark.run.worker import read_messages
from kvmark.secret import Secret
from kvmark.spec.url import PASSWORD_VARIABLE
from plans import plan_of
from waiting import PATIENCE_S, wait_until

HEAVY = {"altair", "hdrh", "jinja2", "numpy", "polars", "prometheus_client", "scipy", "starlette",
         "uvicorn", "vl_convert"}  # fmt: skip
Execute = Callable[..., ExecutedRun]
Replace = Callable[[str], None]
LOADED = "import json, sys, kvmark.run.worker; print(json.dumps(list(sys.modules)))"


@pytest.fixture
def generator() -> Iterator[LocalGenerator]:
    with LocalGenerator() as made:
        yield made


@pytest.fixture
def replaced(monkeypatch: pytest.MonkeyPatch) -> Replace:
    """Replaces the program of the process."""
    module = sys.modules[LocalGenerator.__module__]
    return lambda code: monkeypatch.setattr(module, "_COMMAND", (sys.executable, "-c", code))


def planned(system: str = "null:", **more: Any) -> Plan:
    return plan_of("ycsb/c", system, **{"operations": 1000, "load": "never", **more})


ENDLESS = planned(operations=None, duration_ns=3600 * 10**9, interval_ns=10**7)


@pytest.fixture
def executed(generator: LocalGenerator, tmp_path: Path) -> Execute:
    """Executes a plan."""
    context = RunContext(("kvmark",), generator, Records(tmp_path), host={}, versions={})
    return lambda plan=planned(), progress=lambda *_: None: execute(plan, {}, context, progress)  # noqa: B008


def child(*words: str, **more: Any) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen(
        [sys.executable, *words], stdout=subprocess.PIPE, text=True, env=environment, **more
    )


def test_it_has_nothing_loaded_but_the_engine() -> None:
    with child("-c", LOADED) as process:
        loaded = set(json.loads(process.communicate(timeout=PATIENCE_S)[0]))
    packages = {name.partition(".")[0] for name in loaded} - sys.stdlib_module_names
    assert {name for name in packages if not name.startswith(("_", "sitecustomize"))} == {"kvmark"}
    own = {"kvmark._engine", "kvmark.errors", "kvmark.run", "kvmark.run.worker"}
    assert {name for name in loaded if name.startswith("kvmark.")} == own


def test_one_process_executes_plan_after_plan(generator: LocalGenerator, executed: Execute) -> None:
    first = generator.pid
    for _ in range(3):
        assert executed().failure is None
    assert generator.pid == first
    generator.close()
    assert not psutil.pid_exists(first)


def test_the_peak_of_memory_is_that_of_each_plan(executed: Execute) -> None:
    plans = [planned("sim:?clock=virtual", clients=clients) for clients in (50_000, 1)]
    records = [executed(plan).manifest.engine for plan in plans]
    most, later = (one.phases[-1].process.max_resident_bytes for one in records)
    assert later < most


def test_a_run_is_recovered_after_a_crash(generator: LocalGenerator, executed: Execute) -> None:
    first = generator.pid

    def crash(folder: RunFolder, told: Mapping[str, Any]) -> None:
        # Without a whole line, the run isn't kept.
        names = (files.INTERVAL_LOG, files.HISTOGRAMS)
        intervals, histograms = (files.whole_lines(folder.path / name) for name in names)
        if told["completed"] and intervals and b"Tag=" in histograms:
            os.kill(first, signal.SIGSEGV)

    ended = executed(ENDLESS, crash)
    assert isinstance(ended.failure, GeneratorDied)
    assert "crashed with SIGSEGV" in str(ended.failure)
    assert ended.manifest.closed_by == "recovered"
    assert ended.manifest.engine.totals
    assert executed().failure is None
    assert generator.pid != first


def test_its_last_output_is_reported(
    generator: LocalGenerator, executed: Execute, tmp_path: Path, replaced: Replace
) -> None:
    has_printed = tmp_path / "printed"
    replaced(
        "import pathlib, sys; print('terminate called after throwing std::bad_alloc',"
        f" file=sys.stderr); pathlib.Path({str(has_printed)!r}).touch();"
        " sys.stdin.read(1); sys.exit(1)"
    )
    assert generator.pid
    wait_until(has_printed.exists, "it has printed")
    with pytest.raises(GeneratorDied, match="exit code 1, and said last: terminate called after"):
        executed()
    assert Records(tmp_path).list() == []


def test_an_exception_ends_the_process(generator: LocalGenerator, executed: Execute) -> None:
    first = generator.pid
    with pytest.raises(LookupError, match="mine"):
        executed(ENDLESS, Mock(side_effect=LookupError("mine")))
    assert not psutil.pid_exists(first)


def test_an_interrupt_of_the_group_is_one(generator: LocalGenerator, executed: Execute) -> None:
    seen: list[int] = []

    # As a terminal does with all processes of a command; the child gets a message from its parent.
    def interrupt(*_: Any) -> None:
        seen.append(0)
        if len(seen) == 1:
            os.kill(generator.pid, signal.SIGINT)
            os.kill(generator.pid, signal.SIGTERM)
            signal.raise_signal(signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    ended = executed(ENDLESS, interrupt)
    assert isinstance(ended.failure, Interrupted)
    assert ended.manifest.closed_by == "engine"
    assert ended.manifest.engine.interrupted
    assert signal.getsignal(signal.SIGINT) is before


def test_a_password_is_for_one_plan_only(generator: LocalGenerator, tmp_path: Path) -> None:
    seen: list[str] = []

    def look(_: Any) -> None:
        process = psutil.Process(generator.pid)
        seen.extend([*process.cmdline(), *process.environ().values()])

    plan = planned(operations=None, duration_ns=10**8, interval_ns=10**7)
    # The driver reads the variable; the next plan doesn't find it.
    generator.run(plan.to_json(), tmp_path, Caller(look, password=Secret("hunter2")))
    assert seen
    assert "hunter2" not in " ".join(seen)
    redis = planned(f"redis://127.0.0.1:1?password_env={PASSWORD_VARIABLE}")
    with pytest.raises(Exception, match=PASSWORD_VARIABLE):
        generator.run(redis.to_json(), tmp_path, Caller(look))


def test_the_list_of_commands_has_every_purpose_and_loads_no_library() -> None:
    words = ("-X", "importtime", "-c", "from kvmark.cli import main; main(['--help'])")
    with child(*words, stderr=subprocess.PIPE) as process:
        out, err = process.communicate(timeout=PATIENCE_S)
    assert HEAVY.isdisjoint(line.rpartition("|")[2].strip() for line in err.splitlines())
    said = " ".join(out.split())
    parts = [
        text
        for heading, group in GROUPS.items()
        for text in (f" {heading}: ", *(f" {name} {one.purpose}" for name, one in group.items()))
    ]
    places = list(map(said.index, parts))
    assert places == sorted(places)


def test_nothing_is_imported_from_the_current_folder(
    executed: Execute, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "queue.py").write_text("raise SystemExit('another queue')\n")
    monkeypatch.chdir(tmp_path)
    assert executed().failure is None


def test_it_ends_after_an_incomplete_line_of_its_parent() -> None:
    line, there = socket.socketpair()
    with there:
        worker = child("-m", "kvmark.run.worker", stdin=there)
    with line, worker:
        line.sendall(b'{"plan": "abc')
        line.close()
        assert worker.wait(PATIENCE_S) == 0


def test_an_open_file_belongs_to_the_line_that_it_was_sent_with(tmp_path: Path) -> None:
    line, there = socket.socketpair()
    with there, (tmp_path / "locked").open("w") as file:
        with line:
            line.sendall(b'{"stops": 1}\n')
            socket.send_fds(line, [b" "], [file.fileno()])
            # Longer than what is read at once.
            line.sendall(json.dumps({"plan": "p" * 100_000}).encode() + b'\n{"begins": 0}\n')
        _, plan, _ = messages = list(read_messages(there))
        (lent,) = plan["lent"]
        assert os.path.sameopenfile(lent, file.fileno())
        os.close(lent)
        plan["lent"] = []
        sent = [{"stops": 1}, {"plan": "p" * 100_000}, {"begins": 0}]
        assert messages == [{**one, "lent": []} for one in sent]


TALKING = """
import sys
for number, line in enumerate(sys.stdin):
    if number == 0:
        print("a word of the first plan", file=sys.stderr, flush=True)
    print('{"problem": ["RunError", "the disk is full"]}', flush=True)
"""
HANGING = """
import sys
for line in sys.stdin:
    if "plan" in line:
        print('{"result": {"record": {}, "failure": null, "abandoned": true}}', flush=True)
"""


def test_output_of_an_earlier_plan_is_ignored(generator: LocalGenerator, replaced: Replace) -> None:
    replaced(TALKING)
    said = []
    for _ in range(2):
        with pytest.raises(RunError) as raised:
            generator.run("{}", Path(), Caller(lambda _: None))
        said.append(str(raised.value))
    assert said == ["the disk is full, and said last: a word of the first plan", "the disk is full"]


def test_a_process_that_hangs_is_replaced(generator: LocalGenerator, replaced: Replace) -> None:
    replaced(HANGING)
    before = generator.pid
    assert generator.run("{}", Path(), Caller(lambda _: None))["abandoned"]
    assert not psutil.pid_exists(before)
    assert generator.pid != before
