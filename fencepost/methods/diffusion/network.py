"""Shen et al., "DiffusionNER: Boundary Diffusion for Named Entity Recognition", ACL 2023.

The boundaries of an entity are two numbers. Training adds noise to them and learns to take it away again
(section 4.1). Prediction starts from noise alone and takes it away in a few steps (section 4.3). The network
that does so sees the words of the noisy spans, the other spans and the sentence, and points at the words
where entities begin and end (section 4.2). The sentence is encoded once, whatever the number of steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, Self

import numpy as np
import torch
from pydantic import Field, model_validator
from scipy.optimize import linear_sum_assignment
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from fencepost.encoder.encoder import Words
from fencepost.encoder.settings import EncoderSettings
from fencepost.methods.candidates import Candidates
from fencepost.methods.diffusion.attention import Attention, Source, sinusoids
from fencepost.methods.diffusion.decode import (
    LARGEST_SCALE,
    MOST_SPANS,
    MOST_TIMES,
    DiffusionPredict,
    ddim_step,
    sampling_times,
    sentence_noise,
    signal_kept,
)
from fencepost.methods.network import Gold, Graph, Method, MethodSettings, as_candidates
from fencepost.settings import MOST_LAYERS, WIDEST

_NUMBERS_AT_ONCE = 30_000_000
"""Of the layer inside a pointer, for each span, word and unit, at once."""

_MOST_SPANS = 300
"""As far K is raised for a sentence with more entities; of even more, each step learns from some."""

_NEVER = -10_000.0
"""The logit of what is out of the question; its probability is 0 in any precision."""


class DiffusionSettings(MethodSettings):
    """The noise, the network that takes it away, and the loss."""

    name: Literal["diffusion"] = "diffusion"
    searched: ClassVar = {
        "distance": {"low": 0.0, "high": 4.0},
        "boundary_weight": {"low": 0.5, "high": 2.0, "log": True},
        "dropout": {"low": 0.0, "high": 0.3},
    }
    spans: int = Field(
        60, ge=1, le=MOST_SPANS, description="K: noisy spans of each sentence; more if it has more entities."
    )
    draws: int = Field(
        1, ge=1, le=1000, description="How many such sets of spans a step has, each at its own time."
    )
    times: int = Field(
        1000, ge=2, le=MOST_TIMES, description="T: the number of steps from entities to noise."
    )
    schedule: Literal["cosine", "linear"] = Field("cosine", description="How the noise grows.")
    scale: float = Field(
        1.0, gt=0, le=LARGEST_SCALE, description="lambda: boundaries are numbers from -lambda to lambda."
    )
    coordinates: Literal["left-width", "left-right"] = Field(
        "left-width", description="Which two numbers a span is."
    )
    expansion: Literal["repeat", "random"] = Field(
        "repeat", description="What is noised besides the entities: these again, or random spans."
    )
    targets: Literal["repeat", "pad"] = Field(
        "repeat",
        description="Spans are matched to the entities repeated, or one to each and the rest to none.",
    )
    distance: float = Field(
        2.0,
        ge=0,
        description="What it costs in matching if a noisy span is as far from an entity as the sentence is "
        "long (0 in the paper).",
    )
    pooling: Literal["mean", "first+last"] = Field(
        "mean", description="A span's vector from its words: their mean, or the first and the last one."
    )
    positions: bool = Field(
        True, description="Whether the network is told where spans and words are (not in the paper)."
    )
    proposal_codes: bool = Field(
        False, description="Whether it is told which of the K spans one is (in the authors' program only)."
    )
    self_attention: bool = Field(True, description="Between the spans (ablation).")
    cross_attention: bool = Field(True, description="From the spans to the words (ablation).")
    size: int = Field(128, ge=2, le=WIDEST, multiple_of=2, description="Width of a span's vector.")
    layers: int = Field(2, ge=0, le=MOST_LAYERS, description="Of the span encoder.")
    heads: int = Field(4, ge=1, le=WIDEST, description="Of attention.")
    feed_forward: int = Field(256, ge=1, le=WIDEST, description="Width of the feed-forward layers.")
    pointer_size: int = Field(64, ge=1, le=WIDEST, description="Width of the layer inside the pointers.")
    dropout: float = Field(0.1, ge=0, lt=1, description="In the span encoder and the classifier.")
    none_weight: float = Field(1.0, ge=0, description="Of the type loss of spans without an entity.")
    boundary_weight: float = Field(1.0, ge=0, description="Of the boundary loss.")

    @model_validator(mode="after")
    def _divisible(self) -> Self:
        if self.size % self.heads:
            raise ValueError(f"size should be a multiple of heads, but {self.size} is none of {self.heads}")
        return self

    def idle(self, encoder: EncoderSettings) -> Iterator[str]:  # noqa: ARG002
        defaults = DiffusionSettings()
        names = ["heads", "proposal_codes"]
        if not self.layers:
            why = "method.layers is 0"
            names += ["self_attention", "cross_attention", "feed_forward"]
        elif not (self.self_attention or self.cross_attention):
            why = "there is no attention"
        else:
            return
        given = (name for name in names if getattr(self, name) != getattr(defaults, name))
        yield from (f"method.{name} has no effect: {why}" for name in given)


@dataclass(frozen=True, slots=True)
class DenoisedScores:
    """What is said about each span of each draw; in prediction, there is one draw."""

    types: Tensor  # [B, R, K, C + 1], logits
    boundaries: Tensor  # [2, B, R, K, T], logits of each word as the first, and as the last one
    noisy: tuple[Tensor, Tensor]  # [B, R, K], the first and the last words of the spans as they were before
    lengths: Tensor  # [B]


class Diffusion(Method[DenoisedScores]):
    """Noise to entities. Class 0 is "no entity"; type t is class t + 1."""

    Settings = DiffusionSettings
    Predict = DiffusionPredict
    defaults: ClassVar = {
        "encoder": {"lstm": {"size": 256, "layers": 2, "dropout": 0.2}},
        "training": {"batch_size": 8, "encoder_learning_rate": 1e-4, "warmup": 0.1},
    }
    learns_from_gold = True
    predict: DiffusionPredict
    kept: Tensor  # [times], the share of the variance that is still signal

    def __init__(
        self, settings: DiffusionSettings, predict: DiffusionPredict, width: int, types: Sequence[str]
    ) -> None:
        super().__init__(settings, predict, width, types)
        self.settings = settings
        self.denoiser = Denoiser(settings, width, 1 + len(types))
        kept = signal_kept(settings.schedule, settings.times)
        self.register_buffer("kept", torch.from_numpy(kept).float(), persistent=False)
        self._kept_exactly = kept.tolist()

    def score(self, words: Words, gold: Gold | None = None) -> DenoisedScores:
        """With gold, of its spans with noise (Eq. 4); without, of what noise becomes."""
        context = self.denoiser.read(words)
        if gold is None:
            return self._sampled(context, words.lengths)
        device, settings = words.lengths.device, self.settings
        generator = None if self.training else torch.Generator(device).manual_seed(0)
        clean = self._expanded(gold, words.lengths, generator)
        time = torch.randint(settings.times, clean.shape[:2], generator=generator, device=device)
        noise = torch.randn(clean.shape, generator=generator, device=device)
        kept = self.kept[time][..., None, None]
        return self._denoised(kept.sqrt() * clean + (1 - kept).sqrt() * noise, time, context, words.lengths)

    def _denoised(
        self, noisy: Tensor, time: Tensor, context: Context, lengths: Tensor, *, typed: bool = True
    ) -> DenoisedScores:
        """Section 4.2, of numbers `[B, R, K, 2]` at times `[B, R]`."""
        left, right = spans_of(noisy, lengths, self.settings)
        types, boundaries = self.denoiser(left, right, time, context, typed=typed)
        return DenoisedScores(types, boundaries, (left, right), lengths)

    def _expanded(self, gold: Gold, lengths: Tensor, generator: torch.Generator | None) -> Tensor:
        """Section 4.1: the entities of each sentence, each so often that K are there, as `[B, R, K, 2]`.

        A sentence without entities has itself as the only one.
        """
        settings, device, batch = self.settings, lengths.device, len(lengths)
        entities = gold.by_sentence(batch)  # [B, G]
        spans = max(settings.spans, min(entities.shape[1], _MOST_SPANS))
        shape = (batch, settings.draws, spans)
        count = (entities < len(gold.start)).sum(dim=1)[:, None, None]
        order = torch.rand(shape, generator=generator, device=device).argsort(dim=2)  # each number once
        first = torch.randint(2**30, (*shape[:2], 1), generator=generator, device=device)
        which = (order + first) % count.clamp(min=1)  # whom the last round leaves out is chance, if K > N
        chosen = entities.gather(1, which.flatten(1)).view(shape)
        left = functional.pad(gold.start, (0, 1))[chosen]
        right = functional.pad(gold.end, (0, 1))[chosen] - 1
        right = torch.where(count == 0, lengths[:, None, None] - 1, right)
        numbers = numbers_of(left, right, lengths, settings)
        if settings.expansion == "repeat":
            return numbers
        random = torch.randn(numbers.shape, generator=generator, device=device) / 6 + 0.5
        is_entity = order < count.clamp(min=1)
        return torch.where(is_entity[..., None], numbers, settings.scale * (2 * random.clamp(0, 1) - 1))

    def _sampled(self, context: Context, lengths: Tensor) -> DenoisedScores:
        """Section 4.3, Eq. 5-7: from noise to spans, in a few steps."""
        settings, predict = self.settings, self.predict
        times = sampling_times(settings.times, predict.steps)
        made = np.stack([sentence_noise(predict, length, len(times)) for length in lengths.tolist()])
        noise = torch.from_numpy(made).to(lengths.device)[:, :, None]  # [B, steps, 1, K, 2]
        noisy = noise[:, 0]
        for step, time in enumerate(times, start=1):
            at = torch.full_like(lengths, time)[:, None]
            scores = self._denoised(noisy, at, context, lengths, typed=step == len(times))
            if step < len(times):
                left, right = scores.boundaries.argmax(dim=4)
                clean = numbers_of(left, right, lengths, settings).clamp(-settings.scale, settings.scale)
                kept, next_kept = self._kept_exactly[time], self._kept_exactly[times[step]]
                fresh = noise[:, step] if predict.eta else torch.zeros_like(noisy)
                noisy = ddim_step(noisy, clean, kept, next_kept, predict.eta, fresh)
        return scores

    def loss(self, scores: DenoisedScores, gold: Gold) -> dict[str, Tensor]:
        """Of the matched spans type and boundaries, of the others that they are none; means over each."""
        settings = self.settings
        turn = int(torch.randint(2**30, ())) if self.training else 0
        where, entity = matched(scores, gold, settings, turn)
        class_ = torch.zeros_like(scores.types[..., 0], dtype=torch.long)  # [B, R, K]
        class_[where] = gold.type[entity] + 1
        of_type = functional.cross_entropy(scores.types.flatten(0, 2), class_.flatten(), reduction="none")
        none = class_.flatten() == 0
        count = self.counted(len(entity))
        of_entities = of_type[~none].sum() / count
        of_none = of_type[none].sum() / self.counted(none.sum())
        type_loss = of_entities + settings.none_weight * of_none
        sentence, draw, span = where
        logits = scores.boundaries[:, sentence, draw, span]  # [2, M, T]
        boundaries = torch.stack((gold.start[entity], gold.end[entity] - 1))  # [2, M]
        is_boundary = functional.one_hot(boundaries, logits.shape[2]).to(logits)
        of_words = functional.binary_cross_entropy_with_logits(logits, is_boundary, reduction="sum")
        boundary_loss = settings.boundary_weight * of_words / count
        return {"type_loss": type_loss, "boundary_loss": boundary_loss}

    def candidates(self, scores: DenoisedScores) -> Candidates:
        """The spans that have a type; of several with the same boundaries, the one surest of its type.

        Which of these are sure enough is asked later, as in the paper.
        """
        of_type, class_ = scores.types[:, 0].softmax(dim=2).max(dim=2)  # [B, K]
        logits, (left, right) = scores.boundaries[:, :, 0].max(dim=3)  # [2, B, K]
        of_left, of_right = logits.sigmoid()
        sentence, span = ((class_ > 0) & (left <= right)).nonzero(as_tuple=True)
        columns = (of_type, class_, left, right, (of_type + of_left + of_right) / 3)
        of_type, class_, left, right, confidence = (column[sentence, span] for column in columns)
        length = scores.boundaries.shape[4]
        key = (sentence * length + left) * length + right
        order = torch.argsort(of_type, descending=True, stable=True)
        order = order[torch.argsort(key[order], stable=True)]
        order = order[functional.pad(key[order].diff() != 0, (1, 0), value=True)[: len(order)]]
        sentence, left, right, class_ = sentence[order], left[order], right[order], class_[order]
        return as_candidates(sentence, left, right + 1, class_ - 1, confidence[order], length)

    def graphs(self, words: Words) -> dict[str, Graph]:
        """What all steps need of the words, and one step."""
        read = ReadGraph(self.denoiser)
        context = read(words.vectors, words.lengths)
        names = [f"context_{number}" for number in range(len(context))]
        of_context = dict(zip(names, self.denoiser.context_axes(), strict=True))
        inputs = {"vectors": words.vectors, "lengths": words.lengths}
        of_words: dict[str, Sequence[str | None]] = {
            "vectors": ("sentences", "words", None),
            "lengths": ("sentences",),
        }
        spans = torch.zeros((len(words.lengths), 3), dtype=torch.long)
        step = {"left": spans, "right": spans, "time": spans[:, 0], **dict(zip(names, context, strict=True))}
        axes = {
            "left": ("sentences", "spans"),
            "right": ("sentences", "spans"),
            "time": ("sentences",),
            **of_context,
            "types": ("sentences", "spans", None),
            "boundaries": (None, "sentences", "spans", "words"),
        }
        return {
            "read": Graph(read, inputs, of_words | of_context),
            "step": Graph(StepGraph(self.denoiser), step, axes),
        }


class Context(NamedTuple):
    """What the denoiser makes of a sentence, once for all its steps."""

    words: Tensor  # [B, T, d]
    mask: Tensor  # [B, T]
    places: tuple[Tensor, Tensor] | None  # [T, d], codes of the words' places, of first and of last words
    sources: list[Source | None]  # for the cross-attention of each layer
    pointed: list[Tensor]  # for each pointer, [B, T, h]


class Denoiser(nn.Module):
    """Noisy spans, by the indices of their first and last words, to what entity each of them is."""

    def __init__(self, settings: DiffusionSettings, width: int, classes: int) -> None:
        super().__init__()
        self.settings = settings
        size = settings.size
        self.of_words = nn.Linear(width, size)
        self.of_ends = nn.Linear(2 * size, size) if settings.pooling == "first+last" else None
        self.of_places = nn.Linear(2 * size, size) if settings.positions else None
        attends = settings.layers and (settings.self_attention or settings.cross_attention)
        self.of_index = nn.Linear(size, size) if settings.proposal_codes and attends else None
        self.layers: Iterable[SpanLayer] = nn.ModuleList(  # type: ignore[assignment]
            SpanLayer(settings) for _ in range(settings.layers)
        )
        self.of_time = nn.Sequential(nn.Linear(size, size), nn.GELU(), nn.Linear(size, size))
        self.pointers: Iterable[Pointer] = nn.ModuleList(  # type: ignore[assignment]
            Pointer(size, settings.pointer_size) for _ in ("first word", "last word")
        )
        self.classifier = nn.Sequential(
            nn.Linear(size, size), nn.GELU(), nn.Dropout(settings.dropout), nn.Linear(size, classes)
        )

    def read(self, words: Words) -> Context:
        vectors: Tensor = self.of_words(words.vectors)
        places = None
        placed = vectors
        if self.of_places is not None:
            numbers = torch.arange(vectors.shape[1], device=vectors.device)
            codes = sinusoids(numbers, vectors.shape[2]).to(vectors.dtype)
            placed = vectors + codes
            of_first, of_last = self.of_places.weight.chunk(2, dim=1)
            places = functional.linear(codes, of_first, self.of_places.bias), codes @ of_last.T
        sources = [layer.source(placed, vectors) for layer in self.layers]
        pointed = [pointer.of_word(placed) for pointer in self.pointers]
        return Context(vectors, words.mask, places, sources, pointed)

    def forward(
        self, left: Tensor, right: Tensor, time: Tensor, context: Context, *, typed: bool = True
    ) -> tuple[Tensor, Tensor]:
        """Of spans `[B, R, K]` at times `[B, R]` the logits of `DenoisedScores`: types, then boundaries.

        Only the last step of prediction needs types; without, there are none.
        """
        draws, size = left.shape[1], context.words.shape[2]
        first, last = left.flatten(1), right.flatten(1)  # [B, R * K]
        spans = self._pooled(first, last, context)  # [B, R * K, d]
        places = self._places(first, last, context)
        codes = places + self._numbers(draws, left.shape[2], context)
        for layer, source in zip(self.layers, context.sources, strict=True):
            spans = layer(spans, codes, source, context.mask, draws)
        of_time = self.of_time(sinusoids(time, size).to(spans.dtype))  # [B, R, d]
        spans = spans + places + of_time.repeat_interleave(left.shape[2], dim=1)
        types = self.classifier(spans).float() if typed else spans[..., :0]
        logits = [
            pointer(pointed, spans).float().masked_fill(~context.mask[:, None], _NEVER)
            for pointer, pointed in zip(self.pointers, context.pointed, strict=True)
        ]
        return types.view(*left.shape, types.shape[2]), torch.stack(logits).view(2, *left.shape, -1)

    def _pooled(self, first: Tensor, last: Tensor, context: Context) -> Tensor:
        """A vector for each span: `[B, N, d]`."""
        words = context.words
        if self.of_ends is not None:
            index = (end[..., None].expand(-1, -1, words.shape[2]) for end in (first, last))
            pooled: Tensor = self.of_ends(torch.cat([words.gather(1, end) for end in index], dim=2))
            return pooled
        place = torch.arange(words.shape[1], device=words.device)
        inside = (place >= first[..., None]) & (place <= last[..., None])  # [B, N, T]
        return inside.to(words.dtype) @ words / (last - first + 1)[..., None]

    def _places(self, first: Tensor, last: Tensor, context: Context) -> Tensor:
        """Codes of where spans are, `[B, N, d]`: `of_places` of those of the two words; none are zeros."""
        if context.places is None:
            return torch.zeros_like(context.words[:1, :1])
        of_first, of_last = context.places
        return of_first[first] + of_last[last]

    def _numbers(self, draws: int, spans: int, context: Context) -> Tensor:
        """Codes of which of its draw's K spans one is: `[R * K, d]`; none are zeros."""
        if self.of_index is None:
            return torch.zeros_like(context.words[0, :1])
        numbers = torch.arange(spans, device=context.words.device)
        codes: Tensor = self.of_index(sinusoids(numbers, context.words.shape[2]).to(context.words.dtype))
        return codes.repeat(draws, 1)

    def context_axes(self) -> list[Sequence[str | None]]:
        """The names of the axes of what `ReadGraph` gives, part by part."""
        axes: list[Sequence[str | None]] = [("sentences", "words", None), ("sentences", "words")]
        if self.of_places is not None:
            axes += [("words", None)] * 2
        for layer in self.layers:
            if layer.across is not None:
                axes += [("sentences", None, None, "words"), ("sentences", None, "words", None)]
        return axes + [("sentences", "words", None) for _ in self.pointers]


