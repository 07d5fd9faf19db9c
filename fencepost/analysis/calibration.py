"""Reliability diagrams, as in appendix B of Zhu and Li (ACL 2022), and calibration errors."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from fencepost.analysis.figures import COLOURS, GREY, heading, legend, panels
from fencepost.analysis.result import Analysis, Table
from fencepost.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fencepost.evaluation import Calibration


def calibration(models: dict[str, Calibration], told: dict[str, Any]) -> Analysis:
    """One panel a model: the accuracy of predictions by their confidence, and how many there are."""
    if not any(one.ece is not None for one in models.values()):
        raise UsageError("no model predicts anything here, so there is no calibration to show")
    figure, axes = panels(len(models), height=3.8, share=True)
    for axis, (name, one) in zip(axes, models.items(), strict=True):
        _draw(axis, name, one)
    axes[0].set_ylabel("accuracy (share of predictions that are right)")
    legend(axes[-1])
    rows = [
        (name, one.lower, one.upper, one.count, one.confidence, one.accuracy)
        for name, of_model in models.items()
        for one in of_model.bins
    ]
    summary = [
        (name, sum(one.count for one in of_model.bins), of_model.ece, _gap(of_model))
        for name, of_model in models.items()
    ]
    return Analysis(
        name="calibration",
        told={
            **told,
            "models": {
                name: {"ece": one.ece, "overconfidence": _gap(one), "bins": [asdict(b) for b in one.bins]}
                for name, one in models.items()
            },
        },
        table=Table(("model", "lower", "upper", "count", "confidence", "accuracy"), rows),
        figure=figure,
        summary=Table(("model", "predictions", "ECE", "confidence - accuracy"), summary),
    )


def _gap(one: Calibration) -> float | None:
    """The mean confidence minus the accuracy: above 0 the model is too sure, below 0 not sure enough."""
    count = sum(bin_.count for bin_ in one.bins)
    if not count:
        return None
    filled = [bin_ for bin_ in one.bins if bin_.confidence is not None and bin_.accuracy is not None]
    return sum(bin_.count * ((bin_.confidence or 0.0) - (bin_.accuracy or 0.0)) for bin_ in filled) / count


def _draw(axis: Axes, name: str, one: Calibration) -> None:
    filled = [bin_ for bin_ in one.bins if bin_.accuracy is not None]
    width = 1 / len(one.bins)
    places = [(bin_.lower + bin_.upper) / 2 for bin_ in filled]
    accuracy = [bin_.accuracy or 0.0 for bin_ in filled]
    confidence = [bin_.confidence or 0.0 for bin_ in filled]
    axis.bar(places, accuracy, width * 0.92, color=COLOURS[0], label="accuracy")
    axis.scatter(places, confidence, color=COLOURS[1], marker="D", s=18, zorder=3, label="mean confidence")
    axis.plot([0, 1], [0, 1], color=GREY, linestyle="--", linewidth=1, label="perfectly calibrated")
    total = sum(bin_.count for bin_ in one.bins)
    for place, bin_ in zip(places, filled, strict=True):
        share = f"{100 * bin_.count / total:.0f}" if bin_.count >= 0.005 * total else "<1"
        axis.text(place, -0.05, share, ha="center", va="center", fontsize=6.5, color=GREY)
    told = "no predictions" if one.ece is None else f"ECE {one.ece:.3f}, {total:,} predictions"
    heading(axis, name, f"\n{told}")
    axis.set(xlim=(0, 1), ylim=(-0.1, 1.02))
    axis.set_xlabel("confidence, in 10 bins (grey: % of predictions)")
