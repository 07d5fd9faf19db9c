"""Choice of sentences that differ from each other, by the cosines of their vectors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from fencepost.methods.candidates import FloatArray
from fencepost.runtime.suggestion.pool import VectorArray

Value = Callable[[FloatArray], FloatArray]
"""Function from the cosine of each sentence with the nearest chosen one to its value: `[N]` to `[N]`."""

_ROWS = 1024


def spread(vectors: VectorArray, value: Value, count: int, known: VectorArray | None = None) -> list[int]:
    """Return `count` rows, chosen one after another: each is the row with the highest value at that time.

    The mean of all vectors is subtracted first, since those of a contextual encoder have much in common.
    `known` are the vectors of sentences that count as chosen already. Until one is chosen, the cosine is 0.
    """
    mean = vectors.mean(axis=0, dtype=np.float64)
    units = _normalise(vectors - mean)
    nearest = np.zeros(len(units)) if known is None else _find_nearest(units, _normalise(known - mean))
    free = np.ones(len(units), dtype=np.bool_)
    rows: list[int] = []
    while len(rows) < min(count, len(units)):
        row = int(np.where(free, value(nearest), -np.inf).argmax())
        cosine = units @ units[row]
        nearest = np.maximum(nearest, cosine) if rows or known is not None else cosine
        free[row] = False
        rows.append(row)
    return rows


def _normalise(vectors: npt.NDArray[np.floating]) -> FloatArray:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    units: FloatArray = vectors / np.where(lengths > 0, lengths, 1)
    return units


def _find_nearest(units: FloatArray, known: FloatArray) -> FloatArray:
    """Return the highest cosine of each vector with a known one, computed in blocks to limit memory."""
    blocks = [units[row : row + _ROWS] @ known.T for row in range(0, len(units), _ROWS)]
    return np.concatenate([block.max(axis=1) for block in blocks])
