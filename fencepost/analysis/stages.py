"""What methods tell of their own steps.

These are offset labels (Table 5 of Tang et al., 2023), and the stages of locate and label: the spans that
each leaves, and how far boundaries were moved (Shen et al., ACL 2021). Which tables there are is the
method's own matter; each becomes a panel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from fencepost.analysis.figures import bars, heading, legend, panels
from fencepost.analysis.result import Analysis, Table
from fencepost.evaluation import Score

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fencepost.methods.network import Row

Tables = dict[str, dict[str, "Row"]]
"""By title, the rows by name."""

_RATIOS = {"precision": "precision", "recall": "recall", "f1": "F1"}
"""What panels call them."""


def stages(name: str, models: Mapping[str, Tables], told: dict[str, Any]) -> Analysis:
    """A column of panels for each model, a panel for each quantity of each of its tables."""
    shown = {model: list(_panels(tables)) for model, tables in models.items()}
    deepest = max(len(of_model) for of_model in shown.values())
    figure, axes = panels(deepest * len(models), width=5.6, height=2.6, columns=len(models))
    for column, (model, of_model) in enumerate(shown.items()):
        for row in range(deepest):
            axis = axes[row * len(models) + column]
            if row < len(of_model):
                _draw(axis, model, *of_model[row])
            else:
                axis.remove()
    rows = [
        (model, title, row_name, quantity, value)
        for model, tables in models.items()
        for title, of_table in tables.items()
        for row_name, row in of_table.items()
        for quantity, value in _numbers(row).items()
    ]
    of_models = {
        model: {
            title: {row_name: _numbers(row) for row_name, row in of_table.items()}
            for title, of_table in tables.items()
        }
        for model, tables in models.items()
    }
    table = Table(("model", "table", "row", "quantity", "value"), rows)
    return Analysis(name, {**told, "models": of_models}, table, figure)


def _numbers(row: Row) -> dict[str, Any]:
    return asdict(row) if isinstance(row, Score) else dict(row)


def _percent(score: Score) -> dict[str, float]:
    return {shown: 100 * getattr(score, name) for name, shown in _RATIOS.items()}


def _panels(tables: Tables) -> list[tuple[str, list[str], dict[str, list[float]], bool]]:
    """Title, names of the bars, their heights by series, and whether they are percent.

    Quantities that are ratios share a panel, and counts share one; other numbers have one each.
    """
    found: list[tuple[str, list[str], dict[str, list[float]], bool]] = []
    for title, rows in tables.items():
        columns: dict[str, list[float]] = {}
        for row in rows.values():
            numbers = _percent(row) if isinstance(row, Score) else dict(row)
            for quantity, value in numbers.items():
                columns.setdefault(quantity, []).append(value)
        ratios = {k: v for k, v in columns.items() if k.startswith("recall") or k in _RATIOS.values()}
        if ratios and not all(isinstance(row, Score) for row in rows.values()):
            ratios = {k: [100 * value for value in v] for k, v in ratios.items()}
        others = {k: v for k, v in columns.items() if k not in ratios}
        counts = {k: v for k, v in others.items() if all(isinstance(value, int) for value in v)}
        groups = [(title, ratios, True), (title, counts, False)]
        groups += [(title, {k: v}, False) for k, v in others.items() if k not in counts]
        found += [(name, list(rows), values, of_hundred) for name, values, of_hundred in groups if values]
    return found


def _draw(
    axis: Axes, model: str, title: str, names: list[str], values: dict[str, list[float]], of_hundred: bool
) -> None:
    whole = all(isinstance(height, int) for heights in values.values() for height in heights)
    bars(axis, values, names, "{:,.0f}" if whole else "{:.1f}")
    heading(axis, model, f": {title}", width=50)
    axis.set_ylabel("%" if of_hundred else ", ".join(values) if len(values) == 1 else "count")
    largest = max((max(heights) for heights in values.values()), default=0)
    smallest = min((height for heights in values.values() for height in heights if height > 0), default=1)
    if of_hundred:
        axis.set_ylim(0, 110)
    elif largest > 50 * smallest:
        axis.set_yscale("log")
    if len(names) > 6 or max(map(len, names)) > 10:
        axis.tick_params(axis="x", labelrotation=20, labelsize=7)
    if len(values) > 1:
        legend(axis)
