"""Confidence intervals of scores (bootstrap), and a test of whether two models differ (permutation).

Bootstrap: sentences are drawn with replacement, as many as there are (Efron, 1979; Berg-Kirkpatrick et al.,
EMNLP 2012). The scores of a draw need only the counts of its sentences, so all draws are one product of
matrices. Permutation: if two models did not differ, it would not matter which of them a sentence's
predictions came from (approximate randomisation, Yeh, COLING 2000).
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
"""Number of sentences drawn at a time: 32 MB."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A value and the bounds of its confidence interval."""

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
    """The F1 of one model minus that of another, and the p-value of the permutation test."""

    f1: Interval
    p: float


def intervals(matches: Matches, resamples: int = RESAMPLES, seed: int = 0) -> dict[str | None, Scores]:
    """Return the scores over all types (None) and of each type, with their intervals."""
    counts = _counts(matches)  # [S, 1 + types, 3]
    values = _ratios(counts.sum(axis=0))  # [1 + types, 3]
    drawn = _ratios(_resampled(counts, resamples, seed))  # [R, 1 + types, 3]
    low, high = _bounds(drawn)
    names: list[str | None] = [None, *matches.types]
    return {
        name: Scores(*(Interval(*map(float, bounds)) for bounds in zip(*of_type, strict=True)))
        for name, *of_type in zip(names, values, low, high, strict=True)
    }


def difference(
    first: Matches,
    second: Matches,
    resamples: int = RESAMPLES,
    permutations: int = PERMUTATIONS,
    seed: int = 0,
) -> Difference:
    """Compare two models on the same sentences; both tests are paired by sentence."""
    if first.sentences != second.sentences or len(first.gold) != len(second.gold):
        raise UsageError("two models can be compared on the same sentences only")
    ours, theirs = first.counts_by_sentence(), second.counts_by_sentence()  # [S, 3]
    value = float(_f1(ours.sum(axis=0)) - _f1(theirs.sum(axis=0)))
    both = _resampled(np.stack((ours, theirs), axis=1), resamples, seed)  # [R, 2, 3]
    low, high = _bounds(_f1(both[:, 0]) - _f1(both[:, 1]))
    p = _permutation_p(ours, theirs, abs(value), permutations, seed)
    return Difference(Interval(value, float(low), float(high)), p)


def holm(values: Sequence[float]) -> list[float]:
    """Adjust the p-values of several tests for their number (Holm, 1979)."""
    adjusted = [0.0] * len(values)
    largest = 0.0
    for rank, index in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        largest = max(largest, min(1.0, (len(values) - rank) * values[index]))
        adjusted[index] = largest
    return adjusted


def _permutation_p(ours: Int64Array, theirs: Int64Array, observed: float, count: int, seed: int) -> float:
    """Return the share of random exchanges of sentences between the two with a difference as large."""
    gap = (ours - theirs).astype(np.float64)  # [S, 3]
    all_of_both = (ours + theirs).sum(axis=0)  # [3]
    as_large = 0
    generator = np.random.default_rng(seed)
    for size in _portions(count, len(gap)):
        signs = generator.integers(0, 2, (size, len(gap))) * 2.0 - 1  # [R, S]
        apart = signs @ gap  # [R, 3]
        found = _f1((all_of_both + apart) / 2) - _f1((all_of_both - apart) / 2)
        as_large += int(np.count_nonzero(np.abs(found) >= observed - 1e-12))
    return (as_large + 1) / (count + 1)  # the observed one is an exchange too


def _counts(matches: Matches) -> Int64Array:
    """Count true positives, predicted, gold by sentence, over all types and by type: [S, 1 + types, 3]."""
    types = np.int64(len(matches.types))
    gold, predicted = (side.sentence * types + side.type for side in (matches.gold, matches.predicted))
    by_type = matches.counts(gold, predicted, matches.sentences * int(types))
    by_type = by_type.reshape(matches.sentences, int(types), 3)
    return np.concatenate((by_type.sum(axis=1, keepdims=True), by_type), axis=1)


def _resampled(counts: Int64Array, resamples: int, seed: int) -> FloatArray:
    """Return the sums of `[S, ...]` over S sentences drawn with replacement, R times: `[R, ...]`."""
    sentences = len(counts)
    if not sentences:
        raise UsageError("there are no sentences to draw from")
    flat = counts.reshape(sentences, -1).astype(np.float64)
    filled = flat.any(axis=1)  # a sentence without entities adds nothing, however often it is drawn
    generator = np.random.default_rng(seed)
    sums = []
    for size in _portions(resamples, sentences):
        drawn = generator.integers(0, sentences, (size, sentences)) + sentences * np.arange(size)[:, None]
        times = np.bincount(drawn.ravel(), minlength=size * sentences).reshape(size, sentences)
        sums.append(times[:, filled].astype(np.float64) @ flat[filled])
    return np.concatenate(sums).reshape(resamples, *counts.shape[1:])


def _portions(count: int, sentences: int) -> Iterator[int]:
    """Split a number of draws into portions that fit into memory."""
    most = max(1, _AT_ONCE // max(1, sentences))
    for done in range(0, count, most):
        yield min(most, count - done)


def _bounds(drawn: FloatArray) -> FloatArray:
    """Return the bounds of the middle of the draws `[R, ...]`: `[2, ...]`."""
    tail = (1 - LEVEL) / 2
    return np.asarray(np.quantile(drawn, [tail, 1 - tail], axis=0))


def _ratios(counts: npt.NDArray[np.number]) -> FloatArray:
    """Return precision, recall and F1 of `[..., 3]` counts; 0 of 0 is 0."""
    right, predicted, gold = np.moveaxis(np.asarray(counts, dtype=np.float64), -1, 0)
    parts = np.stack((right, right, 2 * right), axis=-1)
    wholes = np.stack((predicted, gold, predicted + gold), axis=-1)
    return np.asarray(np.divide(parts, wholes, out=np.zeros_like(parts), where=wholes > 0))


def _f1(counts: npt.NDArray[np.number]) -> FloatArray:
    return np.asarray(_ratios(counts)[..., 2])
