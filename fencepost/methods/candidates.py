"""Selection of entities among the candidates of a method, in NumPy.

A method proposes spans with a type and a confidence, and many of them contradict each other. `select` takes
the candidates by descending confidence, and leaves out each one that clashes with a candidate selected before
it. Which spans clash depends on the mode:

- `flat`: two spans that share a word;
- `nested`: two spans that cross, that is, overlap without nesting (a span may have several types);
- `keep-all`: none.

A fourth mode, `soft-nms`, instead lowers the confidence of candidates that overlap better ones, and leaves
out those whose confidence becomes too low.

The result does not depend on the order of the input: candidates of equal confidence are taken in the order
of (start, end, type).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from fencepost.errors import UsageError

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False, slots=True)
class Candidates:
    """Spans that a method proposes, as columns: candidate `i` is `start[i], end[i], type[i], ...`.

    Spans are half-open, types are indices into the method's list of types, and confidences are
    probabilities. Raises `ValueError` for other values.

    For a batch of sentences, shift the positions of each sentence by the number of words before it in the
    batch. Spans of different sentences then never overlap, so one call of `select` handles all sentences.
    """

    start: IntArray  # [N]
    end: IntArray  # [N]
    type: IntArray  # [N]
    confidence: FloatArray  # [N]

    def __post_init__(self) -> None:
        set_ = object.__setattr__  # the class is frozen
        for name in ("start", "end", "type"):
            set_(self, name, _to_integers(name, getattr(self, name)))
        set_(self, "confidence", np.asarray(self.confidence, dtype=np.float64))
        shapes = {self.start.shape, self.end.shape, self.type.shape, self.confidence.shape}
        if len(shapes) > 1 or self.start.ndim != 1:
            raise ValueError(
                "start, end, type and confidence must be one-dimensional and of one length, but "
                f"their shapes are {self.start.shape}, {self.end.shape}, {self.type.shape} "
                f"and {self.confidence.shape}"
            )
        self._check_values()

    def _check_values(self) -> None:
        """Raise `ValueError` for empty or negative spans and invalid confidences, including NaN."""
        bad = (self.start < 0) | (self.start >= self.end)  # [N]
        if bad.any():
            start, end = self.start[bad][0], self.end[bad][0]
            raise ValueError(f"a candidate needs 0 <= start < end, but start is {start} and end is {end}")
        bad = ~((self.confidence >= 0) & (self.confidence <= 1))  # [N], true for NaN
        if bad.any():
            raise ValueError(
                "a confidence must be between 0 and 1, but that of candidate "
                f"{np.flatnonzero(bad)[0]} is {self.confidence[bad][0]}"
            )

    def __len__(self) -> int:
        return len(self.start)

    def select_above(self, thresholds: FloatArray) -> Candidates:
        """Return the candidates whose confidence reaches the threshold, of `[C]`, of their type."""
        return self.take(self.confidence >= thresholds[self.type])

    def take(self, index: IntArray | BoolArray) -> Candidates:
        """Return the candidates at these positions, or where this mask is true."""
        return Candidates(self.start[index], self.end[index], self.type[index], self.confidence[index])


Selector = Callable[[Candidates], Candidates]
"""Function that selects among distinct candidates in reading order, and returns them in any order."""


def select(candidates: Candidates, mode: str | Selector) -> Candidates:
    """Return the candidates that are entities, in reading order: by (start, end, type).

    `mode` is a name in `SELECTORS` or a function. In every mode, a candidate that is proposed several times
    counts once, with its highest confidence. Raises `UsageError` for an unknown mode.
    """
    if isinstance(mode, str):
        if mode not in SELECTORS:
            raise UsageError.unknown("mode", mode, SELECTORS)
        mode = SELECTORS[mode]
    return _deduplicate(mode(_deduplicate(candidates)))


def keep_all(candidates: Candidates) -> Candidates:
    """Return all candidates."""
    return candidates


def select_flat(candidates: Candidates) -> Candidates:
    """Return the best candidates of which no two share a word."""
    return _select_greedily(candidates, _FlatBoard)


def select_nested(candidates: Candidates) -> Candidates:
    """Return the best candidates of which no two cross; they may nest or have equal spans."""
    return _select_greedily(candidates, _NestedBoard)


def soft_nms(
    candidates: Candidates, overlap: float = 0.6, decay: float = 0.9, threshold: float = 0.5
) -> Candidates:
    """Apply Soft-NMS; return the candidates whose lowered confidence is still above the threshold.

    Candidates are taken by descending confidence. Each one multiplies by `decay` the confidence of all
    remaining candidates whose IoU with it is at least `overlap`.
    (Algorithm 1 of Shen et al., ACL 2021, after Bodla et al., 2017.)
    """
    # a candidate that is not above the threshold can only lower others that are not either
    likely = _deduplicate(candidates.take(candidates.confidence > threshold))
    start, end, length = likely.start, likely.end, likely.end - likely.start
    confidence = likely.confidence.copy()
    waiting = np.ones(len(likely), dtype=np.bool_)
    # earliest start of a span that may overlap enough: the span is at most 1 / overlap times as long
    earliest = np.searchsorted(start, start - np.ceil(length * (1 / overlap - 1)))
    after = np.searchsorted(start, end)
    heap = [(-score, index) for index, score in enumerate(confidence.tolist())]
    heapq.heapify(heap)
    while heap:
        score, index = heapq.heappop(heap)
        if confidence[index] < -score:  # lowered since it was pushed
            if confidence[index] > threshold:
                heapq.heappush(heap, (-confidence[index], index))
            continue
        waiting[index] = False
        near = slice(earliest[index], after[index])
        shared = np.minimum(end[near], end[index]) - np.maximum(start[near], start[index])
        enough = shared / (length[near] + length[index] - shared) >= overlap
        confidence[near][enough & waiting[near]] *= decay
    high = confidence > threshold
    return Candidates(start[high], end[high], likely.type[high], confidence[high])


SELECTORS: dict[str, Selector] = {
    "flat": select_flat,
    "nested": select_nested,
    "keep-all": keep_all,
    "soft-nms": soft_nms,
}


def _to_integers(name: str, values: npt.NDArray[Any]) -> IntArray:
    """Return 64-bit integers; raise `ValueError` for numbers of another kind."""
    array = np.asarray(values)
    if array.size and array.dtype.kind not in "iu":
        raise ValueError(f"{name} must hold integers, but its type is {array.dtype}")
    return array.astype(np.int64, copy=False)


def _deduplicate(candidates: Candidates) -> Candidates:
    """Return each (start, end, type) once, with its highest confidence, in reading order."""
    best_first = np.lexsort((-candidates.confidence, candidates.type, candidates.end, candidates.start))
    key = np.stack((candidates.start, candidates.end, candidates.type))[:, best_first]  # [3, N]
    new = np.ones(len(candidates), dtype=np.bool_)  # [N]
    new[1:] = (key[:, 1:] != key[:, :-1]).any(axis=0)
    return candidates.take(best_first[new])


class _Board(Protocol):
    """The spans selected so far, stored by position, so that clashes are found without a search."""

    def __init__(self, size: int) -> None:
        """Create an empty board; `size` is one more than the last position."""

    def find_clashes(self, start: IntArray, end: IntArray) -> BoolArray:
        """Return for many spans whether each clashes with a selected one."""

    def clashes(self, start: int, end: int) -> bool:
        """Return whether one span clashes with a selected one."""

    def add(self, start: int, end: int) -> None:
        """Add a span that clashes with no selected one."""


class _FlatBoard:
    """The words of the selected spans; a span clashes if one of its words is among them."""

    def __init__(self, size: int) -> None:
        self.is_used = np.zeros(size, dtype=np.bool_)  # [size], by word

    def find_clashes(self, start: IntArray, end: IntArray) -> BoolArray:
        before = np.concatenate(([0], np.cumsum(self.is_used)))  # [size + 1], words used before
        return np.asarray(before[end] > before[start])

    def clashes(self, start: int, end: int) -> bool:
        return bool(self.is_used[start:end].any())

    def add(self, start: int, end: int) -> None:
        self.is_used[start:end] = True


class _NestedBoard:
    """For each position between words, the tightest boundaries of the selected spans around it.

    A selected [a, b) crosses [s, e) if a < s < b < e or s < a < e < b. The first means that s is inside a
    selected span that ends before e: true exactly if the *smallest* end of the selected spans around s is
    before e. The second means the same for e and the *largest* start. So two lookups find a clash, and only
    adding a span takes time proportional to its length.
    """

    def __init__(self, size: int) -> None:
        self.smallest_end = np.full(size, size)  # [size], of selected spans with start < position < end
        self.largest_start = np.full(size, -1)  # [size]

    def find_clashes(self, start: IntArray, end: IntArray) -> BoolArray:
        return (self.smallest_end[start] < end) | (self.largest_start[end] > start)

    def clashes(self, start: int, end: int) -> bool:
        return bool(self.smallest_end[start] < end or self.largest_start[end] > start)

    def add(self, start: int, end: int) -> None:
        inside = slice(start + 1, end)
        np.minimum(self.smallest_end[inside], end, out=self.smallest_end[inside])
        np.maximum(self.largest_start[inside], start, out=self.largest_start[inside])


def _select_greedily(candidates: Candidates, board_type: type[_Board]) -> Candidates:
    """Return the candidates, taken by descending confidence, that do not clash with one taken before.

    A vectorised check of a chunk leaves few candidates to check one by one. Chunks grow, because the fuller
    the board is, the fewer are left: 200,000 candidates need ten chunks.
    """
    order = np.argsort(-candidates.confidence, kind="stable")  # [N]; ties stay in reading order
    start, end, size = _rank_positions(candidates.start[order], candidates.end[order])
    board = board_type(size)
    is_selected = np.zeros(len(candidates), dtype=np.bool_)  # [N]
    for chunk in _split_chunks(len(candidates)):
        free = ~board.find_clashes(start[chunk], end[chunk])
        spans = zip(
            order[chunk][free].tolist(),
            start[chunk][free].tolist(),
            end[chunk][free].tolist(),
            strict=True,
        )
        for index, first, last in spans:
            if not board.clashes(first, last):
                board.add(first, last)
                is_selected[index] = True
    return candidates.take(is_selected)


def _rank_positions(start: IntArray, end: IntArray) -> tuple[IntArray, IntArray, int]:
    """Return the positions replaced by their ranks among all positions, and the number of ranks.

    Whether spans overlap or nest depends only on the order of their boundaries, and ranks keep the board
    small however large the positions are.
    """
    positions, ranks = np.unique(np.concatenate((start, end)), return_inverse=True)
    return ranks[: len(start)], ranks[len(start) :], len(positions)


def _split_chunks(length: int, size: int = 256) -> Iterator[slice]:
    first = 0
    while first < length:
        yield slice(first, first + size)
        first += size
        size *= 2
