"""`Entity` and `Sentence`: the data model of all parts of Fencepost.

An entity is a half-open span of words, like a Python slice: `words[entity.start:entity.end]`. Entities may
nest or overlap, and one span may have several types. Both classes are immutable and are validated on
creation, so code that uses them does not have to check them again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import index
from typing import Any

from fencepost.errors import UsageError, quote


@dataclass(frozen=True, slots=True)
class Entity:
    """An entity of a `type` in the words `[start, end)` of a sentence, with confidence `score`.

    `meta` contains other attributes that a corpus has for the entity, such as GUM's `named`.
    """

    start: int
    end: int
    type: str
    score: float = 1.0
    meta: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        set_ = object.__setattr__  # the class is frozen
        try:
            start, end = index(self.start), index(self.end)
        except TypeError:
            raise ValueError(
                f"start and end of an entity are word indices, not {quote(self.start)} and {quote(self.end)}"
            ) from None
        if start is not self.start or end is not self.end:  # integers of NumPy, which JSON does not represent
            set_(self, "start", start)
            set_(self, "end", end)
        if not 0 <= start < end:
            raise ValueError(
                f"an entity needs 0 <= start < end, but start is {self.start} and end is {self.end}"
            )
        if not self.type:
            raise ValueError(f"the entity [{self.start}, {self.end}) has no type")
        if not isinstance(self.type, str):
            raise ValueError(f"the type of an entity is a string, not {quote(self.type)}")
        score: Any = self.score  # may be a float of NumPy
        if not isinstance(score, int | float):
            try:
                set_(self, "score", float(score))
            except (TypeError, ValueError):
                raise ValueError(f"the score of an entity is a number, not {quote(score)}") from None
        if not 0.0 <= self.score <= 1.0:
            raise ValueError(
                f"the score of {self.type} [{self.start}, {self.end}) is {self.score}; "
                "a score is a probability between 0 and 1"
            )

    def __len__(self) -> int:
        """Return the number of words."""
        return self.end - self.start

    @property
    def label(self) -> str:
        """The type, by the name that spaCy and Hugging Face use."""
        return self.type

    def to_dict(self) -> dict[str, Any]:
        """Return the entity as a JSON object, with `meta` if it has any."""
        item = {"start": self.start, "end": self.end, "type": self.type, "score": self.score}
        return {**item, "meta": dict(self.meta)} if self.meta else item

    @property
    def span(self) -> tuple[int, int]:
        return self.start, self.end

    @property
    def key(self) -> tuple[int, int, str]:
        """Boundaries and type, which strict evaluation compares."""
        return self.start, self.end, self.type

    def contains(self, other: Entity) -> bool:
        """Return whether `other` lies inside this entity and has another span."""
        return self.start <= other.start and other.end <= self.end and self.span != other.span

    def crosses(self, other: Entity) -> bool:
        """Return whether the two entities overlap without nesting."""
        return (
            self.start < other.start < self.end < other.end or other.start < self.start < other.end < self.end
        )


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence with its words and entities: one example for training or prediction.

    Sequences are converted to tuples, and entities are sorted by `(start, end, type)`, so that two sentences
    with the same content are equal. `left` and `right` are the words before and after the sentence in its
    document, `pos` has its part-of-speech tags, `space_after` says which words are followed by white space
    in the raw text, and `meta` contains other attributes of the corpus.
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
        set_ = object.__setattr__  # the class is frozen
        set_(self, "words", _check_words(self.words))
        if not isinstance(self.entities, Iterable):
            raise ValueError(f"entities must be a list of fencepost.Entity, not {quote(self.entities)}")
        set_(self, "entities", tuple(self.entities))
        for entity in self.entities:
            if not isinstance(entity, Entity):
                raise ValueError(f"an entity of a sentence must be a fencepost.Entity, not {quote(entity)}")
        set_(self, "entities", tuple(sorted(self.entities, key=_get_reading_order)))
        set_(self, "left", tuple(self.left))
        set_(self, "right", tuple(self.right))
        length = len(self.words)
        for entity in self.entities:
            if entity.end > length:
                raise ValueError(
                    f"the entity {entity.type} [{entity.start}, {entity.end}) ends after "
                    f"the sentence's {length} words"
                )
        for name in ("pos", "space_after"):
            values = getattr(self, name)
            if values is not None:
                set_(self, name, tuple(values))
                if len(values) != length:
                    raise ValueError(f"{name} has {len(values)} values for {length} words")
        types = self.meta.get("annotated_types")
        if types is not None and not (
            isinstance(types, list | tuple) and all(isinstance(t, str) for t in types)
        ):
            raise ValueError(f"annotated_types must be a list of strings, not {str(types)[:40]!r}")

    def __len__(self) -> int:
        """Return the number of words."""
        return len(self.words)

    def with_entities(self, entities: Iterable[Entity]) -> Sentence:
        """Return a copy of the sentence with these entities."""
        return replace(self, entities=tuple(entities))

    def phrase(self, entity: Entity) -> str:
        """Return the words of an entity, joined by single spaces."""
        return " ".join(self.words[entity.start : entity.end])

    @property
    def annotated_types(self) -> frozenset[str] | None:
        """Entity types that the sentence is annotated with, by `annotated_types` of `meta`; None for all.

        Words that have no entity of these types may be part of entities of other types.
        """
        types = self.meta.get("annotated_types")
        return None if types is None else frozenset((*types, *(entity.type for entity in self.entities)))

    @property
    def has_soft_entities(self) -> bool:
        """Whether the entities' scores are probabilities to learn, by `soft_entities` of `meta`.

        Otherwise all entities of a training sentence are certain, whatever their scores are.
        """
        return self.meta.get("soft_entities") is True

    @property
    def text(self) -> str:
        """Raw text: the words joined by spaces, except where `space_after` is false."""
        if self.space_after is None:
            return " ".join(self.words)
        pieces = [
            word + " " if space else word
            for word, space in zip(self.words[:-1], self.space_after[:-1], strict=True)
        ]
        return "".join([*pieces, *self.words[-1:]])

    def word_offsets(self) -> list[tuple[int, int]]:
        """Return the start and end of each word in `text`, so that `text[start:end] == word`."""
        offsets = []
        position = 0
        for number, word in enumerate(self.words):
            offsets.append((position, position + len(word)))
            position += len(word) + (self.space_after is None or self.space_after[number])
        return offsets


def _check_words(words: Sequence[str]) -> tuple[str, ...]:
    """Return the words as a tuple; raise `ValueError` for anything but a list of strings."""
    if isinstance(words, str):
        raise ValueError(f"words must be a list of strings, not the string {words[:40]!r}")
    try:
        words = tuple(words)
        "".join(words)  # the fastest check of all of them
    except TypeError:
        raise ValueError(f"words must be a list of strings, not {quote(words)}") from None
    return words


def check_sentence(value: object) -> Sentence:
    """Return the value; raise `UsageError` if it is not a sentence."""
    if not isinstance(value, Sentence):
        raise UsageError(f"a sentence must be a fencepost.Sentence, not {type(value).__name__}")
    return value


def check_sentences(values: object) -> Iterator[Sentence]:
    """Return the sentences one by one; raise `UsageError` for what is not a collection of sentences."""
    if not isinstance(values, Iterable):
        raise UsageError(
            f"sentences must be a list of fencepost.Sentence or another iterable, not {type(values).__name__}"
        )
    return map(check_sentence, values)


def _get_reading_order(entity: Entity) -> tuple[int, int, str, float]:
    return entity.start, entity.end, entity.type, -entity.score
