"""Groups of weights with their learning rates, and the schedule of the rates."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

from fencepost.config import TrainingSettings
from fencepost.methods.model import Model


def make_parameter_groups(model: Model, settings: TrainingSettings) -> list[dict[str, Any]]:
    """Return the groups of a model's weights; see `group_weights`."""
    rate = settings.compute_encoder_rate(model.encoder.embedder.width)
    return group_weights(model, model.encoder.pretrained_weights(), rate, settings)


def group_weights(
    network: nn.Module, pretrained: Iterable[nn.Parameter], encoder_rate: float, settings: TrainingSettings
) -> list[dict[str, Any]]:
    """Return four groups of weights: pretrained or not, with weight decay or without.

    Biases and norms, which are vectors, have no weight decay; other weights are matrices. Groups may be
    empty, so that a group's index identifies it.
    """
    is_pretrained = {id(parameter) for parameter in pretrained}
    groups: list[dict[str, Any]] = [
        {"name": name, "lr": rate, "weight_decay": decay, "params": []}
        for name, rate in (("encoder", encoder_rate), ("head", settings.learning_rate))
        for decay in (settings.weight_decay, 0.0)
    ]
    for parameter in network.parameters():
        if parameter.requires_grad:
            group = 2 * (id(parameter) not in is_pretrained) + (parameter.ndim < 2)
            groups[group]["params"].append(parameter)
    return groups


def get_learning_rates(optimizer: torch.optim.Optimizer) -> dict[str, float]:
    """Return the current learning rates of the pretrained and of the other weights, by name."""
    return {f"{group['name']}_rate": group["lr"] for group in optimizer.param_groups[::2]}


def make_schedule(
    optimizer: torch.optim.Optimizer, settings: TrainingSettings, epochs: int, steps_in_epoch: int
) -> LambdaLR:
    """Return the schedule of the groups' learning rates in a training run of this number of epochs.

    While the pretrained weights are frozen, the rate of the others is multiplied by `frozen_rate`.
    """
    pretrained = any(group["params"] for group in optimizer.param_groups[:2])
    steps, thaw = epochs * steps_in_epoch, settings.frozen_epochs * steps_in_epoch if pretrained else 0
    frozen = {"encoder": 0.0, "head": settings.frozen_rate}

    def factor(name: str, step: int) -> float:
        return _compute_factor(settings, steps, step) * (frozen[name] if step < thaw else 1.0)

    return LambdaLR(optimizer, [partial(factor, group["name"]) for group in optimizer.param_groups])


def _compute_factor(settings: TrainingSettings, steps: int, step: int) -> float:
    """Return the factor of the learning rates after `step` of `steps` steps."""
    warmup = math.ceil(steps * settings.warmup)
    if step < warmup:
        return step / warmup
    if settings.schedule == "linear":
        return max(0.0, (steps - step) / max(1, steps - warmup))
    if settings.schedule == "cosine":
        return max(0.0, 0.5 * (1.0 + math.cos(math.pi * ((step - warmup) / max(1, steps - warmup)))))
    return 1.0
