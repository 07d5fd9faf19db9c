"""An engine that predicts what a test chooses, and records its sentences."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from fencepost.data.entity import Entity, Sentence
from fencepost.methods import candidates as decoding
from fencepost.methods.candidates import Candidates
from fencepost.methods.settings import PredictSettings
from fencepost.settings import merge_trees, validate_settings

TYPES = ("LOC", "ORG", "PER")

Finder = Callable[[Sentence], Iterable[Entity]]


class Double:
    """Engine whose `find` returns the entities of a sentence, and `size` the size of a word."""

    name = "double"
    method = "double"
    types = TYPES
    lines = "auto"
    profile = subwords = None

    def __init__(
        self,
        find: Finder,
        *,
        room: int | None = None,
        size: Callable[[str], int] = lambda _: 1,
        context: int = 0,
        block: int = 0,
        select: str = "keep-all",
        language: str = "en",
    ) -> None:
        self.find, self.size = find, size
        self.room, self.context, self.block, self.language = room, context, block, language
        self.predict_settings = PredictSettings(select=select)
        self.sentences: list[Sentence] = []

    def sizes(self, words: Sequence[str]) -> list[int]:
        return [self.size(word) for word in words]

    def predict_entities(self, sentences: Sequence[Sentence], watch: Any = None) -> list[list[Entity]]:
        for sentence in sentences:
            size = sum(self.sizes(sentence.words))
            assert self.room is None or size <= self.room or len(sentence) == 1, (size, self.room)
        self.sentences += sentences
        return [list(self.find(sentence)) for sentence in sentences]

    def with_options(self, settings: dict[str, Any]) -> Double:
        other = copy.copy(self)
        tree = merge_trees(self.predict_settings.model_dump(), settings)
        other.predict_settings = validate_settings(PredictSettings, tree, key="predict")
        return other


def everything(sentence: Sentence) -> list[Entity]:
    """Return each word, each pair of neighbours and the whole sentence, with varying scores and types."""
    length = len(sentence)
    spans = {(start, end) for start in range(length) for end in (start + 1, start + 2) if end <= length}
    if length:
        spans.add((0, length))
    return [
        Entity(start, end, TYPES[(start + end) % 3], (start * 7 + end) % 11 / 10)
        for start, end in sorted(spans)
    ]


def marking(*phrases: tuple[str, ...]) -> Finder:
    """Return a finder of every occurrence of these phrases."""

    def find(sentence: Sentence) -> Iterable[Entity]:
        for number, phrase in enumerate(phrases):
            for start in range(len(sentence) - len(phrase) + 1):
                if sentence.words[start : start + len(phrase)] == phrase:
                    yield Entity(start, start + len(phrase), TYPES[number % 3], 0.5)

    return find


def chance(select: str, seed: int, count: int = 40) -> Finder:
    """Return a finder of random spans, selected in this way, which differ in each window."""

    def find(sentence: Sentence) -> list[Entity]:
        dice = random.Random(f"{seed} {sentence.words}")  # noqa: S311
        length = len(sentence)
        starts = [dice.randrange(length) for _ in range(count)] if length else []
        ends = [dice.randint(start + 1, min(length, start + 9)) for start in starts]
        candidates = Candidates(
            np.array(starts, dtype=np.int64),
            np.array(ends, dtype=np.int64),
            np.array([dice.randrange(3) for _ in starts], dtype=np.int64),
            np.array([dice.random() for _ in starts]),
        )
        selection = decoding.select(candidates, select)
        columns = (
            selection.start.tolist(),
            selection.end.tolist(),
            selection.type.tolist(),
            selection.confidence.tolist(),
        )
        return [
            Entity(start, end, TYPES[type_], score) for start, end, type_, score in zip(*columns, strict=True)
        ]

    return find
