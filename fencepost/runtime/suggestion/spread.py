"""Choice of sentences that differ from each other, by the angles between their vectors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
VectorArray = npt.NDArray[np.float32]

Value = Callable[[FloatArray], FloatArray]
"""Returns the value of each sentence from the cosine with the nearest one that is chosen: `[N]` to `[N]`."""

_ROWS = 1024


def spread(vectors: VectorArray, value: Value, count: int, known: VectorArray | None = None) -> list[int]:
    """Return the rows that are chosen one after another, each the one with the highest value then.

    Vectors are compared by their difference from the mean of all, since those of a contextual encoder have
    much in common. `known` are the vectors of sentences that count as chosen already. As long as nothing is
    chosen, the cosine is 0.
    """
    mean = vectors.mean(axis=0, dtype=np.float64)
    units = _normalise(vectors - mean)
    nearest = np.zeros(len(units)) if known is None else _find_nearest(units, _normalise(known - mean))
    free = np.ones(len(units), dtype=np.bool_)
    chosen: list[int] = []
    while len(chosen) < min(count, len(units)):
        row = int(np.where(free, value(nearest), -np.inf).argmax())
        cosine = units @ units[row]
        nearest = np.maximum(nearest, cosine) if chosen or known is not None else cosine
        free[row] = False
        chosen.append(row)
    return chosen


def _normalise(vectors: npt.NDArray[np.floating]) -> FloatArray:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    units: FloatArray = vectors / np.where(lengths > 0, lengths, 1)
    return units


def _find_nearest(units: FloatArray, known: FloatArray) -> FloatArray:
    """Return the highest cosine of each vector with one of those known; some rows at a time."""
    blocks = [units[row : row + _ROWS] @ known.T for row in range(0, len(units), _ROWS)]
    return np.concatenate([block.max(axis=1) for block in blocks])
