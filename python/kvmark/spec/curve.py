"""A rate that changes while it is measured: a ramp, steps, a sine, random bursts, or a file.

In words::

    ramp:1k..5k             linear over the whole measurement; ramp:1k..5k/60s rises once a minute
    steps:1k/10s,5k/20s     rates and how long each is held
    sine:3k+-2k/60s         the mean, how far it goes up and down, and the period (± is +- too)
    onoff:5k/2s,500/8s      rates in turn, held for times from an exponential law of these means
    file:rates.csv          columns seconds,rate; linear between rows
    file:rates.csv?hold     each row's rate is held until the next row

What is shorter than the measurement begins again. Rates are operations per second, and may be 0 for
a while.
"""

from __future__ import annotations

import csv
import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count as numbers
from itertools import pairwise
from pathlib import Path
from typing import Final

from kvmark.errors import SpecError
from kvmark.foreign_text import printable
from kvmark.spec import quantity
from kvmark.spec.suggest import did_you_mean, shown

POINTS_MAX: Final = 100_000
"""Points of a whole measurement, which are a part of the plan."""
_SINE_POINTS: Final = 32
"""Points of a period: a sine and its chords differ by less than 0.5 % of the amplitude."""
_NS_PER_S: Final = 10**9

Point = tuple[int, float]
"""Nanoseconds since the phase began, and operations per second there."""


@dataclass(frozen=True, slots=True)
class RateCurve:
    """The course of a rate: one cycle, which repeats."""

    text: str
    cycle: tuple[Point, ...]
    """From 0 to the cycle's end; of bursts, each one's mean length and rate."""
    is_whole: bool = False
    """Whether the cycle is the whole measurement: its times are 0 and 1."""
    is_random: bool = False
    """Whether it is bursts, whose lengths are drawn."""

    def points(self, duration_ns: int, seed: int) -> tuple[Point, ...]:
        """The rate over a phase of that length. The same seed gives the same bursts.

        Raises:
            SpecError: there would be more than `POINTS_MAX`.
        """
        if self.is_whole:
            return tuple((at * duration_ns, rate) for at, rate in self.cycle)
        drawn = self._bursts(seed) if self.is_random else self._cycles()
        found: list[Point] = []
        for point in _rising(drawn):
            if len(found) >= POINTS_MAX:
                length = quantity.duration_text(duration_ns)
                raise SpecError(
                    f"rate: {shown(self.text)} has more than {POINTS_MAX:,} points in"
                    f" {length}; give a coarser one or a shorter duration"
                )
            found.append(point)
            if point[0] >= duration_ns:
                break
        if found[-1][1] == 0:
            # A schedule ends with a rate; nothing of this one is due in the phase.
            found.append((found[-1][0] + 1, max(rate for _, rate in self.cycle)))
        return tuple(found)

    def _cycles(self) -> Iterator[Point]:
        for turn in numbers():
            for at_ns, rate in self.cycle:
                yield turn * self.cycle[-1][0] + at_ns, rate

    def _bursts(self, seed: int) -> Iterator[Point]:
        chance, at_ns = random.Random(seed), 0  # noqa: S311
        while True:
            for mean_ns, rate in self.cycle:
                yield at_ns, rate
                at_ns += max(2, round(chance.expovariate(1 / mean_ns)))
                yield at_ns, rate


def _rising(points: Iterator[Point]) -> Iterator[Point]:
    """Points of rising times: of two at one instant, where the rate jumps, the first is earlier."""
    last = next(points)
    for point in points:
        if point[0] > last[0]:
            yield last
        elif point[1] != last[1]:
            yield last[0] - 1, last[1]
        last = point


def pace(text: str) -> float | str | None:
    """A rate as written for a run: a number, a curve's text, or None for `max`.

    Raises:
        SpecError: it is neither.
    """
    return parse_curve(text).text if ":" in text else quantity.rate(text)


def parse_curve(text: str) -> RateCurve:
    """Reads a curve's text.

    Raises:
        SpecError: it isn't one, or its file can't be read.
    """
    text = text.strip()
    form, _, words = text.partition(":")
    if form not in _FORMS:
        known = ", ".join(f"{name}:" for name in _FORMS)
        hint = did_you_mean(form, _FORMS)
        raise SpecError(f"{shown(text)} is no rate: {shown(form)} isn't one of {known}{hint}")
    curve = _FORMS[form](text, words)
    if not any(rate > 0 for _, rate in curve.cycle):
        raise SpecError(f"{shown(text)} is 0 all the time; one of its rates must be above 0")
    return curve


def expected_by(points: Sequence[Point], until_ns: int) -> float:
    """The integral of a rate: operations that are due by then. After the last point it stays."""
    total = 0.0
    for (at_ns, rate), (next_ns, after) in pairwise([*points, (math.inf, points[-1][1])]):
        if at_ns >= until_ns:
            break
        end_ns = min(next_ns, until_ns)
        slope = 0.0 if math.isinf(next_ns) else (after - rate) / (next_ns - at_ns)
        total += (end_ns - at_ns) * (rate + 0.5 * slope * (end_ns - at_ns))
    return total / _NS_PER_S


