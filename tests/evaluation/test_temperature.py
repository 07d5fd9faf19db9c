from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.optimize import minimize

from fencepost.evaluation import Temperature, reliability

Predictions = list[tuple[float, bool]]

confidence = st.sampled_from([0.0, 1e-9, 0.5, 0.9, 1 - 1e-9, 1.0]) | st.floats(0, 1)
judged = st.lists(st.tuples(confidence, st.booleans()), min_size=1, max_size=60)
temperatures = st.builds(Temperature, st.floats(0.05, 20), st.floats(-300, 300))


def plain(score: float, temperature: Temperature) -> float:
    clipped = min(max(score, 1e-6), 1 - 1e-6)
    logit = (math.log(clipped / (1 - clipped)) + temperature.shift) / temperature.temperature
    return 1 / (1 + math.exp(-logit)) if logit > -700 else 0.0


def log_loss(predictions: Predictions, temperature: Temperature) -> float:
    total = 0.0
    for score, correct in predictions:
        clipped = min(max(score, 1e-6), 1 - 1e-6)
        logit = (math.log(clipped / (1 - clipped)) + temperature.shift) / temperature.temperature
        total += float(np.logaddexp(0, -logit if correct else logit))
    return total


def prior(temperature: Temperature) -> float:
    slope, offset = 1 / temperature.temperature, temperature.shift / temperature.temperature
    return (slope**2 - 1) / 2 - math.log(slope) + offset**2 / 2


def fitted(predictions: Predictions) -> Temperature:
    return Temperature.fit([score for score, _ in predictions], [correct for _, correct in predictions])


