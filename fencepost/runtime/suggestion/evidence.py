"""What a model knows about sentences without annotation: how unsure it is of each, and where it lies.

Of a span with probability `p` of being an entity, `1 - p` is the probability of an error if it is predicted,
and `p` if it is not. Spans with probabilities near the threshold count most, therefore.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import numpy.typing as npt

from fencepost.data.entity import Sentence
from fencepost.encoder.windows import Part
from fencepost.methods.candidates import Candidates
from fencepost.methods.decoder import WordArrays
from fencepost.runtime.recogniser import Prepared, Recogniser

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

POSSIBLE = 0.05
"""Confidence, before calibration, from which a span counts: boundary smoothing gives less to many spans."""

REACH = 3
"""How far apart, in words, the boundaries of two spans may be together to count as one entity's."""


@dataclass(frozen=True)
class Evidence:
    """What is known of N sentences."""

    errors: FloatArray  # [N], expected number of wrong and missing entities
    boundaries: FloatArray  # [N], disagreement about boundaries
    vectors: npt.NDArray[np.float32]  # [N, d], means of the word vectors


def examine(recogniser: Recogniser, prepared: Sequence[Prepared]) -> tuple[list[Sentence], Evidence]:
    """Return sentences with the entities that are predicted, and the evidence, from one run of the model.

    No sentence may be empty, or be there twice as the same object.
    """
    owners = [owner for owner, one in enumerate(prepared) for _ in one.parts]
    parts = [part for one in prepared for part in one.parts]
    place = {id(part.sentence): number for number, part in enumerate(parts)}
    sums = np.zeros((len(parts), 2))
    vectors: list[npt.NDArray[np.float32]] = [np.zeros(0, dtype=np.float32)] * len(parts)

    def add(
        sentences: Sequence[Sentence], words: WordArrays, possible: Candidates, predicted: Candidates
    ) -> None:
        rows = [place[id(sentence)] for sentence in sentences]
        batch = [parts[row] for row in rows]
        sums[rows] = _sum_doubts(batch, words.vectors.shape[1], possible, predicted)
        for index, (row, part) in enumerate(zip(rows, batch, strict=True)):
            own = slice(part.own_start - part.start, part.own_end - part.start)
            vectors[row] = words.vectors[index, own].sum(axis=0, dtype=np.float32)

    found = iter(recogniser.compute(parts, recogniser.watch_candidates(add, POSSIBLE)))
    sentences = [recogniser.merge(one, list(islice(found, len(one.parts)))) for one in prepared]
    by_sentence = np.zeros((len(prepared), 2))
    np.add.at(by_sentence, owners, sums)
    totals = np.zeros((len(prepared), len(vectors[0]) if vectors else 0), dtype=np.float32)
    np.add.at(totals, owners, np.array(vectors, dtype=np.float32).reshape(len(vectors), -1))
    lengths = np.array([len(sentence) for sentence in sentences], dtype=np.float32)
    return sentences, Evidence(by_sentence[:, 0], by_sentence[:, 1], totals / lengths[:, None])


def _sum_doubts(
    batch: Sequence[Part], length: int, possible: Candidates, predicted: Candidates
) -> FloatArray:
    """Return the expected errors and the disagreement about boundaries of each part: `[B, 2]`."""
    own = np.array([(part.own_start - part.start, part.own_end - part.start) for part in batch])
    possible, predicted = (_keep_own(spans, own, length) for spans in (possible, predicted))
    size = len(batch) * length + 1
    others = possible.take(~np.isin(_number(possible, size), _number(predicted, size)))
    spans = Candidates(
        *(np.concatenate(pair) for pair in zip(_columns(predicted), _columns(others), strict=True))
    )
    row = spans.start // length
    wrong = np.where(np.arange(len(spans)) < len(predicted), 1 - spans.confidence, spans.confidence)
    doubts = (wrong, _disagree(spans, size))
    return np.stack([np.bincount(row, doubt, minlength=len(batch)) for doubt in doubts], axis=1)


def _keep_own(spans: Candidates, own: IntArray, length: int) -> Candidates:
    """Return the spans whose middle is among the words that their part answers for, as `Part.owns` does."""
    middle = (spans.start + spans.end - 1) // 2
    first, end = own[middle // length].T
    return spans.take((first <= middle % length) & (middle % length < end))


def _columns(spans: Candidates) -> Iterator[npt.NDArray[np.generic]]:
    yield from (spans.start, spans.end, spans.type, spans.confidence)


def _number(spans: Candidates, size: int, left: int = 0, right: int = 0) -> IntArray:
    """Return a number for each span and type, with the start and the end moved by this many words."""
    number: IntArray = (spans.type * size + spans.start + left) * size + spans.end + right
    return number


def _disagree(spans: Candidates, size: int) -> FloatArray:
    """Return for each span how much the spans of its type with slightly other boundaries dispute it: `[N]`.

    Each pair that overlaps counts once, with the smallest of `p` and `1 - p` of both: 0.5 if either may
    well be right, little if one is certain, or if both are.
    """
    numbers = _number(spans, size)
    order = np.argsort(numbers)
    doubt = np.minimum(spans.confidence, 1 - spans.confidence)
    total = np.zeros(len(spans))
    for left, right in _moves():
        start, end = spans.start + left, spans.end + right
        overlap = np.minimum(spans.end, end) > np.maximum(spans.start, start)
        moved = _number(spans, size, left, right)
        at = np.searchsorted(numbers, moved, sorter=order)
        other = order[np.minimum(at, len(order) - 1)] if len(order) else order
        there = overlap & (start >= 0) & (end < size) & (numbers[other] == moved)
        total += np.where(there, np.minimum(doubt, doubt[other]), 0.0)
    return total


def _moves() -> list[tuple[int, int]]:
    """Return how a start and an end may be moved within reach; of two opposite moves, one."""
    reach = range(-REACH, REACH + 1)
    moves = [(left, right) for left in reach for right in reach if abs(left) + abs(right) <= REACH]
    return [move for move in moves if move < (0, 0)]
