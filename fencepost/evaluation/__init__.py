"""Quality of predictions: strict scores, calibration, kinds of errors, confidence intervals and tests."""

from fencepost.evaluation.bootstrap import (
    Difference,
    Interval,
    Scores,
    adjust_p_values,
    compare_models,
    compute_intervals,
)
from fencepost.evaluation.calibration import Calibration, ReliabilityBin, reliability
from fencepost.evaluation.errors import GROUPS, KINDS, ErrorAnalysis, ErrorCase, ErrorKind, classify_errors
from fencepost.evaluation.strict import Evaluation, Matches, Score, evaluate, fit_threshold, match
from fencepost.evaluation.temperature import Temperature

__all__ = [
    "GROUPS",
    "KINDS",
    "Calibration",
    "Difference",
    "ErrorAnalysis",
    "ErrorCase",
    "ErrorKind",
    "Evaluation",
    "Interval",
    "Matches",
    "ReliabilityBin",
    "Score",
    "Scores",
    "Temperature",
    "adjust_p_values",
    "classify_errors",
    "compare_models",
    "compute_intervals",
    "evaluate",
    "fit_threshold",
    "match",
    "reliability",
]