class ReadGraph(nn.Module):
    """What the denoiser makes of a sentence once, as a graph: the parts of a `Context`, one by one."""

    def __init__(self, denoiser: Denoiser) -> None:
        super().__init__()
        self.denoiser = denoiser

    def forward(self, vectors: Tensor, lengths: Tensor) -> tuple[Tensor, ...]:
        context = self.denoiser.read(Words(vectors, lengths))
        sources = (part for source in context.sources if source for part in source)
        return context.words, context.mask, *(context.places or ()), *sources, *context.pointed


class StepGraph(nn.Module):
    """One step, as a graph."""

    def __init__(self, denoiser: Denoiser) -> None:
        super().__init__()
        self.denoiser = denoiser

    def forward(self, left: Tensor, right: Tensor, time: Tensor, *context: Tensor) -> tuple[Tensor, Tensor]:
        """Spans `[B, K]` at times `[B]` to types `[B, K, C + 1]` and boundaries `[2, B, K, T]`, as logits."""
        parts = iter(context)
        words, mask = next(parts), next(parts)
        places = (next(parts), next(parts)) if self.denoiser.of_places is not None else None
        sources = [
            None if layer.across is None else Source(next(parts), next(parts))
            for layer in self.denoiser.layers
        ]
        whole = Context(words, mask, places, sources, list(parts))
        types, boundaries = self.denoiser(left[:, None], right[:, None], time[:, None], whole)
        return types[:, 0], boundaries[:, :, 0]


