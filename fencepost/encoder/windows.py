"""How a sentence is laid before a pretrained encoder: which pieces it sees at once.

A sentence that fits is one row of pieces, with as much of its neighbours around it as was asked for
and still fits. A longer one is seen through overlapping windows, and each of its words takes its
vector from the window that shows the most around it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
Pieces = Sequence[tuple[int, ...]]


@dataclass(slots=True)
class Rows:
    """The rows of a batch, one behind the other, and where among them each word's pieces are."""

    ids: list[int] = field(default_factory=list)  # of all rows
    lengths: list[int] = field(default_factory=list)  # of each row, in pieces
    sentences: list[int] = field(default_factory=list)  # of each row, whose it is
    piece_at: list[int] = field(default_factory=list)  # of each word's piece, where it is in `ids`
    piece_word: list[int] = field(default_factory=list)  # and which word it belongs to

    def add(self, ids: Sequence[int], sentence: int, before: int, pieces: Pieces, first_word: int) -> None:
        """A row whose pieces from position `before` on are those of the words from `first_word` on."""
        start = len(self.ids) + before
        self.ids += ids
        self.lengths.append(len(ids))
        self.sentences.append(sentence)
        for word, of_word in enumerate(pieces, start=first_word):
            self.piece_word += [word] * len(of_word)
        self.piece_at += range(start, start + sum(map(len, pieces)))


def context_that_fits(left: Pieces, right: Pieces, room: int) -> tuple[list[int], list[int]]:
    """The words nearest to the sentence, on both sides alike, in at most `room` pieces together."""
    kept_right = _nearest(right, room - room // 2)
    kept_left = _nearest(left[::-1], room - sum(map(len, kept_right)))
    kept_right = _nearest(right, room - sum(map(len, kept_left)))  # with what the left has no use for
    return list(chain.from_iterable(reversed(kept_left))), list(chain.from_iterable(kept_right))


def _nearest(words: Pieces, room: int) -> list[tuple[int, ...]]:
    """The first words, as many as there is room for."""
    kept: list[tuple[int, ...]] = []
    for word in words:
        room -= len(word)
        if room < 0:
            break
        kept.append(word)
    return kept


def windows(
    sizes: Sequence[int], room: int, overlap: int | None = None
) -> Iterator[tuple[int, int, int, int]]:
    """Overlapping windows over words of these sizes (in pieces), each of at most `room` pieces.

    For each window: its first word and the word behind its last, and the same of the words that
    take their vectors from it. Windows overlap by about `overlap` pieces, but by no more than half, which is
    the default. The border between two neighbours is the middle of what they share, where both show equally
    much around a word.
    """
    behind = np.cumsum(sizes)  # [T], pieces up to and with each word
    before = behind - sizes  # [T]
    starts, ends = [0], [int(np.searchsorted(behind, room, side="right"))]
    while ends[-1] < len(sizes):
        # a whole number, rounded up: for a fraction, each search would convert all of `before`
        half = (before[starts[-1]] + behind[ends[-1] - 1] + 1) // 2
        next_start = half if overlap is None else max(half, behind[ends[-1] - 1] - overlap)
        start = max(int(np.searchsorted(before, next_start)), starts[-1] + 1)
        start = min(start, ends[-1])
        starts.append(start)
        ends.append(int(np.searchsorted(behind, before[start] + room, side="right")))
    centres = (before + behind) / 2  # [T]
    taken = 0
    for index, (start, end) in enumerate(zip(starts, ends, strict=True)):
        border = len(sizes)
        if index + 1 < len(starts):
            middle = (before[starts[index + 1]] + behind[end - 1]) / 2
            border = int(np.searchsorted(centres, middle))
            border = min(max(border, starts[index + 1], taken), end)
        if taken < border:  # beside a very long word, a window may have nothing to give
            yield start, end, taken, border
        taken = border
