"""A figure of a sweep: F1 over one setting, the share of the data, or the noise in it.

As in Table 4 of Zhu and Li (ACL 2022) and of Tang et al. (2023), and F1 by the size of the training data.
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

Row = Mapping[str, Any]
"""A cell as `sweep.json` has it."""

_NAMES = {"share": "share of the training data", "boundary_noise": "probability of noise at a boundary"}


def sweep(cells: Sequence[Row], source: dict[str, Any], over: str | None = None) -> Analysis:
    """Draw mean F1 and its deviation over the values of one axis; a line for each value of the others.

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
    content = {**source, "over": axis, "measure": measure, "cells": list(cells)}
    table, summary = ("cell", "seeds", "f1_mean", "f1_std"), ("cell", "seeds", f"{part} F1", "±")
    return Analysis("sweep-f1", content, Table(table, rows), figure, Table(summary, shown))


def _is_uneven(cells: Sequence[Row]) -> bool:
    return len({frozenset(cell["settings"]) for cell in cells}) > 1


def _rows(cells: Sequence[Row], measure: str) -> tuple[Figure, Axes]:
    """Draw a point for each cell, the first one at the top."""
    figure, [panel] = panels(1, width=5.6, height=1.0 + 0.32 * len(cells))
    places = range(len(cells), 0, -1)
    mean, deviation = _scores(cells, measure)
    panel.errorbar(mean, places, xerr=deviation, capsize=3, **{**look(0), "linestyle": "none"})
    panel.set_yticks(places, [folded(cell["cell"], 46) for cell in cells], fontsize=8)
    panel.set_ylim(0.4, len(cells) + 0.6)
    return figure, panel


def _lines(cells: Sequence[Row], axis: str, others: Sequence[str], measure: str) -> tuple[Figure, Axes]:
    lines: dict[str, list[Row]] = {}
    for cell in cells:
        rest = [f"{other}={_at(cell, other)}" for other in others if _at(cell, other) is not None]
        lines.setdefault(" ".join(rest), []).append(cell)
    places = _places(list(dict.fromkeys(str(_at(cell, axis)) for cell in cells)))
    figure, [panel] = panels(1, width=5.6, height=3.8)
    for number, (name, of_line) in enumerate(lines.items()):
        ordered = sorted(of_line, key=lambda cell: places[str(_at(cell, axis))])  # not as in the grid
        mean, deviation = _scores(ordered, measure)
        at = [places[str(_at(cell, axis))] for cell in ordered]
        panel.errorbar(at, mean, deviation, capsize=3, label=plain(name) or None, **look(number))
    panel.set_xticks(list(places.values()), [plain(value) for value in places])
    if any(lines):
        legend(panel)
    return figure, panel


def _scores(cells: Sequence[Row], measure: str) -> tuple[list[float], list[float]]:
    """Return means and standard deviations, in percent."""
    found = [cell[measure] for cell in cells]
    return [100 * one["mean"] for one in found], [100 * (one["std"] or 0.0) for one in found]


def _axes(cells: Sequence[Row]) -> list[str]:
    own = [name for name in ("share", "boundary_noise") if any(cell[name] is not None for cell in cells)]
    return own + list(dict.fromkeys(key for cell in cells for key in cell["settings"])) or ["cell"]


def _at(cell: Row, axis: str) -> Any:
    return cell[axis] if axis in ("share", "boundary_noise", "cell") else cell["settings"].get(axis)


def _places(values: Sequence[str]) -> dict[str, float]:
    """Return where values are: numbers to scale, if there is room for their labels; others side by side."""
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
