"""Suggestions: corrections of annotations that models contradict."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from fencepost.analysis.audit.predictions import AuditPredictions
from fencepost.data.entity import Entity, Sentence
from fencepost.evaluation import GROUPS, ErrorCase, ErrorKind

Kind = Literal["boundary", "type", "boundary and type", "missing", "spurious", "nesting"]
KINDS: tuple[Kind, ...] = get_args(Kind)
"""Kinds of annotation errors: those of `evaluation.errors`, with the roles exchanged.

A prediction that is not annotated may be a missing annotation, and an annotation that is not predicted may be
a spurious one.
"""

_KIND_OF: dict[str, Kind] = {
    "boundary": "boundary",
    "type": "type",
    "boundary and type": "boundary and type",
    "nested level": "nesting",
    "spurious": "missing",
    "missed": "spurious",
}
KIND_OF: dict[ErrorKind, Kind] = {kind: _KIND_OF[group] for group, of in GROUPS.items() for kind in of}
UNCERTAIN = 0.9999
"""Maximum score of an entity that is exported for review: tools take a score of 1 for an annotation."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """Correction that replaces the entity `gold` by `suggested`, or adds or removes one if one is None.

    `suspicion` is between 0 and 1 and ranks suggestions of all kinds. `confidence` is the confidence of the
    models in the gold entity.
    """

    kind: Kind
    sentence: int  # from 0
    gold: Entity | None
    suggested: Entity | None
    suspicion: float
    confidence: float | None = None

    @classmethod
    def of(cls, error: ErrorCase, suspicion: float, confidence: float | None) -> Suggestion:
        """Return the correction that follows if the annotation is wrong and the prediction is correct."""
        return cls(KIND_OF[error.kind], error.sentence, error.gold, error.predicted, suspicion, confidence)

    @property
    def types(self) -> set[str]:
        return {entity.type for entity in (self.gold, self.suggested) if entity is not None}

    @property
    def id(self) -> str:
        """Identifier that is the same in every audit of the same sentences."""
        keys = [None if one is None else one.key for one in (self.gold, self.suggested)]
        return hashlib.sha256(json.dumps([self.sentence, *keys]).encode()).hexdigest()[:12]

    def to_dict(self, rank: int, sentence: Sentence) -> dict[str, Any]:
        """Return the suggestion for JSON; the user sets `accept`."""

        def entity_to_dict(entity: Entity | None, confidence: float | None) -> dict[str, Any] | None:
            if entity is None:
                return None
            start, end, type_ = entity.key
            score = None if confidence is None else round(confidence, 4)
            phrase = sentence.phrase(entity)
            return {"start": start, "end": end, "type": type_, "text": phrase, "confidence": score}

        return {
            "id": self.id,
            "rank": rank,
            "kind": self.kind,
            "suspicion": round(self.suspicion, 4),
            "sentence": self.sentence + 1,
            "sentence_id": sentence.id,
            "doc": sentence.doc,
            "words": list(sentence.words),
            "gold": entity_to_dict(self.gold, self.confidence),
            "suggested": entity_to_dict(
                self.suggested, None if self.suggested is None else self.suggested.score
            ),
            "accept": None,
        }


def to_dicts(suggestions: Iterable[Suggestion], sentences: Sequence[Sentence]) -> Iterator[dict[str, Any]]:
    """Yield ranked suggestions for JSON, the first with rank 1."""
    for rank, one in enumerate(suggestions, start=1):
        yield one.to_dict(rank, sentences[one.sentence])


def apply_for_review(suggestions: Sequence[Suggestion], predictions: AuditPredictions) -> Iterator[Sentence]:
    """Yield the sentences that have suggestions, with these applied, for review in an annotation tool.

    The most suspicious sentence comes first. The score of an entity is the confidence of the models, and
    always below 1, so that tools treat it as a prediction. An entity that is suggested for removal stays,
    with its low score. `meta["audit"]` lists the suggestions.
    """
    by_sentence: dict[int, list[tuple[int, Suggestion]]] = {}
    for rank, one in enumerate(suggestions, start=1):
        by_sentence.setdefault(one.sentence, []).append((rank, one))
    for number, ranked in by_sentence.items():
        sentence, confidences = predictions.sentences[number], predictions.confidences[number]
        entities = {entity.key: entity for entity in sentence.entities}
        for _, one in ranked:
            if one.suggested is not None:
                if one.gold is not None:
                    entities.pop(one.gold.key, None)
                entities[one.suggested.key] = one.suggested
        scored = (
            replace(entity, score=min(UNCERTAIN, confidences.get(key, 0.0)))
            for key, entity in entities.items()
        )
        notes = [_make_note(rank, one) for rank, one in ranked]
        yield replace(sentence.with_entities(scored), meta={**sentence.meta, "audit": notes})


def _make_note(rank: int, one: Suggestion) -> dict[str, Any]:
    keys = {
        name: None if entity is None else list(entity.key)
        for name, entity in (("gold", one.gold), ("suggested", one.suggested))
    }
    return {"rank": rank, "kind": one.kind, "suspicion": round(one.suspicion, 4), **keys}
