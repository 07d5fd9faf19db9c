"""Do confidences mean what they say? Reliability by bins, and the expected calibration error.

Of the predictions made with confidence 0.8, four in five should be correct. To measure it,
predictions are sorted into bins of equal width by their confidence, and in each bin the mean
confidence is held against the accuracy (Zhu and Li, ACL 2022, appendix B).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fencepost.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class ReliabilityBin:
    """The predictions whose confidence is in (lower, upper]; the first bin holds 0 as well.

    An empty bin has neither a mean confidence nor an accuracy.
    """

    lower: float
    upper: float
    count: int
    confidence: float | None
    accuracy: float | None


@dataclass(frozen=True, slots=True)
class Calibration:
    """The expected calibration error (none if nothing was predicted) and the bins behind it."""

    ece: float | None
    bins: tuple[ReliabilityBin, ...]


def reliability(
    scores: Sequence[float] | npt.NDArray[np.floating],
    correct: Sequence[bool] | npt.NDArray[np.bool_],
    bins: int = 10,
) -> Calibration:
    """Hold the confidences of N predictions against whether each was correct.

    ECE = sum over bins b of n_b / N * |accuracy_b - confidence_b|.
    """
    if bins < 1:
        raise UsageError(f"calibration needs at least one bin, not {bins}")
    confidence = np.asarray(scores, dtype=np.float64)  # [N]
    hit = np.asarray(correct, dtype=np.bool_)  # [N]
    if confidence.ndim != 1 or confidence.shape != hit.shape:
        raise ValueError(
            "calibration needs one score and one verdict for each prediction, but the shapes are "
            f"{confidence.shape} and {hit.shape}"
        )
    if not ((confidence >= 0) & (confidence <= 1)).all():  # so that NaN is refused too
        raise ValueError("a confidence is a probability between 0 and 1")

    edges = np.arange(bins + 1) / bins  # [bins + 1]; linspace's 0.3 is not quite 0.3
    place = np.maximum(np.searchsorted(edges, confidence, side="left") - 1, 0)  # [N]
    count = np.bincount(place, minlength=bins)  # [bins]
    confidence_sum = np.bincount(place, confidence, minlength=bins)  # [bins]
    correct_sum = np.bincount(place, hit, minlength=bins)  # [bins]
    ece = None
    if len(confidence):
        ece = float(np.abs(correct_sum - confidence_sum).sum() / len(confidence))
    reliability = tuple(
        ReliabilityBin(
            lower=float(edges[b]),
            upper=float(edges[b + 1]),
            count=int(count[b]),
            confidence=float(confidence_sum[b] / count[b]) if count[b] else None,
            accuracy=float(correct_sum[b] / count[b]) if count[b] else None,
        )
        for b in range(bins)
    )
    return Calibration(ece, reliability)
