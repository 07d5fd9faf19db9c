"""From candidates to entities: which of the spans that a method proposes are kept, in NumPy.

A method proposes spans with a type and a confidence, and many of them contradict each other.
`select` keeps the best ones: it takes the candidates by falling confidence and drops each one that
clashes with a candidate kept before it. What clashes depends on the mode:

- `flat`: two spans that share a word;
- `nested`: two spans that cross, that is, overlap while neither holds the other (one span may then
  carry several types);
- `keep-all`: nothing.

A fourth mode, `soft-nms`, drops nothing for a clash, but lowers the confidence of candidates that overlap
better ones, and drops those whose confidence is too low then.

Whatever the order of the input, the result is the same: of candidates with equal confidence, the
first in the order of (start, end, type) comes first.
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

    Spans are half-open ranges of words, types are indices into the method's list of types, and
    confidences are probabilities.

    A batch of sentences fits into one `Candidates`: shift the positions of each sentence by the
    number of words before it in the batch. Spans of different sentences then never overlap, so one
    call of `select` decides about all of them, each sentence for itself.
    """

    start: IntArray  # [N]
    end: IntArray  # [N]
    type: IntArray  # [N]
    confidence: FloatArray  # [N]

    def __post_init__(self) -> None:
        set_ = object.__setattr__  # the one place where a frozen instance is still being made
        for name in ("start", "end", "type"):
            set_(self, name, _integers(name, getattr(self, name)))
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
        """Refuse spans that are none, and NaN: it compares as neither better nor worse."""
        bad = (self.start < 0) | (self.start >= self.end)  # [N]
        if bad.any():
            start, end = self.start[bad][0], self.end[bad][0]
            raise ValueError(f"a candidate needs 0 <= start < end, but start is {start} and end is {end}")
        bad = ~((self.confidence >= 0) & (self.confidence <= 1))  # [N], true for NaN
        if bad.any():
            raise ValueError(
                "a confidence is a probability between 0 and 1, but the one of candidate "
                f"{np.flatnonzero(bad)[0]} is {self.confidence[bad][0]}"
            )

    def __len__(self) -> int:
        return len(self.start)

    def above(self, thresholds: FloatArray) -> Candidates:
        """The candidates whose confidence reaches the threshold of their type; `[C]`."""
        return self.take(self.confidence >= thresholds[self.type])

    def take(self, index: IntArray | BoolArray) -> Candidates:
        """The candidates at these positions, or where this mask is true."""
        return Candidates(self.start[index], self.end[index], self.type[index], self.confidence[index])


Selector = Callable[[Candidates], Candidates]
"""Gets distinct candidates in reading order and returns those it keeps, in any order."""


def select(candidates: Candidates, mode: str | Selector) -> Candidates:
    """The candidates that are entities, in reading order: by (start, end, type).

    `mode` is a name in `SELECTORS`, or a selector of your own. In every mode a candidate that is
    proposed several times counts once, with its best confidence.
    """
    selector = _selector(mode) if isinstance(mode, str) else mode
    return _distinct(selector(_distinct(candidates)))


def keep_all(candidates: Candidates) -> Candidates:
    """Every candidate, whatever it clashes with."""
    return candidates


def flat(candidates: Candidates) -> Candidates:
    """The best candidates of which no two share a word."""
    return _greedy(candidates, _FlatBoard)


def nested(candidates: Candidates) -> Candidates:
    """The best candidates of which no two cross; one may lie inside, or upon, another."""
    return _greedy(candidates, _NestedBoard)


def soft_nms(
    candidates: Candidates, overlap: float = 0.6, decay: float = 0.9, threshold: float = 0.5
) -> Candidates:
    """The candidates whose confidence stays above the threshold when overlapping ones lower it.

    They are taken by falling confidence. Each one that is taken multiplies by `decay` the confidence of
    all that remain whose overlap with it (shared words by all words) is at least `overlap`.
    (Algorithm 1 of Shen et al., ACL 2021, after Bodla et al., 2017.)
    """
    # what is not above the threshold can only lower what is not either
    left = _distinct(candidates.take(candidates.confidence > threshold))
    start, end, length = left.start, left.end, left.end - left.start
    confidence = left.confidence.copy()
    waiting = np.ones(len(left), dtype=np.bool_)
    # the earliest start of a span that may overlap enough: it is at most 1 / overlap times as long
    earliest = np.searchsorted(start, start - np.ceil(length * (1 / overlap - 1)))
    after = np.searchsorted(start, end)
    heap = [(-score, index) for index, score in enumerate(confidence.tolist())]
    heapq.heapify(heap)
    while heap:
        score, index = heapq.heappop(heap)
        if confidence[index] < -score:  # lowered since: back to where it belongs now, if anywhere
            if confidence[index] > threshold:
                heapq.heappush(heap, (-confidence[index], index))
            continue
        waiting[index] = False
        near = slice(earliest[index], after[index])
        shared = np.minimum(end[near], end[index]) - np.maximum(start[near], start[index])
        enough = shared / (length[near] + length[index] - shared) >= overlap
        confidence[near][enough & waiting[near]] *= decay
    kept = confidence > threshold
    return Candidates(start[kept], end[kept], left.type[kept], confidence[kept])


