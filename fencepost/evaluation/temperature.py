"""Calibration of confidences by a temperature and a shift, fitted to predictions on annotated data.

Temperature scaling (Guo et al., ICML 2017) divides the logit of a confidence by a number, which corrects
confidences that are all too extreme or all too near 0.5. Not all confidences of our methods are softmax
probabilities; some are means of several, and too low or too high as a whole. A shift of the logit corrects
that (Platt, 1999). Neither changes the order of predictions by confidence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fencepost.evaluation.calibration import check_confidences

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fencepost.evaluation.calibration import BoolArray, FloatArray

_CLIP = 1e-6
"""Minimum distance of a confidence from 0 and 1; others are clipped, since a logit must be finite."""

_NUMBERS = np.finfo(np.float64)


@dataclass(frozen=True, slots=True)
class Temperature:
    """Mapping of a confidence c to sigmoid((logit(c) + shift) / temperature); by default the identity."""

    LOWEST: ClassVar[float] = 0.05
    HIGHEST: ClassVar[float] = 20.0
    FARTHEST: ClassVar[float] = 1000.0

    temperature: float = 1.0
    shift: float = 0.0

    def __post_init__(self) -> None:
        if not self.LOWEST <= self.temperature <= self.HIGHEST:  # written so that NaN is refused too
            raise ValueError(
                f"a temperature must be between {self.LOWEST:g} and {self.HIGHEST:g}, not {self.temperature}"
            )
        if not -self.FARTHEST <= self.shift <= self.FARTHEST:  # larger than any fitted shift
            raise ValueError(
                f"a shift must be between {-self.FARTHEST:g} and {self.FARTHEST:g}, not {self.shift}"
            )

    def apply(self, confidence: FloatArray) -> FloatArray:
        """Return the calibrated confidences: between 0 and 1, in the same order."""
        if self == Temperature():
            return confidence
        return _sigmoid((_logit(confidence) + self.shift) / self.temperature)

    def undo(self, confidence: FloatArray) -> FloatArray:
        """Invert `apply`, except for confidences that were clipped or rounded to 0 or 1."""
        if self == Temperature():
            return confidence
        logit = _logit(confidence, _NUMBERS.tiny, _NUMBERS.epsneg)
        return np.clip(_sigmoid(logit * self.temperature - self.shift), _CLIP, 1 - _CLIP)

    @classmethod
    def fit(cls, scores: Sequence[float] | FloatArray, correct: Sequence[bool] | BoolArray) -> Temperature:
        """Return the most likely mapping for N predictions, given whether each is correct.

        With slope = 1 / temperature and offset = shift / temperature this is a logistic regression on the
        logit. A prior, which weighs about as much as one prediction, keeps the mapping near the identity if
        there is little data, and finite if all predictions are correct.
        """
        confidence, hit = check_confidences(scores, correct)
        if not len(confidence):
            return cls()
        from scipy.optimize import minimize

        slope, offset = minimize(
            _compute_cost,
            (1.0, 0.0),
            (_logit(confidence), hit),
            "L-BFGS-B",
            jac=True,
            bounds=((1 / cls.HIGHEST, 1 / cls.LOWEST), (None, None)),
            options={"ftol": 1e-15, "gtol": 1e-10},
        ).x.tolist()
        return cls(
            min(max(1 / slope, cls.LOWEST), cls.HIGHEST), offset / slope
        )  # 1 / (1 / x) may differ from x


def _logit(confidence: FloatArray, from_0: float = _CLIP, from_1: float = _CLIP) -> FloatArray:
    clipped = np.clip(confidence, from_0, 1 - from_1)
    return np.log(clipped) - np.log1p(-clipped)


def _sigmoid(logit: FloatArray) -> FloatArray:
    with np.errstate(over="ignore"):  # 1 / (1 + infinity) is 0, the correct limit
        return 1 / (1 + np.exp(-logit))


def _compute_cost(point: FloatArray, logit: FloatArray, correct: BoolArray) -> tuple[float, FloatArray]:
    """Return the cost of a slope s and an offset o, a convex function, and its gradient [2].

    The cost is log loss + (s^2 - 1) / 2 - log s + o^2 / 2. The terms after the log loss are the prior: a
    Rayleigh distribution of the slope, whose mode is 1, and a normal one of the offset. They are 0 for the
    identity, so the result never has a higher log loss than the identity.
    """
    slope, offset = point
    value = slope * logit + offset  # [N]
    loss = np.logaddexp(0, np.where(correct, -value, value)).sum()
    error = _sigmoid(value) - correct  # [N]
    gradient = np.array([error @ logit + slope - 1 / slope, error.sum() + offset])
    return float(loss + (slope**2 - 1) / 2 - math.log(slope) + offset**2 / 2), gradient
