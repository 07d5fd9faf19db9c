"""Operations on spans for training, prediction and the report, in NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fencepost.methods.decoder import FloatArray, IntArray

_PAIRS_AT_ONCE = 4_000_000
"""Maximum number of pairs of spans that are compared at once."""


class Spans(NamedTuple):
    """Spans of a batch of sentences as columns, half-open."""

    sentence: IntArray  # [N]
    start: IntArray  # [N]
    end: IntArray  # [N]

    def take(self, index: IntArray | npt.NDArray[np.bool_] | slice) -> Spans:
        """Return the spans at these positions, or where this mask is true."""
        return Spans(*(column[index] for column in self))

    def split(self, size: int) -> list[Spans]:
        """Return blocks of at most `size` spans; at least one, which may be empty."""
        return [self.take(slice(first, first + size)) for first in range(0, max(1, len(self.start)), size)]


def enumerate_spans(of_lengths: Sequence[int], lengths: IntArray) -> Spans:
    """Section 2.2: return all spans of the lengths `of_lengths` in sentences of `lengths` words.

    They are sorted by sentence, start and length.
    """
    starts = np.arange(lengths.max())
    ends = starts[:, None] + np.asarray(of_lengths)  # [T, L]
    sentence, start, length = np.nonzero(ends <= lengths[:, None, None])
    return Spans(sentence, start, ends[start, length])


def compute_iou(one: Spans, other: Spans) -> FloatArray:
    """Return the number of words in both spans, divided by the number of words in at least one."""
    shared = np.maximum(np.minimum(one.end, other.end) - np.maximum(one.start, other.start), 0)
    union = one.end - one.start + other.end - other.start - shared
    result: FloatArray = (shared / union).astype(np.float32)
    return result


def pair_spans(spans: Spans, others: Spans) -> tuple[IntArray, FloatArray]:
    """Pair each span with the other of its sentence with the highest IoU; on a tie, with the first one.

    Returns the index of the other and the IoU, `[N]` each: -1 and 0 in a sentence without others.
    """
    index, iou = np.full(len(spans.start), -1), np.zeros(len(spans.start), dtype=np.float32)
    for sentence in np.unique(others.sentence):
        own, theirs = (np.flatnonzero(of.sentence == sentence) for of in (spans, others))
        size = max(1, _PAIRS_AT_ONCE // len(theirs))
        for ours in (own[first : first + size] for first in range(0, len(own), size)):
            of_pairs = compute_iou(spans.take(ours[:, None]), others.take(theirs))  # [n, m]
            best = of_pairs.argmax(axis=1)
            index[ours], iou[ours] = theirs[best], of_pairs[np.arange(len(best)), best]
    return index, iou


def move_spans(spans: Spans, offsets: FloatArray, lengths: IntArray) -> Spans:
    """Eq. 6, 7: return the spans with `offsets`, `[N, 2]`, rounded to words and added to start and end.

    They are clipped to the sentence (`L - 1` in Eq. 7 is a slip: it must be the last word). A span that would
    become empty is not moved.
    """
    limit = lengths.max() + 1  # a move by more words has the same result
    moves = np.floor(np.nan_to_num(offsets) + 0.5).clip(-limit, limit).astype(np.int64)
    start = np.maximum(spans.start + moves[:, 0], 0)
    end = np.minimum(spans.end + moves[:, 1], lengths[spans.sentence])
    full = start < end
    return Spans(spans.sentence, np.where(full, start, spans.start), np.where(full, end, spans.end))


class MaximumTable:
    """Eq. 1, 8: the maximum over any span of words.

    It is the maximum over two spans that cover it, whose lengths are powers of two. `vectors`, `[B, T, d]`,
    are an array of `library`, NumPy or PyTorch. Padding does not affect spans inside a sentence.
    """

    def __init__(self, vectors: Any, library: Any) -> None:
        self._library = library
        self._levels = [vectors]  # level k: over 2^k words from each word on, [B, T, d]; undefined at the end
        self._table = vectors[None]  # [K, B, T, d]

    def pool(self, spans: Spans) -> Any:
        """Return the maximum over each span: `[N, d]`."""
        level = np.frexp(spans.end - spans.start)[1].astype(np.int64) - 1  # the logarithm, rounded down
        while len(self._levels) <= level.max(initial=0):
            below, half = self._levels[-1], 2 ** (len(self._levels) - 1)
            both = self._library.maximum(below[:, :-half], below[:, half:])
            self._levels.append(self._library.concatenate((both, below[:, -half:]), axis=1))
        if len(self._table) < len(self._levels):
            self._table = self._library.stack(self._levels)
        from_start = self._table[level, spans.sentence, spans.start]
        return self._library.maximum(from_start, self._table[level, spans.sentence, spans.end - 2**level])
