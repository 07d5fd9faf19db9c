"""Blocks: parts of the grids of a batch, which may be too large to compute at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from fencepost.encoder.grouping import group_by_length


class Block(NamedTuple):
    """The rows (starts) from `first` to `end` of the grids of some sentences, padded to `length` words."""

    sentences: list[int]
    first: int
    end: int
    length: int

    def make_mask(self, lengths: Tensor, top: int, bottom: int) -> Tensor:
        """Return which cells in the rows from `top` to `bottom` are not padding: `[b, I, J]`."""
        position = torch.arange(self.length, device=lengths.device)
        words = position < lengths[self.sentences][:, None]  # [b, T]
        return words[:, top:bottom, None] & words[:, None]


def split_blocks(lengths: list[int], at_most: int, reach: int) -> Iterator[Block]:
    """Yield blocks of at most `at_most` cells: several sentences, or some rows of a long one.

    `reach` is the number of rows on each side that must be computed together with a block.
    """
    for group in group_by_length(lengths, pairs=at_most):
        length = lengths[group[0]]
        rows = length if length**2 <= at_most else max(1, at_most // length - 2 * reach)
        for first in range(0, length, rows):
            yield Block(group, first, min(first + rows, length), length)
