"""Suggestions: where models contradict an annotation, and what they would put in its place."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from fencepost.analysis.audit.judged import Judged
from fencepost.data.entity import Entity, Sentence
from fencepost.evaluation import GROUPS, Mistake
from fencepost.evaluation import Kind as MistakeKind

Kind = Literal["boundary", "type", "boundary and type", "missing", "spurious", "nesting"]
KINDS: tuple[Kind, ...] = get_args(Kind)
"""Kinds of annotation errors, as those of `evaluation.mistakes`, seen from the other side.

A prediction that is not annotated may be a missing annotation, an entity that is not predicted may be a
spurious one.
"""

_KIND_OF: dict[str, Kind] = {
    "boundary": "boundary",
    "type": "type",
    "boundary and type": "boundary and type",
    "nested level": "nesting",
    "spurious": "missing",
    "missed": "spurious",
}
KIND_OF: dict[MistakeKind, Kind] = {kind: _KIND_OF[group] for group, of in GROUPS.items() for kind in of}
UNCERTAIN = 0.9999
"""Largest score of an entity that is exported for review: one that is certain is no prediction."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """Replace the entity `gold` by `suggested`; without one of them, add or remove an entity.

    `suspicion` is between 0 and 1, and orders suggestions of all kinds; `confidence` is the models' in the
    gold entity.
    """

    kind: Kind
    sentence: int  # from 0
    gold: Entity | None
    suggested: Entity | None
    suspicion: float
    confidence: float | None = None

    @classmethod
    def of(cls, mistake: Mistake, suspicion: float, confidence: float | None) -> Suggestion:
        """Return what a model's mistake suggests, if not the model is wrong but the annotation."""
        gold, predicted = mistake.gold, mistake.predicted
        return cls(KIND_OF[mistake.kind], mistake.sentence, gold, predicted, suspicion, confidence)

    @property
    def types(self) -> set[str]:
        return {entity.type for entity in (self.gold, self.suggested) if entity is not None}

    @property
    def id(self) -> str:
        """A name that stays the same in another audit of the same sentences."""
        keys = [None if one is None else one.key for one in (self.gold, self.suggested)]
        return hashlib.sha256(json.dumps([self.sentence, *keys]).encode()).hexdigest()[:12]

    def to_dict(self, rank: int, sentence: Sentence) -> dict[str, Any]:
        """Return the suggestion for JSON; a person sets `accept`."""

        def content_of(entity: Entity | None, confidence: float | None) -> dict[str, Any] | None:
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
            "gold": content_of(self.gold, self.confidence),
            "suggested": content_of(self.suggested, None if self.suggested is None else self.suggested.score),
            "accept": None,
        }


def to_dicts(suggestions: Iterable[Suggestion], sentences: Sequence[Sentence]) -> Iterator[dict[str, Any]]:
    """Yield ranked suggestions for JSON."""
    for rank, one in enumerate(suggestions, start=1):
        yield one.to_dict(rank, sentences[one.sentence])


def sentences_to_review(suggestions: Sequence[Suggestion], judged: Judged) -> Iterator[Sentence]:
    """Yield the sentences that have suggestions, with these applied, for review in an annotation tool.

    The most suspicious one comes first. The score of an entity is the models' confidence, and always below 1,
    so that tools take it as the prediction of a model. An entity that should only be removed stays, with its
    low score. `meta["audit"]` says what is suggested.
    """
    by_sentence: dict[int, list[tuple[int, Suggestion]]] = {}
    for rank, one in enumerate(suggestions, start=1):
        by_sentence.setdefault(one.sentence, []).append((rank, one))
    for number, ranked in by_sentence.items():
        sentence, confidences = judged.sentences[number], judged.confidences[number]
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
        notes = [_note(rank, one) for rank, one in ranked]
        yield replace(sentence.with_entities(scored), meta={**sentence.meta, "audit": notes})


def _note(rank: int, one: Suggestion) -> dict[str, Any]:
    keys = {
        name: None if entity is None else list(entity.key)
        for name, entity in (("gold", one.gold), ("suggested", one.suggested))
    }
    return {"rank": rank, "kind": one.kind, "suspicion": round(one.suspicion, 4), **keys}