def draw_scores(count: int, temperature: Temperature, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Draw confidences that this temperature calibrates."""
    chance = np.random.default_rng(seed)
    scores = chance.beta(2, 1, count)
    return scores, chance.random(count) < temperature.apply(scores)


# Apply


def test_apply_equals_the_values_by_hand() -> None:
    scores = np.array([0.5, 0.9, 0.2])
    # logits 0, log 9, -log 4; halved, the square roots of the odds: 1, 3, 1/2
    assert Temperature(2.0).apply(scores) == pytest.approx([1 / 2, 3 / 4, 1 / 3])
    # shifted by log 4, the odds are four times as high: 4, 36, 1
    assert Temperature(1.0, math.log(4)).apply(scores) == pytest.approx([4 / 5, 36 / 37, 1 / 2])
    assert Temperature(2.0, math.log(4)).apply(scores) == pytest.approx([2 / 3, 6 / 7, 1 / 2])


@given(st.lists(confidence, max_size=30))
def test_identity_keeps_scores_exactly(scores: list[float]) -> None:
    assert Temperature() == Temperature(1.0, 0.0)
    assert Temperature().apply(np.array(scores)).tolist() == scores


@given(st.lists(confidence, min_size=1, max_size=30), temperatures)
@example([0.0, 0.5, 1.0], Temperature(0.05, 1000))
@example([0.0, 0.5, 1.0], Temperature(0.05, -1000))
def test_apply_keeps_order_and_returns_probabilities(scores: list[float], temperature: Temperature) -> None:
    confidences = temperature.apply(np.sort(np.array(scores)))
    assert ((confidences >= 0) & (confidences <= 1)).all()
    assert (np.diff(confidences) >= -1e-15).all()


@given(st.lists(confidence, max_size=30), temperatures)
def test_apply_equals_the_formula(scores: list[float], temperature: Temperature) -> None:
    confidences = temperature.apply(np.array(scores))
    # the logit of 1 - 1e-6 is known to ten digits, of which a low temperature takes one or two
    assert confidences == pytest.approx([plain(score, temperature) for score in scores], rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("temperature", [0.0, -1.0, 0.04, 21.0, math.nan, math.inf])
def test_refuses_a_temperature_outside_its_limits(temperature: float) -> None:
    with pytest.raises(ValueError, match=r"^a temperature must be between 0\.05 and 20, not "):
        Temperature(temperature)


@pytest.mark.parametrize("shift", [math.nan, math.inf, -math.inf, 1001.0, -1001.0])
def test_refuses_a_shift_outside_its_limits(shift: float) -> None:
    with pytest.raises(ValueError, match=r"^a shift must be between -1000 and 1000, not "):
        Temperature(1.0, shift)


# Undo


def test_undo_equals_the_values_by_hand() -> None:
    assert Temperature(2.0, math.log(4)).undo(np.array([2 / 3, 6 / 7, 1 / 2])) == pytest.approx(
        [0.5, 0.9, 0.2]
    )


@given(
    st.lists(st.floats(1e-6, 1 - 1e-6), max_size=30),
    st.builds(Temperature, st.floats(0.6, 20), st.floats(-5, 5)),
)
@example([1e-6, 1e-5, 0.3, 0.9999, 1 - 1e-6], Temperature(0.6))
@example([0.2, 0.5, 0.95], Temperature(0.1, 0.5))
@example([1e-6, 1 - 1e-6], Temperature(20, -1000))
def test_undo_reverses_apply(scores: list[float], temperature: Temperature) -> None:
    """This holds even if the result is closer to 0 or 1 than a millionth."""
    confidences = temperature.undo(temperature.apply(np.array(scores)))
    assert confidences == pytest.approx(scores, rel=1e-3, abs=1e-7)
    assert 1 - confidences == pytest.approx(1 - np.array(scores), rel=1e-3, abs=1e-7)


@given(st.lists(confidence, min_size=1, max_size=30), temperatures)
@example([0.0, 0.5, 1.0], Temperature(0.05, 1000))
@example([0.0, 0.5, 1.0], Temperature(20, -1000))
def test_undo_keeps_order_and_returns_probabilities(scores: list[float], temperature: Temperature) -> None:
    confidences = temperature.undo(np.sort(np.array(scores)))
    assert ((confidences >= 0) & (confidences <= 1)).all()
    assert (np.diff(confidences) >= -1e-15).all()
    again = temperature.undo(temperature.apply(np.sort(np.array(scores))))
    assert (np.diff(again) >= -1e-9).all()


@given(st.lists(confidence, max_size=30))
def test_undo_of_the_identity_keeps_scores_exactly(scores: list[float]) -> None:
    assert Temperature().undo(np.array(scores)).tolist() == scores


# Fit


@pytest.mark.parametrize(
    "true",
    [Temperature(), Temperature(2.5), Temperature(0.5, -0.7), Temperature(1.4, 1.0), Temperature(6, -3)],
)
def test_fit_finds_the_true_temperature(true: Temperature) -> None:
    scores, correct = draw_scores(100_000, true)
    fit = Temperature.fit(scores, correct)
    assert fit.temperature == pytest.approx(true.temperature, rel=0.05)
    assert fit.shift == pytest.approx(true.shift, abs=0.05 * true.temperature)
    after = reliability(fit.apply(scores), correct).ece
    assert after is not None
    assert after < 0.01


@given(judged)
@example([(1.0, False)] * 500)
@example([(1.0, True)] * 500)
@example([(0.0, True), (1.0, False)] * 200)
@example([(index / 400, index > 200) for index in range(401)])
def test_fit_is_as_good_as_a_general_optimiser(predictions: Predictions) -> None:
    """The optimiser starts at the identity and at the fitted temperature."""
    fit = fitted(predictions)

    def cost(point: np.ndarray) -> float:
        temperature = Temperature(1 / min(max(point[0], 0.05), 20), point[1] / min(max(point[0], 0.05), 20))
        return log_loss(predictions, temperature) + prior(temperature)

    own = cost(np.array([1 / fit.temperature, fit.shift / fit.temperature]))
    starts = ([1.0, 0.0], [1 / fit.temperature, fit.shift / fit.temperature])
    for start in starts:
        other = minimize(cost, start, method="L-BFGS-B", bounds=[(0.05, 20), (-50, 50)])
        assert own <= other.fun + 1e-7 * (1 + own)


@given(judged)
def test_fit_never_increases_the_penalised_log_loss(predictions: Predictions) -> None:
    fit = fitted(predictions)
    assert log_loss(predictions, fit) + prior(fit) <= log_loss(predictions, Temperature()) + 1e-9


@given(st.lists(st.tuples(confidence, st.booleans()), max_size=5), st.integers(1, 10_000))
def test_fit_stays_within_its_limits(predictions: Predictions, times: int) -> None:
    scores = [score for score, _ in predictions] * times
    fit = Temperature.fit(scores, [correct for _, correct in predictions] * times)
    assert 0.05 <= fit.temperature <= 20
    assert abs(fit.shift) < 300


@pytest.mark.parametrize("correct", [False, True])
def test_fit_of_few_predictions_stays_near_the_identity(correct: bool) -> None:
    fit = fitted([(0.8, correct)])
    assert 0.5 < fit.temperature < 2
    assert 0.5 < fit.apply(np.array([0.8]))[0] < 0.95


def test_fit_of_all_correct_or_wrong_predictions_is_not_certain() -> None:
    scores = np.linspace(0.5, 0.99, 200)
    right = Temperature.fit(scores, np.ones(200, dtype=bool)).apply(scores)
    assert (right > scores).all()
    assert right.max() < 1 - 1e-6
    wrong = Temperature.fit(scores, np.zeros(200, dtype=bool)).apply(scores)
    assert (wrong < 0.1).all()
    assert wrong.min() > 1e-3


def test_fit_of_separable_predictions_is_not_a_step() -> None:
    fit = fitted([(0.4, False), (0.6, True)] * 50)
    assert 0.1 < fit.temperature < 0.5
    assert fit.shift == pytest.approx(0, abs=1e-6)


def test_fit_does_not_invert_a_wrong_order() -> None:
    fit = fitted([(0.9, False), (0.1, True)] * 1000)
    assert fit.temperature == 20
    low, high = fit.apply(np.array([0.1, 0.9]))
    assert 0.4 < low < high < 0.6


def test_fit_without_predictions_is_the_identity() -> None:
    assert Temperature.fit([], []) == Temperature()


@pytest.mark.parametrize("score", [-0.1, 1.1, math.nan])
def test_refuses_scores_outside_0_and_1(score: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        Temperature.fit([score], [True])


def test_refuses_different_lengths() -> None:
    with pytest.raises(ValueError, match="shapes"):
        Temperature.fit([0.5, 0.5], [True])
