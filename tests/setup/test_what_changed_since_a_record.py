"""How much of what measures has changed since a record was made."""

import io
import json
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import measured
import pytest
from replanned import planned_otherwise

from kvmark import catalog
from kvmark.experiment.designs.matrix.contents import run_spec
from kvmark.experiment.designs.matrix.definition import Asked, Study
from kvmark.plan.compile import compile_run
from kvmark.spec.study import parse_study
from kvmark.spec.url import parse_system_url

AS_A_USER = ("-c", "user.name=a", "-c", "user.email=a@localhost")


def git(folder: Path, *words: str) -> str:
    ran = ["git", *AS_A_USER, *words]
    return subprocess.run(ran, cwd=folder, capture_output=True, text=True, check=True).stdout[:-1]


def committed(folder: Path, *files: str) -> str:
    """Adds a line to each of these files; gives the commit."""
    for name in files:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write("a line\n")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message=change")
    return git(folder, "rev-parse", "HEAD")


def lines_of(folder: Path, commit: str | None) -> str:
    """The listing's one line of a record of this commit."""
    record = folder / "docs/records/bench.json"
    record.parent.mkdir(parents=True, exist_ok=True)
    record.write_text(json.dumps({"commit": commit, "created": "2026-11-27T00:00:00+00:00"}))
    return measured.measured("docs/records").splitlines()[1]


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository in which all kinds of files are committed."""
    monkeypatch.setattr(measured, "ROOT", tmp_path)
    git(tmp_path, "init", "--quiet")
    return tmp_path


def test_only_what_measures_counts_as_changed(clone: Path) -> None:
    first = committed(clone, "crates/engine/src/lib.rs", "python/kvmark/run/sampler.py")
    assert measured.head() == first
    committed(clone, "docs/page.md", "crates/engine/tests/replay.rs", "python/kvmark/report/a.py")
    assert measured.head() == first
    assert lines_of(clone, first).endswith(f"{first[:12]}  0, 0")
    last = committed(clone, "crates/engine/src/lib.rs", "python/kvmark/run/sampler.py")
    assert measured.head() == last
    assert lines_of(clone, first).endswith("1, 1")
    assert lines_of(clone, last).endswith("0, 0")


def test_a_record_of_no_known_commit_is_told(clone: Path) -> None:
    committed(clone, "crates/engine/src/lib.rs")
    for commit in ("0" * 40, None):
        assert lines_of(clone, commit).endswith("not known: this clone has no such commit")


def archive_of(path: Path, run: dict[str, Any], *, study: dict[str, Any] | None = None) -> None:
    """A record with one run, of a study or of none."""
    files = {"a-run/manifest.json": run, "studies/one/study.json": study}
    with tarfile.open(path, "w:xz") as archive:
        for name, document in files.items():
            if document is not None:
                data = json.dumps(document).encode()
                entry = tarfile.TarInfo(name)
                entry.size = len(data)
                archive.addfile(entry, io.BytesIO(data))


@pytest.fixture
def study() -> dict[str, Any]:
    """What a study of the catalogue was begun with."""
    asked = Asked(only=("operation=write", "clients=10")).as_json()
    return {"id": "one", "name": "hcassandra", "design": "matrix", "asked": asked}


@pytest.fixture
def run(study: dict[str, Any]) -> dict[str, Any]:
    """A run of its first case, of which a manifest keeps so much."""
    file = parse_study(catalog.study_text("hcassandra"), "hcassandra.yaml")
    system = parse_system_url("cql://127.0.0.1:9042")
    asked = Study(file, Asked.of_json(study["asked"]), lambda _: system)
    case = asked.cases[0]
    spec = run_spec(asked, case, system, 1, "always")
    place = {"id": "one", "case": case.title, "repetition": 1, "lengthened": 0}
    return {
        "spec": {**json.loads(json.dumps(spec.as_json())), "study": place},
        "plan": json.loads(compile_run(spec, 2).to_json()),
        "host": {"cores": 2},
    }


def test_a_run_that_the_study_of_today_plans_otherwise_is_counted(
    tmp_path: Path, study: dict[str, Any], run: dict[str, Any]
) -> None:
    record = tmp_path / "hcassandra.tar.xz"
    archive_of(record, run, study=study)
    assert planned_otherwise(record) == (0, 1)
    archive_of(record, {**run, "plan": {**run["plan"], "workers": 2}}, study=study)
    assert planned_otherwise(record) == (1, 1)
    faulty = {**run["spec"], "faults": [{"at_ns": 1, "do": "kill", "node": "node-1"}]}
    archive_of(record, {**run, "spec": faulty}, study=study)
    assert planned_otherwise(record) == (1, 1), "faults are in no plan"
    moved = {**run["spec"], "study": {**run["spec"]["study"], "case": "one that is no more"}}
    archive_of(record, {**run, "spec": moved}, study=study)
    assert planned_otherwise(record) == (1, 1)


def test_an_option_that_the_study_of_today_does_not_give_is_counted(
    tmp_path: Path, study: dict[str, Any], run: dict[str, Any]
) -> None:
    """A run's own URL has the options of then: they say nothing of today's."""
    options = {**run["plan"]["system"]["options"], "page_size": "7"}
    system = {**run["plan"]["system"], "options": options}
    spec = {**run["spec"], "system": f"{run['spec']['system']}&page_size=7"}
    record = tmp_path / "hcassandra.tar.xz"
    archive_of(
        record, {**run, "spec": spec, "plan": {**run["plan"], "system": system}}, study=study
    )
    assert planned_otherwise(record) == (1, 1)


def test_a_run_of_no_study_is_none_that_a_study_could_plan_otherwise(
    tmp_path: Path, run: dict[str, Any]
) -> None:
    record = tmp_path / "stress.tar.xz"
    archive_of(record, {**run, "spec": {}})
    assert planned_otherwise(record) is None
