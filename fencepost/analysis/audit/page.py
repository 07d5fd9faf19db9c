"""The suggestions of an audit as one HTML file, where a person accepts or rejects them.

All text goes through jinja2, which escapes it. The page loads nothing; its one script, which is named by its
hash in the page's security policy, filters, moves by keys, and saves the accepted suggestions as a file.
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
from fencepost.analysis.audit.judged import Judged
from fencepost.analysis.audit.suggestions import KINDS, Suggestion, to_dicts
from fencepost.analysis.consistency import Inconsistency, count_checks
from fencepost.analysis.report.examples import SHOWN_ENTITIES, Example, example
from fencepost.analysis.report.page import environment
from fencepost.data.entity import Sentence
from fencepost.evaluation import Mistake

MARK = "<!doctype html>\n<!-- fencepost audit"
"""The beginning of every page of an audit."""

INCONSISTENCIES, SUSPECTS, COUNTS = 100, 5, 6
"""Largest number of inconsistencies of each check on the page, of their suspects, and of their counts."""


@dataclass(frozen=True)
class AuditPage:
    """The contents of the page: of all suggestions, those to show, and what is annotated in several ways."""

    name: str
    sentences: Sequence[Sentence]
    inconsistencies: Sequence[Inconsistency]
    judged: Judged | None = None
    suggestions: Sequence[Suggestion] = ()
    shown: int = 1000
    made: datetime = field(default_factory=lambda: datetime.now(UTC))


class _Row(NamedTuple):
    """A suggestion that is shown, the numbers of its types, and its sentence."""

    suggestion: Suggestion
    types: Sequence[int]
    example: Example


def render(page: AuditPage) -> str:
    """Return the page as one HTML file."""
    shown = page.suggestions[: page.shown]
    types = sorted({type_ for one in shown for type_ in one.types})
    checks: dict[str, list[Inconsistency]] = {}
    for one in page.inconsistencies:
        checks.setdefault(one.check, []).append(one)
    templates = environment()
    source, _, _ = templates.loader.get_source(templates, "audit.js")  # type: ignore[union-attr]
    digest = base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
    return templates.get_template("audit.html").render(
        mark=MARK,
        version=__version__,
        page=page,
        kinds=Counter(one.kind for one in page.suggestions),
        all_kinds=KINDS,
        types=types,
        rows=[_row(one, types, page.judged) for one in shown if page.judged is not None],
        data=list(to_dicts(shown, page.sentences)),
        checks={check: of[:INCONSISTENCIES] for check, of in checks.items()},
        check_counts=count_checks(page.inconsistencies),
        most_suspects=SUSPECTS,
        most_counts=COUNTS,
        most_lanes=SHOWN_ENTITIES,
        script=source,
        script_hash=f"sha256-{digest}",
    )


def _row(one: Suggestion, types: Sequence[str], judged: Judged) -> _Row:
    mistake = Mistake("type", one.sentence, one.suggested, one.gold)  # the kind is not drawn
    drawn = example(mistake, judged.sentences[one.sentence], judged.predicted[one.sentence])
    return _Row(one, [types.index(type_) for type_ in sorted(one.types)], drawn)
