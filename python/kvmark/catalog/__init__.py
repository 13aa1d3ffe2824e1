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
_STUDIES: Final = "studies"


@functools.cache
def _entries() -> dict[str, Traversable]:
    folders = sorted((one for one in files(__name__).iterdir() if one.is_dir()), key=_name)
    return {
        f"{folder.name}/{file.name.removesuffix(_SUFFIX)}": file
        for folder in folders
        for file in sorted(folder.iterdir(), key=_name)
        if file.name.endswith(_SUFFIX) and folder.name != _STUDIES
    }


@functools.cache
def _studies() -> dict[str, Traversable]:
    found = sorted(files(__name__).joinpath(_STUDIES).iterdir(), key=_name)
    return {file.name.removesuffix(_SUFFIX): file for file in found if file.name.endswith(_SUFFIX)}


def _name(entry: Traversable) -> str:
    return entry.name


def names() -> tuple[str, ...]:
    """The names of all ready workloads, for example `ycsb/a`."""
    return tuple(_entries())


def text(name: str) -> str:
    """The file of a ready workload, to copy and change."""
    entry = _entries().get(name)
    if entry is None:
        hint = did_you_mean(name, names())
        raise SpecError(f"there is no workload {shown(name)}{hint}")
    return entry.read_text("utf-8")


def study_names() -> tuple[str, ...]:
    """The names of all ready studies, for example `hcassandra`."""
    return tuple(_studies())


def study_text(name: str) -> str:
    """The file of a ready study, to copy and change."""
    entry = _studies().get(name)
    if entry is None:
        raise SpecError(f"there is no study {shown(name)}{did_you_mean(name, study_names())}")
    return entry.read_text("utf-8")


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
    from kvmark.spec.workload import (  # noqa: PLC0415
        DatasetSpec,
        Fields,
        GroupSpec,
        Mix,
        WorkloadSpec,
        load_workload,
    )

    name = f"replay/{driver}"
    if given is not None:
        found = load_workload(given)
    elif name in names():
        found = load(name)
    else:
        own = GroupSpec(name="replay", mix=Mix(read=1.0, insert=1.0, delete=1.0))
        fields = Fields(count=1)
        found = WorkloadSpec(dataset=DatasetSpec(records=1, fields=fields), groups=(own,))
    return found.model_copy(update={"name": trace.name})
