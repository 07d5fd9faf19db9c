"""Statistics of a corpus, as in the data tables of the papers, in one pass and little memory."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from fencepost.data.entity import Entity, Sentence
from fencepost.data.formats.overlaps import Boundaries, has_forbidden_overlap


@dataclass
class Statistics:
    """Statistics of a corpus.

    An entity is `nested` if it lies inside another one with a different span, and `nested_same_type` if one
    of these has the same type; it is `crossing` if it overlaps another one without nesting. `depth` is the
    length of the longest chain of entities, each inside the previous one. `same_span_conflicts` counts the
    spans with more than one type.
    """

    sentences: int = 0
    documents: int = 0
    tokens: int = 0
    longest_sentence: int = 0
    sentences_without_entities: int = 0
    entities: int = 0
    longest_entity: int = 0
    nested: int = 0
    nested_same_type: int = 0
    crossing: int = 0
    duplicates: int = 0
    same_span_conflicts: int = 0
    depth: int = 0
    by_type: Counter[str] = field(default_factory=Counter)
    by_length: Counter[int] = field(default_factory=Counter)
    _doc: str | None = None  # that of the previous sentence

    def add(self, sentence: Sentence) -> None:
        length = len(sentence)
        self.sentences += 1
        self.documents += sentence.doc is not None and sentence.doc != self._doc
        self._doc = sentence.doc
        self.tokens += length
        self.longest_sentence = max(self.longest_sentence, length)
        self.sentences_without_entities += not sentence.entities
        self.entities += len(sentence.entities)
        for entity in sentence.entities:
            self.by_type[entity.type] += 1
            self.by_length[len(entity)] += 1
            self.longest_entity = max(self.longest_entity, len(entity))
        self._add_structure(sentence.entities)

    def _add_structure(self, entities: Sequence[Entity]) -> None:
        """Count the nested, crossing and duplicate entities of a sentence.

        If spans are sorted by start and by decreasing end, a span lies inside another one exactly when an
        earlier span ends at the same word or later.
        """
        types_of: dict[tuple[int, int], Counter[str]] = {}
        for entity in entities:
            types = types_of.setdefault(entity.span, Counter())
            self.duplicates += entity.type in types
            types[entity.type] += 1
        furthest: dict[str, int] = {}  # the largest end so far, by type
        # [k]: minus the largest end of the innermost of k + 1 spans, each inside the previous one
        falling: list[int] = []
        for (_, end), types in sorted(types_of.items(), key=lambda item: (item[0][0], -item[0][1])):
            self.same_span_conflicts += len(types) > 1
            self.nested += types.total() * (max(furthest.values(), default=0) >= end)
            self.nested_same_type += sum(furthest.get(type_, 0) >= end for type_ in types.elements())
            furthest.update({type_: max(end, furthest.get(type_, 0)) for type_ in types})
            place = bisect_right(falling, -end)
            falling[place : place + 1] = [-end]
        self.depth = max(self.depth, len(falling))
        if has_forbidden_overlap(entities, "nested"):
            self.crossing += sum(map(Boundaries(entities).crosses, entities))

    @property
    def mean_sentence_length(self) -> float:
        return self.tokens / self.sentences if self.sentences else 0.0

    @property
    def mean_entity_length(self) -> float:
        words = sum(length * count for length, count in self.by_length.items())
        return words / self.entities if self.entities else 0.0

    @property
    def nested_share(self) -> float:
        return self.nested / self.entities if self.entities else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return all statistics as a JSON object; types are sorted by decreasing count, lengths by value."""
        plain = {name: value for name, value in vars(self).items() if isinstance(value, int)}
        return plain | {
            "mean_sentence_length": self.mean_sentence_length,
            "mean_entity_length": self.mean_entity_length,
            "nested_share": self.nested_share,
            "by_type": dict(sorted(self.by_type.items(), key=lambda item: (-item[1], item[0]))),
            "by_length": {str(length): count for length, count in sorted(self.by_length.items())},
        }


def statistics(sentences: Iterable[Sentence]) -> Statistics:
    """Compute the statistics of a corpus."""
    result = Statistics()
    for sentence in sentences:
        result.add(sentence)
    return result
