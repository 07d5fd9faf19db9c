"""What differences between seeds allow to be said."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Verdict = Literal["holds", "does not hold", "undecided within noise"]
LEVEL = 0.95
FEWEST = 3
"""With fewer seeds nothing is decided."""


@dataclass(frozen=True)
class Estimate:
    """The mean of one number for each seed, and its 95 % confidence interval (Student's t)."""

    values: tuple[float, ...]
    mean: float
    low: float | None
    high: float | None


def estimate(values: Sequence[float]) -> Estimate:
    """With one seed there is no interval."""
    mean = statistics.fmean(values)
    if len(values) < 2:
        return Estimate(tuple(values), mean, None, None)
    from scipy.stats import t

    half = float(t.ppf((1 + LEVEL) / 2, len(values) - 1)) * statistics.stdev(values) / math.sqrt(len(values))
    return Estimate(tuple(values), mean, mean - half, mean + half)


def within(number: Estimate, low: float, high: float) -> Verdict:
    """Whether the number that is claimed to lie within these bounds does: all of the interval, or none."""
    if number.low is None or number.high is None or len(number.values) < FEWEST:
        return "undecided within noise"
    if low < number.low and number.high < high:
        return "holds"
    return "does not hold" if number.high < low or number.low > high else "undecided within noise"


def above(number: Estimate, least: float = 0.0) -> Verdict:
    return within(number, least, math.inf)


def below(number: Estimate, most: float = 0.0) -> Verdict:
    return within(number, -math.inf, most)
