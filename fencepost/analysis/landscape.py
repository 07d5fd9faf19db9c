"""Loss landscapes: the loss along a random direction through the weights of a model.

Zhu and Li (ACL 2022), appendix C, after Li et al. (NeurIPS 2018): a direction is drawn from a normal
distribution, and each of its tensors is rescaled to the norm of the corresponding weight tensor. The loss is
then computed at 51 points, from one such step backwards to one step forwards, in evaluation mode.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from fencepost.analysis.figures import LINES, add_legend, get_style, make_panels, set_heading, to_label
from fencepost.analysis.result import Analysis, Table
from fencepost.data.context import add_context
from fencepost.errors import UsageError
from fencepost.runtime.pytorch import make_predictor

if TYPE_CHECKING:
    from fencepost.data.entity import Sentence
    from fencepost.encoder.embedder import Batch
    from fencepost.methods.model import Model

POINTS = 51
Losses = dict[str, list[float]]
"""The loss at each point, by the name of the corpus."""


def make_points(count: int = POINTS) -> list[float]:
    """Return `count` evenly spaced points from -1 to 1; the middle one, 0, is the model itself."""
    if count < 3 or count % 2 == 0:
        raise UsageError(f"the number of points must be odd and at least 3, not {count}")
    return [round(2 * index / (count - 1) - 1, 12) for index in range(count)]


def compute_losses(
    model: Model,
    data: Mapping[str, Sequence[Sentence]],
    points: Sequence[float],
    seed: int = 1,
    advance: Callable[[], None] = lambda: None,
) -> Losses:
    """Return the loss on each corpus at each point, without changing the model.

    A loss with a random component (noise, or sampling) uses the same random numbers at each point.
    """
    moved = deepcopy(model).eval()
    batches = {name: _make_batches(model, sentences) for name, sentences in data.items()}
    losses: Losses = {name: [] for name in data}
    with torch.no_grad(), torch.random.fork_rng():
        direction = _draw_direction(model, seed)
        for point in points:
            for weight, start, step in zip(moved.parameters(), model.parameters(), direction, strict=True):
                weight.copy_(torch.add(start, step, alpha=point))
            for name, of_corpus in batches.items():
                torch.manual_seed(seed)
                losses[name].append(_compute_loss(moved, of_corpus))
            advance()
    return losses


def analyze_landscape(
    models: Mapping[str, Losses], points: Sequence[float], facts: dict[str, Any]
) -> Analysis:
    """Draw a panel for each model, with a line for each corpus; all panels share the y axis."""
    figure, axes = make_panels(len(models), share=True)
    rows, summary = [], []
    for axis, (name, losses) in zip(axes, models.items(), strict=True):
        for number, (data, values) in enumerate(losses.items()):
            style = get_style(number) | {"linestyle": LINES[number % len(LINES)], "markersize": 3.5}
            axis.plot(points, values, label=to_label(data), markevery=5, **style)
            rows += [(name, data, point, value) for point, value in zip(points, values, strict=True)]
            rises = (_compute_rise(points, values, radius) for radius in (0.2, 0.5, 1.0))
            summary.append((name, data, values[len(values) // 2], *rises))
        set_heading(axis, name)
        axis.set(xlabel="α (steps along the direction)", yscale="log", xticks=(-1, -0.5, 0, 0.5, 1))
    axes[0].set_ylabel("mean loss of a sentence (logarithmic)")
    add_legend(axes[-1])
    return Analysis(
        "landscape",
        {**facts, "points": list(points), "models": models},
        Table(("model", "data", "alpha", "loss"), rows),
        figure,
        Table(("model", "data", "loss", "mean rise to ±0.2", "to ±0.5", "to ±1"), summary),
    )


def _compute_rise(points: Sequence[float], losses: Sequence[float], radius: float) -> float | None:
    """Return the mean loss within a radius around the model minus the loss of the model itself."""
    within = [loss for point, loss in zip(points, losses, strict=True) if abs(point) <= radius + 1e-9]
    return float(np.mean(within)) - losses[len(losses) // 2] if len(within) > 1 else None


def _draw_direction(model: Model, seed: int) -> list[Tensor]:
    """Return a random step for each weight tensor, with the same norm; it is 0 for padding embeddings."""
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


def _make_batches(model: Model, sentences: Sequence[Sentence]) -> list[tuple[Batch, int]]:
    """Return the batches of a corpus as tensors, each with its number of sentences."""
    windows = model.split([s for s in add_context(sentences, model.config.encoder.context) if s.words])
    if not windows:
        raise UsageError("a corpus has no sentences to compute a loss on")
    batches = []
    for indices in make_predictor(model).make_batches(windows):
        tensors = model.collate([windows[i] for i in indices])
        batches.append(({name: tensor.to(model.device) for name, tensor in tensors.items()}, len(indices)))
    return batches


def _compute_loss(model: Model, batches: Sequence[tuple[Batch, int]]) -> float:
    total = sum(float(model(batch)["loss"]) * count for batch, count in batches)
    return total / sum(count for _, count in batches)
