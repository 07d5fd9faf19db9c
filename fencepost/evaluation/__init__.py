"""How good predictions are: strict scores, calibration, kinds of mistakes, and what chance may have done."""

from fencepost.evaluation.bootstrap import Difference, Interval, Scores, difference, holm, intervals
from fencepost.evaluation.calibration import Calibration, ReliabilityBin, reliability
from fencepost.evaluation.mistakes import GROUPS, KINDS, Kind, Mistake, Mistakes, mistakes
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
    "GROUPS",
    "KINDS",
    "Calibration",
    "Difference",
    "Evaluation",
    "Interval",
    "Kind",
    "Matches",
    "Mentions",
    "Mistake",
    "Mistakes",
    "ReliabilityBin",
    "Score",
    "Scores",
    "Temperature",
    "best_cut",
    "difference",
    "evaluate",
    "holm",
    "intervals",
    "macro_f1",
    "match",
    "mistakes",
    "reliability",
    "score",
    "score_by_length",
    "score_by_type",
]
