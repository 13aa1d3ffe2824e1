"""Simulates warm-ups of servers by three rules for their end; prints the table of decision 0039.

    python scripts/warm_up_rules.py

A server has a tenth of its speed at first and gets the rest with a time constant of so many rounds.
Noise is lognormal, and correlated from one round to the next, as of a machine with neighbours.
"""

import math
import random
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Final

from kvmark.experiment.designs.matrix.warm_up import BOUND, MOST_ROUNDS, may_end, rises_no_more

Rule = Callable[[Sequence[float]], bool]

SERVERS: Final = 2000
SLOW_AT_FIRST: Final = 0.9
NOISE: Final = 0.12


def near_those_before(speeds: Sequence[float]) -> bool:
    """Whether the last two are within the bound of the two just before."""
    return len(speeds) >= 4 and abs(sum(speeds[-2:]) / sum(speeds[-4:-2]) - 1) < BOUND


RULES: Final[dict[str, Rule]] = {
    "within 3 % of the two before": near_those_before,
    "not above the best two before": rises_no_more,
    "that, of two pairs": may_end,
}


def warmed(rule: Rule, constant: float, kept: float, chance: random.Random) -> tuple[int, bool]:
    """How many rounds one warm-up took, and whether its rule ended it."""
    speeds: list[float] = []
    moved = chance.gauss(0, NOISE)
    for number in range(1, MOST_ROUNDS + 1):
        moved = kept * moved + chance.gauss(0, NOISE * math.sqrt(1 - kept**2))
        speeds.append(speed(number, constant) * math.exp(moved))
        if rule(speeds):
            return number, True
    return MOST_ROUNDS, False


def speed(rounds: int, constant: float) -> float:
    """The share of its speed that a server has after so many rounds."""
    return 1 - SLOW_AT_FIRST * math.exp(-rounds / constant)


def main() -> None:
    """Prints the table."""
    print("| correlation | constant | rule | rounds | speed at the end | its p5 | at the limit |")
    print("| ---: | ---: | :--- | ---: | ---: | ---: | ---: |")
    for kept in (0.5, 0.9):
        for constant in (1.5, 3.0, 5.0):
            for name, rule in RULES.items():
                chance = random.Random(1)  # noqa: S311 - a simulation
                ended = [warmed(rule, constant, kept, chance) for _ in range(SERVERS)]
                ends = sorted(speed(rounds, constant) for rounds, _ in ended)
                limited = sum(not by_rule for _, by_rule in ended) / SERVERS
                print(
                    f"| {kept:g} | {constant:g} | {name} | {fmean(n for n, _ in ended):.1f}"
                    f" | {fmean(ends):.3f} | {ends[SERVERS // 20]:.3f} | {limited:.0%} |"
                )


if __name__ == "__main__":
    main()
