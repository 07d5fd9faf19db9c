"""The report as HTML: all text goes through jinja2, which escapes it, and the page loads and runs nothing."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from fencepost.analysis.epochs import points_of
from fencepost.analysis.report import charts
from fencepost.analysis.report.contents import Contents
from fencepost.analysis.report.examples import SHOWN_ENTITIES, Example, choose, example, shortened
from fencepost.analysis.report.scores import TYPES, ReportScores
from fencepost.data.counts import statistics
from fencepost.errors import FencepostError
from fencepost.evaluation import KINDS, Kind

if TYPE_CHECKING:
    from jinja2 import Environment

MARK = "<!doctype html>\n<!-- fencepost report"
"""The beginning of every report; a file that begins like this may be overwritten by another report."""

_VALUE = 300
"""Default for the largest number of characters of a value."""

_JOINERS = "\u200c\u200d"
"""Invisible letters that words of some languages need."""


def render(contents: Contents) -> str:
    """Return the report as one HTML file; the same contents always give the same."""
    scores = ReportScores.of(contents)
    corpora = dict(contents.statistics)
    if contents.gold is not None:
        corpora[contents.data or "the data"] = statistics(contents.gold).to_dict()
    types = Counter[str]()
    for corpus in corpora.values():
        types.update(corpus.get("by_type", {}))
    template = environment().get_template("report.html")
    return template.render(
        mark=MARK,
        contents=contents,
        judged=scores,
        settings=list(_flat(contents.settings)),
        kept=next((one for one in contents.epochs if one.number == contents.kept), None),
        **_learning_curves(contents),
        examples=_examples(contents, scores),
        corpora=corpora,
        corpus_types=sorted(types, key=lambda name: (-types[name], name)),
        entity_lengths=_entity_lengths(corpora),
        most_types=TYPES,
        most_lanes=SHOWN_ENTITIES,
        **_score_charts(scores),
    )


def _learning_curves(contents: Contents) -> dict[str, Any]:
    """Return the development F1 by epoch, in percent, and the charts of it and of the losses."""
    epochs = contents.epochs
    f1 = points_of(epochs, "dev_f1", 100)
    losses = {"training data": points_of(epochs, "loss"), "development data": points_of(epochs, "dev_loss")}
    return {
        "dev_f1": f1,
        "f1_curve": charts.learning_curve({"F1": f1}, contents.kept, ".1f"),
        "loss_curve": charts.learning_curve(losses, contents.kept, ".3f"),
    }


def _score_charts(scores: ReportScores | None) -> dict[str, Any]:
    """Return the calibration, the table of confusions, and the charts of what was scored."""
    calibration = scores.evaluation.calibration if scores is not None else None
    bins = calibration.bins if calibration is not None and calibration.ece is not None else None
    lengths = scores.lengths() if scores is not None else None
    shifts = scores.mistakes.shifts() if scores is not None and scores.mistakes is not None else {}
    return {
        "calibration": calibration,
        "reliability": charts.reliability_diagram(bins) if bins else None,
        "confidences": charts.confidence_histogram(bins) if bins else None,
        "lengths": charts.f1_by_length(lengths) if lengths else None,
        "shifts": charts.shift_histogram(shifts) if any(shifts.values()) else None,
        "confusion": scores.confusion() if scores is not None else None,
    }


def _entity_lengths(corpora: Mapping[str, Mapping[str, Any]]) -> charts.Chart | None:
    lengths = {
        name: {int(length): count for length, count in corpus["by_length"].items()}
        for name, corpus in corpora.items()
        if corpus.get("by_length")
    }
    return charts.length_histogram(lengths) if lengths else None


def _examples(contents: Contents, scores: ReportScores | None) -> dict[Kind, list[Example]]:
    """Return the examples of each kind that has any."""
    gold, predicted = contents.gold, contents.predicted
    if scores is None or scores.mistakes is None or gold is None or predicted is None:
        return {}
    chosen = {kind: choose(scores.mistakes.of(kind), gold, contents.examples) for kind in KINDS}
    return {
        kind: [example(one, gold[one.sentence], predicted[one.sentence]) for one in of_kind]
        for kind, of_kind in chosen.items()
        if of_kind
    }


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield settings by their whole keys, as `--set` has them."""
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", "none" if value is None else str(value)


@cache
def environment() -> Environment:
    """Return the templates of our pages, with their filters; all text is escaped."""
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ModuleNotFoundError as error:
        raise FencepostError(
            f"a report needs {error.name}, which is not installed: pip install jinja2"
        ) from None
    made = Environment(
        loader=PackageLoader("fencepost.analysis.report", "templates"),
        autoescape=True,
        finalize=_harmless,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        percent=_percent,
        count="{:,.0f}".format,
        short=lambda text, most=_VALUE: shortened(str(text), most),
    )
    return made


def _harmless(value: Any) -> Any:
    """Return what is put into the page, without control and direction characters and half letters.

    What a template has made is harmless already.
    """
    if not isinstance(value, str) or hasattr(value, "__html__") or value.isprintable():
        return value
    return "".join(
        letter if letter.isprintable() or letter in _JOINERS or letter == "\n" else repr(letter)[1:-1]
        for letter in value
    )


def _percent(share: float | None) -> str:
    """Return a share in percent with one decimal; a dash where there is none."""
    return "–" if share is None or not math.isfinite(share) else f"{100 * share:.1f}"
