"""Confidence intervals of scores (bootstrap), and a test of whether two models differ (permutation).

Bootstrap: each resample has as many sentences as the corpus, drawn with replacement (Efron, 1979;
Berg-Kirkpatrick et al., EMNLP 2012). Its scores depend only on the counts of its sentences, so all resamples
are computed by one matrix product. Permutation: if two models did not differ, it would not matter which of
them predicted a sentence (approximate randomisation, Yeh, COLING 2000).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fencepost.errors import UsageError
from fencepost.evaluation.calibration import FloatArray
from fencepost.evaluation.strict import Int64Array, Matches

RESAMPLES, PERMUTATIONS, LEVEL = 1000, 10_000, 0.95

_AT_ONCE = 4_000_000
"""Maximum number of sentences drawn at a time: 32 MB."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Value with the bounds of its confidence interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Scores:
    """Precision, recall and F1, each with its interval."""

    precision: Interval
    recall: Interval
    f1: Interval


@dataclass(frozen=True, slots=True)
class Difference:
    """F1 of one model minus that of another, and the p-value of the permutation test."""

    f1: Interval
    p: float


def compute_intervals(
    matches: Matches, resamples: int = RESAMPLES, seed: int = 0
) -> dict[str | None, Scores]:
    """Return the scores over all types (key None) and of each type, with their confidence intervals."""
    counts = _count_by_sentence(matches)  # [S, 1 + types, 3]
    values = _compute_ratios(counts.sum(axis=0))  # [1 + types, 3]
    resampled = _compute_ratios(_resample(counts, resamples, seed))  # [R, 1 + types, 3]
    low, high = _compute_bounds(resampled)
    names: list[str | None] = [None, *matches.types]
    return {
        name: Scores(*(Interval(*map(float, bounds)) for bounds in zip(*of_type, strict=True)))
        for name, *of_type in zip(names, values, low, high, strict=True)
    }


def compare_models(
    first: Matches,
    second: Matches,
    resamples: int = RESAMPLES,
    permutations: int = PERMUTATIONS,
    seed: int = 0,
) -> Difference:
    """Compare two models on the same sentences; the interval and the test are paired by sentence."""
    if first.sentences != second.sentences or len(first.gold) != len(second.gold):
        raise UsageError("models can only be compared on the same sentences")
    ours, theirs = first.count_by_sentence(), second.count_by_sentence()  # [S, 3]
    value = float(_compute_f1(ours.sum(axis=0)) - _compute_f1(theirs.sum(axis=0)))
    both = _resample(np.stack((ours, theirs), axis=1), resamples, seed)  # [R, 2, 3]
    low, high = _compute_bounds(_compute_f1(both[:, 0]) - _compute_f1(both[:, 1]))
    p = _test_permutations(ours, theirs, abs(value), permutations, seed)
    return Difference(Interval(value, float(low), float(high)), p)


def adjust_p_values(values: Sequence[float]) -> list[float]:
    """Return the p-values of several tests, adjusted for the number of tests (Holm, 1979)."""
    adjusted = [0.0] * len(values)
    largest = 0.0
    for rank, index in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        largest = max(largest, min(1.0, (len(values) - rank) * values[index]))
        adjusted[index] = largest
    return adjusted


def _test_permutations(ours: Int64Array, theirs: Int64Array, observed: float, count: int, seed: int) -> float:
    """Return the p-value: the share of random exchanges of sentences with a difference at least as large."""
    gap = (ours - theirs).astype(np.float64)  # [S, 3]
    total = (ours + theirs).sum(axis=0)  # [3]
    as_large = 0
    generator = np.random.default_rng(seed)
    for size in _split_draws(count, len(gap)):
        signs = generator.integers(0, 2, (size, len(gap))) * 2.0 - 1  # [R, S]
        exchanged = signs @ gap  # [R, 3]
        difference = _compute_f1((total + exchanged) / 2) - _compute_f1((total - exchanged) / 2)
        as_large += int(np.count_nonzero(np.abs(difference) >= observed - 1e-12))
    return (as_large + 1) / (count + 1)  # the observed assignment is a permutation too


def _count_by_sentence(matches: Matches) -> Int64Array:
    """Count true positives, predicted, gold by sentence, over all types and by type: [S, 1 + types, 3]."""
    types = np.int64(len(matches.types))
    gold, predicted = (side.sentence * types + side.type for side in (matches.gold, matches.predicted))
    by_type = matches.count_groups(gold, predicted, matches.sentences * int(types))
    by_type = by_type.reshape(matches.sentences, int(types), 3)
    return np.concatenate((by_type.sum(axis=1, keepdims=True), by_type), axis=1)


def _resample(counts: Int64Array, resamples: int, seed: int) -> FloatArray:
    """Return R sums `[R, ...]` of the counts `[S, ...]`, each over S sentences drawn with replacement."""
    sentences = len(counts)
    if not sentences:
        raise UsageError("confidence intervals need at least one sentence")
    flat = counts.reshape(sentences, -1).astype(np.float64)
    filled = flat.any(axis=1)  # a sentence without entities adds nothing, however often it is drawn
    generator = np.random.default_rng(seed)
    sums = []
    for size in _split_draws(resamples, sentences):
        indices = generator.integers(0, sentences, (size, sentences)) + sentences * np.arange(size)[:, None]
        times = np.bincount(indices.ravel(), minlength=size * sentences).reshape(size, sentences)
        sums.append(times[:, filled].astype(np.float64) @ flat[filled])
    return np.concatenate(sums).reshape(resamples, *counts.shape[1:])


def _split_draws(count: int, sentences: int) -> Iterator[int]:
    """Split a number of draws into parts that fit into memory."""
    largest = max(1, _AT_ONCE // max(1, sentences))
    for start in range(0, count, largest):
        yield min(largest, count - start)


def _compute_bounds(resampled: FloatArray) -> FloatArray:
    """Return the lower and upper bounds `[2, ...]` of the resampled values `[R, ...]`."""
    tail = (1 - LEVEL) / 2
    return np.asarray(np.quantile(resampled, [tail, 1 - tail], axis=0))


def _compute_ratios(counts: npt.NDArray[np.number]) -> FloatArray:
    """Return precision, recall and F1 `[..., 3]` from counts `[..., 3]`; 0 of 0 is 0."""
    correct, predicted, gold = np.moveaxis(np.asarray(counts, dtype=np.float64), -1, 0)
    parts = np.stack((correct, correct, 2 * correct), axis=-1)
    wholes = np.stack((predicted, gold, predicted + gold), axis=-1)
    return np.asarray(np.divide(parts, wholes, out=np.zeros_like(parts), where=wholes > 0))


def _compute_f1(counts: npt.NDArray[np.number]) -> FloatArray:
    return np.asarray(_compute_ratios(counts)[..., 2])
