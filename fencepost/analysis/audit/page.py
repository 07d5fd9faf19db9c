"""The page of an audit: an HTML file in which a person accepts or rejects suggestions.

All text is escaped by jinja2. The page loads nothing. Its only script, which the security policy of the page
allows by its hash, filters suggestions, handles keys, and saves the accepted suggestions to a file.
"""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple

from fencepost import __version__
from fencepost.analysis.audit.predictions import AuditPredictions
from fencepost.analysis.audit.suggestions import KINDS, Suggestion, to_dicts
from fencepost.analysis.consistency import Inconsistency, count_checks
from fencepost.analysis.report.examples import SHOWN_ENTITIES, Example, make_example
from fencepost.analysis.report.page import make_environment
from fencepost.data.entity import Sentence
from fencepost.evaluation import ErrorCase

MARK = "<!doctype html>\n<!-- fencepost audit"
"""The first characters of every page of an audit."""

INCONSISTENCIES, SUSPECTS, COUNTS = 100, 5, 6
"""Maximum numbers of inconsistencies of each check on the page, of suspects, and of counts of each."""


@dataclass(frozen=True)
class AuditPage:
    """Contents of the page of an audit: the first `top` suggestions, and the inconsistencies."""

    name: str
    sentences: Sequence[Sentence]
    inconsistencies: Sequence[Inconsistency]
    predictions: AuditPredictions | None = None
    suggestions: Sequence[Suggestion] = ()
    top: int = 1000
    created: datetime = field(default_factory=lambda: datetime.now(UTC))


class _Row(NamedTuple):
    """Suggestion on the page, the numbers of its types, and its sentence."""

    suggestion: Suggestion
    types: Sequence[int]
    example: Example


def render(page: AuditPage) -> str:
    """Return the page as one HTML file."""
    suggestions = page.suggestions[: page.top]
    types = sorted({type_ for one in suggestions for type_ in one.types})
    checks: dict[str, list[Inconsistency]] = {}
    for one in page.inconsistencies:
        checks.setdefault(one.check, []).append(one)
    templates = make_environment()
    source, _, _ = templates.loader.get_source(templates, "audit.js")  # type: ignore[union-attr]
    digest = base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
    return templates.get_template("audit.html").render(
        mark=MARK,
        version=__version__,
        page=page,
        kinds=Counter(one.kind for one in page.suggestions),
        all_kinds=KINDS,
        types=types,
        rows=[_make_row(one, types, page.predictions) for one in suggestions if page.predictions is not None],
        data=list(to_dicts(suggestions, page.sentences)),
        checks={check: of[:INCONSISTENCIES] for check, of in checks.items()},
        check_counts=count_checks(page.inconsistencies),
        most_suspects=SUSPECTS,
        most_counts=COUNTS,
        most_lanes=SHOWN_ENTITIES,
        script=source,
        script_hash=f"sha256-{digest}",
    )


def _make_row(one: Suggestion, types: Sequence[str], predictions: AuditPredictions) -> _Row:
    error = ErrorCase("type", one.sentence, one.suggested, one.gold)  # the kind is not shown
    sentence, predicted = predictions.sentences[one.sentence], predictions.predicted[one.sentence]
    return _Row(
        one, [types.index(type_) for type_ in sorted(one.types)], make_example(error, sentence, predicted)
    )
