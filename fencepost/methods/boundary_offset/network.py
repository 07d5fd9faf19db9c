"""Eq. 1-5: scores of the offset labels of every span, for every type.

Grids have the axes `[B, I, J, C, L]`: sentence, start, last word, type, offset label. This is the layout of
the product of spans and types, and the fastest one for a convolution with the labels as channels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from fencepost.encoder.encoder import Words
from fencepost.methods.boundary_offset.blocks import Block, split_blocks
from fencepost.methods.boundary_offset.labels import CENTRE, NEARLY_CENTRE, OUT_OF_RANGE, Labels
from fencepost.methods.boundary_offset.layers import (
    ConditionalNorm,
    Convolutions,
    PlaceEmbedding,
    SecondScore,
)
from fencepost.methods.boundary_offset.loss import find_cells, sum_cross_entropy
from fencepost.methods.boundary_offset.settings import BoundaryOffsetSettings
from fencepost.methods.feed_forward import FeedForward
from fencepost.methods.network import Gold, Graph, Network, word_axes

_RARE = 0.01
"""Initial probability of all labels but "out of range" together. Most spans are out of range; a model that
has to learn this first trains much more slowly."""

_NEARLY = 3.0
"""Maximum difference of the log probabilities of "out of range" and a centre that is still a candidate."""

_BUDGET = 330_000_000
"""Maximum number of values in the grid and all intermediate results at once: about a gigabyte."""


@dataclass(frozen=True, slots=True)
class SpanFactors:
    """The factors of the grid of scores, which is computed block by block, since it may be too large."""

    normed: Tensor  # [B, T, d], Norm(h_i)
    gain: Tensor  # [B, T, d], gamma_j
    shift: Tensor  # [B, T, d], lambda_j
    types: Tensor  # [B, C, L, h], h_m' U + W_span, the factors of span views
    type_bias: Tensor  # [B, C, L], W_type h_m' + b
    second: Tensor | None  # the factors of the authors' second score
    lengths: Tensor  # [B]


class BoundaryOffset(Network[SpanFactors]):
    """Scores of offset labels for every type and span, refined by convolutions over their neighbours."""

    settings: BoundaryOffsetSettings

    def __init__(self, settings: BoundaryOffsetSettings, width: int, types: Sequence[str]) -> None:
        super().__init__(settings, width, types)
        self.labels = Labels(settings)
        labels, size = len(self.labels), settings.size
        if settings.type_inputs == "embedding":
            self.type_vectors = nn.Parameter(torch.randn(len(types), width))
        self.span_norm = ConditionalNorm(width, width)
        self.places = PlaceEmbedding(settings.region_size, settings.distance_size)
        self.type_view = FeedForward(width, size, settings.dropout)
        self.span_view = nn.Linear(width, size)
        self.place_view = nn.Linear(self.places.width, size, bias=False) if self.places.width else None
        self.dropout = nn.Dropout(settings.dropout)
        self.U = nn.Parameter(nn.init.orthogonal_(torch.empty(labels, size, size)))
        self.W = nn.Parameter(nn.init.orthogonal_(torch.empty(labels, 2 * size)))
        self.b = nn.Parameter(torch.zeros(labels))
        self.b.data[OUT_OF_RANGE] = math.log((labels - 1) * (1 - _RARE) / _RARE)
        self.second = SecondScore(width, self.places.width, labels) if settings.condition_types else None
        self.convolutions = Convolutions(labels, settings.convolutions) if settings.convolutions else None
        self.reach = self.convolutions.reach if self.convolutions else 0

    def score(self, words: Words, gold: Gold | None = None) -> SpanFactors:  # noqa: ARG002
        """Eq. 1-3: return the factors of the scores, which depend on single words and types.

        The linear term has two parts, so Eq. 3 is (h_m' U_l + W_span) v_ij + W_type h_m' + b_l.
        """
        types = words.prompts if words.prompts is not None else self.type_vectors  # [B, C, d]
        types = types.expand(words.lengths.shape[0], -1, -1)
        h = self.type_view(types)  # [B, C, h]
        w_type, w_span = self.W.chunk(2, dim=1)
        normed, gain, shift = self.span_norm.compute_factors(words.vectors, words.vectors)
        return SpanFactors(
            normed=normed,
            gain=gain,
            shift=shift,
            types=torch.einsum("bch,lhk->bclk", h, self.U) + w_span,
            type_bias=h @ w_type.T + self.b,
            second=self.second.compute_factors(types) if self.second else None,
            lengths=words.lengths,
        )

    def compute_grid(self, factors: SpanFactors, block: Block) -> Tensor:
        """Eq. 5: return the scores of the labels, `[b, I, J, C, L]`.

        Convolutions also depend on cells beyond the block's rows; these are computed too, and cut off.
        """
        sentences, first, end, length = block
        top, bottom = max(0, first - self.reach), min(length, end + self.reach)
        normed = factors.normed[sentences, top:bottom, None]  # [b, I, 1, d]
        gain, shift = factors.gain[sentences, None, :length], factors.shift[sentences, None, :length]
        spans = torch.addcmul(shift, gain, normed)  # [b, I, J, d], Eq. 1
        places = self.places(top, bottom, length)  # [I, J, p]
        views = self.span_view(spans)  # [b, I, J, h]
        if self.place_view is not None:
            views = views + self.place_view(places)
        views = self.dropout(views.relu())
        shape = (*views.shape[:3], *factors.type_bias.shape[1:])  # b, I, J, C, L
        grid = torch.baddbmm(
            factors.type_bias[sentences].flatten(1)[:, None],
            views.flatten(1, 2),
            factors.types[sentences].flatten(1, 2).transpose(1, 2),
        ).view(shape)  # Eq. 3
        if self.second is not None and factors.second is not None:
            grid = grid + self.second(spans, places, factors.second[sentences])
        if self.convolutions is not None:
            inside = block.make_mask(factors.lengths, top, bottom)  # [b, I, J]
            grid = self.convolutions(grid, inside[..., None, None].to(grid.dtype))
        return grid[:, first - top : end - top]

    def loss(self, scores: SpanFactors, gold: Gold) -> dict[str, Tensor]:
        """Eq. 7: return the cross entropy over all types and cells.

        If a sentence's cells are averaged, as in the paper, the weight of an entity falls with the square of
        the length of its sentence; so they are summed by default (`mean_over`).
        """
        lengths = scores.lengths
        total = sum_cross_entropy(
            lambda block: self.compute_grid(scores, block),
            list(split_blocks(lengths.tolist(), self.cells_at_once, self.reach)),
            find_cells(gold, lengths, self.labels),
            self._compute_weights(lengths),
            lengths,
            self.settings.label_smoothing,
            gold.annotated,
        )
        return {"offset_loss": total}

    @property
    def cells_at_once(self) -> int:
        """Maximum number of cells, with all their types, that are computed at once."""
        return _BUDGET // (4 * (self.width + self.settings.size) + 16 * len(self.types) * len(self.labels))

    def _compute_weights(self, lengths: Tensor) -> Tensor:
        """Return the weight of each sentence's cells in the loss: `[B]`."""
        cells = len(self.types) * lengths.clamp(min=1).float() ** 2
        if self.settings.mean_over == "batch":
            return (1 / self.mean_count(cells.sum())) * torch.ones_like(cells)
        count = cells if self.settings.mean_over == "cells" else torch.ones_like(cells)
        return 1 / (self.mean_count(len(cells)) * count)

    def graphs(self, words: Words) -> dict[str, Graph]:
        inputs, axes = word_axes(words)
        inputs = {"vectors": inputs["vectors"], "lengths": words.lengths, **inputs}
        grid = ("sentences", "words", "words", None)
        axes |= {"lengths": ("sentences",), "label": grid, "probability": grid}
        return {"offsets": Graph(OffsetGraph(self), inputs, axes)}


class OffsetGraph(nn.Module):
    """Graph from word vectors to the best label of each cell and type, and its probability.

    Cells that are out of range but may be centres get the label `NEARLY_CENTRE`.
    """

    def __init__(self, network: BoundaryOffset) -> None:
        super().__init__()
        self.network = network

    def forward(
        self, vectors: Tensor, lengths: Tensor, prompts: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Map `[B, T, d]` to two `[B, T, T, C]`; a large grid is computed in several blocks of rows."""
        length = vectors.shape[1]
        factors = self.network.score(Words(vectors, lengths, prompts))
        everything = cast("list[int]", slice(None))  # indexes like a list of all sentences
        if torch.onnx.is_in_onnx_export():  # a graph has no loop over rows
            return self._find_best(factors, Block(everything, 0, length, length))
        rows = max(1, self.network.cells_at_once // (len(lengths) * length) - 2 * self.network.reach)
        blocks = (
            Block(everything, first, min(first + rows, length), length) for first in range(0, length, rows)
        )
        label, probability = zip(*(self._find_best(factors, block) for block in blocks), strict=True)
        return torch.cat(label, dim=1), torch.cat(probability, dim=1)

    def _find_best(self, factors: SpanFactors, block: Block) -> tuple[Tensor, Tensor]:
        grid = self.network.compute_grid(factors, block)  # [B, I, T, C, L]
        best, label = grid.max(dim=4)
        centre = grid[..., CENTRE]
        nearly = (label == OUT_OF_RANGE) & (centre > best - _NEARLY)
        label, best = label.masked_fill(nearly, NEARLY_CENTRE), torch.where(nearly, centre, best)
        if torch.onnx.is_in_onnx_export():
            return label.int(), (best - grid.logsumexp(dim=4)).exp()
        in_range = label != OUT_OF_RANGE  # few cells; the probabilities of the others are not used
        probability = torch.zeros_like(best)
        probability[in_range] = (best[in_range] - grid[in_range].logsumexp(dim=1)).exp()
        return label.int(), probability
