"""What a sweep comes to, as a figure: F1 over one setting, the share of the data, or the noise in it.

This is Table 4 of Zhu and Li (ACL 2022) and of Tang et al. (2023), and F1 by the size of the training data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from fencepost.analysis.figures import folded, legend, look, panels, plain
from fencepost.analysis.result import Analysis, Table, percent
from fencepost.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Cell = Mapping[str, Any]
"""As `sweep.json` has it."""

_NAMES = {"share": "share of the training data", "boundary_noise": "probability of noise at a boundary"}


def sweep(cells: Sequence[Cell], told: dict[str, Any], over: str | None = None) -> Analysis:
    """Mean F1 over the values of one axis, with standard deviations; a line for each value of the others.

    The axis is `over`; unless set, the share or the noise if there are several, else the first setting. A
    sweep whose cells do not all set the same keys, as a table of ablations, has a row for each cell instead.
    """
    measure = "test_f1" if any(cell["test_f1"]["mean"] is not None for cell in cells) else "dev_f1"
    done = [cell for cell in cells if cell[measure]["mean"] is not None]
    if not done:
        raise UsageError("the sweep has no finished runs with scores yet")
    every = _axes(done)
    axes = [axis for axis in every if len({str(_at(cell, axis)) for cell in done}) > 1]
    if over is not None and over not in every:
        raise UsageError(f"--over {over}: the sweep has no such axis; it has {', '.join(every)}")
    axis = over or ("cell" if _is_uneven(done) else next(iter(axes), every[0]))
    part = "test" if measure == "test_f1" else "development"
    label = f"F1 on the {part} data, in %"
    if axis == "cell":
        figure, panel = _rows(done, measure)
        panel.set_xlabel(label)
    else:
        figure, panel = _lines(done, axis, [other for other in axes if other != axis], measure)
        panel.set(xlabel=plain(_NAMES.get(axis, axis)), ylabel=label)
    seeds = sorted({cell["seeds"] for cell in done})
    panel.set_title(f"mean over {'-'.join(map(str, seeds[:1] + seeds[1:][-1:]))} seeds, ± standard deviation")
    rows = [(cell["cell"], cell["seeds"], cell[measure]["mean"], cell[measure]["std"]) for cell in done]
    shown = [(name, seeds, percent(mean), percent(std)) for name, seeds, mean, std in rows]
    return Analysis(
        "sweep-f1",
        {**told, "over": axis, "measure": measure, "cells": list(cells)},
        Table(("cell", "seeds", "f1_mean", "f1_std"), rows),
        figure,
        Table(("cell", "seeds", f"{part} F1", "±"), shown),
    )


def _is_uneven(cells: Sequence[Cell]) -> bool:
    return len({frozenset(cell["settings"]) for cell in cells}) > 1


def _rows(cells: Sequence[Cell], measure: str) -> tuple[Figure, Axes]:
    """A point for each cell, the first one above."""
    figure, [panel] = panels(1, width=5.6, height=1.0 + 0.32 * len(cells))
    places = range(len(cells), 0, -1)
    mean, deviation = _scores(cells, measure)
    panel.errorbar(mean, places, xerr=deviation, capsize=3, **{**look(0), "linestyle": "none"})
    panel.set_yticks(places, [folded(cell["cell"], 46) for cell in cells], fontsize=8)
    panel.set_ylim(0.4, len(cells) + 0.6)
    return figure, panel


def _lines(cells: Sequence[Cell], axis: str, others: Sequence[str], measure: str) -> tuple[Figure, Axes]:
    lines: dict[str, list[Cell]] = {}
    for cell in cells:
        rest = [f"{other}={_at(cell, other)}" for other in others if _at(cell, other) is not None]
        lines.setdefault(" ".join(rest), []).append(cell)
    values = list(dict.fromkeys(str(_at(cell, axis)) for cell in cells))
    places = _places(values)
    figure, [panel] = panels(1, width=5.6, height=3.8)
    for number, (name, of_line) in enumerate(lines.items()):
        at = [places[values.index(str(_at(cell, axis)))] for cell in of_line]
        in_order = sorted(zip(at, of_line, strict=True), key=lambda one: one[0])  # as lines go, not the grid
        mean, deviation = _scores([cell for _, cell in in_order], measure)
        named = {"label": plain(name) or None, **look(number)}
        panel.errorbar([place for place, _ in in_order], mean, deviation, capsize=3, **named)
    panel.set_xticks(places, [plain(value) for value in values])
    if any(lines):
        legend(panel)
    return figure, panel


def _scores(cells: Sequence[Cell], measure: str) -> tuple[list[float], list[float]]:
    """Means and standard deviations, in percent."""
    found = [cell[measure] for cell in cells]
    return [100 * one["mean"] for one in found], [100 * (one["std"] or 0.0) for one in found]


def _axes(cells: Sequence[Cell]) -> list[str]:
    own = [name for name in ("share", "boundary_noise") if any(cell[name] is not None for cell in cells)]
    return own + list(dict.fromkeys(key for cell in cells for key in cell["settings"])) or ["cell"]


def _at(cell: Cell, axis: str) -> Any:
    return cell[axis] if axis in ("share", "boundary_noise", "cell") else cell["settings"].get(axis)


def _places(values: Sequence[str]) -> list[float]:
    """Numbers where they are, if there is room for what is written below; anything else side by side."""
    beside = [float(place) for place in range(len(values))]
    try:
        numbers = [float(value) for value in values]
    except ValueError:
        return beside
    in_order = sorted(numbers)
    if not math.isfinite(sum(numbers)):
        return beside
    if any(after - before < 0.06 * (in_order[-1] - in_order[0]) for before, after in pairwise(in_order)):
        return [float(in_order.index(number)) for number in numbers]
    return numbers
