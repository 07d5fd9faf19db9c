"""Which words an encoder reads at once: whole sentences, or overlapping windows over long ones.

A sentence that fits is read with as much of its neighbours around it as the settings ask for and still fits.
A longer one is cut into overlapping windows, in training and in prediction alike; each word belongs to the
window that shows the most around it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import numpy.typing as npt

from fencepost.data.entity import Entity, Sentence

IntArray = npt.NDArray[np.int64]
Pieces = Sequence[tuple[int, ...]]

LONGEST = 256
"""Words of the longest sentence that is computed as a whole, if the encoder has no limit of its own."""

WINDOW, OVERLAP = 128, 32
"""Size of the windows through which a longer sentence is seen, in pieces, and how much they overlap.

What a window costs grows faster than its size, and training sentences are short. On joined sentences, mean F1
over 3 seeds was 46.2 in 10.1 s, against 41.2 in 10.8 s with 256 and 64, and 38.5 in 16.5 s with 510 and 255
(`benchmarks/results/long_windows.json`).
"""


@dataclass(frozen=True, slots=True)
class Part:
    """What is computed at once: a sentence, or one window of a long one.

    It starts at word `start` of the sentence, and its result counts for the words `[own_start, own_end)`.
    """

    sentence: Sentence
    size: int
    start: int
    own_start: int
    own_end: int

    def owns(self, entity: Entity) -> bool:
        """Return whether the middle of an entity of the part is among the words that it counts for."""
        return self.own_start <= self.start + (entity.start + entity.end - 1) // 2 < self.own_end


def split_sentence(sentence: Sentence, sizes: Sequence[int], room: int | None) -> list[Part]:
    """Return the sentence as one part if it fits, or else windows over it.

    `sizes` are those of its words in pieces, and `room` is how many pieces the encoder reads at once. Of the
    entities, a window has those that lie wholly within it.
    """
    room = room or LONGEST
    if sum(sizes) <= room:
        return [Part(sentence, sum(sizes), 0, 0, len(sentence))]
    room = min(room, WINDOW)
    return [
        Part(_cut(sentence, start, end), sum(sizes[start:end]), start, own_start, own_end)
        for start, end, own_start, own_end in windows([min(size, room) for size in sizes], room, OVERLAP)
    ]


def _cut(sentence: Sentence, start: int, end: int) -> Sentence:
    entities = [
        replace(entity, start=entity.start - start, end=entity.end - start)
        for entity in sentence.entities
        if start <= entity.start and entity.end <= end
    ]
    pos = None if sentence.pos is None else sentence.pos[start:end]
    return Sentence(sentence.words[start:end], entities, pos=pos)


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


def windows(sizes: Sequence[int], room: int, overlap: int) -> Iterator[tuple[int, int, int, int]]:
    """Overlapping windows over words of these sizes (in pieces), each of at most `room` pieces.

    Yield for each window `[start, end)` and the range of words that belong to it. Windows overlap by about
    `overlap` pieces, but by no more than half. The border between two neighbours is the middle of what they
    share, where both show equally much around a word.
    """
    after = np.cumsum(sizes)  # [T], pieces up to and with each word
    before = after - sizes  # [T]
    starts, ends = [0], [int(np.searchsorted(after, room, side="right"))]
    while ends[-1] < len(sizes):
        # a whole number, rounded up: for a fraction, each search would convert all of `before`
        half = (before[starts[-1]] + after[ends[-1] - 1] + 1) // 2
        next_start = max(half, after[ends[-1] - 1] - overlap)
        start = max(int(np.searchsorted(before, next_start)), starts[-1] + 1)
        start = min(start, ends[-1])
        starts.append(start)
        ends.append(int(np.searchsorted(after, before[start] + room, side="right")))
    centres = (before + after) / 2  # [T]
    taken = 0
    for index, (start, end) in enumerate(zip(starts, ends, strict=True)):
        border = len(sizes)
        if index + 1 < len(starts):
            middle = (before[starts[index + 1]] + after[end - 1]) / 2
            border = int(np.searchsorted(centres, middle))
            border = min(max(border, starts[index + 1], taken), end)
        if taken < border:  # beside a very long word, a window may have nothing to give
            yield start, end, taken, border
        taken = border
