"""Boundary offsets: Tang et al., "A Boundary Offset Prediction Network for Named Entity Recognition", 2023.

For every type, every span of a sentence predicts how far it is from its nearest entity: "0" is an entity
(a centre), "-1S" starts one word before one, "2E" ends two words behind one, and most are out of range of
any (section 2). Types are inputs: learnt prompts that the encoder reads together with the sentence. So
spans that are no entities point at those that are, and a missed centre may still be found by its votes.

Grids are laid out `[B, I, J, C, L]`: sentence, start, last word, type, offset label. This is how the
product of spans and types comes out, and what a convolution with the labels as channels is fastest on.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, cast

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from fencepost.data.entity import Sentence
from fencepost.encoder.encoder import Words
from fencepost.encoder.settings import EncoderSettings
from fencepost.evaluation import Score
from fencepost.methods.boundary_offset.convolution import DepthwiseConvolution
from fencepost.methods.boundary_offset.decode import (
    CENTRE,
    FARTHEST,
    OUT_OF_RANGE,
    BoundaryOffsetPredict,
    Cells,
    Labels,
    decode,
)
from fencepost.methods.candidates import Candidates
from fencepost.methods.feed_forward import FeedForward
from fencepost.methods.network import Gold, Graph, Method, MethodSettings, Report, Row
from fencepost.settings import WIDEST

_RARE = 0.01
"""The probability of all other labels together before training. Most spans are out of range; where that
has to be learnt first, all else is learnt much later."""

_BUDGET = 330_000_000
"""Numbers that the grid and all that is computed on the way to it may hold at once: about a gigabyte."""

_IN_CACHE = 20_000_000
"""The same in prediction, unless one sentence alone has more: what stays in the caches is faster."""


class BoundaryOffsetSettings(MethodSettings):
    """How far offsets reach, and what the network is made of."""

    name: Literal["boundary-offset"] = "boundary-offset"
    searched: ClassVar = {"max_offset": {"low": 1, "high": 3}, "dropout": {"low": 0.1, "high": 0.5}}
    max_offset: int = Field(
        2, ge=0, le=FARTHEST, description="S: the largest offset, in words; 0 is none (ablation)."
    )
    offsets: Literal["both", "start", "end"] = Field("both", description="Which boundary may be off.")
    type_inputs: Literal["prompts", "embedding"] = Field(
        "prompts", description="Types read with the sentence, or each a plain vector (ablation)."
    )
    prompt_start: Literal["random", "name"] = Field(
        "random", description="What a type's prompt is before training: random, or the type's name, embedded."
    )
    size: int = Field(
        150, ge=1, le=WIDEST, description="Width of the biaffine layer's views of types and spans."
    )
    dropout: float = Field(0.2, ge=0, lt=1)
    region_size: int = Field(
        20,
        ge=0,
        le=WIDEST,
        description="Width of the embedding that tells the triangles of the grid apart; 0 is none.",
    )
    distance_size: int = Field(
        0,
        ge=0,
        le=WIDEST,
        description="Width of the embedding of the distance from start to last word; 0 is none.",
    )
    condition_types: bool = Field(
        False, description="Add the authors' second score: type vectors normalised on condition of the span."
    )
    convolutions: int = Field(2, ge=0, le=3, description="3D convolutions, with dilation 1, 2, 3; 0 is none.")
    label_smoothing: float = Field(0.0, ge=0, lt=1, description="The authors' program has 0.01.")
    mean_over: Literal["sentences", "cells", "batch"] = Field(
        "sentences",
        description="Of what the loss is the mean: the sums of sentences, the means over each one's cells, "
        "or all cells of a batch.",
    )

    def idle(self, encoder: EncoderSettings) -> Iterator[str]:
        if self.prompt_start == "name" and self.type_inputs != "prompts":
            yield f"method.prompt_start has no effect: types are no prompts, but {self.type_inputs}"
        elif self.prompt_start == "name" and encoder.name == "scratch":
            yield "method.prompt_start has no effect: scratch does not know what names mean"
        if self.offsets != "both" and not self.max_offset:
            yield "method.offsets has no effect: method.max_offset is 0"


@dataclass(frozen=True, slots=True)
class OffsetScores:
    """What the grid is computed from, block by block: as a whole it may be too large to hold."""

    normed: Tensor  # [B, T, d], Norm(h_i)
    gain: Tensor  # [B, T, d], gamma_j
    shift: Tensor  # [B, T, d], lambda_j
    types: Tensor  # [B, C, L, h], h_m' U + W_span: what span views are multiplied with
    type_bias: Tensor  # [B, C, L], W_type h_m' + b
    second: Tensor | None  # the factors of the authors' second score
    lengths: Tensor  # [B]


class Block(NamedTuple):
    """A part of the batch's grids: rows `first` to `behind`, for sentences of at most `length` words."""

    sentences: list[int]
    first: int
    behind: int
    length: int


