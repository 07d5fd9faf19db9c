"""Appendix A: the matching of proposals to entities, and the losses of the proposals."""

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
from fencepost.methods.network import Gold, merge_classes


class VerifiedSpans(NamedTuple):
    """Spans that the verifier is trained on, and its predictions."""

    spans: Tensor  # [2, B, S], the first and the last words
    is_span: Tensor  # [B, S], false for padding
    labels: Tensor  # [B, S, C + 1], logits


@dataclass(frozen=True, slots=True)
class DenoisedScores:
    """The denoiser's predictions for each proposal."""

    types: Tensor  # [B, K, C + 1], logits
    boundaries: Tensor  # [2, B, K, T], logits of each word as the first, and as the last one
    noisy: tuple[Tensor, Tensor]  # [B, K], the first and the last words of the noisy spans
    lengths: Tensor  # [B]
    verified: VerifiedSpans | None = None


class ProposalMatches(NamedTuple):
    """Matched proposals, by sentence and index, and the index of the entity of each."""

    sentence: Tensor  # [M]
    proposal: Tensor  # [M]
    entity: Tensor  # [M]


@torch.no_grad()
def match_proposals(
    scores: DenoisedScores, gold: Gold, settings: DiffusionSettings, turn: int = 0
) -> ProposalMatches:
    """Return the matching with the highest sum of profits.

    With `targets: pad`, as in the paper, each entity is matched to one proposal. With `repeat`, as in the
    authors' program, the entities are repeated, from the one at `turn` on, until all proposals are matched.
    """
    proposals = scores.types.shape[1]
    entities = gold.group_by_sentence(len(scores.types))  # [B, G]
    profits = np.nan_to_num(_compute_profits(scores, gold, entities, settings).cpu().numpy())  # [B, K, G]
    columns = [np.empty((3, 0), dtype=np.int64)]
    for sentence, own in enumerate(entities.cpu().numpy()):
        count = int(np.count_nonzero(own < len(gold.start)))
        if count:
            number = proposals if settings.targets == "repeat" else min(proposals, count)
            targets = (np.arange(number) + turn) % count
            proposal, target = linear_sum_assignment(profits[sentence][:, targets], maximize=True)
            columns.append(np.stack((np.full_like(proposal, sentence), proposal, own[targets[target]])))
    return ProposalMatches(*torch.from_numpy(np.concatenate(columns, axis=1)).to(gold.start.device))


def _compute_profits(
    scores: DenoisedScores, gold: Gold, entities: Tensor, settings: DiffusionSettings
) -> Tensor:
    """Return p(type) + p(left) + p(right) of each proposal and entity: `[B, K, G]`.

    Not in the paper: the distance of the noisy span from the entity, relative to the sentence, is a cost.
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
    matches: ProposalMatches,
    settings: DiffusionSettings,
    mean_count: Callable[[int | Tensor], int | Tensor],
) -> dict[str, Tensor]:
    """Return the negative log likelihood of types and boundaries.

    Unmatched proposals have class 0, and are averaged separately. As in the authors' program, the loss of a
    boundary is a binary cross entropy over all words.
    """
    sentence, proposal, entity = matches
    class_ = torch.zeros_like(scores.types[..., 0], dtype=torch.long)  # [B, K]
    class_[sentence, proposal] = gold.type[entity] + 1
    log_p = merge_classes(scores.types.transpose(1, 2), gold.annotated)  # [B, C + 1, K]
    type_losses = functional.nll_loss(log_p, class_, reduction="none").flatten()
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
def collect_spans(scores: DenoisedScores, gold: Gold, draws: int) -> tuple[Tensor, Tensor]:
    """Return the spans to train the verifier on, `[2, B, S]`, and which are not padding, `[B, S]`.

    These are the different spans, by first and last word, among the entities, the noisy spans of all draws,
    and the denoised spans: from one of the two most probable first words to one of the two last words.
    """
    last = (scores.lengths - 1)[:, None]  # [B * draws, 1]
    best = scores.boundaries.topk(min(2, scores.boundaries.shape[3]), dim=3).indices  # [2, B * draws, K, 2]
    left, right = (
        end.flatten(1).minimum(last) for end in (best[0].repeat(1, 1, 2), best[1].repeat_interleave(2, 2))
    )
    denoised = torch.stack((left, torch.maximum(left, right)))
    spans = torch.cat((denoised, torch.stack(scores.noisy)), dim=2).view(2, len(last) // draws, -1)
    entities = gold.group_by_sentence(spans.shape[1])  # [B, G]
    own = torch.stack([functional.pad(column, (0, 1))[entities] for column in (gold.start, gold.end - 1)])
    own = torch.where(entities < len(gold.start), own, spans[..., :1])  # padding repeats another span
    left, right = torch.cat((own, spans), dim=2)  # [B, S]
    length = scores.boundaries.shape[3]
    key = (left * length + right).sort(dim=1).values
    is_new = functional.pad(key[:, 1:] != key[:, :-1], (1, 0), value=True)
    count = is_new.sum(dim=1, keepdim=True)
    different = key.new_zeros(len(key), int(count.max()))
    different.scatter_(1, is_new.cumsum(dim=1) - 1, key)  # repeated spans have the same index
    is_span = torch.arange(different.shape[1], device=key.device) < count
    return torch.stack((different // length, different % length)), is_span


def compute_verifier_loss(
    verified: VerifiedSpans, gold: Gold, mean_count: Callable[[int | Tensor], int | Tensor]
) -> Tensor:
    """Return the sum of the spans' cross entropies, divided by the number of entities and sentences."""
    left, right = verified.spans  # [B, S]
    entities = gold.group_by_sentence(len(left))[:, None]  # [B, 1, G]
    start, end, class_ = (
        functional.pad(column, (0, 1))[entities] for column in (gold.start, gold.end, gold.type + 1)
    )
    is_entity = (left[..., None] == start) & (right[..., None] == end - 1)  # [B, S, G]
    classes = (is_entity * class_).amax(dim=2)  # [B, S], one of several types
    is_span = verified.is_span
    log_p = merge_classes(verified.labels.transpose(1, 2), gold.annotated).transpose(1, 2)  # [B, S, C + 1]
    loss = functional.nll_loss(log_p[is_span], classes[is_span], reduction="sum")
    return loss / mean_count(len(gold.start) + len(left))
