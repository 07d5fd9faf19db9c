"""What is learnt: examples (section 2.2), their classes (section 2.4), and the losses (section 2.5)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from fencepost.methods.decoder import FloatArray, GoldArrays, IntArray
from fencepost.methods.locate_and_label.settings import LocateAndLabelSettings
from fencepost.methods.locate_and_label.spans import Spans, compute_iou, pair_spans

_SURE = 1e-6
"""A probability of being wrong below which focal losses treat examples alike: their gradient could be
infinite."""


@dataclass(frozen=True, slots=True)
class Examples:
    """Spans of a batch to learn from, each with the entity of its sentence that it overlaps most."""

    spans: Spans  # [N]
    entity: IntArray  # [N], index into the entities of the batch; -1 is none
    iou: FloatArray  # [N], of the span with this entity
    positive: npt.NDArray[np.bool_]  # [N]


def sample_examples(
    seeds: Spans, gold: GoldArrays, chance: FloatArray, batch: int, settings: LocateAndLabelSettings
) -> Examples:
    """Section 2.2: return the entities, all other positive seeds, and some of the negative ones.

    Of each sentence, the negative seeds with the lowest numbers in `chance` are examples. The entities are
    always among them, though the paper does not say so.
    """
    entities = Spans(gold.sentence, gold.start, gold.end)
    entity, iou = pair_spans(seeds, entities)
    positive = (iou > settings.near) & (iou < 1)  # seeds that are entities are examples as such
    positives = np.concatenate((gold.sentence, seeds.sentence[positive]))
    count = np.bincount(positives, minlength=batch)  # [B]
    wanted = (settings.negatives * count).astype(np.int64) + settings.extra_negatives
    negative = np.flatnonzero(~positive & (iou < 1))
    negative = negative[np.lexsort((chance[negative], seeds.sentence[negative]))]
    owner = seeds.sentence[negative]
    rank = np.arange(len(owner)) - np.searchsorted(owner, owner)  # in its sentence
    chosen = np.sort(np.append(np.flatnonzero(positive), negative[rank < wanted[owner]]))
    every = len(gold.start)
    return Examples(
        spans=Spans(*map(np.append, entities, seeds.take(chosen))),
        entity=np.append(np.arange(every), entity[chosen]),
        iou=np.append(np.ones(every, dtype=np.float32), iou[chosen]),
        positive=np.append(np.ones(every, dtype=np.bool_), positive[chosen]),
    )


def assign_classes(
    moved: Spans, examples: Examples, gold: GoldArrays, hit: float
) -> tuple[IntArray, FloatArray]:
    """Section 2.4: return the class of each moved span, and its IoU with the entity that decides it.

    That is the entity that the seed was paired with, unless the span missed it and is exactly another one.
    """
    # at the end, and so at index -1: no entity, an empty span
    type_, *columns = (np.append(of, -1) for of in (gold.type, gold.sentence, gold.start, gold.end))
    entities = Spans(*columns)
    with_own = compute_iou(moved, entities.take(examples.entity))
    best, with_best = pair_spans(moved, entities)
    own = (with_own >= hit) | (with_best < 1)
    iou = np.where(own, with_own, with_best)
    class_ = type_[np.where(own, examples.entity, best)] + 1
    return np.where(iou >= hit, class_, 0), iou


def soft_weights(iou: Tensor, positive: Tensor, eta: float) -> Tensor:
    """Eq. 11: return the weights of examples; those that match an entity in part have lower ones."""
    return torch.where(positive, iou, 1 - iou) ** eta


def filter_loss(logits: Tensor, positive: Tensor, gamma: float) -> Tensor:
    """Eq. 12, before weights: return the focal loss of each example."""
    signed = torch.where(positive, logits, -logits)
    return -functional.logsigmoid(signed) * torch.sigmoid(-signed).clamp(min=_SURE) ** gamma


def regressor_loss(spans: Spans, offsets: Tensor, entities: Spans) -> Tensor:
    """Eq. 13-15: return the distance of each span, moved by offsets that are not rounded, from its entity."""
    of_spans, of_entities = (
        torch.from_numpy(np.stack((of.start, of.end))).to(offsets) for of in (spans, entities)
    )
    moved = of_spans + offsets.T  # [2, N]
    of_boundaries = functional.smooth_l1_loss(moved, of_entities, reduction="none").sum(dim=0)
    (start, end), (true_start, true_end) = moved, of_entities
    shared = torch.minimum(end, true_end) - torch.maximum(start, true_start)
    together = torch.maximum(end, true_end) - torch.minimum(start, true_start)
    return of_boundaries + 1 - shared / together


def classifier_loss(logits: Tensor, class_: Tensor, gamma: float) -> Tensor:
    """Eq. 16, before weights: return the cross entropy of each example, or with a `gamma` its focal loss."""
    log_p = logits.log_softmax(dim=1).gather(1, class_[:, None])[:, 0]
    return -log_p * (1 - log_p.exp()).clamp(min=_SURE) ** gamma
