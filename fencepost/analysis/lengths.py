"""F1 by the length of entities (Figure 5 of Tang et al., 2023; Table 2 of Shen et al., ACL 2021)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from fencepost.analysis.figures import GREY, add_legend, get_style, make_panels, to_label
from fencepost.analysis.result import Analysis, Table, to_percent
from fencepost.errors import UsageError

if TYPE_CHECKING:
    from fencepost.evaluation import Evaluation

LONGEST = 10
"""Entities of this number of words or more form one group in the figure; tables have all lengths."""


def analyze_lengths(
    models: Mapping[str, Evaluation], enumerated: Mapping[str, Sequence[int] | None], facts: dict[str, Any]
) -> Analysis:
    """Draw F1 by length, with a line for each model and no points for lengths without gold entities.

    `enumerated` has the span lengths that the training of each model enumerates, or None for all.
    """
    every = sorted({length for result in models.values() for length in result.by_length})
    if not every:
        raise UsageError("there are no entities in the data, and no model predicts any")
    firsts = sorted({min(length, LONGEST) for length in every})
    names = [f"{first}+" if first == LONGEST else str(first) for first in firsts]
    grouped = {name: list(result.by_length_group(firsts).values()) for name, result in models.items()}
    figure, [axis] = make_panels(1, width=6.5, height=3.8)
    for number, (name, scores) in enumerate(grouped.items()):
        f1 = [100 * score.f1 if score.support else math.nan for score in scores]
        axis.plot(range(len(firsts)), f1, label=to_label(name), **get_style(number))
    support = [scores.support for scores in next(iter(grouped.values()))]
    ticks = [f"{n}\n({s:,})" for n, s in zip(names, support, strict=True)]
    axis.set_xticks(range(len(firsts)), ticks, fontsize=8)
    label = "number of words (in parentheses: number of gold entities)"
    axis.set(xlabel=label, ylabel="F1 (%)", ylim=(-2, 102), title="F1 by the length of entities")
    area = "lengths that training does not enumerate"
    for first in _find_not_enumerated(firsts, list(enumerated.values())):
        place = firsts.index(first)
        axis.axvspan(place - 0.5, place + 0.5, color=GREY, alpha=0.12, linewidth=0, label=area)
        area = ""  # one entry in the legend
    add_legend(axis)
    rows, content = [], {}
    for name, result in models.items():
        trained = enumerated[name]
        scores_by_length = sorted(result.by_length.items())
        for length, s in scores_by_length:
            is_trained = None if trained is None else "yes" if length in trained else "no"
            rows.append((name, length, s.precision, s.recall, s.f1, *s.counts, is_trained))
        content[name] = {
            "enumerated": None if trained is None else list(trained),
            "by_length": {str(length): asdict(score) for length, score in scores_by_length},
        }
    summary = [
        (name, label, to_percent(s.precision), to_percent(s.recall), to_percent(s.f1), s.support)
        for name, scores in grouped.items()
        for label, s in zip(names, scores, strict=True)
    ]
    columns = ("model", "words", "precision", "recall", "f1", "correct", "predicted", "gold", "enumerated")
    summary_table = Table(("model", "words", "precision", "recall", "F1", "gold"), summary)
    return Analysis("lengths", {**facts, "models": content}, Table(columns, rows), figure, summary_table)


def _find_not_enumerated(firsts: Sequence[int], enumerated: Sequence[Sequence[int] | None]) -> list[int]:
    """Return the lengths that training does not enumerate; none if the models differ in that."""
    distinct = {None if lengths is None else frozenset(lengths) for lengths in enumerated}
    common = distinct.pop()
    return [] if distinct or common is None else [first for first in firsts if first not in common]
