"""Prediction: from the offset labels of spans to the entities that they point at."""

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
"""Scores of spans, types and labels that the graph makes at once, unless one sentence alone has more."""

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
    """What the labels of a batch say."""

    cells: Cells
    lengths: IntArray  # [B]
    length: int  # T, of the padded batch


class OffsetDecoder(Decoder[OffsetScores]):
    """The graph `offsets` returns the best label of each cell and type, and its probability."""

    settings: BoundaryOffsetSettings

    def __init__(self, settings: BoundaryOffsetSettings, types: Sequence[str]) -> None:
        super().__init__(settings, types)
        self.labels = Labels(settings)

    def score(self, words: WordArrays, graphs: Graphs, predict: BoundaryOffsetPredict) -> OffsetScores:  # noqa: ARG002
        """Return the cells of all sentences; the grids of some sentences are computed at a time."""
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
        at = np.nonzero((label != OUT_OF_RANGE) & is_span(some.lengths, length)[..., None])
        sentence = np.asarray(group, dtype=np.int64)[at[0]]
        columns = (sentence, *at[1:], label[at].astype(np.int64), probability[at].astype(np.float64))
        return Cells._make(columns)

    def candidates(self, scores: OffsetScores, predict: BoundaryOffsetPredict) -> Candidates:
        return decode(scores.cells, scores.lengths, scores.length, self.labels, predict)


def decode(
    cells: Cells, lengths: IntArray, length: int, labels: Labels, predict: BoundaryOffsetPredict
) -> Candidates:
    """Return the spans that the cells point at, as the mode allows ("Inference with Boundary Offsets").

    Centres that are less probable than "out of range" count if they reach the threshold.

    A centre's confidence is its probability; that of another span is the mean of those that point at it.
    `length` is that of the padded batch: word `t` of sentence `b` is at position `b * length + t`.
    """
    weak = cells.label == NEARLY_CENTRE
    cells = Cells._make(column[~weak | (cells.probability >= predict.lowest_threshold())] for column in cells)
    cells = cells._replace(label=np.abs(cells.label))  # nearly a centre is one
    move = labels.moves[cells.label]  # [N, 2]
    start, last = cells.start - move[:, 0], cells.last - move[:, 1]
    is_centre = cells.label == CENTRE
    votes = ~is_centre & (start >= 0) & (start <= last) & (last < lengths[cells.sentence])

    def span(start: IntArray, last: IntArray) -> IntArray:
        """Return a number for each span and type."""
        number: IntArray = ((cells.type * len(lengths) + cells.sentence) * length + start) * length + last
        return number

    pointed_at, centres = span(start, last), np.sort(span(cells.start, cells.last)[is_centre])
    needed = 1
    if predict.mode == "centre":
        votes &= False
    elif predict.mode == "rules":
        needed = predict.votes or int(labels.moves.max()) + 1
        if predict.nearest:  # so, near a centre, no vote for a span that is none can be right
            for other in labels.moves[CENTRE + 1 :]:
                at, to = cells.start - other[0], cells.last - other[1]
                inside = (at >= 0) & (at <= to) & (to < lengths[cells.sentence])
                votes &= ~(inside & _among(span(at, to), centres))
        if predict.order:
            distance = np.abs(move).sum(axis=1)
            votes &= _rank(pointed_at, move @ (1, 3) // np.maximum(distance, 1), distance) == distance - 1
    votes &= ~_among(pointed_at, centres)  # a centre needs none

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


def _among(values: IntArray, sorted_: IntArray) -> BoolArray:
    """Return which of the values are in the sorted array."""
    place = np.searchsorted(sorted_, values)
    result: BoolArray = np.append(sorted_, -1)[place] == values
    return result


def _rank(group: IntArray, direction: IntArray, distance: IntArray) -> IntArray:
    """Return how many of the same group and direction are nearer."""
    order = np.lexsort((distance, direction, group))
    group, direction = group[order], direction[order]
    new = np.ones(len(order), dtype=np.bool_)
    new[1:] = (group[1:] != group[:-1]) | (direction[1:] != direction[:-1])
    place = np.arange(len(order))
    rank = np.empty_like(place)
    rank[order] = place - np.maximum.accumulate(np.where(new, place, 0))
    return rank
