"""What a step changes and by how much: groups of weights with their learning rates, and their schedule."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch
from torch.optim.lr_scheduler import LambdaLR

from fencepost.config import TrainingSettings
from fencepost.methods.model import Model


def parameter_groups(model: Model, settings: TrainingSettings) -> list[dict[str, Any]]:
    """Return four groups of weights: pretrained or not, with weight decay or without.

    Biases and norms are vectors and do not decay; other weights are matrices. A group may be empty, so that
    its position identifies it.
    """
    pretrained = {id(parameter) for parameter in model.encoder.pretrained()}
    encoder_rate = settings.encoder_rate(model.encoder.embedder.width)
    groups: list[dict[str, Any]] = [
        {"name": name, "lr": rate, "weight_decay": decay, "params": []}
        for name, rate in (("encoder", encoder_rate), ("head", settings.learning_rate))
        for decay in (settings.weight_decay, 0.0)
    ]
    for parameter in model.parameters():
        if parameter.requires_grad:
            group = 2 * (id(parameter) not in pretrained) + (parameter.ndim < 2)
            groups[group]["params"].append(parameter)
    return groups


def learning_rates(optimizer: torch.optim.Optimizer) -> dict[str, float]:
    """Return the present rate of the pretrained weights and that of the others, by name."""
    return {f"{group['name']}_rate": group["lr"] for group in optimizer.param_groups[::2]}


def make_schedule(
    optimizer: torch.optim.Optimizer, settings: TrainingSettings, epochs: int, steps_in_epoch: int
) -> LambdaLR:
    """Return the schedule of the groups' learning rates over a training of this number of epochs.

    While the pretrained weights are frozen, the others learn at a rate that is `frozen_rate` times as high.
    """
    pretrained = any(group["params"] for group in optimizer.param_groups[:2])
    steps, thaw = epochs * steps_in_epoch, settings.frozen_epochs * steps_in_epoch if pretrained else 0
    frozen = {"encoder": 0.0, "head": settings.frozen_rate}

    def factor(name: str, step: int) -> float:
        return _decay(settings, steps, step) * (frozen[name] if step < thaw else 1.0)

    return LambdaLR(optimizer, [partial(factor, group["name"]) for group in optimizer.param_groups])


def _decay(settings: TrainingSettings, steps: int, step: int) -> float:
    """Return the share of its learning rate that a group has after this number of steps."""
    warmup = math.ceil(steps * settings.warmup)
    if step < warmup:
        return step / warmup
    if settings.schedule == "linear":
        return max(0.0, (steps - step) / max(1, steps - warmup))
    if settings.schedule == "cosine":
        return max(0.0, 0.5 * (1.0 + math.cos(math.pi * ((step - warmup) / max(1, steps - warmup)))))
    return 1.0
