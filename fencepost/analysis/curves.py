"""Learning curves: losses and development F1 by epoch, as in Figure 4 of Zhu and Li (ACL 2022)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from fencepost.analysis.epochs import Epoch, points_of
from fencepost.analysis.figures import legend, look, panels, plain, whole_numbers
from fencepost.analysis.result import Analysis, Table, percent

_COLUMNS = ("epoch", "train_loss", "dev_loss", "dev_precision", "dev_recall", "dev_f1", "dev_ece")


def curves(runs: Mapping[str, Sequence[Epoch]], facts: dict[str, Any]) -> Analysis:
    """Draw two panels, with a line for each run; training losses are dotted.

    Rings mark the lowest development loss, and the best F1, whose epoch is kept.
    """
    figure, (losses, scores) = panels(2, width=4.6)
    summary = []
    for number, (name, epochs) in enumerate(runs.items()):
        style = look(number)
        ring = {"s": 90, "facecolors": "none", "edgecolors": style["color"], "linewidths": 1.2}
        train, dev, f1 = (points_of(epochs, key) for key in ("loss", "dev_loss", "dev_f1"))
        if train:
            dotted = {**style, "linestyle": ":", "marker": None}
            losses.plot(*_columns(train), label=plain(f"{name}, training"), **dotted)
        losses.plot(*_columns(dev), label=plain(name), **style)
        scores.plot(*_columns(f1, 100), label=plain(name), **style)
        measured: tuple[Any, ...] = (None,) * 4
        if dev and f1:
            lowest = min(dev, key=lambda point: point[1])
            best = max(f1, key=lambda point: point[1])
            losses.scatter(*_columns([lowest]), **ring)
            scores.scatter(*_columns([best], 100), **ring)
            measured = percent(best[1]), int(best[0]), lowest[1], int(lowest[0])
        summary.append((name, len(epochs), *measured))
    losses.set(xlabel="epoch", ylabel="loss", title="Loss on the development data (dotted: in training)")
    scores.set(xlabel="epoch", ylabel="F1 on the development data, in %", title="F1 (ring: best, kept)")
    values = [
        value
        for epochs in runs.values()
        for key in ("loss", "dev_loss")
        for _, value in points_of(epochs, key)
    ]
    if values and 0 < 10 * min(values) < max(values):  # the first epoch may be far above all others
        losses.set(yscale="log", ylabel="loss, logarithmic")
    for panel in (losses, scores):
        panel.title.set_fontsize(9)
        whole_numbers(panel)
    legend(scores)
    content = {
        name: [dict(zip(_COLUMNS, asdict(epoch).values(), strict=True)) for epoch in epochs]
        for name, epochs in runs.items()
    }
    table = Table(
        ("run", *_COLUMNS), [(name, *row.values()) for name, rows in content.items() for row in rows]
    )
    columns = ("run", "epochs", "best F1", "in epoch", "lowest loss", "in epoch")
    return Analysis("curves", {**facts, "runs": content}, table, figure, Table(columns, summary))


def _columns(points: Sequence[tuple[float, float]], factor: float = 1) -> tuple[list[float], list[float]]:
    """Return the x and the y values of points, the latter times a factor."""
    return [x for x, _ in points], [factor * y for _, y in points]
