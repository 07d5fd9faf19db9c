"""Reports of methods on their intermediate steps.

Examples are scores by offset label (Table 5 of Tang et al., 2023), and the stages of locate-and-label: the
spans that remain after each stage, and the shifts of boundaries (Shen et al., ACL 2021). The method defines
the tables; each is drawn as one or several panels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

from fencepost.analysis.figures import add_legend, draw_bars, make_panels, set_heading, use_count_axis
from fencepost.analysis.result import Analysis, Table
from fencepost.evaluation import Score

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fencepost.methods.decoder import Row

Tables = dict[str, dict[str, "Row"]]
"""The rows of each table, by the title of the table and the name of the row."""

_RATIOS = {"precision": "precision", "recall": "recall", "f1": "F1"}
"""Ratios of a `Score`, and their names in panels."""


class _Panel(NamedTuple):
    title: str
    names: list[str]  # names of the groups of bars
    values: dict[str, list[float]]  # heights of bars by series
    in_percent: bool


def analyze_reports(name: str, models: Mapping[str, Tables], facts: dict[str, Any]) -> Analysis:
    """Draw the tables of the report of this name, with a column of panels for each model."""
    columns = [[(model, panel) for panel in _split_panels(tables)] for model, tables in models.items()]
    rows_of_panels = max(map(len, columns))
    figure, axes = make_panels(rows_of_panels * len(models), width=5.6, height=2.6, columns=len(models))
    for index, axis in enumerate(axes):
        row, column = divmod(index, len(models))
        if row < len(columns[column]):
            _draw(axis, *columns[column][row])
        else:
            axis.remove()
    content = {
        model: {
            title: {name: asdict(row) if isinstance(row, Score) else dict(row) for name, row in table.items()}
            for title, table in tables.items()
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


def _split_panels(tables: Tables) -> list[_Panel]:
    """Split tables into panels: one for all ratios, one for all counts, and one for each other quantity."""
    panels = []
    for title, rows in tables.items():
        ratios: dict[str, list[float]] = {}
        others: dict[str, list[float]] = {}
        for row in rows.values():
            if isinstance(row, Score):
                row = {label: getattr(row, name) for name, label in _RATIOS.items()}
            for quantity, value in row.items():
                if quantity.startswith("recall") or quantity in _RATIOS.values():
                    ratios.setdefault(quantity, []).append(100 * value)
                else:
                    others.setdefault(quantity, []).append(value)
        counts = {key: values for key, values in others.items() if _are_counts(values)}
        means = [{key: values} for key, values in others.items() if key not in counts]
        groups = (ratios, counts, *means)
        panels += [_Panel(title, list(rows), group, group is ratios) for group in groups if group]
    return panels


def _are_counts(values: list[float]) -> bool:
    return all(isinstance(value, int) for value in values)


def _draw(axis: Axes, model: str, panel: _Panel) -> None:
    heights = [height for values in panel.values.values() for height in values]
    are_counts = _are_counts(heights)
    draw_bars(axis, panel.values, panel.names, "{:,.0f}" if are_counts else "{:.1f}")
    set_heading(axis, model, f": {panel.title}", width=50)
    label = next(iter(panel.values)) if len(panel.values) == 1 else "count"
    is_wide = max(heights) > 50 * min((height for height in heights if height > 0), default=1)
    if panel.in_percent:
        axis.set(ylabel="%", ylim=(0, 110))
    elif are_counts:
        use_count_axis(axis, label, logarithmic=is_wide)
    else:
        axis.set(ylabel=label, yscale="log" if is_wide else "linear")
    if len(panel.names) > 6 or max(map(len, panel.names)) > 10:
        axis.tick_params(axis="x", labelrotation=20, labelsize=7)
    if len(panel.values) > 1:
        add_legend(axis)
