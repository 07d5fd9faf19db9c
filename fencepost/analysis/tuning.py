"""Figures of a tuning: the course of the search, and which settings mattered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fencepost.analysis.figures import COLOURS, GREY, folded, heading, legend, panels, whole_numbers
from fencepost.analysis.result import Analysis, Table, percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Row = Mapping[str, Any]
"""A trial as `tuning.json` has it."""

BEST, COMPLETE, PRUNED, FAILED = COLOURS[1], COLOURS[0], GREY, "#000000"


def history(trials: Sequence[Row], source: dict[str, Any]) -> Analysis:
    """Draw the development F1 of each trial and of the best so far, and the development F1 by epoch."""
    figure, (scores, epochs) = panels(2, width=4.8)
    ended = [trial for trial in trials if trial["state"] != "running"]
    best = _best(ended)
    _draw_trials(scores, ended)
    for trial in ended:
        by_epoch = [100 * f1 for f1 in trial["dev_f1_by_epoch"]]
        style: dict[str, Any] = {"color": COMPLETE, "alpha": 0.45, "linewidth": 1.0}
        if trial["state"] != "complete":
            style = {"color": PRUNED, "alpha": 0.7, "linewidth": 1.0, "linestyle": "--"}
        if trial is best:
            style = {"color": BEST, "linewidth": 2.0, "zorder": 3}
        epochs.plot(range(1, len(by_epoch) + 1), by_epoch, marker="o", markersize=2.5, **style)
    label = "F1 on the development data, in %"
    scores.set(xlabel="trial", ylabel=label, title="Best epoch of each trial")
    title = "By epoch" if best is None else f"By epoch (thick: trial {best['trial']}, the best)"
    epochs.set(xlabel="epoch", ylabel=label, title=title)
    for panel in (scores, epochs):
        panel.title.set_fontsize(9)
        whole_numbers(panel)
    columns = ("trial", "state", "dev_f1", "best_so_far")
    rows = [
        (trial["trial"], trial["state"], trial["dev_f1"], so_far)
        for trial, so_far in zip(ended, _so_far(ended), strict=True)
    ]
    return Analysis("tuning-history", {**source, "trials": list(trials)}, Table(columns, rows), figure)


def importance(shares: Mapping[str, float], source: dict[str, Any]) -> Analysis:
    """Draw a bar for each setting, the most important one at the top."""
    figure, [panel] = panels(1, width=5.6, height=1.1 + 0.32 * len(shares))
    places = range(len(shares), 0, -1)
    bars = panel.barh(places, [100 * share for share in shares.values()], 0.7, color=COMPLETE)
    panel.bar_label(bars, labels=[percent(share) for share in shares.values()], fontsize=7, padding=2)
    panel.set_yticks(places, [folded(key, 46) for key in shares], fontsize=8)
    panel.set_ylim(0.4, len(shares) + 0.6)
    panel.set(xlabel="importance, in % of all", ylabel="setting")
    panel.grid(visible=False, axis="y")
    panel.margins(x=0.1)
    heading(panel, "What tells the best quarter of the complete trials from all", width=60)
    columns, rows = ("setting", "importance"), list(shares.items())
    shown = Table(columns, [(key, percent(share)) for key, share in rows])
    content = {**source, "importance": dict(shares)}
    return Analysis("tuning-importance", content, Table(columns, rows), figure, shown)


def _draw_trials(panel: Axes, trials: Sequence[Row]) -> None:
    for state, colour, mark in (("complete", COMPLETE, "o"), ("pruned", PRUNED, "x")):
        own = [trial for trial in trials if trial["state"] == state]
        if own:
            at, height = [trial["trial"] for trial in own], [100 * trial["dev_f1"] for trial in own]
            panel.scatter(at, height, s=22, color=colour, marker=mark, label=state, zorder=3)
    failed = [trial["trial"] for trial in trials if trial["state"] == "failed"]
    if failed:  # they have no score that counts: marks on the axis itself
        edge = panel.get_xaxis_transform()
        panel.scatter(
            failed, [0.0] * len(failed), s=30, color=FAILED, marker="v", transform=edge, clip_on=False,
            label="failed (on the axis)", zorder=3,
        )  # fmt: skip
    steps = [
        (trial["trial"], 100 * so_far)
        for trial, so_far in zip(trials, _so_far(trials), strict=True)
        if so_far is not None
    ]
    if steps:
        panel.step(*zip(*steps, strict=True), where="post", color=BEST, linewidth=1.5, label="best so far")
    legend(panel)


def _best(trials: Sequence[Row]) -> Row | None:
    complete = [trial for trial in trials if trial["state"] == "complete"]
    return max(complete, key=lambda trial: trial["dev_f1"], default=None)


def _so_far(trials: Sequence[Row]) -> list[float | None]:
    """Return the highest F1 of the trials that are complete, after each trial."""
    tops = (_best(trials[:number]) for number in range(1, len(trials) + 1))
    return [None if top is None else top["dev_f1"] for top in tops]
