"""Report as HTML: jinja2 escapes all text, and the page neither loads nor runs anything."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from fencepost.analysis.epochs import get_points
from fencepost.analysis.report import charts
from fencepost.analysis.report.contents import Contents
from fencepost.analysis.report.examples import (
    SHOWN_ENTITIES,
    Example,
    choose_examples,
    make_example,
    truncate,
)
from fencepost.analysis.report.scores import TYPES, ReportScores
from fencepost.data.counts import statistics
from fencepost.errors import FencepostError
from fencepost.evaluation import KINDS, ErrorKind
from fencepost.settings import flatten_tree

if TYPE_CHECKING:
    from jinja2 import Environment

MARK = "<!doctype html>\n<!-- fencepost report"
"""The first characters of every report; a file that starts with them may be overwritten by a report."""

_VALUE = 300
"""Default for the maximum number of characters of a value."""

_JOINERS = "\u200c\u200d"
"""Invisible characters that words of some languages need."""


def render(contents: Contents) -> str:
    """Return the report as one HTML file; the same contents always give the same report."""
    scores = ReportScores.of(contents)
    corpora = dict(contents.statistics)
    if contents.gold is not None:
        corpora[contents.data or "the data"] = statistics(contents.gold).to_dict()
    types = Counter[str]()
    for corpus in corpora.values():
        types.update(corpus.get("by_type", {}))
    template = make_environment().get_template("report.html")
    return template.render(
        mark=MARK,
        contents=contents,
        report_scores=scores,
        settings=[
            (key, "none" if value is None else str(value))
            for key, value in flatten_tree(contents.settings).items()
        ],
        kept=next((one for one in contents.epochs if one.number == contents.kept_epoch), None),
        **_draw_learning_curves(contents),
        examples=_make_examples(contents, scores),
        corpora=corpora,
        corpus_types=sorted(types, key=lambda name: (-types[name], name)),
        entity_lengths=_draw_entity_lengths(corpora),
        most_types=TYPES,
        most_lanes=SHOWN_ENTITIES,
        **_draw_score_charts(scores),
    )


def _draw_learning_curves(contents: Contents) -> dict[str, Any]:
    """Return the development F1 by epoch, in percent, and the charts of F1 and of the losses."""
    epochs = contents.epochs
    f1 = get_points(epochs, "dev_f1", 100)
    losses = {"training data": get_points(epochs, "loss"), "development data": get_points(epochs, "dev_loss")}
    return {
        "dev_f1": f1,
        "f1_curve": charts.draw_learning_curve({"F1": f1}, contents.kept_epoch, ".1f"),
        "loss_curve": charts.draw_learning_curve(losses, contents.kept_epoch, ".3f"),
    }


def _draw_score_charts(scores: ReportScores | None) -> dict[str, Any]:
    """Return the calibration, the confusion matrix, and the charts of the scores."""
    calibration = scores.evaluation.calibration if scores is not None else None
    bins = calibration.bins if calibration is not None and calibration.ece is not None else None
    lengths = scores.score_lengths() if scores is not None else None
    shifts = scores.errors.count_shifts() if scores is not None and scores.errors is not None else {}
    return {
        "calibration": calibration,
        "reliability": charts.draw_reliability_diagram(bins) if bins else None,
        "confidences": charts.draw_confidence_histogram(bins) if bins else None,
        "lengths": charts.draw_f1_by_length(lengths) if lengths else None,
        "shifts": charts.draw_shift_histogram(shifts) if any(shifts.values()) else None,
        "confusion": scores.count_confusions() if scores is not None else None,
    }


def _draw_entity_lengths(corpora: Mapping[str, Mapping[str, Any]]) -> charts.Chart | None:
    lengths = {
        name: {int(length): count for length, count in corpus["by_length"].items()}
        for name, corpus in corpora.items()
        if corpus.get("by_length")
    }
    return charts.draw_length_histogram(lengths) if lengths else None


def _make_examples(contents: Contents, scores: ReportScores | None) -> dict[ErrorKind, list[Example]]:
    """Return the examples of each kind of error that occurs."""
    gold, predicted = contents.gold, contents.predicted
    if scores is None or scores.errors is None or gold is None or predicted is None:
        return {}
    by_kind = {kind: choose_examples(scores.errors.of(kind), gold, contents.examples) for kind in KINDS}
    return {
        kind: [make_example(one, gold[one.sentence], predicted[one.sentence]) for one in of_kind]
        for kind, of_kind in by_kind.items()
        if of_kind
    }


@cache
def make_environment() -> Environment:
    """Return the templates of the pages, with their filters and automatic escaping."""
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ModuleNotFoundError as error:
        message = f"a report needs {error.name}, which is not installed: pip install jinja2"
        raise FencepostError(message) from None
    templates = Environment(
        loader=PackageLoader("fencepost.analysis.report", "templates"),
        autoescape=True,
        finalize=_escape_control,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters.update(
        percent=_to_percent,
        count="{:,.0f}".format,
        short=lambda text, longest=_VALUE: truncate(str(text), longest),
    )
    return templates


def _escape_control(value: Any) -> Any:
    """Escape control characters, direction marks and surrogates in a text that is put into the page.

    The output of a template is escaped already.
    """
    if not isinstance(value, str) or hasattr(value, "__html__") or value.isprintable():
        return value
    return "".join(
        letter if letter.isprintable() or letter in _JOINERS or letter == "\n" else repr(letter)[1:-1]
        for letter in value
    )


def _to_percent(share: float | None) -> str:
    """Return a share in percent with one decimal, or a dash if it is undefined."""
    return "–" if share is None or not math.isfinite(share) else f"{100 * share:.1f}"
