"""Faults as data: what is done to which server of a testbed, when, and for how long.

On a command line a fault is a sentence, in a file a mapping; both count from the beginning of the
phase that measures:

    10s pause primary-1 for 2s
    {at: 10s, do: pause, node: primary-1, for: 2s}
    10s delay node-2 by 20ms from node-1 for 5s
    {at: 10s, do: delay, node: node-2, by: 20ms, from: [node-1], for: 5s}

- `pause` stops the server where it stands (SIGSTOP) and lets it go on afterwards (SIGCONT);
- `kill` ends it at once (SIGKILL) and starts it again afterwards, on its data;
- `restart` lets it end in order (SIGTERM) and starts it again at once, or after `for`;
- `promote` makes a replica the primary, and gives its primary the place back afterwards;
- `delay` lets each packet to and from the server wait `by` so long, each way;
- `loss` loses that share of them;
- `partition` lets none through;
- `run` carries out a command of yours, for servers that kvmark didn't start, and `undo` another one
  afterwards:

    10s run 'ssh db2 systemctl stop cassandra' for 15s undo 'ssh db2 systemctl start cassandra'
    {at: 10s, do: run, command: ssh db2 systemctl stop cassandra, for: 15s, undo: ssh db2 …}

`delay`, `loss` and `partition` concern all others, or the servers that `from` names. Without `for`,
a paused or killed server and a network are restored, and a command is undone, when the measurement
ends.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias, get_args

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError

from kvmark.errors import SpecError
from kvmark.spec import quantity, yaml_file
from kvmark.spec.other_commands import redacted_command
from kvmark.spec.suggest import did_you_mean, shown
from kvmark.spec.yaml_file import Duration, Mistake, Strict

Action: TypeAlias = Literal[
    "pause", "kill", "restart", "promote", "delay", "loss", "partition", "run"
]

_OF_LINKS: Final = ("delay", "loss", "partition")
_AMOUNTS: Final = {"delay": "a duration such as 20ms", "loss": "a share such as 5%"}
_FORM: Final = "write it like '10s pause primary-1 for 2s'"
_FORM_OF_COMMANDS: Final = "write it like \"10s run 'COMMAND' for 15s undo 'COMMAND'\""
_NODE: Final = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"
_SENTENCE: Final = re.compile(
    r"(\S+)\s+(\S+)\s+(\S+)(?:\s+by\s+(\S+))?(?:\s+from\s+(\S+))?(?:\s+for\s+(\S+))?"
)


def _amount(value: object) -> object:
    """A duration or a share, as text."""
    text = str(value).strip()
    with suppress(SpecError):
        amount = quantity.share(text) if text.endswith("%") else quantity.duration_ns(text)
        if amount > 0 and (amount <= 1 or not text.endswith("%")):
            return text.replace(" ", "")
    sentence = f"{shown(text)} is neither a duration such as 20ms nor a share such as 5%"
    raise yaml_file.complaint(sentence)


def _names(value: object) -> object:
    """Names of servers; a single one may stand alone."""
    names = [value] if isinstance(value, str) else value
    for name in names if isinstance(names, list | tuple) else ():
        if not isinstance(name, str) or not re.match(_NODE, name):
            raise yaml_file.complaint(f"{shown(str(name))} is not the name of a server")
    return names


def _command(value: object) -> object:
    """A command without secrets, because it is recorded."""
    try:
        words = shlex.split(str(value))
    except ValueError:
        raise yaml_file.complaint(f"{shown(str(value))} has an open quote") from None
    if not words:
        raise yaml_file.complaint("an empty command")
    if redacted_command(words) != tuple(words):
        raise yaml_file.complaint(
            "a command is recorded and has a password here: put it into a script or a variable"
        )
    return value


Target = Annotated[str, Field(pattern=f"{_NODE}|^$")]
"""A server's name in its testbed, or empty."""
Amount = Annotated[str, BeforeValidator(_amount)]
"""How much a network is disturbed."""
Others = Annotated[tuple[str, ...], BeforeValidator(_names)]
"""Servers towards which a link is disturbed; all others if none is named."""
Command = Annotated[str, BeforeValidator(_command)]
"""A command of the user, which is split as a shell does and carried out without one."""


