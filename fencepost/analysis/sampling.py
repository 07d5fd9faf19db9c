"""F1 and speed by the number of denoising steps and of sampled spans (Shen et al., ACL 2023).

The same for any two settings of prediction, of any method.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fencepost.analysis.figures import legend, look, panels, plain
from fencepost.analysis.result import Analysis, Table, percent

Rows = list[dict[str, Any]]
"""Of each combination: what is `set`, precision, recall, f1, sentences_per_second."""


def sampling(models: dict[str, Rows], axes: Sequence[str], told: dict[str, Any]) -> Analysis:
    """F1 and speed over the first of the settings; a line for each model and values of the others."""
    first, *others = axes
    figure, (scores, speeds) = panels(2, width=4.6)
    lines: dict[str, Rows] = {}
    for model, rows in models.items():
        for row in rows:
            rest = [f"{key}={row['set'][key]}" for key in others]
            lines.setdefault(" ".join([model] * (len(models) > 1 or not rest) + rest), []).append(row)
    values = list(dict.fromkeys(row["set"][first] for rows in models.values() for row in rows))
    for number, (name, rows) in enumerate(lines.items()):
        places = [values.index(row["set"][first]) for row in rows]
        scores.plot(places, [100 * row["f1"] for row in rows], label=plain(name), **look(number))
        speeds.plot(places, [row["sentences_per_second"] for row in rows], label=plain(name), **look(number))
    for axis in (scores, speeds):
        axis.set_xticks(range(len(values)), [plain(str(value)) for value in values])
        axis.set_xlabel(first)
    scores.set_ylabel("F1, in %")
    speeds.set_ylabel("sentences a second")
    speeds.set_ylim(bottom=0)
    legend(speeds)
    measured = ("precision", "recall", "f1", "sentences_per_second")
    table = [
        (model, *(row["set"][key] for key in axes), *(row[name] for name in measured))
        for model, rows in models.items()
        for row in rows
    ]
    summary = [
        (model, *(row["set"][key] for key in axes), percent(row["f1"]), f"{row['sentences_per_second']:.1f}")
        for model, rows in models.items()
        for row in rows
    ]
    return Analysis(
        "settings",
        {**told, "models": models},
        Table(("model", *axes, *measured), table),
        figure,
        Table(("model", *axes, "F1", "sentences a second"), summary),
    )
