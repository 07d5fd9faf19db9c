"""Errors by kind, and the distances of wrong boundaries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from fencepost.analysis.figures import COLOURS, GREY, add_legend, draw_bars, make_panels, use_count_axis
from fencepost.analysis.result import Analysis, Table, clip_counts, to_percent
from fencepost.evaluation import GROUPS, KINDS, ErrorAnalysis, ErrorCase

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fencepost.data.entity import Entity, Sentence

FARTHEST = 5
"""Boundaries that are off by this number of words or more are counted in one bar."""

_SIDES = ("gold", "predicted")
_CELLS = ("type", "start", "end", "text")
_COLUMNS = (
    *("model", "kind", "group", "sentence", "id"),
    *(f"{side}_{cell}" for side in _SIDES for cell in _CELLS),
    *("confidence", "start_off", "end_off"),
)
_GROUP_OF = {kind: group for group, kinds in GROUPS.items() for kind in kinds}


def analyze_errors(
    models: Mapping[str, ErrorAnalysis],
    sentences: Sequence[Sentence],
    facts: dict[str, Any],
    examples: int = 5,
) -> Analysis:
    """Draw the number of errors of each kind, with a bar for each model, and the shifts of boundaries.

    The table has a row for each error. The JSON has the counts and some examples of each kind, the most
    confident predictions first.
    """
    figure, (kinds, shifts) = make_panels(2, width=6.2, height=4.0, columns=1)
    _draw_kinds(kinds, models)
    _draw_shifts(shifts, models)
    content = {
        model: {
            "mistakes": len(errors),
            "f1": errors.score.f1,
            "kinds": {kind: asdict(errors.count(kind)) for kind in KINDS},
            "groups": {group: asdict(errors.count(*of_group)) for group, of_group in GROUPS.items()},
            "shifts": {side: {str(k): of[k] for k in of} for side, of in errors.count_shifts().items()},
            "examples": {
                kind: [_to_dict(error, sentences) for error in _sort(errors.of(kind))[:examples]]
                for kind in KINDS
            },
        }
        for model, errors in models.items()
    }
    rows = [_make_row(model, error, sentences) for model, errors in models.items() for error in errors.all]
    summary = [
        (model, "  " * is_kind + name, row.count, to_percent(row.share), to_percent(row.f1_if_corrected))
        for model, errors in models.items()
        for name, is_kind, row in errors.list_counts()
    ]
    columns = ("model", "kind", "count", "% of errors", "F1 if corrected")
    table = Table(_COLUMNS, rows)
    return Analysis("errors", {**facts, "models": content}, table, figure, Table(columns, summary))


def _sort(errors: list[ErrorCase]) -> list[ErrorCase]:
    """Sort errors by descending confidence."""
    return sorted(errors, key=lambda error: -error.predicted.score if error.predicted is not None else 0.0)


def _draw_kinds(axis: Axes, models: Mapping[str, ErrorAnalysis]) -> None:
    heights = {name: list(map(float, errors.count_kinds().values())) for name, errors in models.items()}
    draw_bars(axis, heights, list(KINDS), "{:,.0f}")
    axis.set_xticks(range(len(KINDS)), KINDS, rotation=20, ha="right", fontsize=8)
    axis.set_title("Errors by kind")
    use_count_axis(axis, "number of errors")
    label = "limit of a group of kinds"
    for end in list(accumulate(len(kinds) for kinds in GROUPS.values()))[:-1]:
        axis.axvline(end - 0.5, color=GREY, linewidth=0.8, linestyle=":", label=label)
        label = ""  # one entry in the legend
    add_legend(axis)


def _draw_shifts(axis: Axes, models: Mapping[str, ErrorAnalysis]) -> None:
    shifts = [shift for shift in range(-FARTHEST, FARTHEST + 1) if shift]
    names = [f"≤ -{FARTHEST}", *(f"{shift:+d}" for shift in shifts[1:-1]), f"≥ +{FARTHEST}"]
    values = {
        side if len(models) == 1 else f"{model}: {side}": list(map(float, clip_counts(shifts, counts)))
        for model, errors in models.items()
        for side, counts in errors.count_shifts().items()
    }
    draw_bars(axis, values, names, "{:,.0f}")
    if len(models) > 1:  # the two bars of a model share a colour
        for number, container in enumerate(axis.containers):
            for patch in container:
                patch.set(color=COLOURS[number // 2 % len(COLOURS)], alpha=1 - 0.5 * (number % 2))
    axis.set(
        xlabel="distance of the predicted boundary in words: too far left (-) or right (+)",
        title="Boundary errors: distances of starts and ends",
    )
    use_count_axis(axis, "number of boundaries")
    add_legend(axis)


def _make_row(model: str, error: ErrorCase, sentences: Sequence[Sentence]) -> tuple[Any, ...]:
    content = _to_dict(error, sentences)
    cells = [(content[side] or {}).get(cell) for side in _SIDES for cell in _CELLS]
    confidence = error.predicted.score if error.predicted is not None else None
    shift = error.shift if error.predicted is not None and error.gold is not None else (None, None)
    place = content["sentence"], content["id"]
    return (model, error.kind, _GROUP_OF[error.kind], *place, *cells, confidence, *shift)


def _to_dict(error: ErrorCase, sentences: Sequence[Sentence]) -> dict[str, Any]:
    sentence = sentences[error.sentence]

    def entity_to_dict(entity: Entity | None) -> dict[str, Any] | None:
        if entity is None:
            return None
        start, end, type_ = entity.key
        text = sentence.phrase(entity)
        return {"start": start, "end": end, "type": type_, "text": text, "score": entity.score}

    return {
        "sentence": error.sentence + 1,
        "id": sentence.id,
        "text": get_context(sentence, error),
        "gold": entity_to_dict(error.gold),
        "predicted": entity_to_dict(error.predicted),
    }


def get_context(sentence: Sentence, error: ErrorCase, words: int = 20) -> str:
    """Return the words of an error, with at most `words` before and after them."""
    start, end = max(0, error.span[0] - words), min(len(sentence), error.span[1] + words)
    before, after = "... " * (start > 0), " ..." * (end < len(sentence))
    return f"{before}{' '.join(sentence.words[start:end])}{after}"
