"""Selection of vectors that differ."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fencepost.runtime.suggestion.spread import spread


def distance(nearest):
    return 1 - nearest


@given(st.integers(0, 2**32 - 1), st.integers(1, 30), st.integers(1, 12), st.integers(0, 3))
def test_spread_is_a_greedy_choice(seed, rows, count, known):
    dice = np.random.default_rng(seed)
    vectors = dice.normal(size=(rows, 5)).astype(np.float32)
    others = dice.normal(size=(known, 5)).astype(np.float32)
    weights = dice.random(rows)
    chosen = spread(vectors, lambda nearest: weights * (1 - nearest), count, others if known else None)
    units = vectors - vectors.mean(axis=0, dtype=np.float64)
    units = units / np.maximum(np.linalg.norm(units, axis=1, keepdims=True), 1e-300)
    around = [(v - vectors.mean(axis=0, dtype=np.float64)) for v in others]
    around = [v / np.linalg.norm(v) for v in around]
    for place, row in enumerate(chosen):
        before = [*around, *(units[other] for other in chosen[:place])]
        values = [
            weights[index] * (1 - max((float(units[index] @ one) for one in before), default=0.0))
            for index in range(rows)
            if index not in chosen[:place]
        ]
        nearest = max((float(units[row] @ one) for one in before), default=0.0)
        assert weights[row] * (1 - nearest) >= max(values) - 1e-6
    assert len(set(chosen)) == len(chosen) == min(rows, count)


def test_equal_vectors_are_chosen_last():
    vectors = np.array([[1, 0], [1, 0], [1, 0], [0, 1], [-1, -1]], dtype=np.float32)
    assert {0, 3, 4} == set(spread(vectors, distance, 3))
    known = np.array([[1, 0]], dtype=np.float32)
    assert {3, 4} == set(spread(vectors, distance, 2, known))


def test_zero_vectors_can_be_chosen():
    assert sorted(spread(np.zeros((3, 4), dtype=np.float32), distance, 9)) == [0, 1, 2]
