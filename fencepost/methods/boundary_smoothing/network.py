"""Section 3.1: a biaffine layer that scores every span for every type."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fencepost.encoder.encoder import Words
from fencepost.encoder.grouping import group_by_length
from fencepost.methods.boundary_smoothing.loss import sum_cross_entropy
from fencepost.methods.boundary_smoothing.settings import BoundarySmoothingSettings
from fencepost.methods.feed_forward import FeedForward
from fencepost.methods.network import Gold, Graph, Network, word_axes

_RARE = 0.01
"""Initial probability of all types together. Most spans are not entities; a model that has to learn this
first trains much more slowly."""

_PAIRS_AT_ONCE = 1_000_000
"""Maximum number of cells of the grids that training computes at once; a single sentence may have more."""


@dataclass(frozen=True, slots=True)
class SpanScores:
    """The factors of the scores r_ij of all spans."""

    start: Tensor  # [B, C + 1, T, h], hs_i' U + W_end
    start_bias: Tensor  # [B, C + 1, T, 1], W_start hs_i + b - a_1 - ... - a_(i - 1)
    end: Tensor  # [B, h, T], he_j
    end_bias: Tensor | None  # [B, C + 1, 1, T], a_1 + ... + a_j
    width: Tensor  # [C + 1, widest], W_width width_(j - i)
    lengths: Tensor  # [B]

    def compute_grid(self) -> Tensor:
        """Return r_ij for all starts i and last words j: `[B, C + 1, T, T]`."""
        scores = self.start.flatten(1, 2) @ self.end  # one product for all classes
        scores = scores.view(*self.start.shape[:3], -1) + self.start_bias
        if self.end_bias is not None:
            scores = scores + self.end_bias
        place = torch.arange(self.end.shape[2], device=self.end.device)
        widths = (place - place[:, None]).clamp(0, self.width.shape[1] - 1)  # [T, T]
        return scores + self.width[:, widths]

    def take(self, sentences: list[int]) -> SpanScores:
        """Return the scores of some sentences, padded to the longest of them."""
        lengths = self.lengths[sentences]
        longest = int(lengths.max())
        return SpanScores(
            start=self.start[sentences, :, :longest],
            start_bias=self.start_bias[sentences, :, :longest],
            end=self.end[sentences, :, :longest],
            end_bias=None if self.end_bias is None else self.end_bias[sentences, :, :, :longest],
            width=self.width,
            lengths=lengths,
        )


class BoundarySmoothing(Network[SpanScores]):
    """Biaffine scores of spans. Class 0 is "no entity"; type t is class t + 1."""

    settings: BoundarySmoothingSettings
    has_soft_targets = True

    def __init__(self, settings: BoundarySmoothingSettings, width: int, types: Sequence[str]) -> None:
        super().__init__(settings, width, types)
        size, classes = settings.size, 1 + len(types)
        self.start_view = FeedForward(width, size, settings.dropout)
        self.end_view = FeedForward(width, size, settings.dropout)
        self.width_embedding = nn.Embedding(settings.widest or 1, settings.width_size)
        self.U = nn.Parameter(nn.init.orthogonal_(torch.empty(classes, size, size)))
        self.W = nn.Parameter(nn.init.orthogonal_(torch.empty(classes, 2 * size + settings.width_size)))
        self.b = nn.Parameter(torch.zeros(classes))
        if settings.inside:
            self.word_scores = nn.Linear(width, classes, bias=False)
            nn.init.zeros_(self.word_scores.weight)
        self.b.data[0] = math.log(len(types) * (1 - _RARE) / _RARE)

    def score(self, words: Words, gold: Gold | None = None) -> SpanScores:  # noqa: ARG002
        """Eq. 1: return the factors of r_ij = hs_i' U he_j + W [hs_i ; he_j ; width_(j - i)] + b.

        The linear term is split into its three parts. The part of the end is added to the product with U:
        hs_i' U he_j + W_end he_j = (hs_i' U + W_end) he_j. With `inside`, each word k of the span adds its
        score a_k; the sum over the words of a span is the difference of two sums from the first word on.
        """
        hs, he = self.start_view(words.vectors), self.end_view(words.vectors)  # [B, T, h]
        size = self.settings.size
        w_start, w_end, w_width = torch.split(self.W, [size, size, self.settings.width_size], dim=1)
        of_start = hs @ self.U.transpose(0, 1).flatten(1)  # [B, T, (C + 1) h]
        start_bias, end_bias = (hs @ w_start.T + self.b).transpose(1, 2)[..., None], None
        if self.settings.inside:
            of_words = self.word_scores(words.vectors).transpose(1, 2)  # [B, C + 1, T]
            sums = of_words.to(torch.promote_types(of_words.dtype, torch.float32)).cumsum(dim=2)
            start_bias, end_bias = start_bias - (sums - of_words)[..., None], sums[:, :, None]
        return SpanScores(
            start=(of_start.view(*hs.shape[:2], -1, size) + w_end).transpose(1, 2),
            start_bias=start_bias,
            end=he.transpose(1, 2),
            end_bias=end_bias,
            width=w_width @ self.width_embedding.weight.T,
            lengths=words.lengths,
        )

    def loss(self, scores: SpanScores, gold: Gold) -> dict[str, Tensor]:
        """Eq. 3, 4: return the cross entropy, summed over a sentence's spans, averaged over sentences.

        Padding makes all grids as large as that of the longest sentence; so sentences of very different
        lengths are computed separately.
        """
        lengths = scores.lengths.tolist()
        if len(lengths) * max(lengths) ** 2 <= _PAIRS_AT_ONCE:
            total = sum_cross_entropy(scores.compute_grid(), scores.lengths, gold, self.settings)
        else:
            groups = group_by_length(lengths, pairs=_PAIRS_AT_ONCE)
            parts = ((scores.take(group), gold.take(group)) for group in groups)
            totals = [sum_cross_entropy(s.compute_grid(), s.lengths, g, self.settings) for s, g in parts]
            total = torch.stack(totals).sum()
        return {"span_loss": total / self.mean_count(len(lengths))}

    def graphs(self, words: Words) -> dict[str, Graph]:
        inputs, axes = word_axes(words)
        grid = ("sentences", "words", "words")
        return {"spans": Graph(SpanGraph(self), inputs, axes | {"class": grid, "confidence": grid})}


class SpanGraph(nn.Module):
    """Graph from word vectors to the class of the most probable type of each cell, and its probability."""

    def __init__(self, network: BoundarySmoothing) -> None:
        super().__init__()
        self.network = network

    def forward(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """Map `[B, T, d]` to two `[B, T, T]`; the decoder ignores cells that are not spans."""
        grid = self.network.score(Words(vectors, vectors.new_zeros(1))).compute_grid()  # [B, C + 1, T, T]
        best, type_ = grid[:, 1:].max(dim=1)
        return (type_ + 1).int(), (best - grid.logsumexp(dim=1)).exp()
