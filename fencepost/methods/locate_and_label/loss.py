"""Training examples (section 2.2), their classes (section 2.4), and the losses (section 2.5)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from fencepost.methods.decoder import FloatArray, GoldArrays, IntArray
from fencepost.methods.locate_and_label.settings import LocateAndLabelSettings
from fencepost.methods.locate_and_label.spans import Spans, compute_iou, pair_spans
from fencepost.methods.network import merge_classes

_SURE = 1e-6
"""Minimum error probability in focal losses; below it, their gradient could be infinite."""


@dataclass(frozen=True, slots=True)
class Examples:
    """Spans of a batch to train on, each paired with the entity of its sentence with the highest IoU."""

    spans: Spans  # [N]
    entity: IntArray  # [N], index into `entities`; -1 is none
    iou: FloatArray  # [N], of the span with this entity
    positive: npt.NDArray[np.bool_]  # [N]
    entities: Spans  # [G + 1], those of the batch, and an empty one for index -1
    types: IntArray  # [G + 1], of the entities


@dataclass(frozen=True, slots=True)
class ExampleScores:
    """The outputs of the networks for examples."""

    examples: Examples  # [N]
    near: Tensor | None  # [N], the filter's logit
    offsets: Tensor | None  # [N, 2], t of start and end, in words
    moved: Spans  # [N], the examples with these offsets applied
    labels: Tensor  # [N, C + 1], the classifier's logits


def sample_examples(
    seeds: Spans, gold: GoldArrays, chance: FloatArray, batch: int, settings: LocateAndLabelSettings
) -> Examples:
    """Section 2.2: return the entities, all other positive seeds, and some of the negative ones.

    In each sentence, the negative seeds with the lowest random numbers in `chance` are chosen. The entities
    are always included, though the paper does not say so.
    """
    columns = (gold.sentence, gold.start, gold.end, gold.type)
    *spans, types = (np.append(column, -1) for column in columns)
    entities, every = Spans(*spans), len(gold.start)
    entity, iou = pair_spans(seeds, entities)
    positive = (iou > settings.near) & (iou < 1)  # seeds that are entities are included as entities
    positives = np.concatenate((gold.sentence, seeds.sentence[positive]))
    count = np.bincount(positives, minlength=batch)  # [B]
    most = (settings.negatives * count).astype(np.int64) + settings.extra_negatives  # [B], negatives
    negative = np.flatnonzero(~positive & (iou < 1))
    negative = negative[np.lexsort((chance[negative], seeds.sentence[negative]))]
    owner = seeds.sentence[negative]
    rank = np.arange(len(owner)) - np.searchsorted(owner, owner)  # in its sentence
    chosen = np.sort(np.append(np.flatnonzero(positive), negative[rank < most[owner]]))
    return Examples(
        spans=Spans(*map(np.append, entities.take(slice(every)), seeds.take(chosen))),
        entity=np.append(np.arange(every), entity[chosen]),
        iou=np.append(np.ones(every, dtype=np.float32), iou[chosen]),
        positive=np.append(np.ones(every, dtype=np.bool_), positive[chosen]),
        entities=entities,
        types=types,
    )


def assign_classes(moved: Spans, examples: Examples, hit: float) -> tuple[IntArray, FloatArray]:
    """Section 2.4: return the class of each moved span, and its IoU with the entity that determines it.

    This is the entity that the seed is paired with, unless the span misses it and is exactly another one.
    """
    with_own = compute_iou(moved, examples.entities.take(examples.entity))
    best, with_best = pair_spans(moved, examples.entities)
    own = (with_own >= hit) | (with_best < 1)
    iou = np.where(own, with_own, with_best)
    class_ = examples.types[np.where(own, examples.entity, best)] + 1
    return np.where(iou >= hit, class_, 0), iou


def compute_losses(
    scores: ExampleScores,
    settings: LocateAndLabelSettings,
    mean_count: Callable[[int], int | Tensor],
    annotated: Tensor | None = None,
) -> dict[str, Tensor]:
    """Eq. 17: return the terms of the loss; `mean_count` returns the divisor of a mean.

    Where a sentence is not annotated with all types (`annotated`, `[B, C]`), its negative examples, which may
    be entities of other types, do not train the filter.
    """
    examples, is_positive = scores.examples, scores.examples.positive
    columns = (examples.iou, is_positive, *assign_classes(scores.moved, examples, settings.hit))
    iou, positive, class_, moved_iou = (torch.from_numpy(of).to(scores.labels.device) for of in columns)
    terms, count = {}, mean_count(len(iou))
    weight = compute_soft_weights(iou, positive, settings.eta)
    if annotated is not None:
        annotated = annotated[torch.from_numpy(examples.spans.sentence).to(annotated.device)]  # [N, C]
        weight = weight * (positive | annotated.all(dim=1))
    if scores.near is not None:
        losses = compute_filter_loss(scores.near, positive, settings.gamma)
        terms["filter_loss"] = settings.filter_weight * (weight * losses).sum() / count
    if scores.offsets is not None:
        entities = examples.entities.take(examples.entity[is_positive])
        losses = compute_regressor_loss(examples.spans.take(is_positive), scores.offsets[positive], entities)
        mean = (weight[positive] * losses).sum() / mean_count(len(losses))
        terms["regressor_loss"] = settings.regressor_weight * mean
    weight = compute_soft_weights(moved_iou, class_ > 0, settings.eta)
    losses = compute_classifier_loss(scores.labels, class_, settings.classifier_gamma, annotated)
    terms["classifier_loss"] = settings.classifier_weight * (weight * losses).sum() / count
    return terms


def compute_soft_weights(iou: Tensor, positive: Tensor, eta: float) -> Tensor:
    """Eq. 11: return the weights of examples, which are lower for partial overlap with an entity."""
    return torch.where(positive, iou, 1 - iou) ** eta


def compute_filter_loss(logits: Tensor, positive: Tensor, gamma: float) -> Tensor:
    """Eq. 12: return the focal loss of each example, without weights."""
    signed = torch.where(positive, logits, -logits)
    return -functional.logsigmoid(signed) * torch.sigmoid(-signed).clamp(min=_SURE) ** gamma


def compute_regressor_loss(spans: Spans, offsets: Tensor, entities: Spans) -> Tensor:
    """Eq. 13-15: return the loss of each span, moved by its unrounded offsets, against its entity."""
    of_spans, of_entities = (
        torch.from_numpy(np.stack((of.start, of.end))).to(offsets) for of in (spans, entities)
    )
    moved = of_spans + offsets.T  # [2, N]
    of_boundaries = functional.smooth_l1_loss(moved, of_entities, reduction="none").sum(dim=0)
    (start, end), (true_start, true_end) = moved, of_entities
    shared = torch.minimum(end, true_end) - torch.maximum(start, true_start)
    together = torch.maximum(end, true_end) - torch.minimum(start, true_start)
    return of_boundaries + 1 - shared / together


def compute_classifier_loss(
    logits: Tensor, class_: Tensor, gamma: float, annotated: Tensor | None = None
) -> Tensor:
    """Eq. 16: return the cross entropy (focal loss if `gamma` is not 0) of each example, without weights."""
    log_p = merge_classes(logits, annotated).gather(1, class_[:, None])[:, 0]
    return -log_p * (1 - log_p.exp()).clamp(min=_SURE) ** gamma
