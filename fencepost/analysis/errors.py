"""Where a model fails: every mistake by its kind, and by how many words boundaries are off."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from fencepost.analysis.figures import COLOURS, bars, legend, panels
from fencepost.analysis.result import Analysis, Table, percent
from fencepost.evaluation import GROUPS, KINDS, Kind, Mistake, Mistakes

if TYPE_CHECKING:
    from fencepost.data.entity import Entity, Sentence

FARTHEST = 5
"""Boundaries that are off by so many words or more are one bar."""

_COLUMNS = (
    "model",
    "kind",
    "group",
    "sentence",
    "id",
    "gold_type",
    "gold_start",
    "gold_end",
    "gold_text",
    "predicted_type",
    "predicted_start",
    "predicted_end",
    "predicted_text",
    "confidence",
    "start_off",
    "end_off",
)
_GROUP_OF: dict[Kind, str] = {kind: group for group, kinds in GROUPS.items() for kind in kinds}


def errors(
    models: dict[str, Mistakes], sentences: Sequence[Sentence], told: dict[str, Any], examples: int = 5
) -> Analysis:
    """Shares of the kinds, a bar a model, and how far starts and ends are off.

    The table has each mistake. The JSON has the counts, and some examples of each kind: of predictions
    those that the model is surest of.
    """
    figure, (kinds, shifts) = panels(2, width=6.2, height=4.0, columns=1)
    _draw_kinds(kinds, models)
    _draw_shifts(shifts, models)
    rows = [_row(model, one, sentences) for model, found in models.items() for one in found.all]
    summary = [row for model, found in models.items() for row in _summary(model, found)]
    of_models = {
        model: {
            "mistakes": len(found),
            "f1": found.score.f1,
            "kinds": {kind: _told(found, kind) for kind in KINDS},
            "groups": {group: _told(found, *of_group) for group, of_group in GROUPS.items()},
            "shifts": {side: {str(k): v for k, v in of.items()} for side, of in found.shifts().items()},
            "examples": {
                kind: [_example(one, sentences) for one in _surest(found.of(kind))[:examples]]
                for kind in KINDS
            },
        }
        for model, found in models.items()
    }
    shown = ("model", "kind", "count", "% of mistakes", "F1 if mended")
    return Analysis(
        "errors", {**told, "models": of_models}, Table(_COLUMNS, rows), figure, Table(shown, summary)
    )


def _surest(found: list[Mistake]) -> list[Mistake]:
    return sorted(found, key=lambda one: -one.predicted.score if one.predicted is not None else 0.0)


def _told(found: Mistakes, *kinds: Kind) -> dict[str, float]:
    count = len(found.of(*kinds))
    return {
        "count": count,
        "share": count / len(found) if len(found) else 0.0,
        "f1_if_mended": found.f1_without(*kinds),
    }


def _summary(model: str, found: Mistakes) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    for group, kinds in GROUPS.items():
        told = _told(found, *kinds)
        rows.append((model, group, told["count"], percent(told["share"]), percent(told["f1_if_mended"])))
        if len(kinds) > 1:
            for kind in kinds:
                of_kind = _told(found, kind)
                share, mended = percent(of_kind["share"]), percent(of_kind["f1_if_mended"])
                rows.append((model, f"  {kind}", of_kind["count"], share, mended))
    return rows


def _draw_kinds(axis: Any, models: dict[str, Mistakes]) -> None:
    counts = {name: found.counts() for name, found in models.items()}
    names: list[str] = list(KINDS)
    bars(axis, {name: [float(of[kind]) for kind in KINDS] for name, of in counts.items()}, names, "{:,.0f}")
    axis.set_xticks(range(len(KINDS)), names, rotation=20, ha="right", fontsize=8)
    axis.set(ylabel="mistakes", title="Mistakes by kind")
    for edge in list(accumulate(len(kinds) for kinds in GROUPS.values()))[:-1]:  # where a group ends
        axis.axvline(edge - 0.5, color="#bbbbbb", linewidth=0.8, linestyle=":")
    if len(models) > 1:
        legend(axis)


def _draw_shifts(axis: Any, models: dict[str, Mistakes]) -> None:
    places = [shift for shift in range(-FARTHEST, FARTHEST + 1) if shift]
    names = [f"{shift:+d}" for shift in places]
    names[0], names[-1] = f"≤ -{FARTHEST}", f"≥ +{FARTHEST}"
    values: dict[str, list[float]] = {}
    for model, found in models.items():
        for side, shifts in found.shifts().items():
            clipped: Counter[int] = Counter()
            for shift, count in shifts.items():
                clipped[max(-FARTHEST, min(FARTHEST, shift))] += count
            label = side if len(models) == 1 else f"{model}: {side}"
            values[label] = [float(clipped[place]) for place in places]
    bars(axis, values, names, "{:,.0f}")
    if len(models) > 1:  # a model's two bars share a colour
        for number, drawn in enumerate(axis.containers):
            for patch in drawn:
                patch.set(color=COLOURS[number // 2 % len(COLOURS)], alpha=1 - 0.5 * (number % 2))
    axis.set(
        xlabel="words by which the predicted boundary lies too far left (-) or right (+)",
        ylabel="boundaries",
        title="Boundary mistakes: how far the start and the end are off",
    )
    legend(axis)


def _row(model: str, one: Mistake, sentences: Sequence[Sentence]) -> tuple[Any, ...]:
    sentence = sentences[one.sentence]
    shift = one.shift if one.predicted is not None and one.gold is not None else (None, None)
    gold = _cells(sentence, one.gold)
    predicted = _cells(sentence, one.predicted)
    score = one.predicted.score if one.predicted is not None else None
    number = one.sentence + 1
    return (model, one.kind, _GROUP_OF[one.kind], number, sentence.id, *gold, *predicted, score, *shift)


def _cells(sentence: Sentence, entity: Entity | None) -> tuple[Any, ...]:
    if entity is None:
        return (None, None, None, None)
    return entity.type, entity.start, entity.end, sentence.phrase(entity)


def _example(one: Mistake, sentences: Sequence[Sentence]) -> dict[str, Any]:
    sentence = sentences[one.sentence]

    def told(entity: Entity | None) -> dict[str, Any] | None:
        if entity is None:
            return None
        return {
            "start": entity.start,
            "end": entity.end,
            "type": entity.type,
            "text": sentence.phrase(entity),
            "score": entity.score,
        }

    return {
        "sentence": one.sentence + 1,
        "id": sentence.id,
        "text": around(sentence, one),
        "gold": told(one.gold),
        "predicted": told(one.predicted),
    }


def around(sentence: Sentence, one: Mistake, words: int = 20) -> str:
    """The words about a mistake; of a long sentence, not all."""
    start, end = one.span
    first, behind = max(0, start - words), min(len(sentence), end + words)
    before, after = "... " * (first > 0), " ..." * (behind < len(sentence))
    return f"{before}{' '.join(sentence.words[first:behind])}{after}"
