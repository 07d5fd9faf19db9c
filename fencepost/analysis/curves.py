"""Learning curves: losses and development F1 by epoch, as in Figure 4 of Zhu and Li (ACL 2022)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from fencepost.analysis.epochs import Epoch
from fencepost.analysis.figures import legend, look, panels, plain, whole_numbers
from fencepost.analysis.result import Analysis, Table, percent


def curves(runs: Mapping[str, Sequence[Epoch]], told: dict[str, Any]) -> Analysis:
    """Two panels, a line for each run; dotted are the losses in training.

    Rings mark the lowest development loss, and the best F1, whose epoch is kept.
    """
    figure, (losses, scores) = panels(2, width=4.6)
    for number, (name, epochs) in enumerate(runs.items()):
        style = look(number)
        dotted = {**style, "linestyle": ":", "marker": None}
        if any(epoch.loss is not None for epoch in epochs):
            losses.plot(*_points(epochs, "loss"), label=plain(f"{name}, training"), **dotted)
        losses.plot(*_points(epochs, "dev_loss"), label=plain(name), **style)
        scores.plot(*_points(epochs, "dev_f1", 100), label=plain(name), **style)
        ring = {"s": 90, "facecolors": "none", "edgecolors": style["color"], "linewidths": 1.2}
        lowest, best = _extreme(epochs, "dev_loss", -1), _extreme(epochs, "dev_f1", 1)
        if lowest is not None and best is not None:
            losses.scatter([lowest.number], [lowest.dev_loss or 0.0], **ring)
            scores.scatter([best.number], [100 * (best.dev_f1 or 0.0)], **ring)
    losses.set(xlabel="epoch", ylabel="loss", title="Loss on the development data (dotted: in training)")
    scores.set(xlabel="epoch", ylabel="F1 on the development data, in %", title="F1 (ring: best, kept)")
    drawn = [
        value
        for epochs in runs.values()
        for name in ("loss", "dev_loss")
        for value in _points(epochs, name)[1]
    ]
    if drawn and 0 < 10 * min(drawn) < max(drawn):  # a first epoch may tower above all others
        losses.set(yscale="log", ylabel="loss, logarithmic")
    for panel in (losses, scores):
        panel.title.set_fontsize(9)
        whole_numbers(panel)
    legend(scores)
    columns = ("epoch", "train_loss", "dev_loss", "dev_precision", "dev_recall", "dev_f1", "dev_ece")
    rows = [(name, *asdict(epoch).values()) for name, epochs in runs.items() for epoch in epochs]
    of_runs = {
        name: [dict(zip(columns, asdict(epoch).values(), strict=True)) for epoch in epochs]
        for name, epochs in runs.items()
    }
    shown = ("run", "epochs", "best F1", "in epoch", "lowest loss", "in epoch")
    summary = [(name, *_summary(epochs)) for name, epochs in runs.items()]
    table = Table(("run", *columns), rows)
    return Analysis("curves", {**told, "runs": of_runs}, table, figure, Table(shown, summary))


def _points(epochs: Sequence[Epoch], name: str, factor: float = 1) -> tuple[list[float], list[float]]:
    """Where and how high, of the epochs that have it."""
    found = [(epoch.number, value) for epoch in epochs if (value := getattr(epoch, name)) is not None]
    return [number for number, _ in found], [factor * value for _, value in found]


def _extreme(epochs: Sequence[Epoch], name: str, sign: int) -> Epoch | None:
    """The first epoch that has the largest, or with -1 the smallest."""
    measured = [epoch for epoch in epochs if getattr(epoch, name) is not None]
    return max(measured, key=lambda epoch: sign * getattr(epoch, name), default=None)


def _summary(epochs: Sequence[Epoch]) -> tuple[Any, ...]:
    best, lowest = _extreme(epochs, "dev_f1", 1), _extreme(epochs, "dev_loss", -1)
    if best is None or lowest is None:
        return len(epochs), None, None, None, None
    return len(epochs), percent(best.dev_f1), int(best.number), lowest.dev_loss, int(lowest.number)
