"""Variants of training data: a share of it, and noise at entity boundaries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from fencepost.data.entity import Entity, Sentence


def sample_share(sentences: Sequence[Sentence], share: float, seed: int) -> list[Sentence]:
    """Return a random share of the sentences, in their order.

    With the same seed, a smaller share is a subset of a larger one.
    """
    indices = np.random.default_rng(seed).permutation(len(sentences))[: max(1, round(share * len(sentences)))]
    return [sentences[i] for i in sorted(indices)]


def add_boundary_noise(sentences: Sequence[Sentence], probability: float, seed: int) -> list[Sentence]:
    """Return the sentences with one boundary of some entities moved by one word.

    Zhu and Li (ACL 2022, section 5.2 and footnote 8) add noise to boundaries of the training data and do not
    describe how. Here each entity is changed with this probability: its start or its end moves by one word
    outwards or inwards, all at random. A move that would leave the sentence, leave no words, or make the
    entity equal to another one (same words and type, before or after moving) is replaced by the other
    direction, then by the other boundary; if none of the four is possible, the entity is unchanged. So an
    entity of one word, which cannot become shorter, always becomes longer.

    With the same seed, entities that are changed at a lower probability are changed at a higher one too.
    """
    chance = np.random.default_rng(seed)
    return [_add_noise(sentence, probability, chance) for sentence in sentences]


def _add_noise(sentence: Sentence, probability: float, chance: np.random.Generator) -> Sentence:
    keys = {entity.key for entity in sentence.entities}
    entities = []
    for entity in sentence.entities:
        # always draw the same number of values, so that other entities do not depend on the probability
        value, turns = chance.random(), chance.integers(2, size=3).tolist()
        if value < probability:
            variants = _move_boundaries(entity, len(sentence.words), turns)
            entity = next((one for one in variants if one.key not in keys), entity)
            keys.add(entity.key)
        entities.append(entity)
    return sentence.with_entities(entities)


def _move_boundaries(entity: Entity, words: int, turns: Sequence[int]) -> Iterator[Entity]:
    """Yield all variants of the entity with one boundary moved by one word, in the order of `turns`."""
    end_first, *backwards_first = turns
    boundaries = ("end", "start") if end_first else ("start", "end")
    for boundary, backwards in zip(boundaries, backwards_first, strict=True):
        for step in (-1, 1) if backwards else (1, -1):
            start = entity.start + step * (boundary == "start")
            end = entity.end + step * (boundary == "end")
            if 0 <= start < end <= words:
                yield replace(entity, start=start, end=end)
