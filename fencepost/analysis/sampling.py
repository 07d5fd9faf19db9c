"""F1 and speed by settings of prediction, such as denoising steps (Shen et al., ACL 2023)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fencepost.analysis.figures import legend, look, panels, plain
from fencepost.analysis.result import Analysis, Table, percent

Rows = list[dict[str, Any]]
"""For each combination: its settings (`set`), precision, recall, f1, sentences_per_second."""

_MEASURED = ("precision", "recall", "f1", "sentences_per_second")


def sampling(models: Mapping[str, Rows], axes: Sequence[str], facts: dict[str, Any]) -> Analysis:
    """Draw F1 and speed over the first of the settings; a line for each model and values of the others."""
    first, *others = axes
    figure, (scores, speeds) = panels(2, width=4.6)
    lines: dict[str, Rows] = {}
    table, summary = [], []
    for model, rows in models.items():
        for row in rows:
            settings, speed = row["set"], row["sentences_per_second"]
            rest = [f"{key}={settings[key]}" for key in others]
            lines.setdefault(" ".join([model] * (len(models) > 1 or not rest) + rest), []).append(row)
            cells = (model, *(settings[key] for key in axes))
            table.append((*cells, *(row[name] for name in _MEASURED)))
            summary.append((*cells, percent(row["f1"]), f"{speed:.1f}"))
    values = list(dict.fromkeys(row["set"][first] for rows in models.values() for row in rows))
    for number, (name, rows) in enumerate(lines.items()):
        style = {"label": plain(name), **look(number)}
        places = [values.index(row["set"][first]) for row in rows]
        scores.plot(places, [100 * row["f1"] for row in rows], **style)
        speeds.plot(places, [row["sentences_per_second"] for row in rows], **style)
    for axis in (scores, speeds):
        axis.set_xticks(range(len(values)), [plain(str(value)) for value in values])
        axis.set_xlabel(first)
    scores.set_ylabel("F1, in %")
    speeds.set_ylabel("sentences a second")
    speeds.set_ylim(bottom=0)
    legend(speeds)
    return Analysis(
        "settings",
        {**facts, "models": models},
        Table(("model", *axes, *_MEASURED), table),
        figure,
        Table(("model", *axes, "F1", "sentences a second"), summary),
    )
