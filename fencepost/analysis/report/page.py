"""The report as HTML: all text goes through jinja2, which escapes it, and the page loads and runs nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from fencepost.analysis.report import charts
from fencepost.analysis.report.contents import Contents
from fencepost.analysis.report.examples import SHOWN_ENTITIES, Example, example, picked, shortened
from fencepost.analysis.report.judged import TYPES, Judged
from fencepost.data import statistics
from fencepost.errors import FencepostError
from fencepost.evaluation import KINDS, Calibration, Kind

if TYPE_CHECKING:
    from jinja2 import Environment

MARK = "<!doctype html>\n<!-- fencepost report"
"""How every report begins: what begins so may be overwritten by another one."""

_VALUE = 300
"""Characters of a setting's value and the like that are shown at most, unless fewer."""

_JOINERS = "\u200c\u200d"
"""They cannot be seen, but words of some languages are not right without them."""

EXPLAINED: dict[str, str] = {
    "boundary": "The type is right, and at least a quarter of the words.",
    "start": "The type and the end are right; the start is not.",
    "end": "The type and the start are right; the end is not.",
    "start and end": "The type is right; some words are shared, but both ends are wrong.",
    "type": "The words are right; the type is not.",
    "boundary and type": "At least half of the words are shared; a boundary and the type are wrong.",
    "nested level": "The place is right, but not the level of nesting.",
    "wrong level": "The type is right, but the words are those of another entity, around it or inside it.",
    "extra level": "A prediction around or inside one that is right or nearly so, where there is no entity.",
    "missing level": "An entity around or inside one that was found was not found itself.",
    "spurious": "A prediction where there is no entity that it could mean.",
    "missed": "An entity that no prediction means.",
}


def render(contents: Contents) -> str:
    """One HTML file; the same contents always give the same."""
    judged = Judged.of(contents)
    described = _described(contents)
    calibration = judged.evaluation.calibration if judged is not None else None
    lengths = {
        name: {int(length): count for length, count in of_corpus["by_length"].items()}
        for name, of_corpus in described.items()
        if of_corpus.get("by_length")
    }
    return (
        _environment()
        .get_template("report.html")
        .render(
            mark=MARK,
            contents=contents,
            judged=judged,
            settings=list(_flat(contents.settings)),
            kept=next((one for one in contents.epochs if one.number == contents.kept), None),
            curves=charts.learning_curves(contents.epochs, contents.kept),
            lengths=_length_chart(judged),
            calibration=calibration,
            reliability=_reliability(calibration),
            shifts=_shift_chart(judged),
            examples=_examples(contents, judged),
            explained=EXPLAINED,
            confusion=judged.confusion() if judged is not None else None,
            described=described,
            described_types=_types(described),
            entity_lengths=charts.length_histogram(lengths) if lengths else None,
            most_types=TYPES,
            most_lanes=SHOWN_ENTITIES,
        )
    )


def _described(contents: Contents) -> dict[str, Mapping[str, Any]]:
    """Statistics of all corpora that are known."""
    found = dict(contents.statistics)
    if contents.gold is not None:
        found[contents.data or "the data"] = statistics(contents.gold).to_dict()
    return found


def _types(described: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """All types of all corpora, the most frequent first."""
    counts: dict[str, int] = {}
    for of_corpus in described.values():
        for name, count in of_corpus.get("by_type", {}).items():
            counts[name] = counts.get(name, 0) + count
    return sorted(counts, key=lambda name: (-counts[name], name))


def _length_chart(judged: Judged | None) -> charts.Chart | None:
    rows = judged.lengths() if judged is not None else []
    if not rows:
        return None
    bounds = {row.name: row.bounds.f1 for row in rows if row.bounds is not None}
    return charts.f1_by_length({row.name: row.score for row in rows}, bounds)


def _reliability(calibration: Calibration | None) -> list[charts.Chart]:
    if calibration is None or calibration.ece is None:
        return []
    return [charts.reliability_diagram(calibration.bins), charts.confidence_histogram(calibration.bins)]


def _shift_chart(judged: Judged | None) -> charts.Chart | None:
    if judged is None or judged.mistakes is None:
        return None
    shifts = judged.mistakes.shifts()
    return charts.shift_histogram(shifts) if any(shifts.values()) else None


def _examples(contents: Contents, judged: Judged | None) -> dict[Kind, list[Example]]:
    if judged is None or judged.mistakes is None or contents.gold is None or contents.predicted is None:
        return {}
    found = {}
    for kind in KINDS:
        chosen = picked(judged.mistakes.of(kind), contents.gold, contents.examples)
        if chosen:
            found[kind] = [
                example(one, contents.gold[one.sentence], contents.predicted[one.sentence]) for one in chosen
            ]
    return found


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Settings by their whole keys, as `--set` has them."""
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", "none" if value is None else str(value)


@cache
def _environment() -> Environment:
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ModuleNotFoundError as error:
        raise FencepostError(
            f"a report needs {error.name}, which is not installed: pip install jinja2"
        ) from None
    environment = Environment(
        loader=PackageLoader("fencepost.analysis.report", "templates"),
        autoescape=True,
        finalize=_harmless,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        percent=percent, count=count, short=lambda text, most=_VALUE: shortened(str(text), most)
    )
    return environment


def _harmless(value: Any) -> Any:
    """What is put into the page, without the letters that steer: control, direction, half letters.

    What a template has made is harmless already.
    """
    if not isinstance(value, str) or hasattr(value, "__html__"):
        return value
    if value.isprintable():
        return value
    return "".join(
        letter if letter.isprintable() or letter in _JOINERS or letter == "\n" else repr(letter)[1:-1]
        for letter in value
    )


def percent(share: float | None) -> str:
    """In percent with one decimal; a dash where there is none."""
    return "–" if share is None or not math.isfinite(share) else f"{100 * share:.1f}"


def count(number: float) -> str:
    return f"{number:,.0f}"
