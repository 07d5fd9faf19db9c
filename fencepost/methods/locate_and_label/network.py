"""Shen et al., "Locate and Label: A Two-stage Identifier for Nested Named Entity Recognition", ACL 2021.

As object detectors do with images: all spans of some lengths are seeds; a filter drops those that are far
from any entity; a regressor moves the boundaries of the rest (sections 2.2, 2.3); a classifier labels the
spans that come out (section 2.4); and Soft-NMS lowers the scores of those that overlap better ones too
much (section 2.6). So entities are found whose lengths are not among the seeds'.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np
import torch
from pydantic import Field, field_validator
from torch import Tensor, nn
from torch.nn import functional

from fencepost.data.entity import Sentence
from fencepost.encoder.encoder import Words
from fencepost.encoder.settings import EncoderSettings
from fencepost.methods.candidates import Candidates
from fencepost.methods.locate_and_label.decode import LONGEST, LocateAndLabelPredict
from fencepost.methods.network import Gold, Graph, Method, MethodSettings, Report, Row, as_candidates, ranks
from fencepost.settings import WIDEST

_SPANS_AT_ONCE = 8192
"""Spans whose vectors are held at once (in training, all are kept for the gradient)."""

_SURE = 1e-6
"""A probability of being wrong below which focal losses do not tell examples apart: their gradient could
be infinite."""

_PAIRS_AT_ONCE = 4_000_000
"""Pairs of a span and an entity that are compared at once."""


class LocateAndLabelSettings(MethodSettings):
    """Which spans are seeds, what counts as near an entity, and what the losses weigh."""

    name: Literal["locate-and-label"] = "locate-and-label"
    searched: ClassVar = {
        "near": {"low": 0.5, "high": 0.9},
        "regressor_weight": {"low": 0.05, "high": 1.0, "log": True},
        "dropout": {"low": 0.1, "high": 0.6},
    }
    lengths: tuple[int, ...] = Field(
        tuple(range(1, 11)), description="The lengths of the seed spans, in words."
    )
    filter: bool = Field(True, description="Whether seeds far from any entity are dropped (ablation).")
    regressor: bool = Field(True, description="Whether boundaries are moved (ablation).")
    near: float = Field(
        0.7, ge=0, le=1, description="alpha1: a seed is positive if its IoU with an entity is above."
    )
    hit: float = Field(
        1.0, gt=0, le=1, description="alpha2: a moved span has its entity's type from this IoU on."
    )
    eta: float = Field(
        1.0, ge=0, description="How much less examples count that match in part; 0 is not (ablation)."
    )
    negatives: float = Field(20.0, ge=0, description="Negative seeds for each positive one, in training.")
    extra_negatives: int = Field(10, ge=0, description="Negative seeds of each sentence besides those.")
    sentence_vector: bool = Field(
        False, description="Whether all three see a vector of the whole sentence too, of a learnt token."
    )
    size: int = Field(
        256, ge=1, le=WIDEST, description="Width of the hidden layers of filter, regressor, classifier."
    )
    dropout: float = Field(0.5, ge=0, lt=1, description="Before filter, regressor and classifier.")
    gamma: float = Field(2.0, ge=0, description="Focus of the filter's loss on what it gets wrong.")
    classifier_gamma: float = Field(0.0, ge=0, description="The same for the classifier; 0 is cross entropy.")
    filter_weight: float = Field(1.0, ge=0, description="lambda1: of the filter's loss.")
    regressor_weight: float = Field(0.1, ge=0, description="lambda2: of the regressor's loss.")
    classifier_weight: float = Field(1.0, ge=0, description="lambda3: of the classifier's loss.")

    @field_validator("lengths")
    @classmethod
    def _sorted(cls, lengths: tuple[int, ...]) -> tuple[int, ...]:
        if not lengths or min(lengths) < 1 or max(lengths) > LONGEST:
            raise ValueError(f"should have at least one length, and none below 1 or above {LONGEST}")
        return tuple(sorted(set(lengths)))

    def trained_lengths(self) -> tuple[int, ...]:
        return self.lengths

    def idle(self, encoder: EncoderSettings) -> Iterator[str]:  # noqa: ARG002
        defaults = LocateAndLabelSettings()
        for part, used, names in (
            ("filter", self.filter, ("gamma", "filter_weight")),
            ("regressor", self.regressor, ("regressor_weight",)),
        ):
            if not used:
                given = (name for name in names if getattr(self, name) != getattr(defaults, name))
                yield from (f"method.{name} has no effect: method.{part} is false" for name in given)


class Spans(NamedTuple):
    """Spans of a batch as columns, half-open."""

    sentence: Tensor  # [N]
    start: Tensor  # [N]
    end: Tensor  # [N]

    def take(self, index: Tensor) -> Spans:
        return Spans(*(column[index] for column in self))


@dataclass(frozen=True, slots=True)
class Examples:
    """What there is to learn about the spans of a batch: each with the entity that it overlaps most."""

    entity: Spans  # [N]
    type: Tensor  # [N]
    iou: Tensor  # [N], of the seed with this entity
    positive: Tensor  # [N]


@dataclass(frozen=True, slots=True)
class ProposalScores:
    """The spans that passed the filter, or in training the examples, with what is said about each."""

    seeds: Spans  # [N]
    near: Tensor  # [N], the filter's logit
    offsets: Tensor  # [N, 2], of start and end, in words
    moved: Spans  # [N], the seeds with these offsets applied
    labels: Tensor  # [N, C + 1], the classifier's logits
    lengths: Tensor  # [B]
    length: int  # T, of the batch
    examples: Examples | None = None


class LocateAndLabel(Method[ProposalScores]):
    """Filter, regressor and classifier of spans. Class 0 is "no entity"; type t is class t + 1."""

    Settings = LocateAndLabelSettings
    Predict = LocateAndLabelPredict
    defaults: ClassVar = {
        "encoder": {"lstm": {"size": 256}},
        "training": {"batch_size": 8, "learning_rate": 2e-3, "encoder_learning_rate": 1e-4},
    }
    reports: ClassVar = {"stages": lambda method: StageReport(method)}
    learns_from_gold = True
    predict: LocateAndLabelPredict

    def __init__(
        self,
        settings: LocateAndLabelSettings,
        predict: LocateAndLabelPredict,
        width: int,
        types: Sequence[str],
    ) -> None:
        super().__init__(settings, predict, width, types)
        self.settings = settings

        def head(outputs: int) -> SpanHead:
            return SpanHead(
                width, settings.size, outputs, settings.dropout, sentence=settings.sentence_vector
            )

        self.filter = head(1) if settings.filter else None
        self.regressor = head(2) if settings.regressor else None
        self.classifier = head(1 + len(types))
        # the word before the first, and behind the last
        self.outside = nn.Parameter(torch.zeros(width)) if settings.regressor else None

    @classmethod
    def prompts(cls, settings: MethodSettings, types: Sequence[str]) -> int:  # noqa: ARG003
        return int(isinstance(settings, LocateAndLabelSettings) and settings.sentence_vector)

    def score(self, words: Words, gold: Gold | None = None) -> ProposalScores:
        """Locate (Eq. 1-7), then label (Eq. 8-10): the examples with gold, else what passes the filter."""
        table = MaximumTable(words.vectors)
        examples = None
        if gold is None:
            seeds, near = self._passing(words, table)
        else:
            seeds, examples = self.sampled(gold, words.lengths)
            near = words.vectors.new_zeros(len(seeds.start))
            if self.filter is not None:
                near = self._judged(self.filter, seeds, words, table)[:, 0]
        offsets, moved = self._moved(seeds, words, table)
        return ProposalScores(
            seeds=seeds,
            near=near,
            offsets=offsets,
            moved=moved,
            labels=self._judged(self.classifier, moved, words, table),
            lengths=words.lengths,
            length=words.vectors.shape[1],
            examples=examples,
        )

    def _judged(self, head: SpanHead, spans: Spans, words: Words, table: MaximumTable) -> Tensor:
        """Eq. 1-3 and 8-10, before sigmoid and softmax: what the filter or the classifier says of spans."""
        first, last = head.views(words.vectors, words.prompts)
        parts = [
            head(table.of(some), first[some.sentence, some.start], last[some.sentence, some.end - 1])
            for some in _blocks(spans)
        ]
        return torch.cat(parts).float()

    def lengths(self) -> Sequence[int]:
        """Of the seeds, in prediction."""
        trained = self.settings.lengths
        return trained if self.predict.lengths == "trained" else range(1, trained[-1] + 1)

    def _passing(self, words: Words, table: MaximumTable) -> tuple[Spans, Tensor]:
        """All seeds that pass the filter, and their logits; length by length."""
        if self.filter is None:
            seeds = enumerated(self.lengths(), words.lengths)
            return seeds, words.vectors.new_zeros(len(seeds.start))
        first, last = self.filter.views(words.vectors, words.prompts)  # [B, T, h]
        least = torch.logit(torch.tensor(self.predict.filter))
        found = [words.lengths.new_empty((3, 0))]
        logits = [words.vectors.new_empty(0)]
        most = words.vectors.shape[1]
        for length in (length for length in self.lengths() if length <= most):
            starts = torch.arange(most - length + 1, device=words.lengths.device)
            pooled = table.of_length(length)  # [B, I, d]
            near = self.filter(pooled, first[:, : len(starts)], last[:, length - 1 :]).squeeze(2)
            in_sentence = starts + length <= words.lengths[:, None]  # [B, I]
            sentence, start = (in_sentence & (near >= least)).nonzero(as_tuple=True)
            found.append(torch.stack((sentence, start, start + length)))
            logits.append(near[sentence, start])
        return Spans(*torch.cat(found, dim=1)), torch.cat(logits)

    def _moved(self, seeds: Spans, words: Words, table: MaximumTable) -> tuple[Tensor, Spans]:
        """Eq. 4-7: the offsets of the boundaries, and the spans with these applied."""
        if self.regressor is None or self.outside is None:
            return words.vectors.new_zeros((len(seeds.start), 2)), seeds
        batch = len(words.lengths)
        outside = self.outside.expand(batch, 1, -1)
        around = torch.cat((outside, words.vectors, outside), dim=1)  # [B, T + 2, d], word t at t + 1
        around[torch.arange(batch, device=around.device), words.lengths + 1] = self.outside.to(around.dtype)
        before, behind = self.regressor.views(around, words.prompts)
        parts = [
            self.regressor(
                table.of(some), before[some.sentence, some.start], behind[some.sentence, some.end + 1]
            )
            for some in _blocks(seeds)
        ]
        offsets = torch.cat(parts).float()
        return offsets, adjusted(seeds, offsets.detach(), words.lengths)

    def sampled(self, gold: Gold, lengths: Tensor) -> tuple[Spans, Examples]:
        """Section 2.2: the entities, all other positive seeds, and some of the negative ones.

        Which negative ones is chance in training; otherwise it is always the same ones.
        """
        settings = self.settings
        seeds = enumerated(settings.lengths, lengths)
        examples = paired(seeds, gold, len(lengths), settings.near)
        other = examples.iou < 1  # those that are entities are taken as such
        positive = examples.positive & other
        count = torch.bincount(gold.sentence, minlength=len(lengths))
        count += torch.bincount(seeds.sentence[positive], minlength=len(lengths))
        wanted = (settings.negatives * count).long() + settings.extra_negatives  # [B]
        generator = None if self.training else torch.Generator(lengths.device).manual_seed(0)
        chance = torch.rand(len(seeds.start), generator=generator, device=lengths.device)
        # by sentence, the negative ones first, in an order of chance: the first so many of each sentence
        negative = other & ~positive
        order = torch.argsort(torch.where(negative, chance, 2.0))
        order = order[torch.argsort(seeds.sentence[order], stable=True)]
        rank = torch.empty_like(order)
        rank[order] = ranks(seeds.sentence[order], len(lengths))
        taken = (positive | (negative & (rank < wanted[seeds.sentence]))).nonzero()[:, 0]

        def joined(of_gold: Tensor, of_seeds: Tensor) -> Tensor:
            return torch.cat((of_gold, of_seeds[taken]))

        entities = Spans(gold.sentence, gold.start, gold.end)
        both = Examples(
            entity=Spans(*map(joined, entities, examples.entity)),
            type=joined(gold.type, examples.type),
            iou=joined(torch.ones_like(gold.start, dtype=torch.float), examples.iou),
            positive=joined(torch.ones_like(gold.start, dtype=torch.bool), examples.positive),
        )
        return Spans(*map(joined, entities, seeds)), both

    def loss(self, scores: ProposalScores, gold: Gold) -> dict[str, Tensor]:
        """Eq. 11-17: means over the examples, in which those that match in part count for less."""
        settings, examples = self.settings, scores.examples
        if examples is None:
            raise ValueError("there is no loss of scores that were made without gold")
        terms = {}
        count = self.counted(len(examples.iou))
        weight = soft_weights(examples.iou, examples.positive, settings.eta)
        if self.filter is not None:
            of_filter = focal_loss(scores.near, examples.positive, settings.gamma)
            terms["filter_loss"] = settings.filter_weight * (weight * of_filter).sum() / count
        if self.regressor is not None:
            positive = examples.positive.nonzero()[:, 0]
            of_regressor = regression_loss(
                scores.seeds.take(positive), scores.offsets[positive], examples.entity.take(positive)
            )
            mean = (weight[positive] * of_regressor).sum() / self.counted(len(positive))
            terms["regressor_loss"] = settings.regressor_weight * mean
        class_, of_moved = self.reassigned(scores.moved, examples, gold, len(scores.lengths))
        weight = soft_weights(of_moved, class_ > 0, settings.eta)
        log_p = scores.labels.log_softmax(dim=1).gather(1, class_[:, None])[:, 0]
        of_classifier = -log_p * (1 - log_p.exp()).clamp(min=_SURE) ** settings.classifier_gamma
        terms["classifier_loss"] = settings.classifier_weight * (weight * of_classifier).sum() / count
        return terms

    def reassigned(self, moved: Spans, examples: Examples, gold: Gold, batch: int) -> tuple[Tensor, Tensor]:
        """Section 2.4: the class that each moved span shall have, and its IoU with the entity that decides.

        That is the entity that the seed was paired with, unless the span missed it and is another one.
        """
        with_own = intersection_over_union(moved, examples.entity)
        best = paired(moved, gold, batch, self.settings.near)
        own = (with_own >= self.settings.hit) | (best.iou < 1)
        type_ = torch.where(own, examples.type, best.type)
        iou = torch.where(own, with_own, best.iou)
        return torch.where(iou >= self.settings.hit, type_ + 1, 0), iou

    def candidates(self, scores: ProposalScores) -> Candidates:
        """The spans whose best class is a type: that they are near an entity, and that it is of this type."""
        confidence, class_ = scores.labels.softmax(dim=1).max(dim=1)
        if self.filter is not None and self.predict.confidence == "both":
            confidence = confidence * scores.near.sigmoid()
        entity = class_ > 0
        spans = scores.moved.take(entity)
        return as_candidates(*spans, class_[entity] - 1, confidence[entity], scores.length)

    def graphs(self, words: Words) -> dict[str, Graph]:
        """The filter looks at all spans of a batch, regressor and classifier at some."""
        vectors = words.vectors
        some = dict.fromkeys(("pooled", "one", "other"), vectors[0])
        sentence = {} if words.prompts is None else {"sentence": words.prompts[0].expand_as(vectors[0])}
        graphs: dict[str, Graph] = {}
        if self.filter is not None:
            inputs = {"vectors": vectors} | ({} if words.prompts is None else {"prompts": words.prompts})
            axes: dict[str, Sequence[str | None]] = dict.fromkeys(inputs, ("sentences", "words", None))
            if words.prompts is not None:
                axes["prompts"] = ("sentences", None, None)
            axes["near"] = ("sentences", None, "words")
            graphs["filter"] = Graph(FilterGraph(self.filter, self.settings.lengths[-1]), inputs, axes)
        if self.regressor is not None and self.outside is not None:
            at_edge = torch.zeros(len(vectors[0]), 1, dtype=torch.bool)
            inputs = {"pooled": some["pooled"], "before": some["one"], "behind": some["other"]}
            inputs |= {"at_start": at_edge, "at_end": at_edge} | sentence
            axes = dict.fromkeys((*inputs, "offsets"), ("spans", None))
            graphs["regressor"] = Graph(RegressorGraph(self.regressor, self.outside), inputs, axes)
        inputs = {"pooled": some["pooled"], "first": some["one"], "last": some["other"]} | sentence
        axes = dict.fromkeys((*inputs, "labels"), ("spans", None))
        graphs["classifier"] = Graph(HeadGraph(self.classifier), inputs, axes)
        return graphs


class FilterGraph(nn.Module):
    """The filter on all spans up to a length, as a graph; what runs over a sentence's end means nothing."""

    def __init__(self, filter_: SpanHead, longest: int) -> None:
        super().__init__()
        self.filter = filter_
        self.longest = longest

    def forward(self, vectors: Tensor, prompts: Tensor | None = None) -> Tensor:
        """`[B, T, d]` to logits `[B, longest, T]`: of a span's length and its start."""
        words = vectors.shape[1]
        first, last = self.filter.views(vectors, prompts)  # [B, T, h]
        behind, last = (functional.pad(of, (0, 0, 0, self.longest)) for of in (vectors, last))
        pooled, near = vectors, []
        for more in range(self.longest):
            pooled = torch.maximum(pooled, behind[:, more : more + words])
            near.append(self.filter(pooled, first, last[:, more : more + words])[..., 0])
        return torch.stack(near, dim=1)


