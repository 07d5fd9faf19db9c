"""F1 and speed by settings of prediction, such as denoising steps (Shen et al., ACL 2023)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fencepost.analysis.figures import add_legend, get_style, make_panels, to_label
from fencepost.analysis.result import Analysis, Table, to_percent

Rows = list[dict[str, Any]]
"""For each combination: its settings (`set`), precision, recall, f1 and sentences_per_second."""

_MEASURES = ("precision", "recall", "f1", "sentences_per_second")


def analyze_settings(models: Mapping[str, Rows], keys: Sequence[str], facts: dict[str, Any]) -> Analysis:
    """Draw F1 and speed by the first setting, with a line for each model and combination of the others."""
    first, *others = keys
    figure, (scores, speeds) = make_panels(2, width=4.6)
    lines: dict[str, Rows] = {}
    table, summary = [], []
    for model, rows in models.items():
        for row in rows:
            settings, speed = row["set"], row["sentences_per_second"]
            rest = [f"{key}={settings[key]}" for key in others]
            lines.setdefault(" ".join([model] * (len(models) > 1 or not rest) + rest), []).append(row)
            cells = (model, *(settings[key] for key in keys))
            table.append((*cells, *(row[name] for name in _MEASURES)))
            summary.append((*cells, to_percent(row["f1"]), f"{speed:.1f}"))
    values = list(dict.fromkeys(row["set"][first] for rows in models.values() for row in rows))
    for number, (name, rows) in enumerate(lines.items()):
        style = {"label": to_label(name), **get_style(number)}
        places = [values.index(row["set"][first]) for row in rows]
        scores.plot(places, [100 * row["f1"] for row in rows], **style)
        speeds.plot(places, [row["sentences_per_second"] for row in rows], **style)
    for panel in (scores, speeds):
        panel.set_xticks(range(len(values)), [to_label(str(value)) for value in values])
        panel.set_xlabel(first)
    scores.set_ylabel("F1 (%)")
    speeds.set_ylabel("sentences per second")
    speeds.set_ylim(bottom=0)
    add_legend(speeds)
    return Analysis(
        "settings",
        {**facts, "models": models},
        Table(("model", *keys, *_MEASURES), table),
        figure,
        Table(("model", *keys, "F1", "sentences per second"), summary),
    )
