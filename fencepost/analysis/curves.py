"""Learning curves: losses and development F1 by epoch, as in Figure 4 of Zhu and Li (ACL 2022)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from fencepost.analysis.epochs import Epoch, get_points
from fencepost.analysis.figures import GREY, add_legend, get_style, make_panels, to_label, use_int_ticks
from fencepost.analysis.result import Analysis, Table, to_percent

_COLUMNS = ("epoch", "train_loss", "dev_loss", "dev_precision", "dev_recall", "dev_f1", "dev_ece")


def analyze_curves(runs: Mapping[str, Sequence[Epoch]], facts: dict[str, Any]) -> Analysis:
    """Draw the losses and the development F1 by epoch, with a line for each run.

    Training losses are dotted. Rings mark the lowest development loss and the best F1.
    """
    from matplotlib.lines import Line2D

    figure, (losses, scores) = make_panels(2, width=4.6)
    summary = []
    for number, (name, epochs) in enumerate(runs.items()):
        style = get_style(number)
        circle = {"s": 90, "facecolors": "none", "edgecolors": style["color"], "linewidths": 1.2}
        train, dev, f1 = (get_points(epochs, key) for key in ("loss", "dev_loss", "dev_f1"))
        if train:
            dotted = {**style, "linestyle": ":", "marker": None}
            losses.plot(*_unzip(train), label=to_label(f"{name}, training"), **dotted)
        losses.plot(*_unzip(dev), label=to_label(name), **style)
        scores.plot(*_unzip(f1, 100), label=to_label(name), **style)
        best_values: tuple[Any, ...] = (None,) * 4
        if dev and f1:
            lowest = min(dev, key=lambda point: point[1])
            best = max(f1, key=lambda point: point[1])
            losses.scatter(*_unzip([lowest]), **circle)
            scores.scatter(*_unzip([best], 100), **circle)
            best_values = to_percent(best[1]), int(best[0]), lowest[1], int(lowest[0])
        summary.append((name, len(epochs), *best_values))
    losses.set(xlabel="epoch", ylabel="loss", title="Loss")
    scores.set(xlabel="epoch", ylabel="F1 (%)", title="F1 on the development data")
    of_epochs = (
        getattr(epoch, key) for run in runs.values() for epoch in run for key in ("loss", "dev_loss")
    )
    values = [value for value in of_epochs if value is not None]
    if values and 0 < 10 * min(values) < max(values):  # the first epoch may be far above all others
        losses.set(yscale="log", ylabel="loss (logarithmic)")
    for panel in (losses, scores):
        panel.title.set_fontsize(9)
        use_int_ticks(panel.xaxis)
    ring = {"marker": "o", "markersize": 9, "markerfacecolor": "none", "linestyle": "none"}
    looks: dict[str, dict[str, Any]] = {
        "development data": {},
        "training data": {"linestyle": ":"},
        "lowest loss, best F1": ring,
    }
    add_legend(scores, *(Line2D([], [], color=GREY, label=label, **look) for label, look in looks.items()))
    content = {
        name: [dict(zip(_COLUMNS, asdict(epoch).values(), strict=True)) for epoch in epochs]
        for name, epochs in runs.items()
    }
    table = Table(
        ("run", *_COLUMNS), [(name, *row.values()) for name, rows in content.items() for row in rows]
    )
    columns = ("run", "epochs", "best F1", "in epoch", "lowest loss", "in epoch")
    return Analysis("curves", {**facts, "runs": content}, table, figure, Table(columns, summary))


def _unzip(points: Sequence[tuple[float, float]], factor: float = 1) -> tuple[list[float], list[float]]:
    """Return the x values of points, and their y values times a factor."""
    return [x for x, _ in points], [factor * y for _, y in points]