class HeadGraph(nn.Module):
    """Filter, regressor or classifier on spans whose vectors are given, as a graph."""

    def __init__(self, head: SpanHead) -> None:
        super().__init__()
        self.head = head

    def forward(self, pooled: Tensor, one: Tensor, other: Tensor, sentence: Tensor | None = None) -> Tensor:
        """Each `[N, d]`, to `[N, outputs]`."""
        parts = [pooled, one, other] + ([] if sentence is None else [sentence])
        outputs: Tensor = self.head.output(functional.gelu(self.head.hidden(torch.cat(parts, dim=1))))
        return outputs


class RegressorGraph(nn.Module):
    """The regressor, as a graph: it knows what stands for a word that there is not."""

    def __init__(self, regressor: SpanHead, outside: nn.Parameter) -> None:
        super().__init__()
        self.graph = HeadGraph(regressor)
        self.outside = outside

    def forward(
        self,
        pooled: Tensor,
        before: Tensor,
        behind: Tensor,
        at_start: Tensor,
        at_end: Tensor,
        sentence: Tensor | None = None,
    ) -> Tensor:
        """`at_start` and `at_end`, `[N, 1]`, tell the spans before and behind which there is no word."""
        before = torch.where(at_start, self.outside, before)
        behind = torch.where(at_end, self.outside, behind)
        offsets: Tensor = self.graph(pooled, before, behind, sentence)
        return offsets


