"""Mistakes by kind, and by how many words boundaries are off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from fencepost.analysis.figures import COLOURS, bars, legend, panels
from fencepost.analysis.result import Analysis, Table, count_at, percent
from fencepost.evaluation import GROUPS, KINDS, Mistake, Mistakes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fencepost.data.entity import Entity, Sentence

FARTHEST = 5
"""Boundaries that are off by this number of words or more are one bar."""

_SIDES = ("gold", "predicted")
_CELLS = ("type", "start", "end", "text")
_COLUMNS = (
    *("model", "kind", "group", "sentence", "id"),
    *(f"{side}_{cell}" for side in _SIDES for cell in _CELLS),
    *("confidence", "start_off", "end_off"),
)
_GROUP_OF = {kind: group for group, kinds in GROUPS.items() for kind in kinds}


def errors(
    models: Mapping[str, Mistakes], sentences: Sequence[Sentence], facts: dict[str, Any], examples: int = 5
) -> Analysis:
    """Draw the number of mistakes of each kind, a bar for each model, and the shifts of starts and ends.

    The table has each mistake. The JSON has the counts, and some examples of each kind, the most confident
    predictions first.
    """
    figure, (kinds, shifts) = panels(2, width=6.2, height=4.0, columns=1)
    _draw_kinds(kinds, models)
    _draw_shifts(shifts, models)
    content = {
        model: {
            "mistakes": len(found),
            "f1": found.score.f1,
            "kinds": {kind: asdict(found.count(kind)) for kind in KINDS},
            "groups": {group: asdict(found.count(*of_group)) for group, of_group in GROUPS.items()},
            "shifts": {side: {str(k): v for k, v in of.items()} for side, of in found.shifts().items()},
            "examples": {
                kind: [_example(one, sentences) for one in _most_confident(found.of(kind))[:examples]]
                for kind in KINDS
            },
        }
        for model, found in models.items()
    }
    rows = [_row(model, one, sentences) for model, found in models.items() for one in found.all]
    summary = [
        (model, "  " * is_kind + name, row.count, percent(row.share), percent(row.f1_if_corrected))
        for model, found in models.items()
        for name, is_kind, row in found.rows()
    ]
    columns = ("model", "kind", "count", "% of mistakes", "F1 if corrected")
    table = Table(_COLUMNS, rows)
    return Analysis("errors", {**facts, "models": content}, table, figure, Table(columns, summary))


def _most_confident(found: list[Mistake]) -> list[Mistake]:
    return sorted(found, key=lambda one: -one.predicted.score if one.predicted is not None else 0.0)


def _draw_kinds(axis: Axes, models: Mapping[str, Mistakes]) -> None:
    heights = {name: list(map(float, found.counts().values())) for name, found in models.items()}
    bars(axis, heights, list(KINDS), "{:,.0f}")
    axis.set_xticks(range(len(KINDS)), KINDS, rotation=20, ha="right", fontsize=8)
    axis.set(ylabel="mistakes", title="Mistakes by kind")
    for edge in list(accumulate(len(kinds) for kinds in GROUPS.values()))[:-1]:  # where a group ends
        axis.axvline(edge - 0.5, color="#bbbbbb", linewidth=0.8, linestyle=":")
    if len(models) > 1:
        legend(axis)


def _draw_shifts(axis: Axes, models: Mapping[str, Mistakes]) -> None:
    places = [shift for shift in range(-FARTHEST, FARTHEST + 1) if shift]
    names = [f"≤ -{FARTHEST}", *(f"{shift:+d}" for shift in places[1:-1]), f"≥ +{FARTHEST}"]
    values = {
        side if len(models) == 1 else f"{model}: {side}": list(map(float, count_at(places, counts)))
        for model, found in models.items()
        for side, counts in found.shifts().items()
    }
    bars(axis, values, names, "{:,.0f}")
    if len(models) > 1:  # a model's two bars share a colour
        for number, container in enumerate(axis.containers):
            for patch in container:
                patch.set(color=COLOURS[number // 2 % len(COLOURS)], alpha=1 - 0.5 * (number % 2))
    axis.set(
        xlabel="words by which the predicted boundary lies too far left (-) or right (+)",
        ylabel="boundaries",
        title="Boundary mistakes: how far the start and the end are off",
    )
    legend(axis)


def _row(model: str, one: Mistake, sentences: Sequence[Sentence]) -> tuple[Any, ...]:
    found = _example(one, sentences)
    cells = [(found[side] or {}).get(cell) for side in _SIDES for cell in _CELLS]
    confidence = one.predicted.score if one.predicted is not None else None
    shift = one.shift if one.predicted is not None and one.gold is not None else (None, None)
    place = found["sentence"], found["id"]
    return (model, one.kind, _GROUP_OF[one.kind], *place, *cells, confidence, *shift)


def _example(one: Mistake, sentences: Sequence[Sentence]) -> dict[str, Any]:
    sentence = sentences[one.sentence]

    def content_of(entity: Entity | None) -> dict[str, Any] | None:
        if entity is None:
            return None
        start, end, type_ = entity.key
        text = sentence.phrase(entity)
        return {"start": start, "end": end, "type": type_, "text": text, "score": entity.score}

    return {
        "sentence": one.sentence + 1,
        "id": sentence.id,
        "text": around(sentence, one),
        "gold": content_of(one.gold),
        "predicted": content_of(one.predicted),
    }


def around(sentence: Sentence, one: Mistake, words: int = 20) -> str:
    """Return the words of a mistake, and at most `words` before and after it."""
    start, end = max(0, one.span[0] - words), min(len(sentence), one.span[1] + words)
    before, after = "... " * (start > 0), " ..." * (end < len(sentence))
    return f"{before}{' '.join(sentence.words[start:end])}{after}"