def _ramp(text: str, words: str) -> RateCurve:
    ends, slash, period = words.partition("/")
    first, last = quantity.ramp(ends)
    if not slash:
        return RateCurve(text, ((0, first), (1, last)), is_whole=True)
    return RateCurve(text, ((0, first), (_time_ns(text, period), last)))


def _steps(text: str, words: str) -> RateCurve:
    return RateCurve(text, _stairs(_held(text, words)))


def _sine(text: str, words: str) -> RateCurve:
    wave, slash, period = words.replace("±", "+-").partition("/")
    mean, sign, swing = wave.partition("+-")
    if not slash or not sign:
        raise SpecError(f"{shown(text)} is no sine; write it like sine:3k+-2k/60s")
    middle, height, period_ns = _rate(text, mean), _rate(text, swing), _time_ns(text, period)
    if height > middle:
        raise SpecError(f"{shown(text)} goes below 0; it can go down by {middle:g} at most")
    cycle: list[Point] = []
    for step in range(_SINE_POINTS + 1):
        part = math.sin(2 * math.pi * (step % _SINE_POINTS) / _SINE_POINTS)
        cycle.append((period_ns * step // _SINE_POINTS, max(0.0, middle + height * part)))
    return RateCurve(text, tuple(cycle))


def _onoff(text: str, words: str) -> RateCurve:
    return RateCurve(text, tuple(_held(text, words)), is_random=True)


def _file(text: str, words: str) -> RateCurve:
    """The rows of a file, of which the first is the phase's begin."""
    name, mark, how = words.partition("?")
    if mark and how != "hold":
        raise SpecError(f"{shown(text)}: after ? only hold can stand: {name}?hold")
    rows = list(_rows(Path(name)))
    if len(rows) < 2:
        raise SpecError(f"{name} has fewer than two rows; a rate that stays is --rate RATE")
    if not mark:
        return RateCurve(text, tuple(rows))
    # The last row is held as long as the one before it.
    lengths = [after - at_ns for (at_ns, _), (after, _) in pairwise(rows)]
    rates = [rate for _, rate in rows]
    return RateCurve(text, _stairs(zip([*lengths, lengths[-1]], rates, strict=True)))


def _rows(path: Path) -> Iterator[Point]:
    name = printable(str(path))
    if path.exists() and not path.is_file():
        raise SpecError(f"{name} can't be read as rates: it is no regular file")
    begin, before_ns = 0.0, -1
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.DictReader(file)
            names = rows.fieldnames = [name.strip() for name in rows.fieldnames or ()]
            if not {"seconds", "rate"} <= set(names):
                raise SpecError(f"{path} line 1: name the columns seconds,rate")
            for row in rows:
                place = f"{name} line {rows.line_num}"
                at_s, rate = _two(place, row)
                begin = at_s if before_ns < 0 else begin
                at_ns = round((at_s - begin) * _NS_PER_S)
                if at_ns <= before_ns:
                    raise SpecError(f"{place}: the times of the rates must rise")
                before_ns = at_ns
                yield at_ns, rate
    except (OSError, ValueError, csv.Error) as problem:
        why = problem.strerror if isinstance(problem, OSError) else problem
        raise SpecError(f"{name} can't be read as rates: {why}") from problem


def _two(place: str, row: Mapping[str, str]) -> tuple[float, float]:
    try:
        at_s, rate = float(row["seconds"]), float(row["rate"])
    except (ValueError, TypeError):
        raise SpecError(f"{place}: two numbers belong here, seconds and rate") from None
    if not (math.isfinite(at_s) and math.isfinite(rate)):
        raise SpecError(f"{place}: numbers must be finite")
    if rate < 0:
        raise SpecError(f"{place}: a rate can't be below 0, as {rate:g} is")
    return at_s, rate


def _held(text: str, words: str) -> list[Point]:
    """Lengths and the rates that are held for them."""
    held = []
    for word in words.split(","):
        rate, slash, length = word.partition("/")
        if not slash:
            form = text.partition(":")[0]
            raise SpecError(f"{shown(text)}: write rates and times, such as {form}:5k/2s,500/8s")
        held.append((_time_ns(text, length), _rate(text, rate)))
    return held


def _stairs(held: Iterable[Point]) -> tuple[Point, ...]:
    points: list[Point] = []
    at_ns = 0
    for length_ns, rate in held:
        points += [(at_ns, rate), (at_ns + length_ns, rate)]
        at_ns += length_ns
    return tuple(points)


def _rate(text: str, word: str) -> float:
    if word.strip() in {"0", "0/s"}:
        return 0.0
    rate = quantity.rate(word)
    if rate is None:
        raise SpecError(f"{shown(text)}: max is no rate of a curve")
    return rate


def _time_ns(text: str, word: str) -> int:
    time_ns = quantity.duration_ns(word)
    if time_ns < _SINE_POINTS:
        raise SpecError(f"{shown(text)}: a time must be longer than {word.strip()}")
    return time_ns


_FORMS: Final = {"ramp": _ramp, "steps": _steps, "sine": _sine, "onoff": _onoff, "file": _file}