class FaultAction(Strict):
    """What is broken on purpose."""

    do: Action
    """What happens to the server."""
    node: Target = ""
    """Name of the server in its testbed; empty for `run`."""
    command: Command | None = None
    """What `run` carries out."""
    undo: Command | None = None
    """The command that makes it undone."""
    by: Amount | None = None
    """How much: a duration of `delay`, a share of `loss`."""
    others: Others = Field(default=(), alias="from")
    """The other servers that `delay`, `loss` and `partition` concern; empty for all others."""

    @property
    def target(self) -> str:
        """The server, or the command."""
        return self.node or self.command or ""

    def _mistakes(self) -> Iterator[Mistake]:
        yield from self._mistakes_of_commands()
        meant = _AMOUNTS.get(self.do)
        if meant is None and self.by is not None:
            yield "by", f"{self.do} has no amount; leave 'by' out"
        is_share = self.by is not None and self.by.endswith("%")
        if meant is not None and (self.by is None or is_share != (self.do == "loss")):
            yield "by", f"{self.do} needs {meant} in 'by'"
        if self.others and self.do not in _OF_LINKS:
            yield "from", f"{self.do} concerns the server alone; leave 'from' out"
        if self.node in self.others:
            yield "from", f"{self.node} has no link to itself; name other servers"

    def _mistakes_of_commands(self) -> Iterator[Mistake]:
        if self.do != "run":
            if not self.node:
                yield "node", f"{self.do} needs the name of a server in 'node'"
            for key, given in (("command", self.command), ("undo", self.undo)):
                if given is not None:
                    yield key, f"{self.do} carries out no command; leave '{key}' out"
        elif self.command is None:
            yield "command", "run needs a command in 'command'"
        elif self.node:
            yield "node", "run concerns no server of a testbed; leave 'node' out"


class FaultSpec(FaultAction):
    """One thing that is broken on purpose, and when."""

    at_ns: Duration = Field(alias="at")
    """Time since the beginning of the measurement."""
    for_ns: Annotated[Duration, Field(gt=0)] | None = Field(default=None, alias="for")
    """Duration; by default until the measurement ends, and none for `restart` and a command
    without `undo`."""

    @property
    def text(self) -> str:
        """The fault as one writes it on a command line."""
        lasting = "" if self.for_ns is None else f" for {_written(self.for_ns)}"
        if self.command is not None:
            undo = "" if self.undo is None else f" undo {shlex.quote(self.undo)}"
            return f"{_written(self.at_ns)} run {shlex.quote(self.command)}{lasting}{undo}"
        amount = "" if self.by is None else f" by {self.by}"
        others = f" from {','.join(self.others)}" if self.others else ""
        return f"{_written(self.at_ns)} {self.do} {self.node}{amount}{others}{lasting}"

    @property
    def is_of_link(self) -> bool:
        """Whether it is done to the server's link and not to its process."""
        return self.do in _OF_LINKS

    @property
    def delay_ns(self) -> int:
        """What each packet waits, each way; 0 for anything but `delay`."""
        return quantity.duration_ns(self.by) if self.do == "delay" and self.by else 0

    @property
    def loss(self) -> float:
        """The share of packets that are lost; 0 for anything but `loss`."""
        return quantity.share(self.by) if self.do == "loss" and self.by else 0.0

    @property
    def end_ns(self) -> int | None:
        """When it is to be over; None for the end of the measurement."""
        if self.for_ns is None:
            is_short = self.do == "restart" or (self.do == "run" and self.undo is None)
            return self.at_ns if is_short else None
        return self.at_ns + self.for_ns

    def _mistakes_of_commands(self) -> Iterator[Mistake]:
        yield from super()._mistakes_of_commands()
        if self.do == "run" and self.undo is None and self.for_ns is not None:
            yield (
                "for",
                "a command that nothing undoes lasts no time; leave 'for' out or give 'undo'",
            )


