"""How good predictions are: strict scores, by type and length, and calibration."""

from fencepost.evaluation.calibration import Calibration, ReliabilityBin, reliability
from fencepost.evaluation.strict import (
    Evaluation,
    Matches,
    Mentions,
    Score,
    best_cut,
    evaluate,
    macro_f1,
    match,
    score,
    score_by_length,
    score_by_type,
)
from fencepost.evaluation.temperature import Temperature

__all__ = [
    "Calibration",
    "Evaluation",
    "Matches",
    "Mentions",
    "ReliabilityBin",
    "Score",
    "Temperature",
    "best_cut",
    "evaluate",
    "macro_f1",
    "match",
    "reliability",
    "score",
    "score_by_length",
    "score_by_type",
]
