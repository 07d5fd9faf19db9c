"""Parts of a batch's grids of starts and last words, for those that are too large to hold as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from fencepost.encoder.grouping import group_by_length


class Block(NamedTuple):
    """The rows (starts) from `first` up to `end` of some sentences' grids, padded to `length` words."""

    sentences: list[int]
    first: int
    end: int
    length: int

    def inside(self, lengths: Tensor, top: int, bottom: int) -> Tensor:
        """Return where the rows from `top` up to `bottom` have cells of the sentences: `[b, I, J]`."""
        place = torch.arange(self.length, device=lengths.device)
        words = place < lengths[self.sentences][:, None]  # [b, T]
        return words[:, top:bottom, None] & words[:, None]


def split_blocks(lengths: list[int], at_most: int, reach: int) -> Iterator[Block]:
    """Yield blocks of at most this many cells: several sentences, or some rows of a long one.

    `reach` is the number of rows on each side of a block that must be computed with it.
    """
    for group in group_by_length(lengths, pairs=at_most):
        length = lengths[group[0]]
        rows = length if length**2 <= at_most else max(1, at_most // length - 2 * reach)
        for first in range(0, length, rows):
            yield Block(group, first, min(first + rows, length), length)
