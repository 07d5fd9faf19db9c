"""`Entity` and `Sentence`: the data model of all parts of Fencepost.

An entity is a half-open range of words, as a Python slice: `words[entity.start:entity.end]`.
Entities may nest, may overlap, and one span may carry several types. Both classes are immutable
and check themselves when they are made, so that code which holds a `Sentence` need not check again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Entity:
    """The words `[start, end)` of a sentence are a `type`, with confidence `score`.

    `meta` holds what else a corpus says about the entity (GUM's `named`, for example).
    """

    start: int
    end: int
    type: str
    score: float = 1.0
    meta: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.end:
            raise ValueError(
                f"an entity needs 0 <= start < end, but start is {self.start} and end is {self.end}"
            )
        if not self.type:
            raise ValueError(f"the entity [{self.start}, {self.end}) has no type")
        if not 0.0 <= self.score <= 1.0:
            raise ValueError(
                f"the score of {self.type} [{self.start}, {self.end}) is {self.score}; "
                "a score is a probability between 0 and 1"
            )

    def __len__(self) -> int:
        """The number of words."""
        return self.end - self.start

    @property
    def span(self) -> tuple[int, int]:
        return self.start, self.end

    @property
    def key(self) -> tuple[int, int, str]:
        """What strict evaluation compares: the boundaries and the type."""
        return self.start, self.end, self.type

    def contains(self, other: Entity) -> bool:
        """Whether `other` lies inside this entity; two entities on one span do not contain each other."""
        return self.start <= other.start and other.end <= self.end and self.span != other.span

    def crosses(self, other: Entity) -> bool:
        """Whether the two overlap and neither holds the other: the overlap that is not nesting."""
        return (
            self.start < other.start < self.end < other.end or other.start < self.start < other.end < self.end
        )


@dataclass(frozen=True, slots=True)
class Sentence:
    """Words and the entities among them: one unit of training or prediction.

    Sequences become tuples, and entities are kept in the order of `(start, end, type)`, so that two
    sentences with the same content are equal. `left` and `right` are the words before and after the
    sentence in its document, `pos` its part-of-speech tags, `space_after` says which words are
    followed by white space in the raw text, and `meta` holds what else the corpus says.
    """

    words: Sequence[str]
    entities: Sequence[Entity] = ()
    id: str | None = None
    doc: str | None = None
    left: Sequence[str] = ()
    right: Sequence[str] = ()
    pos: Sequence[str] | None = None
    space_after: Sequence[bool] | None = None
    meta: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        set_ = object.__setattr__  # the one place where a frozen instance is still being made
        if isinstance(self.words, str):
            raise ValueError(f"the words are a list of strings, not the string {self.words[:40]!r}")
        set_(self, "words", tuple(self.words))
        set_(self, "entities", tuple(sorted(self.entities, key=_reading_order)))
        set_(self, "left", tuple(self.left))
        set_(self, "right", tuple(self.right))
        length = len(self.words)
        for entity in self.entities:
            if entity.end > length:
                raise ValueError(
                    f"the entity {entity.type} [{entity.start}, {entity.end}) reaches beyond "
                    f"the sentence's {length} words"
                )
        for name in ("pos", "space_after"):
            values = getattr(self, name)
            if values is not None:
                set_(self, name, tuple(values))
                if len(values) != length:
                    raise ValueError(f"{len(values)} values of {name} for {length} words")

    def __len__(self) -> int:
        """The number of words."""
        return len(self.words)

    def with_entities(self, entities: Iterable[Entity]) -> Sentence:
        """The same sentence with other entities: a prediction beside its gold."""
        return replace(self, entities=tuple(entities))

    def phrase(self, entity: Entity) -> str:
        """The words of an entity, joined by single spaces."""
        return " ".join(self.words[entity.start : entity.end])

    @property
    def text(self) -> str:
        """The raw text: words joined by a space, except where `space_after` says there is none."""
        if self.space_after is None:
            return " ".join(self.words)
        pieces = [
            word + " " if space else word
            for word, space in zip(self.words[:-1], self.space_after[:-1], strict=True)
        ]
        return "".join([*pieces, *self.words[-1:]])

    def word_offsets(self) -> list[tuple[int, int]]:
        """Return the characters of each word in `text`: `text[start:end] == word`."""
        offsets = []
        position = 0
        for index, word in enumerate(self.words):
            offsets.append((position, position + len(word)))
            position += len(word) + (self.space_after is None or self.space_after[index])
        return offsets


def _reading_order(entity: Entity) -> tuple[int, int, str, float]:
    return entity.start, entity.end, entity.type, -entity.score
