"""Appendix A: which proposals are matched to which entities, and the loss of what they predict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor
from torch.nn import functional

from fencepost.methods.diffusion.settings import DiffusionSettings
from fencepost.methods.network import Gold


class VerifiedSpans(NamedTuple):
    """Spans that the verifier learns from, and what it predicts for each."""

    spans: Tensor  # [2, B, S], the first and the last words
    labels: Tensor  # [B, S, C + 1], logits


@dataclass(frozen=True, slots=True)
class DenoisedScores:
    """What the denoiser predicts for each proposal."""

    types: Tensor  # [B, K, C + 1], logits
    boundaries: Tensor  # [2, B, K, T], logits of each word as the first, and as the last one
    noisy: tuple[Tensor, Tensor]  # [B, K], the first and the last words of the noisy spans
    lengths: Tensor  # [B]
    verified: VerifiedSpans | None = None


class Matches(NamedTuple):
    """Proposals, by sentence and number, and the index of the entity that each is matched to."""

    sentence: Tensor  # [M]
    proposal: Tensor  # [M]
    entity: Tensor  # [M]


@torch.no_grad()
def match_proposals(
    scores: DenoisedScores, gold: Gold, settings: DiffusionSettings, turn: int = 0
) -> Matches:
    """Return the matching with the highest sum of profits.

    With `targets` as in the paper (`pad`), each entity is matched to one proposal. As in the authors' program
    (`repeat`), the entities are repeated until all proposals are matched, starting with the one at `turn`.
    """
    proposals = scores.types.shape[1]
    entities = gold.by_sentence(len(scores.types))  # [B, G]
    profits = np.nan_to_num(_compute_profits(scores, gold, entities, settings).cpu().numpy())  # [B, K, G]
    columns = [np.empty((3, 0), dtype=np.int64)]
    for sentence, own in enumerate(entities.cpu().numpy()):
        count = int(np.count_nonzero(own < len(gold.start)))
        if count:
            number = proposals if settings.targets == "repeat" else min(proposals, count)
            targets = (np.arange(number) + turn) % count
            matched, target = linear_sum_assignment(profits[sentence][:, targets], maximize=True)
            columns.append(np.stack((np.full_like(matched, sentence), matched, own[targets[target]])))
    return Matches(*torch.from_numpy(np.concatenate(columns, axis=1)).to(gold.start.device))


def _compute_profits(
    scores: DenoisedScores, gold: Gold, entities: Tensor, settings: DiffusionSettings
) -> Tensor:
    """Return p(type) + p(left) + p(right) of each proposal and entity: `[B, K, G]`.

    Not in the paper: the distance of the noisy span from the entity, as a share of the sentence, is a cost.
    """
    index = entities[:, None].expand(-1, scores.types.shape[1], -1)
    type_, left, right = (
        functional.pad(column, (0, 1))[index] for column in (gold.type + 1, gold.start, gold.end - 1)
    )
    p_left, p_right = scores.boundaries.sigmoid()
    p_type = scores.types.softmax(dim=2)
    profits: Tensor = p_type.gather(2, type_) + p_left.gather(2, left) + p_right.gather(2, right)
    noisy_left, noisy_right = (end[..., None] for end in scores.noisy)
    distance = (left - noisy_left).abs() + (right - noisy_right).abs()
    cost = settings.distance * distance / (scores.lengths - 1).clamp(min=1)[:, None, None]
    return profits - cost


def compute_losses(
    scores: DenoisedScores,
    gold: Gold,
    matches: Matches,
    settings: DiffusionSettings,
    mean_count: Callable[[int | Tensor], int | Tensor],
) -> dict[str, Tensor]:
    """Return the negative log likelihood of types and boundaries.

    The unmatched proposals have class 0, and a mean of their own. As in the authors' program, a boundary's
    loss is a binary cross entropy over all words.
    """
    sentence, proposal, entity = matches
    class_ = torch.zeros_like(scores.types[..., 0], dtype=torch.long)  # [B, K]
    class_[sentence, proposal] = gold.type[entity] + 1
    type_losses = functional.cross_entropy(scores.types.flatten(0, 1), class_.flatten(), reduction="none")
    is_none = class_.flatten() == 0
    matched = mean_count(len(entity))
    type_loss = type_losses[~is_none].sum() / matched
    none_loss = type_losses[is_none].sum() / mean_count(is_none.sum())

    logits = scores.boundaries[:, sentence, proposal]  # [2, M, T]
    boundaries = torch.stack((gold.start[entity], gold.end[entity] - 1))  # [2, M]
    is_boundary = functional.one_hot(boundaries, logits.shape[2]).to(logits)
    word_loss = functional.binary_cross_entropy_with_logits(logits, is_boundary, reduction="sum")
    return {
        "type_loss": type_loss + settings.none_weight * none_loss,
        "boundary_loss": settings.boundary_weight * word_loss / matched,
    }


@torch.no_grad()
def collect_spans(scores: DenoisedScores, gold: Gold, draws: int) -> Tensor:
    """Return what the verifier learns from: the entities, the noisy spans, and what these are denoised to.

    These are the first and the last words `[2, B, S]`, for each sentence those of all its draws.
    """
    left, right = scores.boundaries.argmax(dim=3)  # [B * draws, K]
    found = torch.stack((left, torch.maximum(left, right)))
    spans = torch.cat((found, torch.stack(scores.noisy)), dim=2)
    spans = spans.view(2, len(left) // draws, -1)
    entities = gold.by_sentence(spans.shape[1])  # [B, G], padded with the first word, which is a span, too
    own = [functional.pad(column, (0, 1))[entities] for column in (gold.start, gold.end - 1)]
    return torch.cat((torch.stack(own), spans), dim=2)


def compute_verifier_loss(
    verified: VerifiedSpans, gold: Gold, mean_count: Callable[[int | Tensor], int | Tensor]
) -> Tensor:
    """Return the cross entropy of the types of all different spans, per entity and sentence."""
    left, right = verified.spans  # [B, S]
    entities = gold.by_sentence(len(left))[:, None]  # [B, 1, G]
    start, end, class_ = (
        functional.pad(column, (0, 1))[entities] for column in (gold.start, gold.end, gold.type + 1)
    )
    is_entity = (left[..., None] == start) & (right[..., None] == end - 1)  # [B, S, G]
    classes = (is_entity * class_).amax(dim=2)  # [B, S], one of several types
    losses = functional.cross_entropy(verified.labels.flatten(0, 1), classes.flatten(), reduction="none")
    key, order = (left * (int(right.max()) + 1) + right).sort(dim=1)
    is_new = functional.pad(key[:, 1:] != key[:, :-1], (1, 0), value=True)
    total: Tensor = (losses.view_as(left).gather(1, order) * is_new).sum()
    return total / mean_count(len(gold.start) + len(left))