class SpanLayer(nn.Module):
    """Attention between the spans of a draw, attention to the words, and a feed-forward layer."""

    def __init__(self, settings: DiffusionSettings) -> None:
        super().__init__()
        size, dropout = settings.size, settings.dropout
        self.among = Attention(size, settings.heads, dropout) if settings.self_attention else None
        self.across = Attention(size, settings.heads, dropout) if settings.cross_attention else None
        self.feed_forward = nn.Sequential(
            nn.Linear(size, settings.feed_forward),
            nn.ReLU(inplace=True),
            nn.Dropout(dropout),
            nn.Linear(settings.feed_forward, size),
        )
        self.norm_among, self.norm_across, self.norm = (
            nn.LayerNorm(size) if used else nn.Identity()
            for used in (settings.self_attention, settings.cross_attention, True)
        )
        self.dropout = nn.Dropout(dropout)

    def source(self, placed: Tensor, words: Tensor) -> Source | None:
        return None if self.across is None else self.across.source(placed, words, often=True)

    def forward(
        self, spans: Tensor, codes: Tensor, source: Source | None, mask: Tensor, draws: int
    ) -> Tensor:
        """`[B, R * K, d]` to the same; codes are added to queries and keys, not to values."""
        if self.among is not None:
            apart = (spans.shape[0] * draws, -1, spans.shape[2])  # [B * R, K, d]
            values, keys = spans.reshape(apart), (spans + codes).reshape(apart)
            seen = self.among(keys, self.among.source(keys, values)).view(spans.shape)
            spans = self.norm_among(spans + self.dropout(seen))
        if self.across is not None and source is not None:
            spans = self.norm_across(spans + self.dropout(self.across(spans + codes, source, mask)))
        result: Tensor = self.norm(spans + self.dropout(self.feed_forward(spans)))
        return result


