"""Calibration: reliability by bins, and the expected calibration error.

Of the predictions with confidence 0.8, four in five should be correct. To measure this, predictions are
sorted into bins of equal width by confidence, and the mean confidence of each bin is compared with its
accuracy (Zhu and Li, ACL 2022, appendix B).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fencepost.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ReliabilityBin:
    """The predictions with a confidence in (lower, upper]; the first bin includes 0.

    An empty bin has neither a mean confidence nor an accuracy.
    """

    lower: float
    upper: float
    count: int
    confidence: float | None
    accuracy: float | None


@dataclass(frozen=True, slots=True)
class Calibration:
    """The expected calibration error (None without predictions), and its bins."""

    ece: float | None
    bins: tuple[ReliabilityBin, ...]


def reliability(
    scores: Sequence[float] | FloatArray, correct: Sequence[bool] | BoolArray, bins: int = 10
) -> Calibration:
    """Compare the confidences of N predictions with whether each is correct.

    ECE = sum over bins b of n_b / N * |accuracy_b - confidence_b|.
    """
    if bins < 1:
        raise UsageError(f"calibration needs at least one bin, not {bins}")
    confidence, hit = check_confidences(scores, correct)
    edges = np.arange(bins + 1) / bins  # [bins + 1]; linspace's 0.3 is not quite 0.3
    place = np.maximum(np.searchsorted(edges, confidence, side="left") - 1, 0)  # [N]
    count = np.bincount(place, minlength=bins)  # [bins]
    confidence_sum = np.bincount(place, confidence, minlength=bins)  # [bins]
    correct_sum = np.bincount(place, hit, minlength=bins)  # [bins]
    gap = float(np.abs(correct_sum - confidence_sum).sum())
    columns = (edges[:-1], edges[1:], count, confidence_sum, correct_sum)
    found = [
        ReliabilityBin(lower, upper, n, sure / n if n else None, right / n if n else None)
        for lower, upper, n, sure, right in zip(*(column.tolist() for column in columns), strict=True)
    ]
    return Calibration(gap / len(confidence) if len(confidence) else None, tuple(found))


def check_confidences(
    scores: Sequence[float] | FloatArray, correct: Sequence[bool] | BoolArray
) -> tuple[FloatArray, BoolArray]:
    """Return the confidences [N] and verdicts [N] of predictions as arrays.

    Raises `ValueError` if their lengths differ or a confidence is no probability.
    """
    confidence, hit = np.asarray(scores, dtype=np.float64), np.asarray(correct, dtype=np.bool_)
    if confidence.ndim != 1 or confidence.shape != hit.shape:
        raise ValueError(
            "one score and one verdict are needed for each prediction, but the shapes are "
            f"{confidence.shape} and {hit.shape}"
        )
    if not ((confidence >= 0) & (confidence <= 1)).all():  # so that NaN is refused too
        raise ValueError("a confidence is a probability between 0 and 1")
    return confidence, hit
