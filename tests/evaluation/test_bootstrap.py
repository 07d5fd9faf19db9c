"""Intervals and tests, compared with loops over sentences, SciPy, enumeration, and examples by hand."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import permutation_test

from fencepost.data.entity import Entity, Sentence
from fencepost.errors import UsageError
from fencepost.evaluation import (
    Matches,
    adjust_p_values,
    bootstrap,
    compare_models,
    compute_intervals,
    evaluate,
    match,
)

WORDS = tuple("abcdefgh")


def corpus(size: int, seed: int, recall: float, wrong: float) -> tuple[list[Sentence], list[Sentence]]:
    """Return gold, which depends only on `seed // 100`, and predictions with this recall and wrong share."""
    of_gold, chance = np.random.default_rng(seed // 100), np.random.default_rng(seed)
    gold, predicted = [], []
    for _ in range(size):
        true = [Entity(int(start), int(start) + 1, "AB"[start % 2]) for start in of_gold.choice(8, 3, False)]
        true = true[: of_gold.integers(0, 4)]
        correct = [entity for entity in true if chance.random() < recall]
        more = [Entity(0, 4, "C")] if chance.random() < wrong else []
        gold.append(Sentence(WORDS, true))
        predicted.append(Sentence(WORDS, correct + more))
    return gold, predicted


def f1(counts: np.ndarray) -> float:
    right, predicted, gold = counts.sum(axis=0)
    return float(2 * right / (predicted + gold)) if predicted + gold else 0.0


@pytest.fixture(scope="module")
def good() -> Matches:
    return match(*corpus(60, 100, 0.8, 0.2))


@pytest.fixture(scope="module")
def worse() -> Matches:
    return match(*corpus(60, 101, 0.6, 0.3))


@pytest.fixture(scope="module")
def worst() -> Matches:
    return match(*corpus(60, 102, 0.1, 1.0))


# Intervals


def test_interval_values_are_those_of_evaluate(good: Matches) -> None:
    expected = evaluate(*corpus(60, 100, 0.8, 0.2))
    intervals = compute_intervals(good, 100)
    assert list(intervals) == [None, "A", "B", "C"]
    for name, score in [(None, expected.overall), *expected.by_type.items()]:
        for part in ("precision", "recall", "f1"):
            interval = getattr(intervals[name], part)
            assert interval.value == pytest.approx(getattr(score, part))
            assert interval.low <= interval.value <= interval.high
            assert interval.low >= 0
            assert interval.high <= 1
    assert intervals["C"].recall == bootstrap.Interval(0.0, 0.0, 0.0)  # the gold has no entity of this type


def test_interval_bounds_equal_a_simple_bootstrap(good: Matches) -> None:
    counts = good.count_by_sentence()
    chance = np.random.default_rng(5)
    draws = []
    for _ in range(4000):
        some = counts[[chance.integers(len(counts)) for _ in counts]]
        right, predicted, gold = some.sum(axis=0)
        draws.append((right / predicted, right / gold, f1(some)))
    low, high = np.quantile(draws, [0.025, 0.975], axis=0)
    overall = compute_intervals(good, 4000)[None]
    for column, interval in enumerate((overall.precision, overall.recall, overall.f1)):
        width = high[column] - low[column]
        assert width > 0.03
        assert interval.low == pytest.approx(low[column], abs=0.08 * width)
        assert interval.high == pytest.approx(high[column], abs=0.08 * width)


def test_interval_of_a_type_does_not_depend_on_other_types(good: Matches) -> None:
    """A type alone has the same interval with the same seed."""
    gold, predicted = corpus(60, 100, 0.8, 0.2)
    only = [
        [one.with_entities(entity for entity in one.entities if entity.type == "A") for one in of]
        for of in (gold, predicted)
    ]
    assert compute_intervals(match(*only), 200)["A"] == compute_intervals(good, 200)["A"]


def test_intervals_depend_on_the_seed_and_not_on_blocks(
    good: Matches, worse: Matches, monkeypatch: pytest.MonkeyPatch
) -> None:
    once = compute_intervals(good, 150), compare_models(good, worse, 150, 500)
    assert once == (compute_intervals(good, 150), compare_models(good, worse, 150, 500))
    assert once[0] != compute_intervals(good, 150, seed=1)
    monkeypatch.setattr(bootstrap, "_AT_ONCE", 60 * 7)  # 150 is not a multiple of 7
    assert compute_intervals(good, 150) == once[0]
    parts = compare_models(good, worse, 150, 500)
    assert parts.f1 == once[1].f1
    assert parts.p == pytest.approx(once[1].p, abs=0.06)  # the exchanges may be others
    monkeypatch.setattr(bootstrap, "_AT_ONCE", 1)
    assert compute_intervals(good, 150) == once[0]


def test_more_sentences_make_narrower_intervals() -> None:
    small, large = (compute_intervals(match(*corpus(size, 100, 0.8, 0.2)))[None].f1 for size in (50, 800))
    assert 2.5 < (small.high - small.low) / (large.high - large.low) < 6.5  # about the root of 16


def test_intervals_without_variation_have_width_0() -> None:
    gold, _ = corpus(20, 100, 1, 0)
    perfect = compute_intervals(match(gold, gold), 100)[None]
    assert perfect.f1 == bootstrap.Interval(1.0, 1.0, 1.0)
    nothing = [one.with_entities([]) for one in gold]
    silent = compute_intervals(match(gold, nothing), 100)[None]
    assert silent.precision == silent.f1 == bootstrap.Interval(0.0, 0.0, 0.0)
    empty = compute_intervals(match(nothing, nothing), 100)
    assert list(empty) == [None]
    assert empty[None].f1 == bootstrap.Interval(0.0, 0.0, 0.0)


def test_refuses_data_without_sentences() -> None:
    nothing = match([], [])
    with pytest.raises(UsageError, match="need at least one sentence"):
        compute_intervals(nothing)
    with pytest.raises(UsageError, match="need at least one sentence"):
        compare_models(nothing, nothing)


# Differences


def test_equal_models_do_not_differ(good: Matches) -> None:
    same = compare_models(good, good, 200, 500)
    assert same.f1 == bootstrap.Interval(0.0, 0.0, 0.0)
    assert same.p == 1.0


def test_swapping_models_negates_the_difference(good: Matches, worse: Matches) -> None:
    one, other = compare_models(good, worse, 500, 1000), compare_models(worse, good, 500, 1000)
    assert one.p == other.p
    assert (one.f1.value, one.f1.low, one.f1.high) == pytest.approx(
        (-other.f1.value, -other.f1.high, -other.f1.low)
    )


def test_clear_difference_is_significant(good: Matches, worst: Matches) -> None:
    clear = compare_models(good, worst, 500, 999)
    assert clear.p == pytest.approx(1 / 1000)  # none of the exchanges has such a difference
    assert clear.f1.low > 0.3
    assert clear.f1.low < clear.f1.value < clear.f1.high


def test_difference_interval_is_paired(good: Matches, worse: Matches) -> None:
    """Both models are scored on the same sentences of a draw."""
    ours, theirs = good.count_by_sentence(), worse.count_by_sentence()
    chance = np.random.default_rng(7)
    draws = []
    for _ in range(4000):
        some = chance.integers(0, len(ours), len(ours))
        draws.append(f1(ours[some]) - f1(theirs[some]))
    low, high = np.quantile(draws, [0.025, 0.975])
    comparison = compare_models(good, worse, 4000, 100)
    assert comparison.f1.value == pytest.approx(f1(ours) - f1(theirs))
    assert comparison.f1.low == pytest.approx(low, abs=0.08 * (high - low))
    assert comparison.f1.high == pytest.approx(high, abs=0.08 * (high - low))


def test_p_value_equals_that_of_scipy(good: Matches, worse: Matches) -> None:
    ours, theirs = good.count_by_sentence(), worse.count_by_sentence()
    both = np.stack((ours, theirs))  # [2, S, 3]

    def statistic(one: np.ndarray, other: np.ndarray) -> float:
        """Return the difference for indices `model * S + sentence`, which SciPy exchanges."""
        flat = both.reshape(-1, 3)
        return abs(f1(flat[one.astype(int)]) - f1(flat[other.astype(int)]))

    size = len(ours)
    expected = permutation_test(
        (np.arange(size), np.arange(size) + size),
        statistic,
        permutation_type="samples",
        vectorized=False,
        n_resamples=4000,
        alternative="greater",
        rng=np.random.default_rng(0),
    )
    assert 0.001 < expected.pvalue < 0.5  # otherwise the comparison proves nothing
    p = compare_models(good, worse, 100, 20_000).p
    error = np.sqrt(expected.pvalue * (1 - expected.pvalue) / 4000)
    assert p == pytest.approx(expected.pvalue, abs=4 * error)


@settings(max_examples=15)
@given(st.integers(0, 10_000))
def test_p_value_of_few_sentences_equals_all_exchanges(seed: int) -> None:
    first = match(*corpus(6, 100 * seed, 0.8, 0.3))
    second = match(*corpus(6, 100 * seed + 1, 0.5, 0.3))
    ours, theirs = first.count_by_sentence(), second.count_by_sentence()
    observed = abs(f1(ours) - f1(theirs))
    as_large = 0
    for exchanged in product([False, True], repeat=6):
        mask = np.array(exchanged)[:, None]
        one, other = np.where(mask, theirs, ours), np.where(mask, ours, theirs)
        as_large += abs(f1(one) - f1(other)) >= observed - 1e-12
    comparison = compare_models(first, second, 100, 8000)
    assert comparison.f1.value == pytest.approx(f1(ours) - f1(theirs))
    assert comparison.p == pytest.approx(as_large / 64, abs=0.03)


def test_p_values_of_equally_good_models_are_uniform() -> None:
    """One in ten pairs of equally good models has p below 0.1."""
    values = [
        compare_models(
            match(*corpus(40, 100 * seed, 0.7, 0.3)), match(*corpus(40, 100 * seed + 1, 0.7, 0.3)), 100, 200
        ).p
        for seed in range(1, 151)
    ]
    assert 0.03 < np.mean(np.array(values) < 0.1) < 0.19
    assert 0.38 < np.mean(np.array(values) < 0.5) < 0.62


def test_refuses_to_compare_different_sentences(good: Matches) -> None:
    for other in (match(*corpus(59, 100, 0.8, 0.2)), match(*corpus(60, 999, 0.8, 0.2))):
        with pytest.raises(UsageError, match="only be compared on the same sentences"):
            compare_models(good, other)


# Holm


def test_holm_correction_equals_the_values_by_hand() -> None:
    # in order of size 0.005, 0.01, 0.03, 0.04: times 4, 3, 2, 1, and never below the one before
    assert adjust_p_values([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert adjust_p_values([0.4, 0.6, 0.5]) == pytest.approx([1.0, 1.0, 1.0])
    assert adjust_p_values([0.2]) == [0.2]
    assert adjust_p_values([]) == []
    assert adjust_p_values([0.02, 0.02]) == pytest.approx([0.04, 0.04])


@given(st.lists(st.floats(0, 1), max_size=8))
def test_holm_correction_rejects_like_the_stepwise_procedure(values: list[float]) -> None:
    """At any level, the procedure starts with the smallest value and stops at the first one too large."""
    adjusted = adjust_p_values(values)
    assert all(value <= p <= 1 for value, p in zip(values, adjusted, strict=True))
    for level in (0.01, 0.05, 0.3):
        rejected = set()
        for rank, index in enumerate(sorted(range(len(values)), key=lambda i: values[i])):
            if values[index] * (len(values) - rank) > level:
                break
            rejected.add(index)
        assert {index for index, p in enumerate(adjusted) if p <= level} == rejected
