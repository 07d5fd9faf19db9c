"""Boundary smoothing: Zhu and Li, "Boundary Smoothing for Named Entity Recognition", ACL 2022.

A biaffine layer scores every span of a sentence for every type (section 3.1). It is trained on targets
that give a part `epsilon` of an entity's probability to the spans around it (section 3.2), which keeps
the model from being overconfident about boundaries. `epsilon = 0` is the plain biaffine baseline.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from fencepost.data.entity import Sentence
from fencepost.encoder.encoder import Words
from fencepost.methods.candidates import Candidates
from fencepost.methods.decoder import PredictSettings
from fencepost.methods.feed_forward import FeedForward
from fencepost.methods.network import Gold, Graph, Method, MethodSettings, as_candidates
from fencepost.settings import WIDEST

_CELLS_AT_ONCE = 4_000_000
"""Scores that prediction holds at once; a span of a long sentence is one of millions."""

_PAIRS_AT_ONCE = 1_000_000
"""Pairs of words whose grid is held at once in training, unless one sentence alone has more."""


class BoundarySmoothingSettings(MethodSettings):
    """How much the targets are smoothed, and the sizes of the biaffine layer."""

    name: Literal["boundary-smoothing"] = "boundary-smoothing"
    searched: ClassVar = {
        "epsilon": {"low": 0.0, "high": 0.3},
        "smoothing_size": [1, 2],
        "dropout": {"low": 0.1, "high": 0.5},
    }
    epsilon: float = Field(
        0.1, ge=0, lt=1, description="The probability that neighbouring spans share; 0 is none."
    )
    smoothing_size: int = Field(
        1, ge=1, le=100, description="D: how far away, in words, the farthest of them are."
    )
    label_smoothing: float = Field(
        0.0, ge=0, lt=1, description="The part of an entity's probability that all types share (ablation)."
    )
    size: int = Field(150, ge=1, le=WIDEST, description="Width of the start and end views of a word.")
    dropout: float = Field(0.2, ge=0, lt=1)
    width_size: int = Field(
        25, ge=0, le=WIDEST, description="Width of the embedding of a span's length; 0 is none."
    )
    widest: int | None = Field(
        None,
        ge=1,
        le=WIDEST,
        description="Longer spans share an embedding; found in the training data unless set.",
    )

    def fitted(self, sentences: Sequence[Sentence]) -> Self:
        """The longest length with an embedding of its own is the 97.5th percentile of the entities."""
        if self.widest is not None:
            return self
        lengths = [len(entity) for sentence in sentences for entity in sentence.entities]
        return self.model_copy(update={"widest": int(np.ceil(np.quantile(lengths, 0.975)))})


@dataclass(frozen=True, slots=True)
class SpanScores:
    """The scores r_ij of all spans, as their factors: for long sentences they are too many to hold."""

    start: Tensor  # [B, C + 1, T, h], hs_i' U + W_end
    start_bias: Tensor  # [B, C + 1, T, 1], W_start hs_i + b
    end: Tensor  # [B, 1, h, T], he_j
    width: Tensor  # [C + 1, widest], W_width width_(j - i)
    lengths: Tensor  # [B]

    def rows(self, first: int, behind: int) -> Tensor:
        """r_ij for the starts i from `first` up to `behind`: `[B, C + 1, I, T]`."""
        start = self.start[:, :, first:behind]  # [B, C + 1, I, h]
        scores = start.flatten(1, 2) @ self.end[:, 0]  # one product for all classes
        scores = scores.view(*start.shape[:3], -1) + self.start_bias[:, :, first:behind]
        i, j = self._grid(first, behind)
        return scores + self.width[:, (j - i).clamp(0, self.width.shape[1] - 1)]

    def valid(self, first: int, behind: int) -> Tensor:
        """Which cells are spans: the start not behind the last word, both in the sentence: `[B, I, T]`."""
        i, j = self._grid(first, behind)
        return (i <= j) & (j < self.lengths[:, None, None])

    def take(self, sentences: list[int]) -> SpanScores:
        """The scores of some sentences, as long as the longest of them; of all, as they are."""
        if len(sentences) == len(self.lengths):
            return self
        lengths = self.lengths[sentences]
        longest = int(lengths.max())
        return SpanScores(
            start=self.start[sentences, :, :longest],
            start_bias=self.start_bias[sentences, :, :longest],
            end=self.end[sentences, :, :, :longest],
            width=self.width,
            lengths=lengths,
        )

    def _grid(self, first: int, behind: int) -> tuple[Tensor, Tensor]:
        device = self.lengths.device
        i = torch.arange(first, behind, device=device)[:, None]  # [I, 1]
        j = torch.arange(self.end.shape[3], device=device)[None]  # [1, T]
        return i, j


class BoundarySmoothing(Method[SpanScores]):
    """Biaffine span scores and smoothed targets. Class 0 is "no entity"; type t is class t + 1."""

    Settings = BoundarySmoothingSettings

    def __init__(
        self, settings: BoundarySmoothingSettings, predict: PredictSettings, width: int, types: Sequence[str]
    ) -> None:
        super().__init__(settings, predict, width, types)
        self.settings = settings
        size, classes = settings.size, 1 + len(types)
        self.start_view = FeedForward(width, size, settings.dropout)
        self.end_view = FeedForward(width, size, settings.dropout)
        self.width_embedding = nn.Embedding(settings.widest or 1, settings.width_size)
        self.U = nn.Parameter(nn.init.orthogonal_(torch.empty(classes, size, size)))
        self.W = nn.Parameter(nn.init.orthogonal_(torch.empty(classes, 2 * size + settings.width_size)))
        self.b = nn.Parameter(torch.zeros(classes))

    def score(self, words: Words, gold: Gold | None = None) -> SpanScores:  # noqa: ARG002
        """Eq. 1: r_ij = hs_i' U he_j + W [hs_i ; he_j ; width_(j - i)] + b.

        The linear term is split into its three parts. That of the end joins the product with U, for
        hs_i' U he_j + W_end he_j = (hs_i' U + W_end) he_j.
        """
        hs, he = self.start_view(words.vectors), self.end_view(words.vectors)  # [B, T, h]
        size = self.settings.size
        w_start, w_end, w_width = torch.split(self.W, [size, size, self.settings.width_size], dim=1)
        of_start = hs @ self.U.transpose(0, 1).flatten(1)  # [B, T, (C + 1) h]
        return SpanScores(
            start=(of_start.view(*hs.shape[:2], -1, size) + w_end).transpose(1, 2),
            start_bias=(hs @ w_start.T + self.b).transpose(1, 2)[..., None],
            end=he.transpose(1, 2)[:, None],
            width=w_width @ self.width_embedding.weight.T,
            lengths=words.lengths,
        )

    def loss(self, scores: SpanScores, gold: Gold) -> dict[str, Tensor]:
        """Eq. 3, 4: cross entropy, summed over a sentence's spans, the mean over sentences.

        One long sentence would make the others' grids as large as its own; it is scored apart from them.
        """
        totals = [
            self._total(scores.take(group), gold.take(group)) for group in _together(scores.lengths.tolist())
        ]
        return {"span_loss": torch.stack(totals).sum() / self.counted(len(scores.lengths))}

    def _total(self, scores: SpanScores, gold: Gold) -> Tensor:
        length = scores.end.shape[3]
        targets = self.targets(gold, scores.lengths, length)  # [B, C + 1, T, T]
        log_p = scores.rows(0, length).float().log_softmax(dim=1)
        of_cells = -(targets * log_p).sum(dim=1)  # [B, T, T]
        return of_cells.masked_fill(~scores.valid(0, length), 0.0).sum()

    def targets(self, gold: Gold, lengths: Tensor, length: int) -> Tensor:
        """The probabilities to be learnt, `[B, C + 1, T, T]`, in a grid of start and last word."""
        settings = self.settings
        of_types = smoothed(
            gold, lengths, length, len(self.types), settings.epsilon, settings.smoothing_size
        )  # [B, C, T, T]
        entity = of_types.sum(dim=1, keepdim=True)  # [B, 1, T, T]
        of_types = of_types / entity.clamp(min=1)  # one span with two types
        entity = entity.clamp(max=1)
        alpha = settings.label_smoothing
        if alpha:
            of_types = (1 - alpha) * of_types + alpha * entity / len(self.types)
        return torch.cat((1 - entity, of_types), dim=1)

    def candidates(self, scores: SpanScores) -> Candidates:
        """The cells whose best class is a type; its probability is the confidence."""
        batch, classes, length, _ = scores.start.shape
        at_once = max(1, _CELLS_AT_ONCE // (batch * classes * length))
        spans = scores.lengths.new_empty((4, 0))  # sentence, start, end, type
        confidences = scores.start.new_empty(0, dtype=torch.float32)
        for first in range(0, length, at_once):
            behind = min(first + at_once, length)
            rows = scores.rows(first, behind).float()  # [B, C + 1, I, T]
            best, class_ = rows.max(dim=1)  # [B, I, T]
            entity = (class_ > 0) & scores.valid(first, behind)
            confidence = (best - rows.logsumexp(dim=1))[entity].exp()
            sentence, start, last = entity.nonzero(as_tuple=True)
            new = torch.stack((sentence, start + first, last + 1, class_[entity] - 1))
            # one growing tensor, not a list of small ones: scattered between the large blocks, they
            # would keep the allocator from using the memory of a block for the next one
            spans = torch.cat((spans, new), dim=1)
            confidences = torch.cat((confidences, confidence))
        sentence, start, end, type_ = spans
        return as_candidates(sentence, start, end, type_, confidences, length)

    def graphs(self, words: Words) -> dict[str, Graph]:
        grid = ("sentences", "words", "words")
        axes = {"vectors": ("sentences", "words", None), "class": grid, "confidence": grid}
        return {"spans": Graph(SpanGraph(self), {"vectors": words.vectors}, axes)}


class SpanGraph(nn.Module):
    """Word vectors to the best class of each cell, and its probability: what prediction needs, as a graph."""

    def __init__(self, method: BoundarySmoothing) -> None:
        super().__init__()
        self.method = method

    def forward(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """`[B, T, d]` to `[B, T, T]` twice."""
        length = vectors.shape[1]
        scores = self.method.score(Words(vectors, vectors.new_zeros(1)))  # which cells are spans, others know
        rows = scores.rows(0, length)  # [B, C + 1, T, T]
        best, class_ = rows.max(dim=1)
        return class_.int(), (best - rows.logsumexp(dim=1)).exp()


def _together(lengths: list[int]) -> Iterator[list[int]]:
    """Sentences whose grids are computed together: all, unless these would have too many cells."""
    if len(lengths) * max(lengths) ** 2 <= _PAIRS_AT_ONCE:
        yield list(range(len(lengths)))
        return
    group: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        if group and (len(group) + 1) * lengths[group[0]] ** 2 > _PAIRS_AT_ONCE:
            yield group
            group = []
        group.append(index)
    yield group


def smoothed(gold: Gold, lengths: Tensor, length: int, types: int, epsilon: float, size: int) -> Tensor:
    """Section 3.2: each entity's probability, spread over the spans around it: `[B, C, T, T]`.

    Of the `4 d` cells at distance `d` from the entity's own, each gets `epsilon / (4 d size)`; the share
    of those that are no spans of the sentence stays with the entity, so its sum is always 1. What
    several entities of a type give to a cell adds up, to 1 at most.
    """
    around = torch.arange(-size, size + 1, device=gold.start.device)
    moves = torch.cartesian_prod(around, around)  # [K, 2]
    distance = moves.abs().sum(dim=1)
    near = (distance > 0) & (distance <= size)
    moves, share = moves[near], epsilon / (4 * distance[near] * size)  # [K, 2], [K]

    last = gold.end - 1
    start_near = gold.start[:, None] + moves[:, 0]  # [N, K]
    last_near = last[:, None] + moves[:, 1]
    is_span = (start_near >= 0) & (start_near <= last_near) & (last_near < lengths[gold.sentence][:, None])
    given = share * is_span  # [N, K]

    def cell(start: Tensor, last: Tensor) -> Tensor:
        owner = (gold.sentence * types + gold.type).view(-1, *(1,) * (start.ndim - 1))
        return (owner * length + start) * length + last

    targets = torch.zeros(len(lengths) * types * length * length, device=gold.start.device)
    targets.index_add_(0, cell(gold.start, last), 1 - given.sum(dim=1))
    targets.index_add_(0, cell(start_near, last_near)[is_span], given[is_span])
    return targets.clamp_(max=1).view(len(lengths), types, length, length)
