"""Saved datasets: the data of a testbed's servers, with which later testbeds begin.

Servers are saved while they stop (`kvmark down`), because their files are complete only then. A
saved dataset is a folder like a testbed's, with a description and the nodes' data, but without
settings, logs and passwords. It lies next to the testbeds, on their file system, so that copies
share blocks where the file system can (`cp --reflink=auto`): neither a copy nor later writes of one
testbed change another one.

A copy gets its name when it is complete and on the disk. The next one removes what a killed command
left of another.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from kvmark.errors import SystemUnderTestError, UsageError
from kvmark.removal import discard_folder, remove_folder
from kvmark.spec.url import parse_system_url
from kvmark.testbed import DESCRIPTION, SAVED, names_of_testbeds
from kvmark.testbed.process import exclusive, run_streaming
from kvmark.testbed.state import (
    OWN_FILES,
    SavedDataset,
    Testbed,
    all_testbeds,
    check_name,
    known_testbed,
)
from kvmark.testbed.system import Saving, System, TestbedOptions, option_specs, system_of

_PARTIAL: Final = Path("_partial") / "dataset"
"""The folder of an incomplete copy, where no dataset is looked for."""


def find_saved(root: Path, name: str, system: str | None = None) -> Testbed:
    """The saved dataset of that name, and of that system if one is given, as its former testbed.

    Raises:
        UsageError: there is none.
        SystemUnderTestError: its description is damaged.
    """
    saved = known_testbed(root / SAVED, name)
    if saved is None:
        names = ", ".join(names_of_testbeds(root / SAVED)) or "none"
        raise UsageError(
            f"there is no saved dataset '{name}' in {root / SAVED}, where there is {names}: save"
            " one with kvmark down TESTBED --save NAME"
        )
    if system not in (None, saved.system):
        raise UsageError(f"dataset '{name}' is of {saved.system}, and not of {system}")
    return saved


def saved_datasets(root: Path) -> list[SavedDataset]:
    """All saved datasets, by name.

    Raises:
        SystemUnderTestError: a description is damaged.
    """
    return [one.dataset for one in all_testbeds(root / SAVED) if one.dataset is not None]


def options_for(dataset: Testbed) -> str:
    """The options that testbeds need to begin with a saved dataset, as users write them.

    Empty, or with a space before it, where all have their defaults.
    """
    system = system_of(dataset)
    specs = {spec.name: spec for spec in option_specs(system.options).values()}
    values = {name: _word(dataset.made_with.get(name)) for name in _saving_of(system).options}
    return "".join(
        f" --{name} {value}"
        for name, value in values.items()
        if value != _word(specs[name].default)
    )


def remove_saved(root: Path, name: str) -> Path:
    """Removes a saved dataset, and returns its folder.

    Raises:
        UsageError: there is none.
        ForeignFile: its folder holds files of others.
    """
    saved = find_saved(root, name)
    # By its name here: a link to a folder elsewhere is no dataset.
    folder = root / SAVED / name
    remove_folder(folder, system_of(saved).own_files)
    return folder


@contextmanager
def saving(testbed: Testbed, name: str) -> Iterator[SavedDataset]:
    """Saves the data of a testbed, whose servers must be stopped in the context.

    Raises:
        UsageError: the testbed can't be saved, or the name is in use.
        SystemUnderTestError: the data can't be written or copied; the testbed keeps all files.
    """
    root, system = testbed.folder.parent / SAVED, system_of(testbed)
    saved = _saving_of(system)
    check_name(name, "saved dataset")
    if os.path.lexists(root / name):
        raise UsageError(
            f"there is a saved dataset '{name}' already: give another name, or remove it with"
            f" kvmark down saved:{name} --remove"
        )
    if not testbed.lives:
        raise UsageError(
            f"testbed '{testbed.name}' isn't up, and data is saved while its servers stop: start it"
            f" with kvmark up {testbed.name}"
        )
    _check_password(system, saved, has_password="password_file" in testbed.facts)
    try:
        root.mkdir(exist_ok=True)
        with exclusive(root) as is_locked:
            if not is_locked:
                raise UsageError("another kvmark is saving a dataset just now: wait for it")
            _remove_partial(root / _PARTIAL)
            dataset = _identity(testbed, system, name)
            saved.flush(testbed)
            yield dataset
            _copy_whole(testbed, system, dataset)
            saved.remove_flushed(testbed)
    except OSError as problem:
        raise SystemUnderTestError(
            f"dataset '{name}' can't be saved because {problem.strerror}; testbed"
            f" '{testbed.name}' has all its files"
        ) from problem


def with_saved_data(testbed: Testbed, options: TestbedOptions, system: System) -> Testbed:
    """Copies the saved dataset that the options name, if any, into a new testbed's empty folder.

    The testbed is written first, so that a copy that was killed can be removed.

    Returns:
        The testbed with the dataset's identity.

    Raises:
        UsageError: there is no such dataset, or the testbed can't begin with it.
        SystemUnderTestError: it can't be copied.
        KeyboardInterrupt: the user has asked to stop.
    """
    if options.dataset is None:
        return testbed
    own = _saving_of(system)
    saved = find_saved(testbed.folder.parent, options.dataset, system.name)
    _check_password(system, own, has_password=bool(getattr(options, "password", None)))
    for option in own.options:
        before, now = (_word(one.made_with.get(option)) for one in (saved, testbed))
        if before != now:
            raise UsageError(
                f"dataset '{options.dataset}' was saved with {option} {before}, and this testbed"
                f" has {now}: give both the same --{option}"
            )
    testbed = testbed.model_copy(update={"dataset": saved.dataset})
    testbed.write()
    for node in testbed.nodes:
        testbed.folder_of(node).mkdir()
    _copy(saved, testbed.folder, own)
    own.adapt(testbed, saved)
    return testbed


def check_version(testbed: Testbed) -> None:
    """Refuses servers of another version than those that wrote their data.

    Raises:
        UsageError: names both.
    """
    dataset = testbed.dataset
    if dataset is not None and testbed.version != dataset.version:
        raise UsageError(
            f"dataset '{dataset.name}' was saved by {dataset.system} {dataset.version}, and this"
            f" server is {testbed.version}: start the version that wrote it, or save another"
        )


def _word(value: Any) -> str:
    """An option's value as users write it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else str(value)


