"""Figures of a tuning: the scores of its trials, and the importance of the settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fencepost.analysis.figures import COLOURS, GREY, add_legend, make_panels, use_int_ticks, wrap_label
from fencepost.analysis.result import Analysis, Table, to_percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Row = Mapping[str, Any]
"""A trial as in `tuning.json`."""

BEST, COMPLETE, PRUNED, FAILED = COLOURS[1], COLOURS[0], GREY, "#000000"


def analyze_history(trials: Sequence[Row], source: dict[str, Any]) -> Analysis:
    """Draw the development F1 of each trial and the best so far, and the development F1 by epoch."""
    figure, (scores, epochs) = make_panels(2, width=4.8)
    ended = [trial for trial in trials if trial["state"] != "running"]
    _draw_trials(scores, ended)
    _draw_epochs(epochs, ended)
    scores.set(xlabel="trial", title="Best epoch of each trial")
    epochs.set(xlabel="epoch", title="F1 by epoch of each trial")
    for panel in (scores, epochs):
        panel.set_ylabel("F1 on the development data (%)")
        panel.title.set_fontsize(9)
        use_int_ticks(panel.xaxis)
        add_legend(panel)
    columns = ("trial", "state", "dev_f1", "best_so_far")
    rows = [
        (trial["trial"], trial["state"], trial["dev_f1"], best)
        for trial, best in zip(ended, _compute_running_best(ended), strict=True)
    ]
    return Analysis("tuning-history", {**source, "trials": list(trials)}, Table(columns, rows), figure)


def analyze_importance(shares: Mapping[str, float], source: dict[str, Any]) -> Analysis:
    """Draw a bar for each setting, the most important one at the top."""
    figure, [panel] = make_panels(1, width=5.6, height=1.1 + 0.32 * len(shares))
    places = range(len(shares), 0, -1)
    bars = panel.barh(places, [100 * share for share in shares.values()], 0.7, color=COMPLETE)
    panel.bar_label(bars, labels=[to_percent(share) for share in shares.values()], fontsize=7, padding=2)
    panel.set_yticks(places, [wrap_label(key, 46) for key in shares], fontsize=8)
    panel.set_ylim(0.4, len(shares) + 0.6)
    panel.set(xlabel="importance (% of the total)", ylabel="setting")
    panel.grid(visible=False, axis="y")
    panel.margins(x=0.1)
    panel.set_title("Settings that distinguish the best quarter of the complete trials", fontsize=9)
    columns, rows = ("setting", "importance"), list(shares.items())
    summary = Table(columns, [(key, to_percent(share)) for key, share in rows])
    content = {**source, "importance": dict(shares)}
    return Analysis("tuning-importance", content, Table(columns, rows), figure, summary)


def _draw_trials(panel: Axes, trials: Sequence[Row]) -> None:
    for state, colour, marker in (("complete", COMPLETE, "o"), ("pruned", PRUNED, "x")):
        own = [trial for trial in trials if trial["state"] == state]
        if own:
            x, y = [trial["trial"] for trial in own], [100 * trial["dev_f1"] for trial in own]
            panel.scatter(x, y, s=22, color=colour, marker=marker, label=state, zorder=3)
    failed = [trial["trial"] for trial in trials if trial["state"] == "failed"]
    if failed:  # they have no score, so their markers are on the axis
        panel.plot(
            failed, [0.0] * len(failed), color=FAILED, marker="v", linestyle="none", clip_on=False, zorder=3,
            transform=panel.get_xaxis_transform(), label="failed (on the axis)",
        )  # fmt: skip
    steps = [
        (trial["trial"], 100 * best)
        for trial, best in zip(trials, _compute_running_best(trials), strict=True)
        if best is not None
    ]
    if steps:
        panel.step(*zip(*steps, strict=True), where="post", color=BEST, linewidth=1.5, label="best so far")


def _draw_epochs(panel: Axes, trials: Sequence[Row]) -> None:
    best = _find_best(trials)
    labels: set[str] = set()
    for trial in (trial for trial in trials if trial["dev_f1_by_epoch"]):
        label = "complete" if trial["state"] == "complete" else "pruned or failed"
        style: dict[str, Any] = {"color": COMPLETE, "alpha": 0.45, "linewidth": 1.0, "marker": "o"}
        if trial["state"] != "complete":
            style |= {"color": PRUNED, "alpha": 0.7, "linestyle": "--"}
        if trial is best:
            label = f"best: trial {trial['trial']}"
            style |= {"color": BEST, "alpha": 1.0, "linewidth": 2.0, "zorder": 3}
        style["label"] = None if label in labels else label  # one entry in the legend for each kind of line
        by_epoch = [100 * f1 for f1 in trial["dev_f1_by_epoch"]]
        panel.plot(range(1, len(by_epoch) + 1), by_epoch, markersize=2.5, **style)
        labels.add(label)


def _find_best(trials: Sequence[Row]) -> Row | None:
    complete = [trial for trial in trials if trial["state"] == "complete"]
    return max(complete, key=lambda trial: trial["dev_f1"], default=None)


def _compute_running_best(trials: Sequence[Row]) -> list[float | None]:
    """Return the highest F1 of the complete trials up to each trial."""
    best_trials = (_find_best(trials[:number]) for number in range(1, len(trials) + 1))
    return [None if best is None else best["dev_f1"] for best in best_trials]
