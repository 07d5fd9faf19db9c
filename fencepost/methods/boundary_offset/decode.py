"""Boundary offsets without PyTorch: from the offset labels of spans to the entities they point at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from pydantic import Field

from fencepost.methods.candidates import Candidates
from fencepost.methods.decoder import (
    Decoder,
    GraphMismatch,
    Graphs,
    IntArray,
    PredictSettings,
    TrainedSettings,
    WordArrays,
    run_graph,
)

OUT_OF_RANGE, CENTRE = 0, 1
"""The first two labels; the start offsets -S .. -1, 1 .. S follow, then the end offsets."""

FARTHEST = 1000
"""The largest offset that settings accept."""

_NUMBERS_AT_ONCE = 4_000_000
"""Scores of spans, types and labels that the graph makes at once, unless one sentence alone has more."""

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]


class OffsetSettings(Protocol):
    """Those of the method's settings that say which labels there are."""

    @property
    def max_offset(self) -> int:
        """S."""

    @property
    def offsets(self) -> Literal["both", "start", "end"]:
        """Which boundary may be off."""


class BoundaryOffsetPredict(PredictSettings):
    """How predicted offsets become entities."""

    overlapping: ClassVar[str] = "keep-all"

    mode: Literal["centre", "all", "rules"] = Field(
        "rules", description="Entities are the centres, all spans pointed at, or those that pass the rules."
    )
    votes: int | None = Field(
        None,
        ge=1,
        description="Rules: so many start offsets, or end offsets, must point at a span that is no centre; "
        "unless set, more than half of those that there may be, that is max_offset + 1.",
    )
    nearest: bool = Field(
        True, description="Rules: an offset within reach of a centre must point at the nearest one."
    )
    order: bool = Field(
        True, description="Rules: between an offset and where it points, offsets must count down."
    )


class OffsetsTrained(TrainedSettings):
    """Which labels there are."""

    max_offset: int = Field(ge=0, le=FARTHEST)
    offsets: Literal["both", "start", "end"]


class Labels:
    """The offset labels: what each says about a span's distance from its nearest entity."""

    def __init__(self, settings: OffsetSettings) -> None:
        reach = settings.max_offset
        moves = [move for move in range(-reach, reach + 1) if move]
        sides = {"both": "SE", "start": "S", "end": "E"}[settings.offsets]
        self.names = ("out of range", "0", *(f"{move}{side}" for side in sides for move in moves))
        of_label = [(move, 0) if side == "S" else (0, move) for side in sides for move in moves]
        self.moves = np.array([(0, 0), (0, 0), *of_label]).reshape(-1, 2)  # [L, 2], of start and of end

    def __len__(self) -> int:
        return len(self.names)


class Cells(NamedTuple):
    """Spans that a model does not hold to be out of range, as columns."""

    sentence: IntArray  # [N]
    start: IntArray  # [N]
    last: IntArray  # [N]
    type: IntArray  # [N]
    label: IntArray  # [N]
    probability: FloatArray  # [N]


class BoundaryOffsetDecoder(Decoder):
    """The graph `offsets` says the best label of each cell and type, and its probability."""

    Predict = BoundaryOffsetPredict
    Trained = OffsetsTrained

    def __init__(self, method: Mapping[str, Any], types: Sequence[str]) -> None:
        super().__init__(method, types)
        self.labels = Labels(self.method)

    def candidates(self, words: WordArrays, graphs: Graphs, predict: BoundaryOffsetPredict) -> Candidates:
        """What the cells of all sentences point at; those of some sentences are computed at a time."""
        found: list[Cells] = []
        for group in self._together(words.lengths):
            some = words.take(group)
            length = some.vectors.shape[1]
            grid = (len(group), length, length, len(self.types))
            inputs = {**some.inputs(), "lengths": some.lengths}
            label, probability = run_graph(graphs, "offsets", inputs, ("i", grid), ("f", grid))
            if label.min() < 0 or label.max() >= len(self.labels):
                raise GraphMismatch(f"a label is between {label.min()} and {label.max()}")
            place = np.arange(label.shape[1])
            is_span = (place[:, None] <= place) & (place < some.lengths[:, None, None])  # [b, T, T]
            at = np.nonzero((label != OUT_OF_RANGE) & is_span[..., None])
            sentence = np.asarray(group, dtype=np.int64)[at[0]]
            columns = (sentence, *at[1:], label[at].astype(np.int64), probability[at].astype(np.float64))
            found.append(Cells._make(columns))
        cells = Cells._make(map(np.concatenate, zip(*found, strict=True)))
        return decode(cells, words.lengths, words.vectors.shape[1], self.labels, predict)

    def _together(self, lengths: IntArray) -> Iterator[list[int]]:
        """Sentences of like length, few enough that their grids stay in the caches."""
        at_most = _NUMBERS_AT_ONCE // (len(self.types) * len(self.labels))
        group: list[int] = []
        for index in np.argsort(-lengths, kind="stable").tolist():
            if group and (len(group) + 1) * lengths[group[0]] ** 2 > at_most:
                yield group
                group = []
            group.append(index)
        yield group


def decode(
    cells: Cells, lengths: IntArray, length: int, labels: Labels, predict: BoundaryOffsetPredict
) -> Candidates:
    """The spans that the cells point at, as far as the mode lets them ("Inference with Boundary Offsets").

    A centre's confidence is its probability; that of another span is the mean of those that point at it.
    `length` is that of the padded batch: word `t` of sentence `b` is at position `b * length + t`.
    """
    move = labels.moves[cells.label]  # [N, 2]
    start, last = cells.start - move[:, 0], cells.last - move[:, 1]
    is_centre = cells.label == CENTRE
    votes = ~is_centre & (start >= 0) & (start <= last) & (last < lengths[cells.sentence])

    def span(start: IntArray, last: IntArray) -> IntArray:
        """A number for each span and type."""
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
    """Which of the values are in the sorted array."""
    place = np.searchsorted(sorted_, values)
    result: BoolArray = np.append(sorted_, -1)[place] == values
    return result


def _rank(group: IntArray, direction: IntArray, distance: IntArray) -> IntArray:
    """How many of the same group and direction are nearer."""
    order = np.lexsort((distance, direction, group))
    group, direction = group[order], direction[order]
    new = np.ones(len(order), dtype=np.bool_)
    new[1:] = (group[1:] != group[:-1]) | (direction[1:] != direction[:-1])
    place = np.arange(len(order))
    rank = np.empty_like(place)
    rank[order] = place - np.maximum.accumulate(np.where(new, place, 0))
    return rank