def _saving_of(system: System) -> Saving:
    if system.saving is None:
        raise UsageError(f"{system.name} keeps no data on the disk that could be saved or be begun")
    return system.saving


def _check_password(system: System, saving: Saving, *, has_password: bool) -> None:
    if has_password and saving.has_password:
        raise UsageError(
            f"the data of {system.name} has the password in it: save it, and begin with it, without"
            " --password and --password-file"
        )


def _identity(testbed: Testbed, system: System, name: str) -> SavedDataset:
    url = parse_system_url(testbed.url)
    contents = system.contents(url.options, url.password)
    return SavedDataset(
        name=name,
        id=secrets.token_hex(16),
        saved=datetime.now(UTC).isoformat(timespec="seconds"),
        system=testbed.system,
        version=testbed.version,
        records=None if contents is None else contents.found or "no records",
    )


def _copy_whole(testbed: Testbed, system: System, dataset: SavedDataset) -> None:
    """Copies a stopped testbed with its new identity; only a complete copy gets its name."""
    root = testbed.folder.parent / SAVED
    partial = root / _PARTIAL
    stopped = {node.name: {"process": None, "group": None} for node in testbed.nodes}
    try:
        partial.mkdir(parents=True)
        described = {"folder": partial, "dataset": dataset}
        testbed.with_nodes(stopped).model_copy(update=described).write()
        for node in testbed.nodes:
            (partial / node.name).mkdir()
        _copy(testbed, partial, _saving_of(system))
        # After a crash of the machine, a name without all data would be a wrong dataset.
        os.sync()
        partial.rename(root / dataset.name)
    except BaseException:
        discard_folder(partial, system.own_files)
        raise


def _copy(source: Testbed, target: Path, saving: Saving) -> None:
    """Copies the data of each node into its folder below the target, holes as holes."""
    for node in source.nodes:
        places = [source.folder_of(node) / place for place in saving.places]
        if any(path.is_symlink() for place in places for path in (place, *place.rglob("*"))):
            raise UsageError(
                f"{source.folder_of(node)} has links to data elsewhere, which testbeds would share"
            )
        present = [str(place) for place in places if place.exists()]
        command = ["cp", "-a", "--reflink=auto", *present, str(target / node.name)]
        code, lines = run_streaming(command, lambda _: None)
        if code != 0:
            raise SystemUnderTestError(f"the data can't be copied: {(lines or ['cp failed'])[-1]}")


def _remove_partial(partial: Path) -> None:
    """Removes what a killed command left: its description comes first and names the system."""
    is_described = (partial / DESCRIPTION).exists()
    own = system_of(Testbed.read(partial)).own_files if is_described else re.compile(OWN_FILES)
    remove_folder(partial, own)
