"""Examples of mistakes: a sentence with its gold entities above the words and the predicted ones below.

A word is a cell, with a segment of the line of each entity that covers it, so that a sentence can be broken
into lines anywhere. Long sentences are cut to the words around the boundaries of the mistake.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np

from fencepost.data.entity import Entity, Sentence
from fencepost.evaluation import Mistake

Role = Literal["gold", "wrong", "other"]

SHOWN_WORDS, SHOWN_ENTITIES = 32, 8
"""Largest number of words of a sentence, and of entities on each side of it."""

_MARGINS = (12, 8, 5, 3)
"""Words around a boundary: the first number with which at most `SHOWN_WORDS` are shown, or the last."""

_WORD, _LABEL = 60, 40
"""Largest number of characters of a word, and of the name of a type."""

_LETTER, _GAP, _SMALL = 0.56, 0.3, 0.75
"""The approximate width of a letter and of the space between words, and the size of labels, in em."""


class Segment(NamedTuple):
    """The part of an entity's line at one word."""

    role: Role
    label: str  # at the first word that is shown
    opens: bool  # the entity begins here
    closes: bool


class Cell(NamedTuple):
    """A word with the segments above and below it, from top to bottom; the word is None for a gap."""

    word: str | None
    above: Sequence[Segment | None]
    below: Sequence[Segment | None]
    width: float  # at least, in em, so that labels have room; 0 is the word's own


class Example(NamedTuple):
    """A mistake and its sentence."""

    mistake: Mistake
    sentence: Sentence
    right_to_left: bool
    cells: Sequence[Cell]


def shortened(text: str, most: int) -> str:
    """Return the text, cut to `most` characters."""
    return text if len(text) <= most else text[: most - 1] + "…"


def choose(found: Sequence[Mistake], gold: Sequence[Sentence], count: int) -> list[Mistake]:
    """Return `count` mistakes: the most confident first, in random order where there is no confidence.

    At most one is from the same sentence or has the same words, so that a mistake that a model repeats does
    not displace the others.
    """
    drawn = np.random.default_rng(0).permutation(len(found)).tolist()
    ranked = sorted((found[i] for i in drawn), key=lambda one: -one.predicted.score if one.predicted else 0.0)
    chosen: list[Mistake] = []
    seen: set[object] = set()
    for mistake in ranked:
        if len(chosen) == count:
            break
        start, end = mistake.span
        words = tuple(word.lower() for word in gold[mistake.sentence].words[start:end])
        if mistake.sentence not in seen and words not in seen:
            chosen.append(mistake)
            seen |= {mistake.sentence, words}
    return chosen


def example(mistake: Mistake, gold: Sentence, predicted: Sentence) -> Example:
    """Lay out a mistake in its sentence."""
    words = gold.words
    shown = _shown_words(mistake, len(words))
    above = _Side(gold.entities, mistake, "gold", shown)
    below = _Side(predicted.entities, mistake, "wrong", shown)
    cells = []
    for before, place in pairwise((-1, *shown, len(words))):
        if before + 1 < place:
            gap = range(before + 1, place)
            cells.append(Cell(None, above.segments(gap)[::-1], below.segments(gap), 0.0))
        if place < len(words):
            here = range(place, place + 1)
            labels = [*above.label_widths(words, place), *below.label_widths(words, place)]
            needed = max(labels, default=0.0)
            width = round(needed, 1) if needed > _width(words[place]) + _GAP else 0.0
            word = shortened(words[place], _WORD)
            cells.append(Cell(word, above.segments(here)[::-1], below.segments(here), width))
    return Example(mistake, gold, _right_to_left(words), cells)


def _shown_words(mistake: Mistake, length: int) -> list[int]:
    """Return the places of the words around the boundaries of the mistake, or of all if they are few."""
    if length <= SHOWN_WORDS:
        return list(range(length))
    entities = [entity for entity in (mistake.gold, mistake.predicted) if entity is not None]
    boundaries = {place for entity in entities for place in (entity.start, entity.end - 1)}
    shown: set[int] = set()
    for margin in _MARGINS:
        ranges = (range(max(0, at - margin), min(length, at + margin + 1)) for at in boundaries)
        shown = {place for one in ranges for place in one}
        if len(shown) <= SHOWN_WORDS:
            break
    return sorted(shown)


class _Side:
    """The entities above or below the words, each in a lane; lane 0 is next to the words."""

    def __init__(
        self, entities: Sequence[Entity], mistake: Mistake, role: Role, shown: Sequence[int]
    ) -> None:
        """Place the entities that have a word among those `shown`; those nearest to the mistake, if many."""
        self.role: Role = role
        self.shown = shown
        mistaken = mistake.gold if role == "gold" else mistake.predicted
        self.mistaken = None if mistaken is None else mistaken.key
        visible = {entity.key: entity for entity in reversed(entities) if self._words(entity)}
        start, end = mistake.span
        nearest = sorted(
            visible.values(),
            key=lambda one: (one.key != self.mistaken, max(0, one.start - end, start - one.end)),
        )
        self.lanes = _lanes(nearest[:SHOWN_ENTITIES])

    def _words(self, entity: Entity) -> Sequence[int]:
        """Return the places of the entity's words that are shown."""
        return self.shown[bisect_left(self.shown, entity.start) : bisect_left(self.shown, entity.end)]

    def segments(self, places: range) -> list[Segment | None]:
        """Return the segments from lane 0 outwards, up to the last, at one word or over a gap."""
        found: dict[int, Segment] = {}
        for entity, lane in self.lanes:
            if entity.start <= places[0] and places[-1] < entity.end:
                found[lane] = Segment(
                    self.role if entity.key == self.mistaken else "other",
                    self._label(entity) if places[0] == self._words(entity)[0] else "",
                    entity.start == places[0],
                    entity.end == places[-1] + 1,
                )
        return [found.get(lane) for lane in range(max(found, default=-1) + 1)]

    def label_widths(self, words: Sequence[str], place: int) -> Iterable[float]:
        """Yield the width that the labels at a word need beyond the other words of their entities."""
        for entity, _ in self.lanes:
            first, *others = self._words(entity)
            if first == place:
                label = _SMALL * _width(self._label(entity)) + 0.4
                yield label - sum(_width(words[i]) + _GAP for i in others)

    def _label(self, entity: Entity) -> str:
        name = shortened(entity.type, _LABEL)
        return name if self.role == "gold" else f"{name} {entity.score:.2f}"


def _lanes(entities: Iterable[Entity]) -> list[tuple[Entity, int]]:
    """Place each entity farther out than all shorter ones that it overlaps."""
    placed: list[tuple[Entity, int]] = []
    for entity in sorted(entities, key=lambda one: (len(one), one.key)):
        inner = [lane for other, lane in placed if other.start < entity.end and entity.start < other.end]
        placed.append((entity, 1 + max(inner, default=-1)))
    return placed


def _width(text: str) -> float:
    """Return the width of a text in em; Chinese letters are twice as wide."""
    letters = shortened(text, _WORD)
    return sum(_LETTER * (2 if unicodedata.east_asian_width(letter) in "WF" else 1) for letter in letters)


def _right_to_left(words: Sequence[str]) -> bool:
    """Return whether the first letter that has a direction is Hebrew, Arabic or the like."""
    directions = (unicodedata.bidirectional(letter) for word in words[:100] for letter in word)
    return next((direction != "L" for direction in directions if direction in ("L", "R", "AL")), False)
