"""Evidence by which sentences are chosen: the uncertainty of the predictions, and a vector of the sentence.

If a span is an entity with probability `p`, the probability of an error is `1 - p` if the span is predicted,
and `p` if it is not. Therefore spans with probabilities near the threshold contribute most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import numpy.typing as npt

from fencepost.data.entity import Sentence
from fencepost.encoder.windows import Part
from fencepost.methods.candidates import Candidates, FloatArray, IntArray
from fencepost.methods.decoder import WordArrays
from fencepost.runtime.recogniser import Recogniser, SplitSentence

POSSIBLE = 0.05
"""Minimum confidence of a span, before calibration; with boundary smoothing, many spans have less."""

REACH = 3
"""Maximum sum of the distances between the boundaries, in words, of two spans that may be the same entity."""


@dataclass(frozen=True)
class Evidence:
    """Evidence about N sentences."""

    errors: FloatArray  # [N], expected number of wrong and missing entities
    boundaries: FloatArray  # [N], disagreement about boundaries
    vectors: npt.NDArray[np.float32]  # [N, d], means of the word vectors


def examine(recogniser: Recogniser, prepared: Sequence[SplitSentence]) -> tuple[list[Sentence], Evidence]:
    """Return the sentences with predicted entities and the evidence about them, from one run of the model.

    No sentence may be empty, and no object may occur twice.
    """
    owners = [owner for owner, one in enumerate(prepared) for _ in one.parts]
    parts = [part for one in prepared for part in one.parts]
    rows_by_id = {id(part.sentence): row for row, part in enumerate(parts)}
    sums = np.zeros((len(parts), 2))
    vectors: list[npt.NDArray[np.float32]] = [np.zeros(0, dtype=np.float32)] * len(parts)

    def add(
        sentences: Sequence[Sentence], words: WordArrays, possible: Candidates, predicted: Candidates
    ) -> None:
        rows = [rows_by_id[id(sentence)] for sentence in sentences]
        batch = [parts[row] for row in rows]
        sums[rows] = _sum_uncertainty(batch, words.vectors.shape[1], possible, predicted)
        for index, (row, part) in enumerate(zip(rows, batch, strict=True)):
            own = slice(part.own_start - part.start, part.own_end - part.start)
            vectors[row] = words.vectors[index, own].sum(axis=0, dtype=np.float32)

    entities = iter(recogniser.compute(parts, recogniser.watch_candidates(add, POSSIBLE)))
    sentences = [recogniser.merge(one, list(islice(entities, len(one.parts)))) for one in prepared]
    by_sentence = np.zeros((len(prepared), 2))
    np.add.at(by_sentence, owners, sums)
    totals = np.zeros((len(prepared), len(vectors[0]) if vectors else 0), dtype=np.float32)
    np.add.at(totals, owners, np.array(vectors, dtype=np.float32).reshape(len(vectors), -1))
    lengths = np.array([len(sentence) for sentence in sentences], dtype=np.float32)
    return sentences, Evidence(by_sentence[:, 0], by_sentence[:, 1], totals / lengths[:, None])


def _sum_uncertainty(
    batch: Sequence[Part], length: int, possible: Candidates, predicted: Candidates
) -> FloatArray:
    """Return the expected errors and the disagreement about boundaries of each part: `[B, 2]`."""
    own = np.array([(part.own_start - part.start, part.own_end - part.start) for part in batch])
    possible, predicted = (_select_own(spans, own, length) for spans in (possible, predicted))
    size = len(batch) * length + 1
    others = possible.take(~np.isin(_encode(possible, size), _encode(predicted, size)))
    pairs = zip(_list_columns(predicted), _list_columns(others), strict=True)
    spans = Candidates(*(np.concatenate(pair) for pair in pairs))
    row = spans.start // length
    errors = np.where(np.arange(len(spans)) < len(predicted), 1 - spans.confidence, spans.confidence)
    columns = (errors, _compute_disagreement(spans, size))
    return np.stack([np.bincount(row, column, minlength=len(batch)) for column in columns], axis=1)


def _select_own(spans: Candidates, own: IntArray, length: int) -> Candidates:
    """Return the spans that their part owns, as `Part.owns` does."""
    middle = (spans.start + spans.end - 1) // 2
    first, end = own[middle // length].T
    return spans.take((first <= middle % length) & (middle % length < end))


def _list_columns(spans: Candidates) -> tuple[npt.NDArray[np.generic], ...]:
    return spans.start, spans.end, spans.type, spans.confidence


def _encode(spans: Candidates, size: int, left: int = 0, right: int = 0) -> IntArray:
    """Return a unique number for each span and type, with start and end moved by `left` and `right` words."""
    code: IntArray = (spans.type * size + spans.start + left) * size + spans.end + right
    return code


def _compute_disagreement(spans: Candidates, size: int) -> FloatArray:
    """Return the disagreement of each span with spans of its type that have similar boundaries: `[N]`.

    Each pair that overlaps counts once, with the smallest of `p` and `1 - p` of both spans: 0.5 if both spans
    are equally likely, and little if one is certain.
    """
    codes = _encode(spans, size)
    order = np.argsort(codes)
    uncertainty = np.minimum(spans.confidence, 1 - spans.confidence)
    total = np.zeros(len(spans))
    for left, right in _list_moves():
        start, end = spans.start + left, spans.end + right
        overlap = np.minimum(spans.end, end) > np.maximum(spans.start, start)
        moved = _encode(spans, size, left, right)
        index = np.searchsorted(codes, moved, sorter=order)
        other = order[np.minimum(index, len(order) - 1)] if len(order) else order
        exists = overlap & (start >= 0) & (end < size) & (codes[other] == moved)
        total += np.where(exists, np.minimum(uncertainty, uncertainty[other]), 0.0)
    return total


def _list_moves() -> list[tuple[int, int]]:
    """Return the moves of a start and an end within reach, and only one of two opposite moves."""
    reach = range(-REACH, REACH + 1)
    moves = [(left, right) for left in reach for right in reach if abs(left) + abs(right) <= REACH]
    return [move for move in moves if move < (0, 0)]
