"""Entities of a text on the tokens of a spaCy document: in `doc.spans` and `doc.ents`, with scores."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
from spacy.tokens import Doc, Span, SpanGroup

from fencepost.data.entity import Entity
from fencepost.errors import UsageError

if TYPE_CHECKING:
    from fencepost.data.formats.overlaps import Prefer
    from fencepost.runtime.recogniser import Span as Predicted

SCORES, UNALIGNED = "scores", "unaligned"
"""Attributes of a group of spans: a score for each, and the entities that fit on no tokens."""

ALIGNMENT_MODES = ("strict", "contract", "expand")
FLAT = ("outermost", "innermost", "best")


@dataclass(frozen=True, slots=True)
class Marking:
    """How entities are put on a document; see docs/spacy.md."""

    spans_key: str
    ents: str | None
    overwrite_ents: bool
    alignment_mode: str

    def __post_init__(self) -> None:
        if self.ents is not None and self.ents not in FLAT:
            raise UsageError.unknown("choice of ents", self.ents, (*FLAT, "null"))
        if self.alignment_mode not in ALIGNMENT_MODES:
            raise UsageError.unknown("alignment_mode", self.alignment_mode, ALIGNMENT_MODES)

    def __call__(self, doc: Doc, predicted: Sequence[Predicted]) -> list[Predicted]:
        """Put the entities of the document's text on its tokens; return those that do not fit on them."""
        entities, unaligned = align(doc, predicted, self.alignment_mode)
        spans = [Span(doc, entity.start, entity.end, label=entity.type) for entity in entities]
        attributes = {
            SCORES: np.array([entity.score for entity in entities], dtype=np.float64),
            UNALIGNED: [
                {"start": one.start, "end": one.end, "label": one.type, "score": one.score, "text": one.text}
                for one in unaligned
            ],
        }
        doc.spans[self.spans_key] = SpanGroup(doc, name=self.spans_key, attrs=attributes, spans=spans)
        if self.ents is not None:
            self._set_ents(doc, entities)
        return unaligned

    def _set_ents(self, doc: Doc, entities: Sequence[Entity]) -> None:
        from fencepost.data.formats.overlaps import keep_compatible

        there = list(doc.ents)
        if not self.overwrite_ents:
            taken = {word for span in there for word in range(span.start, span.end)}
            entities = [one for one in entities if taken.isdisjoint(range(one.start, one.end))]
        chosen = keep_compatible(entities, "none", cast("Prefer", self.ents))
        wanted = {word for one in chosen for word in range(one.start, one.end)}
        spans = [Span(doc, one.start, one.end, label=one.type) for one in chosen]
        for span in there:
            if wanted.isdisjoint(range(span.start, span.end)):
                spans.append(span)
                continue
            for token in span:  # or else spaCy gives the identity of the old entity to the new one
                token.ent_id = token.ent_kb_id = 0
        doc.set_ents(spans)


def align(doc: Doc, predicted: Iterable[Predicted], mode: str) -> tuple[list[Entity], list[Predicted]]:
    """Return the entities on the document's tokens, each once and in order, and those that fit on none.

    By `mode`, as in `Doc.char_span`, an entity that begins or ends inside a token is left out (`strict`), has
    the tokens that lie within it (`contract`), or all that it touches (`expand`).
    """
    best: dict[tuple[int, int, str], Entity] = {}
    unaligned: list[Predicted] = []
    for one in predicted:
        span = doc.char_span(one.start, one.end, alignment_mode=mode)
        words = [] if span is None else [token.i for token in span if not token.is_space]
        if not words:
            unaligned.append(one)
            continue
        entity = Entity(words[0], words[-1] + 1, one.type, one.score)
        if entity.key not in best or entity.score > best[entity.key].score:
            best[entity.key] = entity
    return [best[key] for key in sorted(best)], unaligned


def get_score(span: Span) -> float | None:
    """Return the confidence of an entity of Fencepost, be it from `doc.spans` or `doc.ents`.

    It is None for other spans, and where the confidences of several components differ.
    """
    wanted, found = _place(span), set()
    for group in span.doc.spans.values():
        scores = group.attrs.get(SCORES, ())
        if UNALIGNED not in group.attrs or len(scores) != len(group):
            continue
        at = bisect_left(group, wanted, key=_place)
        if at < len(group) and _place(group[at]) == wanted:
            found.add(float(scores[at]))
    return found.pop() if len(found) == 1 else None


def _place(span: Span) -> tuple[int, int, str]:
    return span.start, span.end, span.label_


if not Span.has_extension("fencepost_score"):
    Span.set_extension("fencepost_score", getter=get_score)
