"""Quality of predictions: strict scores, calibration, kinds of mistakes, confidence intervals and tests."""

from fencepost.evaluation.bootstrap import Difference, Interval, Scores, difference, holm, intervals
from fencepost.evaluation.calibration import Calibration, ReliabilityBin, reliability
from fencepost.evaluation.mistakes import GROUPS, KINDS, Kind, Mistake, Mistakes, mistakes
from fencepost.evaluation.strict import Evaluation, Matches, Mentions, Score, best_cut, evaluate, match
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
    "match",
    "mistakes",
    "reliability",
]