class BoundaryOffset(Method[OffsetScores]):
    """Scores of offset labels for every type and span, refined by convolutions over their neighbours."""

    Settings = BoundaryOffsetSettings
    Predict = BoundaryOffsetPredict
    reports: ClassVar = {"offsets": lambda method: OffsetReport(method)}
    defaults: ClassVar = {
        "encoder": {"lstm": {"size": 256}},
        "training": {"batch_size": 8, "learning_rate": 2e-3, "encoder_learning_rate": 1e-4},
    }

    predict: BoundaryOffsetPredict

    def __init__(
        self,
        settings: BoundaryOffsetSettings,
        predict: BoundaryOffsetPredict,
        width: int,
        types: Sequence[str],
    ) -> None:
        super().__init__(settings, predict, width, types)
        self.settings = settings
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

    @classmethod
    def prompts(cls, settings: BoundaryOffsetSettings, types: Sequence[str]) -> int:  # type: ignore[override]
        return len(types) if settings.type_inputs == "prompts" else 0

    @classmethod
    def prompt_names(  # type: ignore[override]
        cls, settings: BoundaryOffsetSettings, types: Sequence[str]
    ) -> Sequence[str]:
        return [spelt_out(type_) for type_ in types] if settings.prompt_start == "name" else ()

    def score(self, words: Words, gold: Gold | None = None) -> OffsetScores:  # noqa: ARG002
        """Eq. 1-3 as far as they are about single words and types.

        Eq. 3 is (h_m' U_l + W_span) v_ij + W_type h_m' + b_l, for the linear term is of two parts.
        """
        types = words.prompts if words.prompts is not None else self.type_vectors  # [B, C, d]
        types = types.expand(words.lengths.shape[0], -1, -1)
        h = self.type_view(types)  # [B, C, h]
        w_type, w_span = self.W.chunk(2, dim=1)
        normed, gain, shift = self.span_norm.factors(words.vectors, words.vectors)
        return OffsetScores(
            normed=normed,
            gain=gain,
            shift=shift,
            types=torch.einsum("bch,lhk->bclk", h, self.U) + w_span,
            type_bias=h @ w_type.T + self.b,
            second=self.second.factors(types) if self.second else None,
            lengths=words.lengths,
        )

    def grid(self, scores: OffsetScores, block: Block, left: int = 0) -> Tensor:
        """The scores of the labels, Eq. 5: `[b, I, J, C, L]`, for last words from `left` on.

        Convolutions look at cells beyond the block's rows; these are computed with it and cut off.
        """
        sentences, first, behind, length = block
        top, bottom = max(0, first - self.reach), min(length, behind + self.reach)
        normed = scores.normed[sentences, top:bottom, None]  # [b, I, 1, d]
        gain, shift = scores.gain[sentences, None, left:length], scores.shift[sentences, None, left:length]
        spans = torch.addcmul(shift, gain, normed)  # [b, I, J, d], Eq. 1
        places = self.places(top, bottom, left, length)  # [I, J, p]
        views = self.span_view(spans)  # [b, I, J, h]
        if self.place_view is not None:
            views = views + self.place_view(places)
        views = self.dropout(views.relu())
        shape = (*views.shape[:3], *scores.type_bias.shape[1:])  # b, I, J, C, L
        grid = torch.baddbmm(
            scores.type_bias[sentences].flatten(1)[:, None],
            views.flatten(1, 2),
            scores.types[sentences].flatten(1, 2).transpose(1, 2),
        ).view(shape)  # Eq. 3
        if self.second is not None and scores.second is not None:
            grid = grid + self.second(spans, places, scores.second[sentences])
        if self.convolutions is not None:
            words = words_of(scores.lengths, block)  # [b, T]
            inside = words[:, top:bottom, None] & words[:, None, left:]  # [b, I, J]
            grid = self.convolutions(grid, inside[..., None, None].to(grid.dtype))
        return grid[:, first - top : behind - top]

    def blocks(self, lengths: Tensor) -> list[Block]:
        """The parts in which the grid is computed; in training one, unless memory would not do."""
        of_pair = 4 * (self.span_view.in_features + self.settings.size)
        of_pair += 16 * len(self.types) * len(self.labels)
        at_most = _BUDGET // of_pair
        together = at_most if torch.is_grad_enabled() else min(at_most, _IN_CACHE // of_pair)
        return list(_blocks(lengths.tolist(), together, at_most, self.reach))

    def loss(self, scores: OffsetScores, gold: Gold) -> dict[str, Tensor]:
        """Eq. 7: cross entropy over all types and cells, both triangles of the grid alike.

        Where a sentence's cells are averaged, as in the paper, an entity counts for the less the longer its
        sentence is, by the square; so they are summed, unless told otherwise.
        """
        lengths, types = scores.lengths, len(self.types)
        entries = offset_entries(gold, lengths, self.labels)
        weights = self._weights(lengths)  # [B]
        blocks = self.blocks(lengths)

        def part(block: Block) -> Tensor:
            grid = self.grid(scores, block).float()
            targets = offset_targets(entries, block, types)
            of_cells = nn.functional.cross_entropy(
                grid.flatten(0, 3),
                targets.flatten(),
                reduction="none",
                label_smoothing=self.settings.label_smoothing,
            ).view(targets.shape)
            words = words_of(lengths, block)  # [b, T]
            inside = words[:, block.first : block.behind, None] & words[:, None]  # [b, I, J]
            of_sentences = of_cells.sum(dim=3).masked_fill(~inside, 0.0).sum(dim=(1, 2))  # [b]
            return (of_sentences * weights[block.sentences]).sum()

        if len(blocks) == 1 or not torch.is_grad_enabled():
            parts = [part(block) for block in blocks]
        else:  # what a block needs for its gradients is computed again when they are
            parts = [checkpoint(part, block, use_reentrant=False) for block in blocks]
        return {"offset_loss": torch.stack(parts).sum()}

    def _weights(self, lengths: Tensor) -> Tensor:
        """What each cell of a sentence counts for in the loss: `[B]`."""
        cells = len(self.types) * lengths.clamp(min=1).float() ** 2
        if self.settings.mean_over == "batch":
            return (1 / self.counted(cells.sum())) * torch.ones_like(cells)
        of_sentence = cells if self.settings.mean_over == "cells" else torch.ones_like(cells)
        return 1 / (self.counted(len(cells)) * of_sentence)

    def cells(self, scores: OffsetScores) -> Cells:
        """The spans whose best label is an offset, of all types."""
        columns = scores.lengths.new_empty((5, 0))
        probabilities = scores.normed.new_empty(0, dtype=torch.float32)
        for block in self.blocks(scores.lengths):
            left = max(0, block.first - self.reach)  # farther left, no cell matters to the upper triangle
            grid = self.grid(scores, block, left).float()  # [b, I, J, C, L]
            best, label = grid.max(dim=4)
            upper = torch.ones(grid.shape[1:3], dtype=torch.bool, device=grid.device).triu(block.first - left)
            is_span = upper & words_of(scores.lengths, block)[:, None, left:]  # [b, I, J]
            found = (label != OUT_OF_RANGE) & is_span[..., None]
            sentence, start, last, type_ = found.nonzero(as_tuple=True)
            sentence = torch.tensor(block.sentences, device=grid.device)[sentence]
            new = torch.stack((sentence, start + block.first, last + left, type_, label[found]))
            columns = torch.cat((columns, new), dim=1)
            probabilities = torch.cat((probabilities, (best[found] - grid[found].logsumexp(dim=1)).exp()))
        sentence, start, last, type_, label = columns.cpu().numpy()
        return Cells(sentence, start, last, type_, label, probabilities.detach().double().cpu().numpy())

    def candidates(self, scores: OffsetScores) -> Candidates:
        lengths = scores.lengths.cpu().numpy()
        return decode(self.cells(scores), lengths, scores.normed.shape[1], self.labels, self.predict)

    def graphs(self, words: Words) -> dict[str, Graph]:
        inputs = {"vectors": words.vectors, "lengths": words.lengths}
        grid = ("sentences", "words", "words", None)
        axes: dict[str, Sequence[str | None]] = {
            "vectors": ("sentences", "words", None),
            "lengths": ("sentences",),
        }
        if words.prompts is not None:
            inputs["prompts"] = words.prompts
            axes["prompts"] = ("sentences", None, None)
        return {"offsets": Graph(OffsetGraph(self), inputs, axes | {"label": grid, "probability": grid})}


class OffsetGraph(nn.Module):
    """Word vectors to the best label of each cell and type, and its probability, as a graph."""

    def __init__(self, method: BoundaryOffset) -> None:
        super().__init__()
        self.method = method

    def forward(
        self, vectors: Tensor, lengths: Tensor, prompts: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """`[B, T, d]` to `[B, T, T, C]` twice."""
        length = vectors.shape[1]
        scores = self.method.score(Words(vectors, lengths, prompts))
        everything = cast("list[int]", slice(None))  # which indexes as a list of all, whatever their number
        grid = self.method.grid(scores, Block(everything, 0, length, length))  # [B, T, T, C, L]
        best, label = grid.max(dim=4)
        return label.int(), (best - grid.logsumexp(dim=4)).exp()


class ConditionalNorm(nn.Module):
    """Eq. 1: layer norm whose gain and shift are linear maps of a condition; at first, plain layer norm."""

    def __init__(self, width: int, condition_width: int) -> None:
        super().__init__()
        self.gain, self.shift = nn.Linear(condition_width, width), nn.Linear(condition_width, width)
        for layer, start in ((self.gain, 1.0), (self.shift, 0.0)):
            nn.init.zeros_(layer.weight)
            nn.init.constant_(layer.bias, start)

    def factors(self, vectors: Tensor, conditions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The normalised vectors, and the gain and shift of each condition."""
        return normalised(vectors), self.gain(conditions), self.shift(conditions)


def normalised(vectors: Tensor) -> Tensor:
    return nn.functional.layer_norm(vectors, (int(vectors.shape[-1]),))  # a graph wants a constant


class SecondScore(nn.Module):
    """The authors' second score, W CLN(h_m | v_ij) + b: type vectors, normalised on condition of the span.

    Gain G v + g and shift S v + s are linear in the span v, so with n_m = Norm(h_m) it is a product of
    spans and types, and no vector is needed for each pair of them:
    W_l ((G v + g) * n_m + S v + s) + b_l = ((W_l * n_m) G + W_l S) v + (W_l * n_m) g + W_l s + b_l.
    """

    def __init__(self, width: int, place_width: int, labels: int) -> None:
        super().__init__()
        self.width = width
        self.norm = ConditionalNorm(width, width + place_width)
        self.linear = nn.Linear(width, labels)

    def factors(self, types: Tensor) -> Tensor:
        """What a span with its place, and a 1 behind them, is multiplied with: `[B, C, L, d + p + 1]`."""
        w, n = self.linear.weight, normalised(types)[:, :, None]  # [L, d], [B, C, 1, d]
        gain, shift = (
            torch.cat((layer.weight, layer.bias[:, None]), dim=1)
            for layer in (self.norm.gain, self.norm.shift)
        )
        factors = (w * n) @ gain + w @ shift
        bias = nn.functional.pad(self.linear.bias[:, None], (factors.shape[3] - 1, 0))
        return factors + bias

    def forward(self, spans: Tensor, places: Tensor, factors: Tensor) -> Tensor:
        """`[b, I, J, d]`, `[I, J, p]` and `[b, C, L, d + p + 1]` to `[b, I, J, C, L]`."""
        of_spans, of_places, constant = torch.split(factors, [self.width, places.shape[2], 1], dim=3)
        scores: Tensor = torch.einsum("bijd,bcld->bijcl", spans, of_spans)
        scores = scores + torch.einsum("ijp,bclp->bijcl", places, of_places)
        return scores + constant[:, None, None, ..., 0]


class PlaceEmbedding(nn.Module):
    """Where in the grid a cell is: which triangle, and how far from start to last word."""

    FARTHEST = 10  # of the distances 0, 1, 2-3, 4-7, ..., this bucket has those from 512 on

    def __init__(self, region_size: int, distance_size: int) -> None:
        super().__init__()
        self.width = region_size + distance_size
        self.regions = nn.Embedding(2, region_size)
        self.distances = nn.Embedding(2 * self.FARTHEST + 1, distance_size)

    def forward(self, top: int, bottom: int, left: int, right: int) -> Tensor:
        """`[bottom - top, right - left, width]`."""
        device = self.regions.weight.device
        distance = (
            torch.arange(left, right, device=device) - torch.arange(top, bottom, device=device)[:, None]
        )
        bucket = (distance.abs() + 0.5).log2().floor().long() + 1  # 0.5 is that of 0
        bucket = distance.sign() * bucket.clamp(max=self.FARTHEST) + self.FARTHEST
        return torch.cat((self.regions((distance < 0).long()), self.distances(bucket)), dim=2)


class Convolutions(nn.Module):
    """Eq. 4 and 5: what the cells around a cell say about its label, added to what it says itself.

    Each label is convolved with itself alone; the layer before and the one behind mix the labels.
    """

    def __init__(self, labels: int, layers: int) -> None:
        super().__init__()
        self.before = nn.Linear(labels, labels)  # a 1x1x1 convolution
        dilations = range(1, layers + 1)
        self.layers = nn.ModuleList(DepthwiseConvolution(labels, dilation) for dilation in dilations)
        self.behind = nn.Linear(layers * labels, labels)
        self.reach = sum(dilations)
        """How many cells away from a cell there are others that matter to it."""

    def forward(self, grid: Tensor, inside: Tensor) -> Tensor:
        """`grid` is `[b, I, J, C, L]`; `inside` is 0 for cells that are padding, else 1."""
        outputs = []
        x = nn.functional.gelu(self.before(grid))
        for layer in self.layers:
            x = nn.functional.gelu(layer(x * inside))
            outputs.append(x)
        refined: Tensor = grid + self.behind(torch.cat(outputs, dim=4))
        return refined


def _blocks(lengths: list[int], together: int, at_most: int, reach: int) -> Iterator[Block]:
    """Sentences with so many cells together; of one that has more than `at_most`, some rows at a time."""
    group: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        length = lengths[index]
        if length**2 > at_most:
            rows = max(1, at_most // length - 2 * reach)
            for first in range(0, length, rows):
                yield Block([index], first, min(first + rows, length), length)
            continue
        if group and (len(group) + 1) * lengths[group[0]] ** 2 > together:
            yield Block(group, 0, lengths[group[0]], lengths[group[0]])
            group = []
        group.append(index)
    if group:
        yield Block(group, 0, lengths[group[0]], lengths[group[0]])


def words_of(lengths: Tensor, block: Block) -> Tensor:
    """`[b, T]`, true where a sentence of the block has a word."""
    return torch.arange(block.length, device=lengths.device) < lengths[block.sentences][:, None]


class Entries(NamedTuple):
    """The cells of the upper triangle that are not out of range, as columns."""

    sentence: Tensor  # [N]
    start: Tensor  # [N]
    last: Tensor  # [N]
    type: Tensor  # [N]
    label: Tensor  # [N]


def offset_entries(gold: Gold, lengths: Tensor, labels: Labels) -> Entries:
    """Section 2, for every type: entities, and spans that share one boundary with an entity close by.

    Of several entities, the nearest counts; of equally near ones the first, by start, then by end.
    """
    device = lengths.device
    moves = torch.from_numpy(labels.moves[CENTRE:]).to(device)  # [L - 1, 2]
    order = torch.argsort(gold.start * (int(lengths.max()) + 1) + gold.end)  # [N]
    sentence, type_ = gold.sentence[order, None], gold.type[order, None]  # [N, 1]
    start = gold.start[order, None] + moves[:, 0]  # [N, L - 1]
    last = gold.end[order, None] - 1 + moves[:, 1]
    inside = (start >= 0) & (start <= last) & (last < lengths[sentence])
    distance = moves.abs().sum(dim=1)  # [L - 1]
    label = torch.arange(CENTRE, len(labels), device=device)
    columns = [column.expand_as(start)[inside] for column in (sentence, start, last, type_, label, distance)]
    by_distance = torch.argsort(columns.pop(), stable=True)
    cells = torch.stack(columns)[:, by_distance]  # [5, X]
    _, which = torch.unique(cells[:4], dim=1, return_inverse=True)  # [X]
    place = torch.arange(len(which), device=device)
    first = torch.full_like(place, len(place)).scatter_reduce(0, which, place, "amin")
    return Entries(*cells[:, first[first < len(place)]])


def offset_targets(entries: Entries, block: Block, types: int) -> Tensor:
    """The labels of the block's cells, `[b, I, J, C]`; cell (j, i) repeats cell (i, j)."""
    sentences, first, behind, length = block
    device = entries.label.device
    of_sentence = torch.tensor(sentences, device=device) == entries.sentence[:, None]  # [X, b]
    targets = torch.full((len(sentences), behind - first, length, types), OUT_OF_RANGE, device=device)
    for row, column in ((entries.start, entries.last), (entries.last, entries.start)):
        here = of_sentence.any(dim=1) & (row >= first) & (row < behind)
        sentence = of_sentence[here].int().argmax(dim=1)
        targets[sentence, row[here] - first, column[here], entries.type[here]] = entries.label[here]
    return targets


class OffsetReport(Report):
    """Table 5: how well each label is predicted, and how good the entities are that each mode finds."""

    MODES = ("centre", "all", "rules")

    def __init__(self, method: BoundaryOffset) -> None:
        self.method = method
        self.labels = np.zeros((3, len(method.labels)), dtype=np.int64)  # correct, predicted, gold
        self.modes = np.zeros((3, len(self.MODES)), dtype=np.int64)

    def add(self, sentences: Sequence[Sentence], scores: OffsetScores, gold: Gold) -> None:
        """Labels are compared cell by cell, in the upper triangle, entities as everywhere."""
        method, lengths = self.method, scores.lengths
        batch, length = scores.normed.shape[:2]
        cells, entries = method.cells(scores), offset_entries(gold, lengths, method.labels)
        of_cells = (batch, length, length, len(method.types), len(method.labels))
        found = np.ravel_multi_index(cells[:5], of_cells)
        true = np.ravel_multi_index(tuple(column.cpu().numpy() for column in entries), of_cells)
        counted = (cells.label[np.isin(found, true)], cells.label, entries.label.cpu().numpy())
        self.labels += [np.bincount(labels, minlength=len(method.labels)) for labels in counted]

        offset = gold.sentence * length
        columns = (offset + gold.start, offset + gold.end, gold.type)
        of_spans = (batch * length, batch * length + 1, len(method.types))
        true = np.ravel_multi_index(tuple(column.cpu().numpy() for column in columns), of_spans)
        support = sum(len({entity.key for entity in sentence.entities}) for sentence in sentences)
        for number, mode in enumerate(self.MODES):
            predict = method.predict.model_copy(update={"mode": mode})
            kept = method.select(decode(cells, lengths.cpu().numpy(), length, method.labels, predict))
            found = np.ravel_multi_index((kept.start, kept.end, kept.type), of_spans)
            self.modes[:, number] += (np.isin(found, true).sum(), len(found), support)

    def tables(self) -> dict[str, dict[str, Row]]:
        of_labels = [Score.of(*counts) for counts in self.labels.T.tolist()]
        of_modes = [Score.of(*counts) for counts in self.modes.T.tolist()]
        labels: dict[str, Row] = dict(zip(self.method.labels.names, of_labels, strict=True))
        del labels[self.method.labels.names[OUT_OF_RANGE]]
        labels["0"] = labels.pop("0")  # the last, as in the paper
        return {"labels": labels, "decoding": dict(zip(self.MODES, of_modes, strict=True))}


def spelt_out(type_: str) -> str:
    """A type's name as words: `cell_line` and `CellLine` are "cell line"."""
    words = re.sub(r"[\W_]+|(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", type_)
    return words.strip().lower()