SELECTORS: dict[str, Selector] = {"flat": flat, "nested": nested, "keep-all": keep_all, "soft-nms": soft_nms}


def _selector(mode: str) -> Selector:
    if mode in SELECTORS:
        return SELECTORS[mode]
    raise UsageError.unknown("mode", mode, SELECTORS)


def _integers(name: str, values: npt.NDArray[Any]) -> IntArray:
    """As 64-bit integers; a fraction is refused rather than cut off."""
    array = np.asarray(values)
    if array.size and array.dtype.kind not in "iu":
        raise ValueError(f"{name} must hold integers, but its type is {array.dtype}")
    return array.astype(np.int64, copy=False)


def _distinct(candidates: Candidates) -> Candidates:
    """In reading order, each (start, end, type) once, with its best confidence."""
    best_first = np.lexsort((-candidates.confidence, candidates.type, candidates.end, candidates.start))
    key = np.stack((candidates.start, candidates.end, candidates.type))[:, best_first]  # [3, N]
    new = np.ones(len(candidates), dtype=np.bool_)  # [N]
    new[1:] = (key[:, 1:] != key[:, :-1]).any(axis=0)
    return candidates.take(best_first[new])


class _Board(Protocol):
    """The spans kept so far, laid out by position, so that a clash is seen without a search."""

    def __init__(self, size: int) -> None:
        """`size` is one more than the last position."""

    def clashing(self, start: IntArray, end: IntArray) -> BoolArray:
        """For many spans at once, whether each clashes with a kept one."""

    def clashes(self, start: int, end: int) -> bool:
        """The same for one span."""

    def keep(self, start: int, end: int) -> None:
        """Add a span that clashes with no kept one."""


class _FlatBoard:
    """Marks the words that kept spans hold; a span clashes where a word of its own is marked."""

    def __init__(self, size: int) -> None:
        self.taken = np.zeros(size, dtype=np.bool_)  # [size], by word

    def clashing(self, start: IntArray, end: IntArray) -> BoolArray:
        before = np.concatenate(([0], np.cumsum(self.taken)))  # [size + 1], words taken before
        return np.asarray(before[end] > before[start])

    def clashes(self, start: int, end: int) -> bool:
        return bool(self.taken[start:end].any())

    def keep(self, start: int, end: int) -> None:
        self.taken[start:end] = True


class _NestedBoard:
    """Knows for each fencepost between words the tightest ends of the kept spans around it.

    A kept [a, b) crosses [s, e) when a < s < b < e or s < a < e < b. The first says that s is
    inside a kept span that ends before e: true exactly if the *smallest* end of the kept spans
    around s is before e. The second says the same of e and the *largest* start. So two lookups
    decide, and only keeping a span costs as much as it is long.
    """

    def __init__(self, size: int) -> None:
        self.smallest_end = np.full(size, size)  # [size], of kept spans with start < position < end
        self.largest_start = np.full(size, -1)  # [size]

    def clashing(self, start: IntArray, end: IntArray) -> BoolArray:
        return (self.smallest_end[start] < end) | (self.largest_start[end] > start)

    def clashes(self, start: int, end: int) -> bool:
        return bool(self.smallest_end[start] < end or self.largest_start[end] > start)

    def keep(self, start: int, end: int) -> None:
        inside = slice(start + 1, end)
        np.minimum(self.smallest_end[inside], end, out=self.smallest_end[inside])
        np.maximum(self.largest_start[inside], start, out=self.largest_start[inside])


def _greedy(candidates: Candidates, board_type: type[_Board]) -> Candidates:
    """Each candidate in turn, best first, unless it clashes with one kept before it.

    Only those that survive a vectorised look at the board are walked through one by one. Chunks
    grow, since the fuller the board is, the fewer survive: 200,000 candidates need ten looks.
    """
    order = np.argsort(-candidates.confidence, kind="stable")  # [N]; ties stay in reading order
    start, end, size = _ranked(candidates.start[order], candidates.end[order])
    board = board_type(size)
    kept = np.zeros(len(candidates), dtype=np.bool_)  # [N]
    for chunk in _growing_chunks(len(candidates)):
        free = ~board.clashing(start[chunk], end[chunk])
        spans = zip(
            order[chunk][free].tolist(),
            start[chunk][free].tolist(),
            end[chunk][free].tolist(),
            strict=True,
        )
        for index, first, last in spans:
            if not board.clashes(first, last):
                board.keep(first, last)
                kept[index] = True
    return candidates.take(kept)


def _ranked(start: IntArray, end: IntArray) -> tuple[IntArray, IntArray, int]:
    """Positions replaced by their ranks among all positions, and the number of ranks.

    Whether spans overlap or nest depends on the order of their ends alone, and ranks keep the board
    small however large the positions are.
    """
    positions, ranks = np.unique(np.concatenate((start, end)), return_inverse=True)
    return ranks[: len(start)], ranks[len(start) :], len(positions)


def _growing_chunks(length: int, size: int = 256) -> Iterator[slice]:
    first = 0
    while first < length:
        yield slice(first, first + size)
        first += size
        size *= 2
