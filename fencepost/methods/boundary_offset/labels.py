"""Section 2: the offset labels, and the gold labels of the cells of a sentence."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fencepost.methods.boundary_offset.settings import BoundaryOffsetSettings
from fencepost.methods.decoder import GoldArrays, IntArray

NEARLY_CENTRE, OUT_OF_RANGE, CENTRE = -1, 0, 1
"""A label that only predictions have, and the first two labels; after them come the start offsets -S .. -1,
1 .. S, then the end offsets."""


class Labels:
    """The offset labels: their names, and the offsets (moves) of start and end from the nearest entity."""

    def __init__(self, settings: BoundaryOffsetSettings) -> None:
        reach = settings.max_offset
        moves = [move for move in range(-reach, reach + 1) if move]
        sides = {"both": "SE", "start": "S", "end": "E"}[settings.offsets]
        self.names = ("out of range", "0", *(f"{move}{side}" for side in sides for move in moves))
        offsets = [(move, 0) if side == "S" else (0, move) for side in sides for move in moves]
        self.moves = np.array([(0, 0), (0, 0), *offsets]).reshape(-1, 2)  # [L, 2], of start and of end

    def __len__(self) -> int:
        return len(self.names)


class LabelledCells(NamedTuple):
    """The cells of the upper triangle that are not out of range, as columns."""

    sentence: IntArray  # [N]
    start: IntArray  # [N]
    last: IntArray  # [N]
    type: IntArray  # [N]
    label: IntArray  # [N]


def label_cells(gold: GoldArrays, lengths: IntArray, labels: Labels) -> LabelledCells:
    """Return for every type the entities, and the spans whose offset from an entity has a label.

    If a span has several such entities, the nearest one counts; on a tie the first one, by start, then end.
    """
    moves = labels.moves[CENTRE:]  # [L - 1, 2]
    start = gold.start[:, None] + moves[:, 0]  # [N, L - 1]
    last = gold.end[:, None] - 1 + moves[:, 1]
    inside = (start >= 0) & (start <= last) & (last < lengths[gold.sentence][:, None])
    entity, move = np.nonzero(inside)
    start, last, sentence, type_ = start[inside], last[inside], gold.sentence[entity], gold.type[entity]
    distance = np.abs(moves).sum(axis=1)[move]
    order = np.lexsort((gold.end[entity], gold.start[entity], distance, type_, last, start, sentence))
    cells = np.stack((sentence, start, last, type_))[:, order]  # [4, X]
    first = np.ones(len(order), dtype=np.bool_)
    first[1:] = (cells[:, 1:] != cells[:, :-1]).any(axis=0)
    return LabelledCells._make((*cells[:, first], move[order][first] + CENTRE))
