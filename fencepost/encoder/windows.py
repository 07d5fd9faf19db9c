"""Splitting of long sentences into overlapping windows that fit into the encoder, and context of short ones.

A sentence that fits is read with as much of the neighbouring sentences as `encoder.context` allows and fits,
or together with the other sentences of its block (`encoder.block`). A longer one is split into overlapping
windows, in training and in prediction; each word belongs to the window with the most context around it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import numpy.typing as npt

from fencepost.data.entity import Entity, Sentence

IntArray = npt.NDArray[np.int64]
Ids = Sequence[tuple[int, ...]]
"""The ids of the sub-words of each word."""

LONGEST = 256
"""Maximum length of a sentence that is not split, in words, if the encoder has no limit."""

WINDOW, OVERLAP = 128, 32
"""Size of the windows of a longer sentence, and their overlap, in sub-words.

The cost of a window grows faster than its size, and training sentences are short. On joined sentences, mean
F1 over 3 seeds was 46.2 in 10.1 s, against 41.2 in 10.8 s with 256 and 64, and 38.5 in 16.5 s with 510 and
255 (`benchmarks/results/long_windows.json`).
"""


@dataclass(frozen=True, slots=True)
class Part:
    """A sentence, or one window of a long sentence, with its size in sub-words.

    It starts at word `start` of the sentence, and its predictions count for the words `[own_start, own_end)`.
    """

    sentence: Sentence
    size: int
    start: int
    own_start: int
    own_end: int

    def owns(self, entity: Entity) -> bool:
        """Return whether the middle of an entity is among the words that the part counts for."""
        return self.own_start <= self.start + (entity.start + entity.end - 1) // 2 < self.own_end


def split_sentence(sentence: Sentence, sizes: Sequence[int], room: int | None) -> list[Part]:
    """Return the sentence as one part if it fits, or else as windows.

    `sizes` are the numbers of sub-words of its words, and `room` is the number of sub-words that the encoder
    reads at once. A window has the entities that are completely inside it.
    """
    room = room or LONGEST
    if sum(sizes) <= room:
        return [Part(sentence, sum(sizes), 0, 0, len(sentence))]
    room = min(room, WINDOW)
    return [
        Part(_cut(sentence, start, end), sum(sizes[start:end]), start, own_start, own_end)
        for start, end, own_start, own_end in split_windows(
            [min(size, room) for size in sizes], room, OVERLAP
        )
    ]


def join_blocks(parts: Iterable[Part], limit: int) -> Iterator[Part]:
    """Yield the parts with the words of the others in their block as context, and no other context.

    A block has consecutive sentences of a document, with at most `limit` sub-words together unless it is a
    single sentence; windows of longer sentences are blocks of their own. With `limit` 0, parts are returned
    as they are.
    """
    if not limit:
        yield from parts
        return
    block: list[Part] = []
    room = 0
    for part in parts:
        size = max(1, part.size)  # so that a block of empty sentences ends, too
        if block and (size > room or part.sentence.doc is None or part.sentence.doc != block[0].sentence.doc):
            yield from _add_others(block)
            block = []
        if not block:
            room = limit
        block.append(part)
        room -= size
    yield from _add_others(block)


def _add_others(block: Sequence[Part]) -> Iterator[Part]:
    """Yield the parts of a block, each with the words before and after it in the block."""
    words = [word for part in block for word in part.sentence.words]
    start = 0
    for part in block:
        end = start + len(part.sentence)
        yield replace(part, sentence=replace(part.sentence, left=words[:start], right=words[end:]))
        start = end


def group_blocks(sentences: Sequence[Sentence]) -> list[list[int]]:
    """Return the indices of the sentences of each block, given sentences with their context in order."""
    blocks: list[list[int]] = []
    before: tuple[str, ...] | None = None
    for index, sentence in enumerate(sentences):
        words = (*sentence.left, *sentence.words, *sentence.right)
        if sentence.left and words == before:
            blocks[-1].append(index)
        else:
            blocks.append([index])
        before = words
    return blocks


def _cut(sentence: Sentence, start: int, end: int) -> Sentence:
    entities = [
        replace(entity, start=entity.start - start, end=entity.end - start)
        for entity in sentence.entities
        if start <= entity.start and entity.end <= end
    ]
    pos = None if sentence.pos is None else sentence.pos[start:end]
    return Sentence(sentence.words[start:end], entities, pos=pos, meta=sentence.meta)


def fit_context(left: Ids, right: Ids, room: int) -> tuple[list[int], list[int]]:
    """Return the words nearest to the sentence on both sides, at most `room` sub-words in total."""
    after = _take_first(right, room - room // 2)
    before = _take_first(left[::-1], room - sum(map(len, after)))
    after = _take_first(right, room - sum(map(len, before)))  # gets the room that the left side does not need
    return list(chain.from_iterable(reversed(before))), list(chain.from_iterable(after))


def _take_first(words: Ids, room: int) -> Ids:
    """Return the first words, at most `room` sub-words in total."""
    for count, word in enumerate(words):
        room -= len(word)
        if room < 0:
            return words[:count]
    return words


def split_windows(sizes: Sequence[int], room: int, overlap: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield overlapping windows of at most `room` sub-words, over words of these sizes in sub-words.

    Yields the start and end of each window, and of the words that belong to it. Windows overlap by about
    `overlap` sub-words, but at most by half. The limit between the words of two windows is in the middle of
    their overlap, where both have equally much context.
    """
    after = np.cumsum(sizes)  # [T], sub-words up to and including each word
    before = after - sizes  # [T]
    starts, ends = [0], [int(np.searchsorted(after, room, side="right"))]
    while ends[-1] < len(sizes):
        # an integer, rounded up: for a float, each search would convert all of `before`
        half = (before[starts[-1]] + after[ends[-1] - 1] + 1) // 2
        next_start = max(half, after[ends[-1] - 1] - overlap)
        start = max(int(np.searchsorted(before, next_start)), starts[-1] + 1)
        start = min(start, ends[-1])
        starts.append(start)
        ends.append(int(np.searchsorted(after, before[start] + room, side="right")))
    centres = (before + after) / 2  # [T]
    own_start = 0
    for index, (start, end) in enumerate(zip(starts, ends, strict=True)):
        own_end = len(sizes)
        if index + 1 < len(starts):
            middle = (before[starts[index + 1]] + after[end - 1]) / 2
            own_end = int(np.searchsorted(centres, middle))
            own_end = min(max(own_end, starts[index + 1], own_start), end)
        if own_start < own_end:  # a window next to a very long word may have no words of its own
            yield start, end, own_start, own_end
        own_start = own_end
