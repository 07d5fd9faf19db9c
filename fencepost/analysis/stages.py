"""The reports of methods on their own steps.

Examples are scores by offset label (Table 5 of Tang et al., 2023), and the stages of locate and label: the
spans that each keeps, and how far boundaries were moved (Shen et al., ACL 2021). The method decides which
tables there are; each becomes a panel or several.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

from fencepost.analysis.figures import bars, heading, legend, panels
from fencepost.analysis.result import Analysis, Table
from fencepost.evaluation import Score

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fencepost.methods.decoder import Row

Tables = dict[str, dict[str, "Row"]]
"""By title, the rows by name."""

_RATIOS = {"precision": "precision", "recall": "recall", "f1": "F1"}
"""Ratios of a `Score`, and their names in panels."""


class _Panel(NamedTuple):
    title: str
    names: list[str]  # of groups of bars
    values: dict[str, list[float]]  # heights of bars by series
    in_percent: bool


def stages(name: str, models: Mapping[str, Tables], facts: dict[str, Any]) -> Analysis:
    """Draw a column of panels for each model, from the tables of the report of this name."""
    columns = [[(model, panel) for panel in _panels(tables)] for model, tables in models.items()]
    deepest = max(map(len, columns))
    figure, axes = panels(deepest * len(models), width=5.6, height=2.6, columns=len(models))
    for place, axis in enumerate(axes):
        row, column = divmod(place, len(models))
        if row < len(columns[column]):
            _draw(axis, *columns[column][row])
        else:
            axis.remove()
    content = {
        model: {
            title: {name: _numbers(row) for name, row in table.items()} for title, table in tables.items()
        }
        for model, tables in models.items()
    }
    rows = [
        (model, title, row_name, quantity, value)
        for model, tables in content.items()
        for title, table in tables.items()
        for row_name, row in table.items()
        for quantity, value in row.items()
    ]
    table = Table(("model", "table", "row", "quantity", "value"), rows)
    return Analysis(name, {**facts, "models": content}, table, figure)


def _numbers(row: Row) -> dict[str, Any]:
    return asdict(row) if isinstance(row, Score) else dict(row)


def _panels(tables: Tables) -> list[_Panel]:
    """Split tables into panels: ratios share one, and counts share one; other numbers have one each."""
    found = []
    for title, rows in tables.items():
        ratios: dict[str, list[float]] = {}
        others: dict[str, list[float]] = {}
        for row in rows.values():
            if isinstance(row, Score):
                row = {shown: getattr(row, name) for name, shown in _RATIOS.items()}
            for quantity, value in row.items():
                if quantity.startswith("recall") or quantity in _RATIOS.values():
                    ratios.setdefault(quantity, []).append(100 * value)
                else:
                    others.setdefault(quantity, []).append(value)
        counts = {key: values for key, values in others.items() if _are_whole(values)}
        means = [{key: values} for key, values in others.items() if key not in counts]
        groups = (ratios, counts, *means)
        found += [_Panel(title, list(rows), group, group is ratios) for group in groups if group]
    return found


def _are_whole(values: list[float]) -> bool:
    return all(isinstance(value, int) for value in values)


def _draw(axis: Axes, model: str, panel: _Panel) -> None:
    heights = [height for values in panel.values.values() for height in values]
    bars(axis, panel.values, panel.names, "{:,.0f}" if _are_whole(heights) else "{:.1f}")
    heading(axis, model, f": {panel.title}", width=50)
    if panel.in_percent:
        axis.set(ylabel="%", ylim=(0, 110))
    else:
        axis.set_ylabel(next(iter(panel.values)) if len(panel.values) == 1 else "count")
        if max(heights) > 50 * min((height for height in heights if height > 0), default=1):
            axis.set_yscale("log")
    if len(panel.names) > 6 or max(map(len, panel.names)) > 10:
        axis.tick_params(axis="x", labelrotation=20, labelsize=7)
    if len(panel.values) > 1:
        legend(axis)
