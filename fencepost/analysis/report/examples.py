"""Mistakes drawn in their sentences: gold entities above the words, predicted ones below.

A word is a cell, with a line of each entity that covers it, so that a sentence can be broken into lines
anywhere. Long sentences are cut to what lies around the boundaries in question.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fencepost.data.entity import Entity, Sentence
from fencepost.evaluation import Mistake

Role = Literal["gold", "wrong", "other"]

SHOWN_WORDS, SHOWN_ENTITIES = 32, 8
"""Of a sentence at most, and on each side of it."""

_MARGINS = (12, 8, 5, 3)
"""How many words are shown around a boundary: the most with which few enough are shown."""

_WORD, _LABEL = 60, 40
"""Characters of a word, and of the name of a type, that are shown at most."""

_LETTER, _GAP, _SMALL = 0.56, 0.3, 0.75
"""The width of a letter and of the space between words, and how small labels are, in em: roughly."""


@dataclass(frozen=True, slots=True)
class Segment:
    """The part of an entity's line at one word."""

    role: Role
    label: str = ""  # where the line begins
    opens: bool = False  # the entity begins here, and not before
    closes: bool = False


@dataclass(frozen=True, slots=True)
class Cell:
    """A word with the lines above and below it, from top to bottom; no word is what was cut out."""

    word: str | None
    above: Sequence[Segment | None]
    below: Sequence[Segment | None]
    width: float  # in em, at least, so that labels have room


@dataclass(frozen=True, slots=True)
class Example:
    """A mistake and its sentence."""

    mistake: Mistake
    number: int  # of the sentence, from 1
    id: str | None
    gold: str  # the words
    predicted: str
    right_to_left: bool
    cells: Sequence[Cell]


