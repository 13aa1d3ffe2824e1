"""The ready workloads and studies: YAML files that users run by name, and copy and change."""

from __future__ import annotations

import functools
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kvmark.errors import SpecError
from kvmark.spec.suggest import did_you_mean, shown

if TYPE_CHECKING:
    from kvmark.spec.workload import WorkloadSpec

__all__ = ["find", "load", "names", "of_trace", "study_names", "study_text", "text"]

_SUFFIX: Final = ".yaml"
_STUDIES: Final = "studies/"


@functools.cache
def _files() -> dict[str, Traversable]:
    """The files by folder and name, without their endings."""
    folders = (one for one in files(__name__).iterdir() if one.is_dir())
    found = {
        f"{folder.name}/{file.name.removesuffix(_SUFFIX)}": file
        for folder in folders
        for file in folder.iterdir()
        if file.name.endswith(_SUFFIX)
    }
    return dict(sorted(found.items()))


def _text(name: str, known: tuple[str, ...], what: str, folder: str = "") -> str:
    if name not in known:
        raise SpecError(f"there is no {what} {shown(name)}{did_you_mean(name, known)}")
    return _files()[f"{folder}{name}"].read_text("utf-8")


def names() -> tuple[str, ...]:
    """The names of all ready workloads, for example `ycsb/a`."""
    return tuple(name for name in _files() if not name.startswith(_STUDIES))


def text(name: str) -> str:
    """The file of a ready workload, to copy and change."""
    return _text(name, names(), "workload")


def study_names() -> tuple[str, ...]:
    """The names of all ready studies, for example `hcassandra`."""
    return tuple(name.removeprefix(_STUDIES) for name in _files() if name.startswith(_STUDIES))


def study_text(name: str) -> str:
    """The file of a ready study, to copy and change."""
    return _text(name, study_names(), "study", _STUDIES)


def load(name: str) -> WorkloadSpec:
    """A ready workload by name."""
    # Names and texts are there without the models of their content.
    from kvmark.spec.workload import parse_workload  # noqa: PLC0415

    return parse_workload(text(name), f"{name}{_SUFFIX}")


def find(argument: str) -> WorkloadSpec:
    """What a user means by a workload: a file that ends in .yaml or .yml, or a name."""
    if argument.endswith((_SUFFIX, ".yml")):
        from kvmark.spec.workload import load_workload  # noqa: PLC0415

        return load_workload(Path(argument))
    return load(argument)


def of_trace(trace: Path, driver: str, given: Path | None) -> WorkloadSpec:
    """A trace as a workload: by which statements it is replayed.

    These are those of the file that is given, or the ready ones for the driver; where there are
    none, the driver's own read, insert and delete.
    """
    # The models take a while to load.
    from kvmark.spec import workload  # noqa: PLC0415

    name = f"replay/{driver}"
    if given is not None:
        found = workload.load_workload(given)
    elif name in names():
        found = load(name)
    else:
        own = workload.GroupSpec.model_validate(
            {"name": "replay", "mix": {"read": 1.0, "insert": 1.0, "delete": 1.0}}
        )
        dataset = {"records": 1, "fields": {"count": 1}}
        found = workload.WorkloadSpec.model_validate({"dataset": dataset, "groups": (own,)})
    return found.model_copy(update={"name": trace.name})
