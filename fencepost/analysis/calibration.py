"""Reliability diagrams and calibration errors, as in appendix B of Zhu and Li (ACL 2022)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from fencepost.analysis.figures import COLOURS, GREY, add_legend, make_panels, set_heading
from fencepost.analysis.result import Analysis, Table
from fencepost.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fencepost.evaluation import Calibration


def analyze_calibration(models: Mapping[str, Calibration], facts: dict[str, Any]) -> Analysis:
    """Draw a panel for each model: the accuracy of predictions by confidence, and the share of each bin."""
    if not any(one.ece is not None for one in models.values()):
        raise UsageError("no model predicts any entities in this data, so there is no calibration to show")
    figure, axes = make_panels(len(models), height=3.8, share=True)
    for axis, (name, one) in zip(axes, models.items(), strict=True):
        _draw(axis, name, one)
    axes[0].set_ylabel("accuracy (share of correct predictions)")
    add_legend(axes[-1])
    content = {
        name: {"ece": one.ece, "overconfidence": _measure_gap(one), "bins": list(map(asdict, one.bins))}
        for name, one in models.items()
    }
    rows = [(name, *asdict(bin_).values()) for name, one in models.items() for bin_ in one.bins]
    summary = [(name, _count(one), one.ece, content[name]["overconfidence"]) for name, one in models.items()]
    return Analysis(
        "calibration",
        {**facts, "models": content},
        Table(("model", "lower", "upper", "count", "confidence", "accuracy"), rows),
        figure,
        Table(("model", "predictions", "ECE", "confidence - accuracy"), summary),
    )


def _count(one: Calibration) -> int:
    return sum(bin_.count for bin_ in one.bins)


def _measure_gap(one: Calibration) -> float | None:
    """Return the mean confidence minus the accuracy; None without predictions."""
    gaps = (bin_.count * ((bin_.confidence or 0.0) - (bin_.accuracy or 0.0)) for bin_ in one.bins)
    return sum(gaps) / _count(one) if _count(one) else None


def _draw(axis: Axes, name: str, one: Calibration) -> None:
    filled = [bin_ for bin_ in one.bins if bin_.count]
    places = [(bin_.lower + bin_.upper) / 2 for bin_ in filled]
    accuracy = [bin_.accuracy or 0.0 for bin_ in filled]
    confidence = [bin_.confidence or 0.0 for bin_ in filled]
    axis.bar(places, accuracy, 0.92 / len(one.bins), color=COLOURS[0], label="accuracy")
    axis.scatter(places, confidence, color=COLOURS[1], marker="D", s=18, zorder=3, label="mean confidence")
    axis.plot([0, 1], [0, 1], color=GREY, linestyle="--", linewidth=1, label="perfectly calibrated")
    total = _count(one)
    for place, bin_ in zip(places, filled, strict=True):
        share = f"{100 * bin_.count / total:.0f}" if bin_.count >= 0.005 * total else "<1"
        axis.text(place, -0.05, share, ha="center", va="center", fontsize=6.5, color=GREY)
    more = "no predictions" if one.ece is None else f"ECE {one.ece:.3f}, {total:,} predictions"
    set_heading(axis, name, f"\n{more}")
    axis.set(xlim=(0, 1), ylim=(-0.1, 1.02), xlabel="confidence in 10 bins (grey: % of predictions)")
