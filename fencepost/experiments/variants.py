"""Variants of training data: a share of it, and noise at the boundaries of its entities."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from fencepost.data.entity import Entity, Sentence


def part(sentences: Sequence[Sentence], share: float, seed: int) -> list[Sentence]:
    """Return a share of the sentences, drawn at random, in their order.

    With the same seed, a smaller share is part of a larger one.
    """
    chosen = np.random.default_rng(seed).permutation(len(sentences))[: max(1, round(share * len(sentences)))]
    return [sentences[i] for i in sorted(chosen)]


def with_boundary_noise(sentences: Sequence[Sentence], probability: float, seed: int) -> list[Sentence]:
    """Return the sentences with some of their entities off by one word at one boundary.

    Zhu and Li (ACL 2022, section 5.2 and footnote 8) put noise on boundaries of training data and do not
    say how. Here each entity is moved with this probability: its start or its end, by one word outwards
    or inwards, all at random. A move that would leave the sentence, leave no words, or make the entity
    the same as another one (the same words and type, before or after moving) is replaced by the
    other direction, then by the other boundary; where none of the four will do, the entity stays. So a
    single word, which cannot become shorter, always becomes longer.

    With the same seed, what is drawn at a lower probability is drawn at a higher one too.
    """
    chance = np.random.default_rng(seed)
    return [_noisy(sentence, probability, chance) for sentence in sentences]


def _noisy(sentence: Sentence, probability: float, chance: np.random.Generator) -> Sentence:
    taken = {entity.key for entity in sentence.entities}
    entities = []
    for entity in sentence.entities:
        drawn, turns = (
            chance.random(),
            chance.integers(2, size=3).tolist(),
        )  # also if it stays: the next entities draw the same
        if drawn < probability:
            free = (one for one in _moved(entity, len(sentence.words), turns) if one.key not in taken)
            entity = next(free, entity)
            taken.add(entity.key)
        entities.append(entity)
    return sentence.with_entities(entities)


def _moved(entity: Entity, words: int, turns: Sequence[int]) -> Iterator[Entity]:
    """Yield the entity with one boundary moved by a word, in all possible ways; `turns` decide the order."""
    end_first, *backwards_first = turns
    boundaries = ("end", "start") if end_first else ("start", "end")
    for boundary, backwards in zip(boundaries, backwards_first, strict=True):
        for step in (-1, 1) if backwards else (1, -1):
            start = entity.start + step * (boundary == "start")
            end = entity.end + step * (boundary == "end")
            if 0 <= start < end <= words:
                yield replace(entity, start=start, end=end)
