"""Setting of the entities of a text on a spaCy document: in `doc.spans` and `doc.ents`, with scores."""

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
    from fencepost.runtime.document import Span as Predicted

SCORES, UNALIGNED = "scores", "unaligned"
"""Attributes of a span group: the score of each span, and the entities that do not align with tokens."""

ALIGNMENT_MODES = ("strict", "contract", "expand")
FLAT = ("outermost", "innermost", "best")


@dataclass(frozen=True, slots=True)
class Marking:
    """Options for setting entities on a document; see docs/spacy.md."""

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
        """Set the entities of the document's text on its tokens; return those that do not align."""
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
        from fencepost.data.formats.overlaps import select_compatible

        existing = list(doc.ents)
        if not self.overwrite_ents:
            occupied = {word for span in existing for word in range(span.start, span.end)}
            entities = [one for one in entities if occupied.isdisjoint(range(one.start, one.end))]
        flat = select_compatible(entities, "none", cast("Prefer", self.ents))
        words = {word for one in flat for word in range(one.start, one.end)}
        spans = [Span(doc, one.start, one.end, label=one.type) for one in flat]
        for span in existing:
            if words.isdisjoint(range(span.start, span.end)):
                spans.append(span)
                continue
            for token in span:  # otherwise, spaCy gives the identity of the old entity to the new one
                token.ent_id = token.ent_kb_id = 0
        doc.set_ents(spans)


def align(doc: Doc, predicted: Iterable[Predicted], mode: str) -> tuple[list[Entity], list[Predicted]]:
    """Return the entities aligned with the document's tokens, each once and in order, and those not aligned.

    As in `Doc.char_span`, an entity that starts or ends inside a token is not aligned (`strict`), is aligned
    with the tokens inside it (`contract`), or with all tokens that it overlaps (`expand`).
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
    """Return the confidence of an entity of Fencepost in `doc.spans` or `doc.ents`.

    It is None for other spans, and if the confidences of several components differ.
    """
    key, confidences = _get_key(span), set()
    for group in span.doc.spans.values():
        scores = group.attrs.get(SCORES, ())
        if UNALIGNED not in group.attrs or len(scores) != len(group):
            continue
        index = bisect_left(group, key, key=_get_key)
        if index < len(group) and _get_key(group[index]) == key:
            confidences.add(float(scores[index]))
    return confidences.pop() if len(confidences) == 1 else None


def _get_key(span: Span) -> tuple[int, int, str]:
    return span.start, span.end, span.label_


if not Span.has_extension("fencepost_score"):
    Span.set_extension("fencepost_score", getter=get_score)
