"""Learning curves: development loss and F1 by epoch (Zhu and Li, ACL 2022, appendix A)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fencepost.analysis.figures import legend, look, panels, plain
from fencepost.analysis.result import Analysis, Table, percent

Epochs = list[dict[str, Any]]


_COLUMNS = ("epoch", "dev_loss", "dev_precision", "dev_recall", "dev_f1")


def epochs_of(records: Sequence[Any]) -> Epochs:
    """Of the lines of a `metrics.jsonl`, those that tell of an epoch's end."""
    return [one for one in records if isinstance(one, dict) and all(name in one for name in _COLUMNS)]


def curves(runs: dict[str, Epochs], told: dict[str, Any]) -> Analysis:
    """Two panels, a line for each run; the epoch with the best F1, which is kept, has a ring."""
    figure, (losses, scores) = panels(2, width=4.6)
    rows: list[tuple[Any, ...]] = []
    summary: list[tuple[Any, ...]] = []
    for number, (name, epochs) in enumerate(runs.items()):
        places = [record["epoch"] for record in epochs]
        best = max(epochs, key=lambda record: record["dev_f1"])
        lowest = min(epochs, key=lambda record: record["dev_loss"])
        losses.plot(places, [r["dev_loss"] for r in epochs], label=plain(name), **look(number))
        scores.plot(places, [100 * r["dev_f1"] for r in epochs], label=plain(name), **look(number))
        ring = {"s": 90, "facecolors": "none", "edgecolors": look(number)["color"], "linewidths": 1.2}
        scores.scatter([best["epoch"]], [100 * best["dev_f1"]], **ring)
        losses.scatter([lowest["epoch"]], [lowest["dev_loss"]], **ring)
        rows += [(name, *(record[column] for column in _COLUMNS), record.get("dev_ece")) for record in epochs]
        summary.append(
            (name, len(epochs), percent(best["dev_f1"]), best["epoch"], lowest["dev_loss"], lowest["epoch"])
        )
    losses.set(xlabel="epoch", ylabel="loss on the development data", title="Loss (ring: lowest)")
    scores.set(xlabel="epoch", ylabel="F1 on the development data, in %", title="F1 (ring: best, kept)")
    if len(runs) > 1 or next(iter(runs)):
        legend(scores)
    columns = ("run", *_COLUMNS, "dev_ece")
    shown = ("run", "epochs", "best F1", "in epoch", "lowest loss", "in epoch")
    return Analysis("curves", {**told, "runs": runs}, Table(columns, rows), figure, Table(shown, summary))
