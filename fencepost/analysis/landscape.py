"""Loss landscapes: the loss along a random direction through a model's weights.

Zhu and Li (ACL 2022), appendix C, after Li et al. (NeurIPS 2018): a direction is drawn from a normal
distribution and each weight tensor of it rescaled to the norm of the model's own; the loss is then computed
at 51 points from one such step backwards to one forwards, in evaluation mode.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from fencepost.analysis.figures import LINES, heading, legend, look, panels, plain
from fencepost.analysis.result import Analysis, Table
from fencepost.data.context import with_context
from fencepost.errors import UsageError
from fencepost.runtime.pytorch import make_predictor

if TYPE_CHECKING:
    from fencepost.data.entity import Sentence
    from fencepost.encoder.embedder import Batch
    from fencepost.methods.model import Model

POINTS = 51
Losses = dict[str, list[float]]
"""The loss at each point, by the name of the data set."""


def points(count: int = POINTS) -> list[float]:
    """Return `count` evenly spaced points from -1 to 1; the middle one is 0, the model itself."""
    if count < 3 or count % 2 == 0:
        raise UsageError(f"the number of points must be odd and at least 3, not {count}")
    return [round(2 * index / (count - 1) - 1, 12) for index in range(count)]


def losses_along(
    model: Model,
    data: Mapping[str, Sequence[Sentence]],
    places: Sequence[float],
    seed: int = 1,
    advance: Callable[[], None] = lambda: None,
) -> Losses:
    """Return the loss on each data set at each place; the model itself is not changed.

    A random loss (noise, or a choice of examples) has the same random numbers at each place.
    """
    moved = deepcopy(model).eval()
    prepared = {name: _batches(model, sentences) for name, sentences in data.items()}
    losses: Losses = {name: [] for name in data}
    with torch.no_grad(), torch.random.fork_rng():
        direction = _direction(model, seed)
        for place in places:
            for weight, start, step in zip(moved.parameters(), model.parameters(), direction, strict=True):
                weight.copy_(torch.add(start, step, alpha=place))
            for name, of_data in prepared.items():
                torch.manual_seed(seed)
                losses[name].append(_loss(moved, of_data))
            advance()
    return losses


def landscape(models: Mapping[str, Losses], places: Sequence[float], facts: dict[str, Any]) -> Analysis:
    """Draw a panel for each model, with a line for each data set; all panels share the y axis."""
    figure, axes = panels(len(models), share=True)
    rows, summary = [], []
    for axis, (name, losses) in zip(axes, models.items(), strict=True):
        for number, (data, values) in enumerate(losses.items()):
            style = look(number) | {"linestyle": LINES[number % len(LINES)], "markersize": 3.5}
            axis.plot(places, values, label=plain(data), markevery=5, **style)
            rows += [(name, data, place, value) for place, value in zip(places, values, strict=True)]
            rises = (_rise(places, values, near) for near in (0.2, 0.5, 1.0))
            summary.append((name, data, values[len(values) // 2], *rises))
        heading(axis, name)
        axis.set(xlabel="α: steps along the direction", yscale="log", xticks=(-1, -0.5, 0, 0.5, 1))
    axes[0].set_ylabel("loss (mean of sentences, logarithmic)")
    legend(axes[-1])
    return Analysis(
        "landscape",
        {**facts, "points": list(places), "models": models},
        Table(("model", "data", "alpha", "loss"), rows),
        figure,
        Table(("model", "data", "loss", "mean rise to ±0.2", "to ±0.5", "to ±1"), summary),
    )


def _rise(places: Sequence[float], losses: Sequence[float], near: float) -> float | None:
    """Return the mean loss within a distance of the model minus the model's own; 0 would be flat."""
    within = [loss for place, loss in zip(places, losses, strict=True) if abs(place) <= near + 1e-9]
    return float(np.mean(within)) - losses[len(losses) // 2] if len(within) > 1 else None


def _direction(model: Model, seed: int) -> list[Tensor]:
    """Return a random step for each weight tensor, with its norm; embeddings of padding have none."""
    padding = {
        module.weight: module.padding_idx
        for module in model.modules()
        if isinstance(module, nn.Embedding) and module.padding_idx is not None
    }
    generator = torch.Generator().manual_seed(seed)
    steps = []
    for weight in model.parameters():
        step = torch.randn(weight.shape, generator=generator).to(weight)
        if weight in padding:
            step[padding[weight]] = 0
        steps.append(step * (weight.norm() / step.norm().clamp(min=1e-12)))
    return steps


def _batches(model: Model, sentences: Sequence[Sentence]) -> list[tuple[Batch, int]]:
    """Return the data set as tensors, each with its number of sentences."""
    kept = model.split([s for s in with_context(sentences, model.config.encoder.context) if s.words])
    if not kept:
        raise UsageError("a data set has no sentences to compute a loss on")
    batches = []
    for indices in make_predictor(model).make_batches(kept):
        tensors = model.collate([kept[i] for i in indices])
        batches.append(({name: tensor.to(model.device) for name, tensor in tensors.items()}, len(indices)))
    return batches


def _loss(model: Model, of_data: Sequence[tuple[Batch, int]]) -> float:
    total = sum(float(model(batch)["loss"]) * count for batch, count in of_data)
    return total / sum(count for _, count in of_data)
