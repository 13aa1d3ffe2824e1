"""`kvmark up` starts a system to measure, or one again, or lists them; `kvmark down` stops them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from kvmark.cli import options
from kvmark.cli.commands import up_options as words
from kvmark.cli.output import print_answer, print_json
from kvmark.testbed import testbeds_root

if TYPE_CHECKING:
    from kvmark.cli.commands.up_output import How
    from kvmark.testbed.state import Testbed

__all__ = ["WITH_OPTIONS", "down", "up"]


def up(
    context: typer.Context, *, system: str | None, json: bool, quiet: bool, **typed: Any
) -> None:
    """Starts a system to measure, on this machine, or one again that is down; else lists all."""
    from rich.text import Text

    from kvmark.cli.commands import up_words
    from kvmark.cli.commands.up_output import list_testbeds, started, telling, testbed_document
    from kvmark.testbed.control import bring_back

    if system is None:
        list_testbeds(json=json)
        return
    root, said = testbeds_root(), up_words.said(context)
    how: How = "up"
    kept = up_words.kept_testbed(root, system, context)
    up_words.check_words(kept.system if kept else system, said)
    if kept is None:
        testbed = _made(system, typed, said, root, quiet=quiet)
    else:
        up_words.check_same(kept, typed, said)
        how = "up already" if kept.lives else "up again"
        with telling(quiet=quiet) as tell:
            testbed = bring_back(kept, tell)
    if json:
        print_json("testbed", testbed_document(testbed))
    else:
        print_answer(Text("\n").join(started(testbed, how)))


def down(
    name: words.DownName = None, remove: words.Remove = False, json: options.Json = False
) -> None:
    """Stops what `kvmark up` started, and nothing else; its data stays unless it is removed."""
    from rich.text import Text

    from kvmark.cli.commands.up_output import ended, stopped_document
    from kvmark.testbed.control import take_down

    stopped = take_down(testbeds_root(), name, remove=remove)
    if json:
        print_json("down", {"stopped": [stopped_document(one) for one in stopped]})
    else:
        print_answer(Text("\n").join(ended(stopped, named=name is not None)))


def _made(
    name: str, typed: Mapping[str, Any], said: Sequence[str], root: Path, *, quiet: bool
) -> Testbed:
    """A new testbed."""
    from kvmark.cli.commands.up_output import telling
    from kvmark.cli.commands.up_words import wishes
    from kvmark.testbed.systems import SYSTEMS

    system = SYSTEMS[name]
    wanted = system.wanted(**wishes(system, typed, said))
    with telling(quiet=quiet) as tell:
        return system.up(wanted, root, tell)


WITH_OPTIONS: Final = {"up": words.with_options}
"""Commands that get their options when they are asked for."""
