from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.errors import UsageError
from fencepost.evaluation import Calibration, reliability


def plain_ece(predictions: list[tuple[float, bool]], bins: int) -> float:
    total = 0.0
    for index in range(bins):
        lower, upper = index / bins, (index + 1) / bins
        inside = [
            (score, correct)
            for score, correct in predictions
            if lower < score <= upper or (index == 0 and score == 0)
        ]
        if inside:
            confidence = sum(score for score, _ in inside) / len(inside)
            accuracy = sum(correct for _, correct in inside) / len(inside)
            total += len(inside) / len(predictions) * abs(accuracy - confidence)
    return total


def test_ece_and_bins_equal_the_values_by_hand() -> None:
    scores = [0.95, 0.85, 0.91, 0.15]
    result = reliability(scores, [True, False, True, False])
    # (0.9, 1.0]: 2 of 4, all correct, mean 0.93; (0.8, 0.9]: 1, wrong; (0.1, 0.2]: 1, wrong
    assert result.ece == pytest.approx(2 / 4 * 0.07 + 1 / 4 * 0.85 + 1 / 4 * 0.15)
    last = result.bins[-1]
    assert (last.lower, last.upper, last.count) == (0.9, 1.0, 2)
    assert last.confidence == pytest.approx(0.93)
    assert last.accuracy == 1.0
    assert result.bins[8].accuracy == 0.0
    assert (result.bins[5].count, result.bins[5].confidence, result.bins[5].accuracy) == (0, None, None)


def test_bins_include_their_upper_bound_and_the_first_one_0() -> None:
    tenths = [index / 10 for index in range(11)]
    counts = [one.count for one in reliability(tenths, [True] * 11).bins]
    assert counts == [2, 1, 1, 1, 1, 1, 1, 1, 1, 1]


score = st.sampled_from([index / 10 for index in range(11)]) | st.floats(0, 1)


@given(st.lists(st.tuples(score, st.booleans()), min_size=1, max_size=50), st.integers(1, 20))
def test_ece_equals_a_simple_loop(predictions: list[tuple[float, bool]], bins: int) -> None:
    scores, correct = zip(*predictions, strict=True)
    result = reliability(scores, correct, bins)
    assert result.ece is not None
    assert math.isclose(result.ece, plain_ece(predictions, bins), abs_tol=1e-12)
    assert len(result.bins) == bins
    assert sum(one.count for one in result.bins) == len(predictions)
    for one in result.bins:
        if one.confidence is not None:
            assert one.lower - 1e-12 <= one.confidence <= one.upper + 1e-12


def test_ece_of_certain_predictions_is_0_or_1() -> None:
    assert reliability([1.0, 1.0], [True, True]).ece == 0.0
    assert reliability([1.0, 1.0], [False, False]).ece == 1.0


def test_no_predictions_have_no_ece() -> None:
    result = reliability([], [])
    assert isinstance(result, Calibration)
    assert result.ece is None
    assert [one.count for one in result.bins] == [0] * 10


@pytest.mark.parametrize("scores", [[1.5], [-0.1], [float("nan")]])
def test_refuses_scores_outside_0_and_1(scores: list[float]) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        reliability(scores, [True])


def test_refuses_different_lengths() -> None:
    with pytest.raises(ValueError, match="shapes"):
        reliability([0.5, 0.5], [True])


def test_refuses_0_bins() -> None:
    with pytest.raises(UsageError, match="at least one bin"):
        reliability([0.5], [True], bins=0)
