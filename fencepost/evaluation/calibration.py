"""Calibration: reliability by bins, and the expected calibration error.

Of the predictions with confidence 0.8, four in five should be correct. To measure this, predictions are
grouped into bins of equal width by their confidence, and the mean confidence of each bin is compared with
its accuracy (Zhu and Li, ACL 2022, appendix B).
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
    """Predictions with a confidence in (lower, upper]; the first bin includes 0.

    The mean confidence and the accuracy of an empty bin are None.
    """

    lower: float
    upper: float
    count: int
    confidence: float | None
    accuracy: float | None


@dataclass(frozen=True, slots=True)
class Calibration:
    """Expected calibration error (None without predictions), and the bins it is computed from."""

    ece: float | None
    bins: tuple[ReliabilityBin, ...]


def reliability(
    scores: Sequence[float] | FloatArray, correct: Sequence[bool] | BoolArray, bins: int = 10
) -> Calibration:
    """Compute the calibration of N predictions from their confidences and from whether each is correct.

    ECE = sum over bins b of n_b / N * |accuracy_b - confidence_b|.
    """
    if bins < 1:
        raise UsageError(f"calibration needs at least one bin, not {bins}")
    confidence, hit = check_confidences(scores, correct)
    bounds = np.arange(bins + 1) / bins  # [bins + 1]; linspace's 0.3 is not quite 0.3
    index = np.maximum(np.searchsorted(bounds, confidence, side="left") - 1, 0)  # [N]
    count = np.bincount(index, minlength=bins)  # [bins]
    confidence_sum = np.bincount(index, confidence, minlength=bins)  # [bins]
    correct_sum = np.bincount(index, hit, minlength=bins)  # [bins]
    gap = float(np.abs(correct_sum - confidence_sum).sum())
    columns = (bounds[:-1], bounds[1:], count, confidence_sum, correct_sum)
    filled = tuple(
        ReliabilityBin(lower, upper, n, total / n if n else None, hits / n if n else None)
        for lower, upper, n, total, hits in zip(*(column.tolist() for column in columns), strict=True)
    )
    return Calibration(gap / len(confidence) if len(confidence) else None, filled)


def check_confidences(
    scores: Sequence[float] | FloatArray, correct: Sequence[bool] | BoolArray
) -> tuple[FloatArray, BoolArray]:
    """Return confidences [N] and whether each prediction is correct [N] as arrays.

    Raises `ValueError` if their lengths differ or if a confidence is not between 0 and 1.
    """
    confidence, hit = np.asarray(scores, dtype=np.float64), np.asarray(correct, dtype=np.bool_)
    if confidence.ndim != 1 or confidence.shape != hit.shape:
        raise ValueError(
            "scores and correct must be one-dimensional and of the same length, but their shapes are "
            f"{confidence.shape} and {hit.shape}"
        )
    if not ((confidence >= 0) & (confidence <= 1)).all():  # written so that NaN is refused too
        raise ValueError("a confidence must be between 0 and 1")
    return confidence, hit
