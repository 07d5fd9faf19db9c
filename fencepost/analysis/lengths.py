"""F1 by the length of entities (Figure 5 of Tang et al., 2023; Table 2 of Shen et al., ACL 2021)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from fencepost.analysis.figures import GREY, legend, look, panels, plain
from fencepost.analysis.result import Analysis, Table, percent
from fencepost.errors import UsageError

if TYPE_CHECKING:
    from fencepost.evaluation import Evaluation, Score

LONGEST = 10
"""Entities of so many words and more are one group in the figure; tables have all lengths."""


def lengths(
    models: Mapping[str, Evaluation], enumerated: Mapping[str, Sequence[int] | None], told: dict[str, Any]
) -> Analysis:
    """A line a model. `enumerated` has the lengths that each one's training goes through, if not all."""
    every = sorted({length for result in models.values() for length in result.by_length})
    if not every:
        raise UsageError("there are no entities in the data, and no model finds any")
    firsts = [length for length in every if length < LONGEST]
    firsts += [LONGEST] if every[-1] >= LONGEST else []
    grouped = {name: list(result.by_length_group(firsts).values()) for name, result in models.items()}
    figure, [axis] = panels(1, width=6.5, height=3.8)
    for number, (name, scores) in enumerate(grouped.items()):
        axis.plot(range(len(firsts)), [100 * s.f1 for s in scores], label=plain(name), **look(number))
    support = [scores.support for scores in next(iter(grouped.values()))]
    names = [f"{first}+" if first == LONGEST else str(first) for first in firsts]
    axis.set_xticks(range(len(firsts)), [f"{n}\n({s:,})" for n, s in zip(names, support, strict=True)])
    axis.set(
        xlabel="words of an entity (in brackets: entities in the data)", ylabel="F1, in %", ylim=(0, 102)
    )
    marked = _common(list(enumerated.values()))
    for place, first in enumerate(firsts):
        if marked is not None and first not in marked:
            axis.axvspan(place - 0.5, place + 0.5, color=GREY, alpha=0.12, linewidth=0, label=_once(axis))
    legend(axis)
    rows = [
        (name, length, *_columns(score), _yes_or_no(length, enumerated[name]))
        for name, result in models.items()
        for length, score in sorted(result.by_length.items())
    ]
    summary = [
        (name, label, percent(s.precision), percent(s.recall), percent(s.f1), s.support)
        for name, scores in grouped.items()
        for label, s in zip(names, scores, strict=True)
    ]
    of_models = {
        name: {
            "enumerated": None if enumerated[name] is None else list(enumerated[name] or ()),
            "by_length": {str(length): asdict(score) for length, score in sorted(result.by_length.items())},
        }
        for name, result in models.items()
    }
    columns = ("model", "words", "precision", "recall", "f1", "correct", "predicted", "gold", "enumerated")
    return Analysis(
        "lengths",
        {**told, "models": of_models},
        Table(columns, rows),
        figure,
        Table(("model", "words", "precision", "recall", "F1", "gold"), summary),
    )


def _columns(score: Score) -> tuple[Any, ...]:
    return score.precision, score.recall, score.f1, score.true_positives, score.predicted, score.support


def _common(enumerated: Sequence[Sequence[int] | None]) -> set[int] | None:
    """The lengths that the training of all models goes through; None if they differ, or it is all lengths."""
    different = {None if lengths is None else frozenset(lengths) for lengths in enumerated}
    [first] = list(different)[:1]
    return None if len(different) > 1 or first is None else set(first)


def _yes_or_no(length: int, enumerated: Sequence[int] | None) -> str | None:
    if enumerated is None:
        return None
    return "yes" if length in enumerated else "no"


def _once(axis: Any) -> str:
    """The label of the grey areas, which the legend shall name once."""
    label = "lengths that training does not go through"
    return "" if label in axis.get_legend_handles_labels()[1] else label