class SpanHead(nn.Module):
    """Two linear layers with GELU between them, on `[max-pool of a span ; a word ; another ; sentence]`.

    The first layer is applied to its inputs apart, and the results are added: what it makes of words is
    computed once for each word, not for each span.
    """

    def __init__(
        self, width: int, size: int, outputs: int, dropout: float, *, sentence: bool = False
    ) -> None:
        """`sentence` is whether there is a vector of the whole sentence."""
        super().__init__()
        self.width = width
        self.dropout = nn.Dropout(dropout)
        self.hidden = nn.Linear((4 if sentence else 3) * width, size)
        self.output = nn.Linear(size, outputs)

    def views(self, words: Tensor, sentence: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """What the first layer makes of words `[B, T, d]` in either role: `[B, T, h]` each.

        What it makes of the sentence's vector `[B, 1, d]` is added to all of the first.
        """
        _, of_one, of_other, *of_sentence = torch.split(self.hidden.weight, self.width, dim=1)
        words = self.dropout(words)
        one, other = functional.linear(words, of_one), functional.linear(words, of_other)
        if sentence is not None:
            one = one + functional.linear(self.dropout(sentence), *of_sentence)
        return one, other

    def forward(self, pooled: Tensor, one: Tensor, other: Tensor) -> Tensor:
        """`[..., d]` and two views `[..., h]` to `[..., outputs]`."""
        of_pooled = self.hidden.weight[:, : self.width]
        hidden = functional.linear(self.dropout(pooled), of_pooled, self.hidden.bias) + one + other
        outputs: Tensor = self.output(functional.gelu(hidden))
        return outputs


class MaximumTable:
    """The maximum over any span of words, from two overlapping ones of a length that is a power of two."""

    def __init__(self, vectors: Tensor) -> None:
        """`[B, T, d]`; words behind a sentence's end are never looked at by spans inside it."""
        self._levels = [vectors]  # level k: over 2^k words from each on, [B, T, d]; too few left: any
        self._stacked = vectors[None]

    def of_length(self, length: int) -> Tensor:
        """Over all spans of a length: `[B, T - length + 1, d]`."""
        level = length.bit_length() - 1
        table = self._up_to(level)[level]
        starts, shift = table.shape[1] - length + 1, length - 2**level
        if not shift:
            return table[:, :starts]
        return torch.maximum(table[:, :starts], table[:, shift : shift + starts])

    def of(self, spans: Spans) -> Tensor:
        """Over these: `[N, d]`."""
        lengths = spans.end - spans.start
        level = torch.log2(lengths.float()).long()
        highest = int(level.max()) if len(level) else 0
        if highest >= len(self._stacked):
            self._stacked = torch.stack(self._up_to(highest))  # [K, B, T, d]
        from_start = self._stacked[level, spans.sentence, spans.start]
        return torch.maximum(from_start, self._stacked[level, spans.sentence, spans.end - 2**level])

    def _up_to(self, level: int) -> list[Tensor]:
        """The levels, this one included; those for longer spans than are asked for are never made."""
        while len(self._levels) <= level:
            below, width = self._levels[-1], 2 ** (len(self._levels) - 1)
            both = torch.maximum(below[:, :-width], below[:, width:])
            self._levels.append(torch.cat((both, below[:, -width:]), dim=1))
        return self._levels


def _blocks(spans: Spans) -> Iterator[Spans]:
    """At least one, be it empty."""
    for columns in zip(*(torch.split(column, _SPANS_AT_ONCE) for column in spans), strict=True):
        yield Spans(*columns)


def enumerated(lengths: Sequence[int], of_sentences: Tensor) -> Spans:
    """All spans of these lengths in a batch of sentences, by sentence, start and length."""
    device, longest = of_sentences.device, int(of_sentences.max())
    starts = torch.arange(longest, device=device)
    fitting = [length for length in lengths if length <= longest]
    ends = starts[:, None] + torch.tensor(fitting, device=device, dtype=torch.long)  # [T, L]
    sentence, start, length = (ends <= of_sentences[:, None, None]).nonzero(as_tuple=True)
    return Spans(sentence, start, ends[start, length])


def intersection_over_union(one: Spans, other: Spans) -> Tensor:
    """The words that two spans share, as a part of those that at least one has."""
    shared = (torch.minimum(one.end, other.end) - torch.maximum(one.start, other.start)).clamp(min=0)
    return shared / (one.end - one.start + other.end - other.start - shared)


def paired(spans: Spans, gold: Gold, batch: int, near: float) -> Examples:
    """Each span with the entity of its sentence that it overlaps most; of equals, the first one.

    In a sentence without entities, that is nothing: an empty span, with which the IoU is 0.
    """
    of_sentence = gold.by_sentence(batch)  # [B, G]; behind the last: nothing
    starts, ends, types = (
        functional.pad(column, (0, 1), value=-1) for column in (gold.start, gold.end, gold.type)
    )
    best_iou, best = [], []
    at_once = max(1, _PAIRS_AT_ONCE // of_sentence.shape[1])
    for some in zip(*(torch.split(column, at_once) for column in spans), strict=True):
        one = Spans(*(column[:, None] for column in some))
        entities = of_sentence[some[0]]  # [N, G]
        iou = intersection_over_union(one, Spans(one.sentence, starts[entities], ends[entities]))
        found, which = iou.max(dim=1)
        best_iou.append(found)
        best.append(entities.gather(1, which[:, None])[:, 0])
    iou, entity = torch.cat(best_iou), torch.cat(best)
    return Examples(Spans(spans.sentence, starts[entity], ends[entity]), types[entity], iou, iou > near)


def adjusted(spans: Spans, offsets: Tensor, lengths: Tensor) -> Spans:
    """Eq. 6, 7: offsets rounded to words, spans kept in the sentence; one that would be empty stays."""
    limit = lengths.max() + 1  # so far out is as good as farther
    moves = (offsets + 0.5).floor().clamp(-limit, limit).long()
    start = (spans.start + moves[:, 0]).clamp(min=0)
    end = torch.minimum(spans.end + moves[:, 1], lengths[spans.sentence])
    full = start < end
    return Spans(spans.sentence, torch.where(full, start, spans.start), torch.where(full, end, spans.end))


def soft_weights(iou: Tensor, positive: Tensor, eta: float) -> Tensor:
    """Eq. 11: how much examples count; those that match an entity in part, less."""
    return torch.where(positive, iou, 1 - iou) ** eta


def focal_loss(logits: Tensor, positive: Tensor, gamma: float) -> Tensor:
    """Eq. 12: of each example, its cross entropy, the less the surer it is rightly."""
    signed = torch.where(positive, logits, -logits)
    return -functional.logsigmoid(signed) * torch.sigmoid(-signed).clamp(min=_SURE) ** gamma


def regression_loss(spans: Spans, offsets: Tensor, entities: Spans) -> Tensor:
    """Eq. 13-15: how far spans moved by their offsets, not rounded, are from their entities."""
    start, end = spans.start + offsets[:, 0], spans.end + offsets[:, 1]
    of_boundaries = functional.smooth_l1_loss(
        torch.stack((start, end)),
        torch.stack((entities.start, entities.end)).to(start),
        reduction="none",
    ).sum(dim=0)
    shared = torch.minimum(end, entities.end) - torch.maximum(start, entities.start)
    together = torch.maximum(end, entities.end) - torch.minimum(start, entities.start)
    return of_boundaries + 1 - shared / together


class StageReport(Report):
    """How many spans each stage leaves, how many entities are still among them, and what moved how far.

    Types are left aside: what counts are the spans of entities whose type the model knows, and how many are
    among the spans of a stage, or near one of them (IoU above `method.near`).
    """

    STAGES = ("seeds", "after the filter", "after the regressor", "labelled", "selected")
    FARTHEST = 4

    def __init__(self, method: LocateAndLabel) -> None:
        self.method = method
        self.counts = np.zeros((len(self.STAGES), 3), dtype=np.int64)  # spans, entities hit, entities near
        self.entities = 0
        self.moves = np.zeros((2, 2, 2 * self.FARTHEST + 1), dtype=np.int64)  # all or labelled, start or end

    def add(self, sentences: Sequence[Sentence], scores: ProposalScores, gold: Gold) -> None:  # noqa: ARG002
        batch = len(scores.lengths)
        entities = _distinct(Spans(gold.sentence, gold.start, gold.end))
        self.entities += len(entities.start)
        labelled = scores.labels.argmax(dim=1) > 0
        kept = self.method.select(self.method.candidates(scores))
        start, end = (torch.from_numpy(of).to(gold.start.device) for of in (kept.start, kept.end))
        sentence = start // scores.length
        selected = Spans(sentence, start - sentence * scores.length, end - sentence * scores.length)
        seeds = enumerated(self.method.lengths(), scores.lengths)
        of_stages = (seeds, scores.seeds, scores.moved, scores.moved.take(labelled), selected)
        for number, spans in enumerate(map(_distinct, of_stages)):
            as_gold = Gold(*spans, torch.zeros_like(spans.start))
            found = paired(entities, as_gold, batch, self.method.settings.near)
            self.counts[number] += (len(spans.start), int((found.iou == 1).sum()), int(found.positive.sum()))
        moves = torch.stack((scores.moved.start - scores.seeds.start, scores.moved.end - scores.seeds.end))
        moves = moves.clamp(-self.FARTHEST, self.FARTHEST) + self.FARTHEST  # [2, N]
        for which, some in enumerate((moves, moves[:, labelled])):
            self.moves[which] += [np.bincount(of, minlength=self.moves.shape[2]) for of in some.cpu().numpy()]

    def tables(self) -> dict[str, dict[str, Row]]:
        entities = max(1, self.entities)
        stages: dict[str, Row] = {
            name: {
                "spans": spans,
                "per entity": spans / entities,
                "recall": hit / entities,
                "recall, near": near / entities,
            }
            for name, (spans, hit, near) in zip(self.STAGES, self.counts.tolist(), strict=True)
        }
        names = [f"{move:+d}" if move else "0" for move in range(-self.FARTHEST, self.FARTHEST + 1)]
        names[0], names[-1] = f"{names[0]} or less", f"{names[-1]} or more"
        columns = ("start", "end", "start, labelled", "end, labelled")
        rows = self.moves.reshape(4, -1).T.tolist()
        offsets: dict[str, Row] = {
            name: dict(zip(columns, row, strict=True)) for name, row in zip(names, rows, strict=True)
        }
        return {"spans": stages, "offsets in words": offsets}


def _distinct(spans: Spans) -> Spans:
    """Each once, in order."""
    behind = int(spans.end.max()) + 1 if len(spans.end) else 1
    keys = torch.unique((spans.sentence * behind + spans.start) * behind + spans.end)
    return Spans(keys // behind**2, keys // behind % behind, keys % behind)
