"""What a sweep comes to, as a figure: F1 over one setting, the share of the data, or the noise in it.

This is Table 4 of Zhu and Li (ACL 2022) and of Tang et al. (2023), and F1 by the size of the training data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from fencepost.analysis.figures import legend, look, panels, plain
from fencepost.analysis.result import Analysis, Table, percent
from fencepost.errors import UsageError

Cell = Mapping[str, Any]
"""As `sweep.json` has it."""

_NAMES = {"share": "share of the training data", "boundary_noise": "probability of noise at a boundary"}


def sweep(cells: Sequence[Cell], told: dict[str, Any], over: str | None = None) -> Analysis:
    """Mean F1 over the values of one axis, with standard deviations; a line for each value of the others.

    The axis is `over`; unless set, the share or the noise if there are several, else the first setting.
    """
    measure = "test_f1" if any(cell["test_f1"]["mean"] is not None for cell in cells) else "dev_f1"
    done = [cell for cell in cells if cell[measure]["mean"] is not None]
    if not done:
        raise UsageError("the sweep has no finished runs with scores yet")
    axes = [axis for axis in _axes(done) if len({str(_at(cell, axis)) for cell in done}) > 1]
    axis = over or next(iter(axes), _axes(done)[0])
    if axis not in _axes(done):
        raise UsageError(f"--over {axis}: the sweep has no such axis; it has {', '.join(_axes(done))}")
    lines: dict[str, list[Cell]] = {}
    for cell in done:
        rest = [f"{other}={_at(cell, other)}" for other in axes if other != axis]
        lines.setdefault(" ".join(rest), []).append(cell)
    values = list(dict.fromkeys(str(_at(cell, axis)) for cell in done))
    places = _places(values)
    figure, [panel] = panels(1, width=5.6, height=3.8)
    for number, (name, of_line) in enumerate(lines.items()):
        at = [places[values.index(str(_at(cell, axis)))] for cell in of_line]
        in_order = sorted(zip(at, of_line, strict=True), key=lambda one: one[0])  # as lines go, not the grid
        panel.errorbar(
            [place for place, _ in in_order],
            [100 * cell[measure]["mean"] for _, cell in in_order],
            [100 * (cell[measure]["std"] or 0.0) for _, cell in in_order],
            capsize=3,
            label=plain(name) or None,
            **look(number),
        )
    part = "test" if measure == "test_f1" else "development"
    panel.set_xticks(places, [plain(value) for value in values])
    panel.set(xlabel=plain(_NAMES.get(axis, axis)), ylabel=f"F1 on the {part} data, in %")
    seeds = sorted({cell["seeds"] for cell in done})
    panel.set_title(f"mean over {'-'.join(map(str, seeds[:1] + seeds[1:][-1:]))} seeds, ± standard deviation")
    if any(lines):
        legend(panel)
    rows = [(cell["cell"], cell["seeds"], cell[measure]["mean"], cell[measure]["std"]) for cell in done]
    shown = [(name, seeds, percent(mean), percent(std)) for name, seeds, mean, std in rows]
    return Analysis(
        "sweep-f1",
        {**told, "over": axis, "measure": measure, "cells": list(cells)},
        Table(("cell", "seeds", "f1_mean", "f1_std"), rows),
        figure,
        Table(("cell", "seeds", f"{part} F1", "±"), shown),
    )


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