class Pointer(nn.Module):
    """How probable each word is as a boundary of each span: `v' relu(W_w word + W_s span)`."""

    def __init__(self, width: int, size: int) -> None:
        super().__init__()
        self.of_word = nn.Linear(width, size)
        self.of_span = nn.Linear(width, size, bias=False)
        self.output = nn.Linear(size, 1)
        nn.init.constant_(self.output.bias, -3.0)  # it is one word of many

    def forward(self, pointed: Tensor, spans: Tensor) -> Tensor:
        """`of_word` of words `[B, T, h]`, and spans `[B, N, d]`, to logits `[B, N, T]`."""
        views = self.of_span(spans)
        if pointed.shape[1] * views.numel() <= _NUMBERS_AT_ONCE:
            return self._logits(pointed, views)
        at_once = max(1, _NUMBERS_AT_ONCE // pointed.numel())  # of the N; what is between is made twice
        parts = [
            checkpoint(self._logits, pointed, some, use_reentrant=False) for some in views.split(at_once, 1)
        ]
        return torch.cat(parts, dim=1)

    def _logits(self, pointed: Tensor, views: Tensor) -> Tensor:
        logits: Tensor = self.output((pointed[:, None] + views[:, :, None]).relu_()).squeeze(3)
        return logits


def numbers_of(left: Tensor, right: Tensor, lengths: Tensor, settings: DiffusionSettings) -> Tensor:
    """Spans by their first and last words, `[B, R, K]`, as numbers from -scale to scale, `[B, R, K, 2]`."""
    second = right - left if settings.coordinates == "left-width" else right
    numbers = torch.stack((left, second), dim=3) / (lengths - 1).clamp(min=1)[:, None, None, None]
    return settings.scale * (2 * numbers - 1)


def spans_of(numbers: Tensor, lengths: Tensor, settings: DiffusionSettings) -> tuple[Tensor, Tensor]:
    """Back again: the first and the last word of each span; they are in the sentence, and in this order."""
    left, second = ((numbers / settings.scale).clamp(-1, 1) / 2 + 0.5).unbind(dim=3)
    right = (left + second).clamp(max=1) if settings.coordinates == "left-width" else second
    last = (lengths - 1)[:, None, None]
    first_word, last_word = (last * left).round().long(), (last * right).round().long()
    return torch.minimum(first_word, last_word), torch.maximum(first_word, last_word)


@torch.no_grad()
def matched(
    scores: DenoisedScores, gold: Gold, settings: DiffusionSettings, turn: int = 0
) -> tuple[tuple[Tensor, Tensor, Tensor], Tensor]:
    """Appendix A: which spans (as sentences, draws and numbers) are matched to which entities, `[M]` each.

    The sum of the probabilities that the spans give to their entities is the highest there is, less what far
    ways from the noisy spans cost. With `repeat`, each entity is there so often that all spans are matched;
    where there are too many or too few for that, `turn` says who has the advantage.
    """
    batch, draws, spans, _ = scores.types.shape
    entities = gold.by_sentence(batch)  # [B, G]
    index = entities[:, None, None].expand(-1, draws, spans, -1)  # [B, R, K, G]
    type_, left, right = (
        functional.pad(column, (0, 1))[index] for column in (gold.type + 1, gold.start, gold.end - 1)
    )
    of_left, of_right = scores.boundaries.sigmoid()
    profit = (
        scores.types.softmax(dim=3).gather(3, type_) + of_left.gather(3, left) + of_right.gather(3, right)
    )
    ways = (left - scores.noisy[0][..., None]).abs() + (right - scores.noisy[1][..., None]).abs()
    profit -= settings.distance * ways / (scores.lengths - 1).clamp(min=1)[:, None, None, None]
    profits = np.nan_to_num(profit.cpu().numpy())  # of weights that are lost; the loss will tell
    columns = [np.empty((4, 0), dtype=np.int64)]
    for sentence, own in enumerate(entities.cpu().numpy()):
        count = int(np.count_nonzero(own < len(gold.start)))
        for draw in range(draws if count else 0):
            repeated = spans if settings.targets == "repeat" else min(spans, count)
            wanted = (np.arange(repeated) + turn) % count  # of its entities
            chosen, to = linear_sum_assignment(profits[sentence, draw][:, wanted], maximize=True)
            place = np.broadcast_to([[sentence], [draw]], (2, len(chosen)))
            columns.append(np.concatenate((place, [chosen, own[wanted[to]]])))
    found = torch.from_numpy(np.concatenate(columns, axis=1)).to(gold.start.device)
    return (found[0], found[1], found[2]), found[3]
