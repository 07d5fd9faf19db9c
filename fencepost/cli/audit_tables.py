"""Tables of the results of an audit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fencepost.errors import shorten

if TYPE_CHECKING:
    from fencepost.analysis.audit.suggestions import Suggestion
    from fencepost.analysis.consistency import Inconsistency
    from fencepost.data.entity import Sentence

EXAMPLE = 70
"""Maximum number of characters of an example in a table."""


def summarize_checks(inconsistencies: Sequence[Inconsistency]) -> dict[str, dict[str, int]]:
    """Return the number of cases and of suspects of each check, for JSON."""
    from fencepost.analysis.consistency import count_checks

    counts = count_checks(inconsistencies).items()
    return {check: {"cases": cases, "suspects": suspects} for check, (cases, suspects) in counts}


def print_kinds(suggestions: Sequence[Suggestion], sentences: Sequence[Sentence]) -> None:
    """Print the number of suggestions of each kind, and the most suspicious one as an example."""
    from fencepost.analysis.audit.suggestions import KINDS
    from fencepost.cli.scores import make_console, print_table

    rows = []
    for kind in KINDS:
        of_kind = [one for one in suggestions if one.kind == kind]
        first = of_kind[0] if of_kind else None
        example = "" if first is None else _describe_suggestion(first, sentences[first.sentence])
        rows.append((kind, len(of_kind), f"{first.suspicion:.2f}" if first else "", example))
    columns = ("kind", "suggestions", "highest suspicion", "example")
    print_table(make_console(), "Annotations that are probably wrong", columns, rows)


def _describe_suggestion(one: Suggestion, sentence: Sentence) -> str:
    sides = [
        f"[{shorten(sentence.phrase(entity), EXAMPLE // 2)}] {entity.type}"
        if entity is not None
        else "nothing"
        for entity in (one.gold, one.suggested)
    ]
    return " -> ".join(sides)


def print_checks(inconsistencies: Sequence[Inconsistency]) -> None:
    """Print the number of inconsistencies of each check, and the one with the most suspects."""
    from fencepost.analysis.consistency import count_checks
    from fencepost.cli.scores import make_console, print_table

    first = {one.check: one for one in reversed(inconsistencies)}
    rows = []
    for check, (cases, suspects) in count_checks(inconsistencies).items():
        example = ""
        if cases:
            one = first[check]
            counts = ", ".join(
                f"{shorten(name, EXAMPLE // 2)} {count:,}" for name, count in one.counts.items()
            )
            example = f"{shorten(one.subject, EXAMPLE // 2)}: {shorten(counts, EXAMPLE)}"
        rows.append((check, cases, suspects, example))
    columns = ("check", "cases", "suspects", "example")
    print_table(make_console(), "Annotations that contradict each other", columns, rows)
