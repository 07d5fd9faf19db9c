"""Loss landscapes: the loss along a random direction through a model's weights.

Zhu and Li (ACL 2022), appendix C, after Li et al. (NeurIPS 2018): a direction is drawn from a normal
distribution and each weight tensor of it rescaled to the norm of the model's own; the loss is then computed
at 51 points from one such step backwards to one forwards, in evaluation mode.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from fencepost.analysis.figures import COLOURS, LINES, MARKERS, heading, legend, panels, plain
from fencepost.analysis.result import Analysis, Table
from fencepost.data.context import with_context
from fencepost.errors import UsageError
from fencepost.runtime.engine import batches

if TYPE_CHECKING:
    from fencepost.data.entity import Sentence
    from fencepost.encoder.embedder import Batch
    from fencepost.methods.model import Model

POINTS = 51
Losses = dict[str, list[float]]
"""By the name of a data set, the loss at each point."""


def points(count: int = POINTS) -> list[float]:
    """Evenly from -1 to 1; the middle one is 0 itself, where the model stands."""
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
    """The loss on each data set at each place; the model is left as it was, to the last bit.

    Where a method's loss has chance in it (noise, or a choice of examples), it is the same at each place.
    """
    prepared = {name: _batches(model, sentences) for name, sentences in data.items()}
    found: Losses = {name: [] for name in data}
    with _restored(model) as weights, torch.random.fork_rng():
        direction = _direction(model, seed)
        for place in places:
            for weight, start, step in zip(model.parameters(), weights, direction, strict=True):
                weight.copy_(torch.add(start, step, alpha=place))
            for name, of_data in prepared.items():
                torch.manual_seed(seed)
                found[name].append(_loss(model, of_data))
            advance()
    return found


def landscape(models: dict[str, Losses], places: Sequence[float], told: dict[str, Any]) -> Analysis:
    """A panel for each model, all of the same height; a line for each data set."""
    figure, axes = panels(len(models), share=True)
    for axis, (name, losses) in zip(axes, models.items(), strict=True):
        for number, (data, values) in enumerate(losses.items()):
            axis.plot(
                places,
                values,
                label=plain(data),
                color=COLOURS[number % len(COLOURS)],
                linestyle=LINES[number % len(LINES)],
                marker=MARKERS[number % len(MARKERS)],
                markevery=5,
                markersize=3.5,
            )
        heading(axis, name)
        axis.set(xlabel="α: steps along the direction", yscale="log", xticks=(-1, -0.5, 0, 0.5, 1))
    axes[0].set_ylabel("loss (mean of sentences, logarithmic)")
    legend(axes[-1])
    rows = [
        (name, data, place, value)
        for name, losses in models.items()
        for data, values in losses.items()
        for place, value in zip(places, values, strict=True)
    ]
    summary = [
        (name, data, values[len(values) // 2], *(_rise(places, values, near) for near in (0.2, 0.5, 1.0)))
        for name, losses in models.items()
        for data, values in losses.items()
    ]
    shown = ("model", "data", "loss", "mean rise to ±0.2", "to ±0.5", "to ±1")
    return Analysis(
        "landscape",
        {**told, "points": list(places), "models": models},
        Table(("model", "data", "alpha", "loss"), rows),
        figure,
        Table(shown, summary),
    )


def _rise(places: Sequence[float], losses: Sequence[float], near: float) -> float | None:
    """How much higher the loss is on average within so many steps of the model: 0 would be flat."""
    middle = losses[len(losses) // 2]
    within = [loss for place, loss in zip(places, losses, strict=True) if abs(place) <= near + 1e-9]
    return float(np.mean(within)) - middle if len(within) > 1 else None


@contextmanager
def _restored(model: Model) -> Iterator[list[Tensor]]:
    """The weights as they are, which the model has again at the end, whatever happens."""
    weights = [weight.detach().clone() for weight in model.parameters()]
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            yield weights
    finally:
        with torch.no_grad():
            for weight, start in zip(model.parameters(), weights, strict=True):
                weight.copy_(start)
        for module, training in modes:
            module.training = training


def _direction(model: Model, seed: int) -> list[Tensor]:
    """A step for each weight; what stands for padding is never trained, so it has none."""
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
    """The data set as tensors, made once for all places, each with its number of sentences."""
    kept = [s for s in with_context(sentences, model.settings.encoder.context) if s.words]
    if not kept:
        raise UsageError("a data set has no sentences to compute a loss on")
    sizes = [model.encoder.size(sentence) for sentence in kept]
    of_batches = batches(sizes, [len(s) for s in kept], model.settings.predict.batch_size)
    return [
        (
            {name: t.to(model.device) for name, t in model.collate([kept[i] for i in batch]).items()},
            len(batch),
        )
        for batch in of_batches
    ]


def _loss(model: Model, of_data: Sequence[tuple[Batch, int]]) -> float:
    total = sum(float(model(batch)["loss"]) * count for batch, count in of_data)
    return total / sum(count for _, count in of_data)
