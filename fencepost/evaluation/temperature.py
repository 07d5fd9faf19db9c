"""Confidences that mean what they say: a temperature and a shift, fitted to predictions that were judged.

Temperature scaling (Guo et al., ICML 2017) divides the logit of a confidence by one number, which mends
a model that is too sure of everything, or not sure enough. The confidences of our methods are not all the
probabilities of a softmax; some are means of several, and lie too low or too high as a whole. A shift of
the logit mends that (Platt, 1999). Neither changes which of two predictions is the more confident one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Sequence

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

_CLIP = 1e-6
"""Confidences nearer to 0 or 1 than this count as if they were so near: a logit must be finite."""

_NUMBERS = np.finfo(np.float64)

_STEPS = 100
"""Of Newton's method at most; it takes five to ten, and twenty where nearly all are right or wrong."""


@dataclass(frozen=True, slots=True)
class Temperature:
    """Makes the confidence c into sigmoid((logit(c) + shift) / temperature); as built, into itself."""

    LOWEST: ClassVar[float] = 0.05
    HIGHEST: ClassVar[float] = 20.0
    FARTHEST: ClassVar[float] = 1000.0

    temperature: float = 1.0
    shift: float = 0.0

    def __post_init__(self) -> None:
        if not self.LOWEST <= self.temperature <= self.HIGHEST:  # so that NaN is refused too
            raise ValueError(
                f"a temperature is between {self.LOWEST:g} and {self.HIGHEST:g}, not {self.temperature}"
            )
        if not -self.FARTHEST <= self.shift <= self.FARTHEST:  # farther than any that is fitted
            raise ValueError(f"a shift is between {-self.FARTHEST:g} and {self.FARTHEST:g}, not {self.shift}")

    def apply(self, confidence: FloatArray) -> FloatArray:
        """The calibrated confidences: in the same order of size, and between 0 and 1."""
        if self == Temperature():
            return confidence
        return _sigmoid((_logit(confidence) + self.shift) / self.temperature)

    def undo(self, confidence: FloatArray) -> FloatArray:
        """What `apply` was given, but for what lay nearer to 0 or 1 than a millionth, or is now 0 or 1."""
        if self == Temperature():
            return confidence
        logit = _logit(confidence, _NUMBERS.tiny, _NUMBERS.epsneg)
        return np.clip(_sigmoid(logit * self.temperature - self.shift), _CLIP, 1 - _CLIP)

    @classmethod
    def fit(
        cls,
        scores: Sequence[float] | FloatArray,
        correct: Sequence[bool] | BoolArray,
    ) -> Temperature:
        """The likeliest one for N predictions, from their confidences and whether each was correct.

        With slope = 1 / temperature and offset = shift / temperature it is a logistic regression on the
        logit. A prior, which weighs about as much as one prediction, holds it near the identity where the
        data say little, and keeps it finite where they say too much, as when all predictions are correct.
        """
        confidence = np.asarray(scores, dtype=np.float64)  # [N]
        hit = np.asarray(correct, dtype=np.bool_)  # [N]
        if confidence.ndim != 1 or confidence.shape != hit.shape:
            raise ValueError(
                "a temperature is fitted to one score and one verdict for each prediction, but the shapes "
                f"are {confidence.shape} and {hit.shape}"
            )
        if not ((confidence >= 0) & (confidence <= 1)).all():  # so that NaN is refused too
            raise ValueError("a confidence is a probability between 0 and 1")
        if not len(confidence):
            return cls()
        slope, offset = _most_likely(_logit(confidence), hit, 1 / cls.HIGHEST, 1 / cls.LOWEST)
        return cls(min(max(1 / slope, cls.LOWEST), cls.HIGHEST), offset / slope)  # 1 / (1 / x) may not be x


def _logit(confidence: FloatArray, from_0: float = _CLIP, from_1: float = _CLIP) -> FloatArray:
    clipped = np.clip(confidence, from_0, 1 - from_1)
    return np.log(clipped) - np.log1p(-clipped)


def _sigmoid(logit: FloatArray) -> FloatArray:
    with np.errstate(over="ignore"):  # 1 / (1 + infinity) is the 0 that it should be
        return 1 / (1 + np.exp(-logit))


def _most_likely(logit: FloatArray, correct: BoolArray, least: float, most: float) -> tuple[float, float]:
    """The slope and the offset where `_cost`, which is convex, is least for a slope within the bounds.

    If the least of all lies beyond a bound, the one within the bounds lies on that bound.
    """
    point = _minimum(np.array([1.0, 0.0]), slice(0, 2), logit, correct)
    if not least <= point[0] <= most:
        bound = np.array([least if point[0] < least else most, point[1]])
        point = _minimum(bound, slice(1, 2), logit, correct)
    return float(point[0]), float(point[1])


def _minimum(point: FloatArray, free: slice, logit: FloatArray, correct: BoolArray) -> FloatArray:
    """Newton's method from a point (slope, offset) on, over its free coordinates; each step goes downhill."""
    cost = _cost(point, logit, correct)
    for _ in range(_STEPS):
        gradient, curvature = _derivatives(point, logit, correct)
        step = np.zeros(2)
        step[free] = np.linalg.solve(curvature[free, free], -gradient[free])
        promised = -float(gradient @ step)  # what the cost falls by at first, at least 0
        if promised <= 1e-14 * (1 + cost):  # numbers are no finer
            break
        size = 1.0
        while (found := _cost(point + size * step, logit, correct)) > cost - size * promised / 4:
            size /= 2
            if size < 1e-9:  # nor is the cost, where it is a sum over many
                return point
        point, cost = point + size * step, found
    return point


def _cost(point: FloatArray, logit: FloatArray, correct: BoolArray) -> float:
    """Of a slope s and an offset o: log loss + (s^2 - 1) / 2 - log s + o^2 / 2.

    What follows the log loss is the prior: a Rayleigh distribution of the slope, in which 1 is likeliest
    and nothing up to 0 is possible, and a normal one of the offset. It is 0 for the identity, whose log
    loss the result can therefore only improve on.
    """
    slope, offset = point
    if slope <= 0:
        return math.inf
    value = slope * logit + offset  # [N]
    loss = np.logaddexp(0, np.where(correct, -value, value)).sum()
    return float(loss + (slope**2 - 1) / 2 - math.log(slope) + offset**2 / 2)


def _derivatives(point: FloatArray, logit: FloatArray, correct: BoolArray) -> tuple[FloatArray, FloatArray]:
    """The gradient of `_cost` [2] and its curvature, the Hessian [2, 2]."""
    slope, offset = point
    probability = _sigmoid(slope * logit + offset)  # [N]
    inputs = np.stack((logit, np.ones_like(logit)))  # [2, N]
    gradient = inputs @ (probability - correct) + np.array([slope - 1 / slope, offset])
    curvature = (inputs * (probability * (1 - probability))) @ inputs.T + np.diag([1 + 1 / slope**2, 1.0])
    return gradient, curvature
