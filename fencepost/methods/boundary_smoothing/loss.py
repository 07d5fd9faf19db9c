"""Section 3.2: the loss, with targets that spread an entity's probability over the spans around it."""

from __future__ import annotations

import torch
from torch import Tensor

from fencepost.methods.boundary_smoothing.settings import BoundarySmoothingSettings
from fencepost.methods.network import Gold, merge_classes


def sum_cross_entropy(
    grid: Tensor, lengths: Tensor, gold: Gold, settings: BoundarySmoothingSettings
) -> Tensor:
    """Eq. 3, 4: return the cross entropy of scores `[B, C + 1, T, T]`, summed over all spans."""
    classes, length = grid.shape[1:3]
    targets = make_targets(gold, lengths, length, classes - 1, settings)  # [B, C + 1, T, T]
    of_cells = -(targets * merge_classes(grid.float(), gold.annotated)).sum(dim=1)  # [B, T, T]
    place = torch.arange(length, device=lengths.device)
    is_span = (place[:, None] <= place) & (place < lengths[:, None, None])
    return of_cells.masked_fill(~is_span, 0.0).sum()


def make_targets(
    gold: Gold, lengths: Tensor, length: int, types: int, settings: BoundarySmoothingSettings
) -> Tensor:
    """Return the target probabilities, `[B, C + 1, T, T]`, in a grid of start and last word."""
    of_types = smooth(gold, lengths, length, types, settings.epsilon, settings.smoothing_size)
    entity = of_types.sum(dim=1, keepdim=True)  # [B, 1, T, T]
    of_types = of_types / entity.clamp(min=1)  # above 1 for a span with two types
    entity = entity.clamp(max=1)
    alpha = settings.label_smoothing
    if alpha:
        share = alpha * entity / types
        if gold.annotated is not None:
            share = share * gold.annotated[:, :, None, None]
        of_types = (1 - alpha) * of_types + share
    return torch.cat((1 - entity, of_types), dim=1)


def smooth(gold: Gold, lengths: Tensor, length: int, types: int, epsilon: float, size: int) -> Tensor:
    """Return each entity's probability, spread over the spans around it: `[B, C, T, T]`.

    Each of the `4 d` cells at distance `d` from the entity's cell gets `epsilon / (4 d size)`. The share of
    cells that are not spans of the sentence stays with the entity, so that an entity's shares sum to 1.
    Shares of several entities of a type in one cell add up, to at most 1. What is shared is 1, or the
    probability of a soft entity.
    """
    around = torch.arange(-size, size + 1, device=gold.start.device)
    moves = torch.cartesian_prod(around, around)  # [K, 2]
    distance = moves.abs().sum(dim=1)
    near = (distance > 0) & (distance <= size)
    moves, share = moves[near], epsilon / (4 * distance[near] * size)  # [K, 2], [K]
    mass = torch.ones_like(gold.start, dtype=torch.float32) if gold.probability is None else gold.probability

    last = gold.end - 1
    start_near = gold.start[:, None] + moves[:, 0]  # [N, K]
    last_near = last[:, None] + moves[:, 1]
    is_span = (start_near >= 0) & (start_near <= last_near) & (last_near < lengths[gold.sentence][:, None])
    shared = mass[:, None] * share * is_span  # [N, K]

    def cell(start: Tensor, last: Tensor) -> Tensor:
        owner = (gold.sentence * types + gold.type).view(-1, *(1,) * (start.ndim - 1))
        return (owner * length + start) * length + last

    targets = torch.zeros(len(lengths) * types * length * length, device=gold.start.device)
    targets.index_add_(0, cell(gold.start, last), mass - shared.sum(dim=1))
    targets.index_add_(0, cell(start_near, last_near)[is_span], shared[is_span])
    return targets.clamp_(max=1).view(len(lengths), types, length, length)