def check_faults(faults: Sequence[FaultSpec], duration_ns: int | None) -> None:
    """Refuses faults that can't all be carried out in a measurement.

    Args:
        faults: in any order.
        duration_ns: the longest measurement; None if it is unknown.

    Raises:
        SpecError: a fault begins after the measurement or has no end, or two overlap.
    """
    for fault in faults:
        if duration_ns is not None and fault.at_ns >= duration_ns:
            raise SpecError(
                f"fault '{fault.text}': the measurement is over after {_written(duration_ns)}; let"
                " it begin earlier or measure longer"
            )
        if duration_ns is None and fault.end_ns is None:
            raise SpecError(
                f"fault '{fault.text}': without a duration the measurement would wait for the"
                " server forever; say for how long, such as 'for 2s', or give --duration"
            )
    _check_overlaps(faults)


def _check_overlaps(faults: Iterable[FaultSpec]) -> None:
    ordered = sorted(faults, key=lambda fault: (fault.target, fault.at_ns))
    for first, second in pairwise(ordered):
        is_same = first.target == second.target
        if is_same and (first.end_ns is None or second.at_ns <= first.end_ns):
            raise SpecError(
                f"fault '{second.text}': {second.target} isn't back yet from '{first.text}'; let"
                " the first one end before"
            )


def _consistent(faults: tuple[FaultSpec, ...]) -> tuple[FaultSpec, ...]:
    try:
        _check_overlaps(faults)
    except SpecError as problem:
        raise yaml_file.at_key("faults", problem.message) from None
    return faults


class _File(Strict):
    faults: Annotated[tuple[FaultSpec, ...], AfterValidator(_consistent)]


def load_faults(path: Path) -> tuple[FaultSpec, ...]:
    """The faults of a YAML file with the one key `faults`; errors name file and line."""
    return yaml_file.parse_yaml(yaml_file.read_text(path), str(path), _File).faults


def parse_fault(text: str) -> FaultSpec:
    """Reads a fault of a command line.

    Raises:
        SpecError: it isn't of the form.
    """
    if re.match(r"\s*\S+\s+run\b", text):
        return _parse_command(text)
    found = _SENTENCE.fullmatch(text.strip())
    if found is None:
        raise SpecError(f"fault: {shown(text)} is not a fault; {_FORM}")
    at, do, node, amount, others, lasting = found.groups()
    actions = get_args(Action)
    if do not in actions:
        raise SpecError(f"fault: unknown action {shown(do)}{did_you_mean(do, actions)}")
    if not re.match(_NODE, node):
        raise SpecError(f"fault: {shown(node)} is not the name of a server; {_FORM}")
    more = {"from": others.split(",") if others else ()}
    return _fault(text, at, lasting, {"do": do, "node": node, "by": amount, **more})


def _parse_command(text: str) -> FaultSpec:
    try:
        at, do, command, *more = shlex.split(text)
    except ValueError:
        raise SpecError(f"fault: {shown(text)} is not a fault; {_FORM_OF_COMMANDS}") from None
    options = dict(zip(more[::2], more[1::2], strict=False))
    if len(more) % 2 or len(options) * 2 < len(more) or options.keys() - {"for", "undo"}:
        raise SpecError(f"fault: {shown(text)} is not a fault; {_FORM_OF_COMMANDS}")
    values = {"do": do, "command": command, "undo": options.get("undo")}
    (redacted,) = redacted_command([text])
    return _fault(redacted, at, options.get("for"), values)


def _fault(text: str, at: str, lasting: str | None, values: Mapping[str, object]) -> FaultSpec:
    try:
        at_ns = quantity.duration_ns(at)
        for_ns = None if lasting is None else quantity.duration_ns(lasting)
    except SpecError as problem:
        raise SpecError(f"fault: {problem.message}") from None
    if for_ns == 0:
        raise SpecError(f"fault: {shown(text)} lasts no time; {_FORM}")
    times = {"at": f"{at_ns}ns", "for": lasting and f"{for_ns}ns"}
    try:
        return FaultSpec.model_validate({**values, **times})
    except ValidationError as problem:
        sentence = problem.errors()[0]["msg"]
        raise SpecError(f"fault: {shown(text)}: {sentence}") from None


def _written(ns: int) -> str:
    """A duration as one writes it."""
    for unit, length in (("s", 10**9), ("ms", 10**6), ("us", 10**3)):
        if ns % length == 0:
            return f"{ns // length}{unit}"
    return f"{ns}ns"
