"""Examples of errors: a sentence with its gold entities above the words and the predicted ones below.

Each word is a cell with a segment of the line of each entity that covers it, so that a sentence can be
wrapped at any word. Long sentences are reduced to the words around the boundaries of the error.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np

from fencepost.data.entity import Entity, Sentence
from fencepost.evaluation import ErrorCase

Role = Literal["gold", "wrong", "other"]

SHOWN_WORDS, SHOWN_ENTITIES = 32, 8
"""Maximum number of words of a sentence, and of entities above and below it."""

_MARGINS = (12, 8, 5, 3)
"""Numbers of words around a boundary; the first that gives at most `SHOWN_WORDS` words is used."""

_WORD, _LABEL = 60, 40
"""Maximum number of characters of a word, and of the name of a type."""

_LETTER, _GAP, _SMALL = 0.56, 0.3, 0.75
"""Approximate width of a letter and of a space between words, and the size of labels, in em."""


class Segment(NamedTuple):
    """Part of the line of an entity at one word."""

    role: Role
    label: str  # empty except at the first visible word
    opens: bool  # whether the entity starts here
    closes: bool  # whether it ends here


class WordCell(NamedTuple):
    """Word with the segments above and below it, from top to bottom; None for words that are left out."""

    word: str | None
    above: Sequence[Segment | None]
    below: Sequence[Segment | None]
    width: float  # minimum width in em for the labels; 0 if the word is wide enough


class Example(NamedTuple):
    """Error in its sentence."""

    error: ErrorCase
    sentence: Sentence
    right_to_left: bool
    cells: Sequence[WordCell]


def truncate(text: str, longest: int) -> str:
    """Return the text, truncated to `longest` characters."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


def choose_examples(errors: Sequence[ErrorCase], gold: Sequence[Sentence], count: int) -> list[ErrorCase]:
    """Return at most `count` errors: the most confident predictions first, others in random order.

    Each sentence and each phrase occurs only once, so that an error that a model repeats does not displace
    the others.
    """
    ranked = [errors[i] for i in np.random.default_rng(0).permutation(len(errors))]
    ranked.sort(key=lambda error: -error.predicted.score if error.predicted else 0.0)
    examples: list[ErrorCase] = []
    occurrences: set[object] = set()
    for error in ranked:
        if len(examples) == count:
            break
        start, end = error.span
        words = tuple(word.lower() for word in gold[error.sentence].words[start:end])
        if error.sentence not in occurrences and words not in occurrences:
            examples.append(error)
            occurrences |= {error.sentence, words}
    return examples


def make_example(error: ErrorCase, gold: Sentence, predicted: Sentence) -> Example:
    """Lay out an error in its sentence."""
    words = gold.words
    visible = _choose_words(error, len(words))
    above = _Side(gold.entities, error, "gold", visible)
    below = _Side(predicted.entities, error, "wrong", visible)
    cells = []
    for before, place in pairwise((-1, *visible, len(words))):
        if before + 1 < place:
            gap = range(before + 1, place)
            cells.append(WordCell(None, above.make_segments(gap)[::-1], below.make_segments(gap), 0.0))
        if place < len(words):
            here = range(place, place + 1)
            labels = [*above.compute_label_widths(words, place), *below.compute_label_widths(words, place)]
            label_width = max(labels, default=0.0)
            width = round(label_width, 1) if label_width > _estimate_width(words[place]) + _GAP else 0.0
            word = truncate(words[place], _WORD)
            cells.append(WordCell(word, above.make_segments(here)[::-1], below.make_segments(here), width))
    return Example(error, gold, _is_right_to_left(words), cells)


def _choose_words(error: ErrorCase, length: int) -> list[int]:
    """Return the indices of the words around the boundaries of the error, or of all if they are few."""
    if length <= SHOWN_WORDS:
        return list(range(length))
    entities = [entity for entity in (error.gold, error.predicted) if entity is not None]
    boundaries = {place for entity in entities for place in (entity.start, entity.end - 1)}
    visible: set[int] = set()
    for margin in _MARGINS:
        ranges = (range(max(0, at - margin), min(length, at + margin + 1)) for at in boundaries)
        visible = {place for one in ranges for place in one}
        if len(visible) <= SHOWN_WORDS:
            break
    return sorted(visible)


class _Side:
    """Entities above or below the words, each in a lane; lane 0 is next to the words."""

    def __init__(
        self, entities: Sequence[Entity], error: ErrorCase, role: Role, visible: Sequence[int]
    ) -> None:
        """Assign lanes to the entities with a visible word; if there are many, those nearest to the error."""
        self.role: Role = role
        self.visible = visible
        wrong = error.gold if role == "gold" else error.predicted
        self.wrong_key = None if wrong is None else wrong.key
        by_key = {entity.key: entity for entity in reversed(entities) if self._list_words(entity)}
        start, end = error.span
        nearest = sorted(
            by_key.values(),
            key=lambda one: (one.key != self.wrong_key, max(0, one.start - end, start - one.end)),
        )
        self.lanes = _assign_lanes(nearest[:SHOWN_ENTITIES])

    def _list_words(self, entity: Entity) -> Sequence[int]:
        """Return the indices of the visible words of an entity."""
        return self.visible[bisect_left(self.visible, entity.start) : bisect_left(self.visible, entity.end)]

    def make_segments(self, places: range) -> list[Segment | None]:
        """Return the segments at one word or over a gap, from lane 0 to the outermost."""
        segments: dict[int, Segment] = {}
        for entity, lane in self.lanes:
            if entity.start <= places[0] and places[-1] < entity.end:
                segments[lane] = Segment(
                    self.role if entity.key == self.wrong_key else "other",
                    self._make_label(entity) if places[0] == self._list_words(entity)[0] else "",
                    entity.start == places[0],
                    entity.end == places[-1] + 1,
                )
        return [segments.get(lane) for lane in range(max(segments, default=-1) + 1)]

    def compute_label_widths(self, words: Sequence[str], place: int) -> Iterable[float]:
        """Yield the width of each label at a word, minus the width of the other words of its entity."""
        for entity, _ in self.lanes:
            first, *others = self._list_words(entity)
            if first == place:
                label = _SMALL * _estimate_width(self._make_label(entity)) + 0.4
                yield label - sum(_estimate_width(words[i]) + _GAP for i in others)

    def _make_label(self, entity: Entity) -> str:
        name = truncate(entity.type, _LABEL)
        return name if self.role == "gold" else f"{name} {entity.score:.2f}"


def _assign_lanes(entities: Iterable[Entity]) -> list[tuple[Entity, int]]:
    """Assign each entity to a lane outside of those of all shorter entities that it overlaps."""
    lanes: list[tuple[Entity, int]] = []
    for entity in sorted(entities, key=lambda one: (len(one), one.key)):
        inner = [lane for other, lane in lanes if other.start < entity.end and entity.start < other.end]
        lanes.append((entity, 1 + max(inner, default=-1)))
    return lanes


def _estimate_width(text: str) -> float:
    """Return the approximate width of a text in em; East Asian characters count twice."""
    letters = truncate(text, _WORD)
    return sum(_LETTER * (2 if unicodedata.east_asian_width(letter) in "WF" else 1) for letter in letters)


def _is_right_to_left(words: Sequence[str]) -> bool:
    """Return whether the first letter with a direction belongs to a right-to-left script."""
    directions = (unicodedata.bidirectional(letter) for word in words[:100] for letter in word)
    return next((direction != "L" for direction in directions if direction in ("L", "R", "AL")), False)
