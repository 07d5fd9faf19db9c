"""Eq. 7: cross entropy of the offset labels over all types and cells."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from fencepost.methods.boundary_offset.blocks import Block
from fencepost.methods.boundary_offset.labels import OUT_OF_RANGE, LabelledCells, Labels, label_cells
from fencepost.methods.network import Gold


def sum_cross_entropy(
    make_grid: Callable[[Block], Tensor],
    blocks: Sequence[Block],
    cells: LabelledCells,
    weights: Tensor,
    lengths: Tensor,
    label_smoothing: float,
    annotated: Tensor | None = None,
) -> Tensor:
    """Return the sum of the cross entropies of all cells, in both triangles, times their sentences' weights.

    Types that a sentence is not annotated with (`annotated`, `[B, C]`) do not count in it. If there are
    several blocks, each is computed again for its gradients, to save memory.
    """

    def sum_block(block: Block) -> Tensor:
        grid = make_grid(block).float()  # [b, I, J, C, L]
        targets = make_targets(cells, block, grid.shape[3]).to(grid.device)
        of_cells = nn.functional.cross_entropy(
            grid.flatten(0, 3), targets.flatten(), reduction="none", label_smoothing=label_smoothing
        ).view(targets.shape)
        if annotated is not None:
            of_cells = of_cells * annotated[block.sentences][:, None, None]
        inside = block.make_mask(lengths, block.first, block.end)  # [b, I, J]
        of_sentences = of_cells.sum(dim=3).masked_fill(~inside, 0.0).sum(dim=(1, 2))  # [b]
        return (of_sentences * weights[block.sentences]).sum()

    if len(blocks) == 1 or not torch.is_grad_enabled():
        parts = [sum_block(block) for block in blocks]
    else:
        parts = [checkpoint(sum_block, block, use_reentrant=False) for block in blocks]
    return torch.stack(parts).sum()


def find_cells(gold: Gold, lengths: Tensor, labels: Labels) -> LabelledCells:
    """Return the cells of a batch with a gold label other than "out of range"."""
    return label_cells(gold.to_numpy(), lengths.cpu().numpy(), labels)


def make_targets(cells: LabelledCells, block: Block, types: int) -> Tensor:
    """Return the gold labels of the block's cells, `[b, I, J, C]`; cell (j, i) repeats cell (i, j)."""
    sentences, first, end, length = block
    # position of each sentence in the block
    index = np.full(max(max(sentences), cells.sentence.max(initial=0)) + 1, -1)
    index[sentences] = np.arange(len(sentences))
    targets = np.full((len(sentences), end - first, length, types), OUT_OF_RANGE, dtype=np.int64)
    for row, column in ((cells.start, cells.last), (cells.last, cells.start)):
        inside = (index[cells.sentence] >= 0) & (row >= first) & (row < end)
        axes = (index[cells.sentence], row - first, column, cells.type)
        targets[tuple(axis[inside] for axis in axes)] = cells.label[inside]
    return torch.from_numpy(targets)
