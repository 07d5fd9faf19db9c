"""Figure of a sweep: F1 by a setting, by the share of the training data, or by the noise in it.

Examples are Table 4 of Zhu and Li (ACL 2022) and Table 4 of Tang et al. (2023).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from fencepost.analysis.figures import add_legend, get_style, make_panels, to_label, wrap_label
from fencepost.analysis.result import Analysis, Table, to_percent
from fencepost.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Row = Mapping[str, Any]
"""A cell as in `sweep.json`."""

_LABEL = "mean ± standard deviation"
_NAMES = {"share": "share of the training data", "boundary_noise": "probability of noise at a boundary"}


def analyze_sweep(cells: Sequence[Row], source: dict[str, Any], over: str | None = None) -> Analysis:
    """Draw the mean and standard deviation of F1 by one axis, with a line for each value of the others.

    The axis is `over`. By default it is the share or the noise if it varies, and otherwise the first setting
    that varies. If the cells do not all set the same keys, as in a table of ablations, each cell has a row
    instead. Raises `UsageError` if there are no scores yet or no such axis.
    """
    measure = "test_f1" if any(cell["test_f1"]["mean"] is not None for cell in cells) else "dev_f1"
    finished = [cell for cell in cells if cell[measure]["mean"] is not None]
    if not finished:
        raise UsageError("the sweep has no finished runs with scores yet; continue it first")
    every = _list_axes(finished)
    axes = [axis for axis in every if len({str(_get_value(cell, axis)) for cell in finished}) > 1]
    if over is not None and over not in every:
        raise UsageError(f"--over {over}: the sweep has no such axis; choose one of {', '.join(every)}")
    is_grid = len({frozenset(cell["settings"]) for cell in finished}) == 1
    axis = over or (next(iter(axes), every[0]) if is_grid else "cell")
    part = "test" if measure == "test_f1" else "development"
    label = f"F1 on the {part} data (%)"
    if axis == "cell":
        figure, panel = _draw_rows(finished, measure)
        panel.set_xlabel(label)
    else:
        figure, panel = _draw_lines(finished, axis, [other for other in axes if other != axis], measure)
        panel.set(xlabel=to_label(_NAMES.get(axis, axis)), ylabel=label)
    seeds = sorted({cell["seeds"] for cell in finished})
    numbers = "-".join(map(str, seeds[:1] + seeds[1:][-1:]))
    panel.set_title(f"mean ± standard deviation over {numbers} seeds", fontsize=10)
    add_legend(panel)
    rows = [(cell["cell"], cell["seeds"], cell[measure]["mean"], cell[measure]["std"]) for cell in finished]
    summary = [(name, seeds, to_percent(mean), to_percent(std)) for name, seeds, mean, std in rows]
    content = {**source, "over": axis, "measure": measure, "cells": list(cells)}
    columns, headings = ("cell", "seeds", "f1_mean", "f1_std"), ("cell", "seeds", f"{part} F1", "±")
    return Analysis("sweep-f1", content, Table(columns, rows), figure, Table(headings, summary))


def _draw_rows(cells: Sequence[Row], measure: str) -> tuple[Figure, Axes]:
    """Draw a row with a point for each cell, the first one at the top."""
    figure, [panel] = make_panels(1, width=5.6, height=1.0 + 0.32 * len(cells))
    positions = range(len(cells), 0, -1)
    mean, deviation = _get_scores(cells, measure)
    style = {**get_style(0), "linestyle": "none"}
    panel.errorbar(mean, positions, xerr=deviation, capsize=3, label=_LABEL, **style)
    panel.set_yticks(positions, [wrap_label(cell["cell"], 46) for cell in cells], fontsize=8)
    panel.set_ylim(0.4, len(cells) + 0.6)
    return figure, panel


def _draw_lines(cells: Sequence[Row], axis: str, others: Sequence[str], measure: str) -> tuple[Figure, Axes]:
    lines: dict[str, list[Row]] = {}
    for cell in cells:
        rest = {other: _get_value(cell, other) for other in others}
        name = " ".join(f"{other}={value}" for other, value in rest.items() if value is not None)
        lines.setdefault(name, []).append(cell)
    positions = _place_values(list(dict.fromkeys(str(_get_value(cell, axis)) for cell in cells)))
    figure, [panel] = make_panels(1, width=5.6, height=3.8)
    for number, (name, of_line) in enumerate(lines.items()):
        of_line.sort(key=lambda cell: positions[str(_get_value(cell, axis))])
        mean, deviation = _get_scores(of_line, measure)
        x = [positions[str(_get_value(cell, axis))] for cell in of_line]
        panel.errorbar(x, mean, deviation, capsize=3, label=to_label(name) or _LABEL, **get_style(number))
    panel.set_xticks(list(positions.values()), [to_label(value) for value in positions])
    return figure, panel


def _get_scores(cells: Sequence[Row], measure: str) -> tuple[list[float], list[float]]:
    """Return means and standard deviations, in percent."""
    scores = [cell[measure] for cell in cells]
    return [100 * score["mean"] for score in scores], [100 * (score["std"] or 0.0) for score in scores]


def _list_axes(cells: Sequence[Row]) -> list[str]:
    own = [name for name in ("share", "boundary_noise") if any(cell[name] is not None for cell in cells)]
    return own + list(dict.fromkeys(key for cell in cells for key in cell["settings"])) or ["cell"]


def _get_value(cell: Row, axis: str) -> Any:
    return cell[axis] if axis in ("share", "boundary_noise", "cell") else cell["settings"].get(axis)


def _place_values(values: Sequence[str]) -> dict[str, float]:
    """Return the position of each value: to scale for numbers whose labels fit, otherwise evenly spaced."""
    try:
        numbers = [float(value) for value in values]
    except ValueError:
        numbers = [math.nan]
    if not math.isfinite(sum(numbers)):
        numbers = [float(place) for place in range(len(values))]
    ordered = sorted(numbers)
    if any(after - before < 0.06 * (ordered[-1] - ordered[0]) for before, after in pairwise(ordered)):
        numbers = [float(ordered.index(number)) for number in numbers]
    return dict(zip(values, numbers, strict=True))
