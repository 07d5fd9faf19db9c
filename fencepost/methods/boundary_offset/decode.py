"""Prediction: the entities that the offset labels of spans point at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fencepost.encoder.grouping import group_by_length
from fencepost.methods.boundary_offset.labels import CENTRE, NEARLY_CENTRE, OUT_OF_RANGE, Labels
from fencepost.methods.boundary_offset.settings import BoundaryOffsetPredict, BoundaryOffsetSettings
from fencepost.methods.candidates import Candidates
from fencepost.methods.decoder import (
    Decoder,
    GraphMismatch,
    Graphs,
    IntArray,
    WordArrays,
    is_span,
    run_graph,
)

_NUMBERS_AT_ONCE = 400_000
"""Maximum number of scores that the graph computes at once; a single sentence may have more."""

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]


class Cells(NamedTuple):
    """The cells of the upper triangle whose label is not out of range, as columns."""

    sentence: IntArray  # [N]
    start: IntArray  # [N]
    last: IntArray  # [N]
    type: IntArray  # [N]
    label: IntArray  # [N]
    probability: FloatArray  # [N]


class OffsetScores(NamedTuple):
    """The predicted labels of a batch."""

    cells: Cells
    lengths: IntArray  # [B]
    length: int  # T, of the padded batch


class OffsetDecoder(Decoder[OffsetScores]):
    """Decoder for the graph `offsets`, which returns the best label of each cell and type."""

    settings: BoundaryOffsetSettings

    def __init__(self, settings: BoundaryOffsetSettings, types: Sequence[str]) -> None:
        super().__init__(settings, types)
        self.labels = Labels(settings)

    def score(self, words: WordArrays, graphs: Graphs, predict: BoundaryOffsetPredict) -> OffsetScores:  # noqa: ARG002
        """Return the labelled cells of all sentences; grids are computed for a few sentences at a time."""
        at_most = _NUMBERS_AT_ONCE // (len(self.types) * len(self.labels))
        groups = group_by_length(words.lengths.tolist(), pairs=at_most)
        parts = [self._score_group(words, group, graphs) for group in groups]
        cells = Cells._make(map(np.concatenate, zip(*parts, strict=True)))
        return OffsetScores(cells, words.lengths, words.vectors.shape[1])

    def _score_group(self, words: WordArrays, group: list[int], graphs: Graphs) -> Cells:
        some = words.take(group)
        length = some.vectors.shape[1]
        grid = (len(group), length, length, len(self.types))
        inputs = {**some.inputs(), "lengths": some.lengths}
        label, probability = run_graph(graphs, "offsets", inputs, ("i", grid), ("f", grid))
        if label.min() < NEARLY_CENTRE or label.max() >= len(self.labels):
            raise GraphMismatch(f"a label is between {label.min()} and {label.max()}")
        index = np.nonzero((label != OUT_OF_RANGE) & is_span(some.lengths, length)[..., None])
        sentence = np.asarray(group, dtype=np.int64)[index[0]]
        columns = (sentence, *index[1:], label[index].astype(np.int64), probability[index].astype(np.float64))
        return Cells._make(columns)

    def candidates(self, scores: OffsetScores, predict: BoundaryOffsetPredict) -> Candidates:
        return decode(scores.cells, scores.lengths, scores.length, self.labels, predict)


def decode(
    cells: Cells, lengths: IntArray, length: int, labels: Labels, predict: BoundaryOffsetPredict
) -> Candidates:
    """Return the spans that the cells point at and the mode allows ("Inference with Boundary Offsets").

    Centres that are less probable than "out of range" count if they reach the threshold. The confidence of a
    centre is its probability; that of another span is the mean probability of the cells that point at it.
    `length` is that of the padded batch: word `t` of sentence `b` is at position `b * length + t`.
    """
    weak = cells.label == NEARLY_CENTRE
    cells = Cells._make(column[~weak | (cells.probability >= predict.lowest_threshold())] for column in cells)
    cells = cells._replace(label=np.abs(cells.label))  # NEARLY_CENTRE becomes CENTRE
    move = labels.moves[cells.label]  # [N, 2]
    start, last = cells.start - move[:, 0], cells.last - move[:, 1]
    is_centre = cells.label == CENTRE
    votes = ~is_centre & (start >= 0) & (start <= last) & (last < lengths[cells.sentence])

    def span(start: IntArray, last: IntArray) -> IntArray:
        """Return a number that identifies each span and type."""
        number: IntArray = ((cells.type * len(lengths) + cells.sentence) * length + start) * length + last
        return number

    pointed_at, centres = span(start, last), np.sort(span(cells.start, cells.last)[is_centre])
    needed = 1
    if predict.mode == "centre":
        votes &= False
    elif predict.mode == "rules":
        needed = predict.votes or int(labels.moves.max()) + 1
        if predict.nearest:  # a cell within reach of a centre must not vote for a span that is not a centre
            for other in labels.moves[CENTRE + 1 :]:
                first, final = cells.start - other[0], cells.last - other[1]
                inside = (first >= 0) & (first <= final) & (final < lengths[cells.sentence])
                votes &= ~(inside & _is_among(span(first, final), centres))
        if predict.order:
            distance = np.abs(move).sum(axis=1)
            votes &= _rank(pointed_at, move @ (1, 3) // np.maximum(distance, 1), distance) == distance - 1
    votes &= ~_is_among(pointed_at, centres)  # a centre needs no votes

    _, first, which = np.unique(pointed_at[votes], return_index=True, return_inverse=True)
    by_start, by_end = (np.bincount(which, move[votes, side] != 0) for side in (0, 1))
    elected = np.maximum(by_start, by_end) >= needed
    confidence = np.bincount(which, cells.probability[votes]) / np.bincount(which)
    chosen = np.concatenate((np.flatnonzero(is_centre), np.flatnonzero(votes)[first][elected]))
    offset = cells.sentence[chosen] * length
    return Candidates(
        offset + start[chosen],
        offset + last[chosen] + 1,
        cells.type[chosen],
        np.concatenate((cells.probability[is_centre], confidence[elected])).clip(0, 1),
    )


def _is_among(values: IntArray, sorted_: IntArray) -> BoolArray:
    """Return which of the values are in the sorted array."""
    index = np.searchsorted(sorted_, values)
    result: BoolArray = np.append(sorted_, -1)[index] == values
    return result


def _rank(group: IntArray, direction: IntArray, distance: IntArray) -> IntArray:
    """Return for each item the number of nearer items of the same group and direction."""
    order = np.lexsort((distance, direction, group))
    group, direction = group[order], direction[order]
    is_first = np.ones(len(order), dtype=np.bool_)
    is_first[1:] = (group[1:] != group[:-1]) | (direction[1:] != direction[:-1])
    index = np.arange(len(order))
    rank = np.empty_like(index)
    rank[order] = index - np.maximum.accumulate(np.where(is_first, index, 0))
    return rank