def shortened(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def picked(found: Sequence[Mistake], gold: Sequence[Sentence], count: int) -> list[Mistake]:
    """So many mistakes: the most confident first, drawn where there is no confidence.

    Of one sentence, and of equal words, there is one at most: a mistake that a model makes again and again
    would crowd out the others.
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
    """A mistake, drawn."""
    shown = _shown_words(mistake, len(gold))
    above = _Side(gold.entities, mistake.gold, "gold", mistake.span, shown)
    below = _Side(predicted.entities, mistake.predicted, "wrong", mistake.span, shown)
    return Example(
        mistake,
        mistake.sentence + 1,
        gold.id,
        _phrase(gold, mistake.gold),
        _phrase(gold, mistake.predicted),
        _right_to_left(gold.words),
        list(_cells(gold.words, shown, above, below)),
    )


def _phrase(sentence: Sentence, entity: Entity | None) -> str:
    return "" if entity is None else shortened(" ".join(sentence.words[entity.start : entity.end][:50]), 160)


def _shown_words(mistake: Mistake, length: int) -> list[int]:
    """Those around the boundaries of the mistake."""
    entities = [entity for entity in (mistake.gold, mistake.predicted) if entity is not None]
    boundaries = {place for entity in entities for place in (entity.start, entity.end - 1)}
    shown: set[int] = set()
    for margin in _MARGINS:
        shown = {
            place for at in boundaries for place in range(max(0, at - margin), min(length, at + margin + 1))
        }
        if len(shown) <= SHOWN_WORDS:
            break
    if length <= SHOWN_WORDS:
        shown = set(range(length))
    return sorted(shown)


class _Side:
    """The entities above or below the words, each in a lane; lane 0 is next to the words."""

    def __init__(
        self,
        entities: Sequence[Entity],
        mistaken: Entity | None,
        role: Role,
        span: tuple[int, int],
        shown: Sequence[int],
    ) -> None:
        self.mistaken, self.role = mistaken, role
        there = np.asarray(shown)
        seen = {
            entity.key: entity
            for entity in reversed(entities)
            if np.any((there >= entity.start) & (there < entity.end))
        }
        nearest = sorted(
            seen.values(), key=lambda entity: (not self._is_mistaken(entity), _gap(entity, span))
        )
        self.lanes = _lanes(nearest[:SHOWN_ENTITIES])
        self.height = 1 + max((lane for _, lane in self.lanes), default=-1)
        self.first = {entity.key: next(i for i in shown if i >= entity.start) for entity, _ in self.lanes}

    def _is_mistaken(self, entity: Entity) -> bool:
        return self.mistaken is not None and entity.key == self.mistaken.key

    def segments(self, places: Sequence[int]) -> list[Segment | None]:
        """From lane 0 outwards, at one word or at those that were cut out."""
        found: list[Segment | None] = [None] * self.height
        for entity, lane in self.lanes:
            if entity.start <= places[0] and places[-1] < entity.end:
                found[lane] = Segment(
                    self.role if self._is_mistaken(entity) else "other",
                    self.label(entity) if places[0] == self.first[entity.key] else "",
                    entity.start == places[0],
                    entity.end == places[-1] + 1,
                )
        return found

    def label(self, entity: Entity) -> str:
        name = shortened(entity.type, _LABEL)
        return name if self.role == "gold" else f"{name} {entity.score:.2f}"


def _gap(entity: Entity, span: tuple[int, int]) -> int:
    """How many words lie between."""
    return max(0, entity.start - span[1], span[0] - entity.end)


def _lanes(entities: Collection[Entity]) -> list[tuple[Entity, int]]:
    """Each farther out than all shorter ones that it overlaps."""
    placed: list[tuple[Entity, int]] = []
    for entity in sorted(entities, key=lambda one: (len(one), one.key)):
        below = [lane for other, lane in placed if other.start < entity.end and entity.start < other.end]
        placed.append((entity, 1 + max(below, default=-1)))
    return placed


def _cells(words: Sequence[str], shown: Sequence[int], above: _Side, below: _Side) -> Iterator[Cell]:
    """The words that are shown, and a cell without a word for each part that is not."""
    before = -1
    for place in shown:
        if place > before + 1:
            yield _cell(None, range(before + 1, place), above, below, 0.0)
        yield _cell(
            words[place], range(place, place + 1), above, below, _needed(words, shown, place, above, below)
        )
        before = place
    if before + 1 < len(words):
        yield _cell(None, range(before + 1, len(words)), above, below, 0.0)


def _cell(word: str | None, places: range, above: _Side, below: _Side, width: float) -> Cell:
    shown = None if word is None else shortened(word, _WORD)
    return Cell(shown, _trimmed(above.segments(places))[::-1], _trimmed(below.segments(places)), width)


def _trimmed(segments: Sequence[Segment | None]) -> Sequence[Segment | None]:
    """Without the empty lanes behind the last one, so that a line of words is no higher than it need be."""
    height = max((lane + 1 for lane, segment in enumerate(segments) if segment is not None), default=0)
    return segments[:height]


def _needed(words: Sequence[str], shown: Sequence[int], place: int, *sides: _Side) -> float:
    """How wide the cell must be so that each label that begins here is no longer than its entity's line."""
    needed = 0.0
    for side in sides:
        for entity, _ in side.lanes:
            if side.first[entity.key] == place:
                label = _SMALL * _width(side.label(entity)) + 0.4
                others = sum(_width(words[i]) + _GAP for i in shown if place < i < entity.end)
                needed = max(needed, label - others)
    return round(needed, 1) if needed > _width(words[place]) + _GAP else 0.0


def _width(text: str) -> float:
    """In em; Chinese letters are twice as wide."""
    return sum(
        _LETTER * (2 if unicodedata.east_asian_width(letter) in "WF" else 1)
        for letter in shortened(text, _WORD)
    )


def _right_to_left(words: Sequence[str]) -> bool:
    """Whether the first letter that has a direction is Hebrew, Arabic or the like."""
    for word in words[:100]:
        for letter in word:
            direction = unicodedata.bidirectional(letter)
            if direction in ("L", "R", "AL"):
                return direction != "L"
    return False
