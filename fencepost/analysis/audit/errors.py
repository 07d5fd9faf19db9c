"""Errors that are made on purpose, to learn how models treat errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fencepost.data.entity import Entity, Sentence
from fencepost.experiments.variants import with_boundary_noise

Places = set[tuple[int, tuple[int, int, str]]]
"""Entities by sentence and key."""

BOUNDARIES, TYPES, DELETIONS, ADDITIONS = 0.015, 0.01, 0.01, 0.003
"""Shares of the annotations that are moved by a word, get another type, are removed and are added."""


def make_errors(sentences: Sequence[Sentence], seed: int) -> tuple[list[Sentence], Places, Places]:
    """Return the sentences with errors, the entities that are wrong, and those that are lost."""
    chance = np.random.default_rng(seed)
    entities = [entity for sentence in sentences for entity in sentence.entities]
    types = sorted({entity.type for entity in entities})
    lengths = [len(entity) for entity in entities]
    noisy, wrong, lost = [], set(), set()
    moved = with_boundary_noise(sentences, BOUNDARIES, seed)
    for number, (sentence, before) in enumerate(zip(moved, sentences, strict=True)):
        changed = _change(sentence, types, lengths, chance)
        old, new = ({entity.key for entity in one.entities} for one in (before, changed))
        wrong |= {(number, key) for key in new - old}
        lost |= {(number, key) for key in old - new}
        noisy.append(changed)
    return noisy, wrong, lost


def _change(
    sentence: Sentence, types: Sequence[str], lengths: Sequence[int], chance: np.random.Generator
) -> Sentence:
    """Return the sentence with types changed, and with entities removed and added."""
    entities = []
    for entity in sentence.entities:
        drawn = chance.random()
        if drawn < TYPES and len(types) > 1:
            others = [type_ for type_ in types if type_ != entity.type]
            entities.append(replace(entity, type=others[int(chance.integers(len(others)))]))
        elif not TYPES <= drawn < TYPES + DELETIONS:
            entities.append(entity)
        length = lengths[int(chance.integers(len(lengths)))]
        if chance.random() < ADDITIONS and length <= len(sentence):
            start = int(chance.integers(len(sentence) - length + 1))
            entities.append(Entity(start, start + length, types[int(chance.integers(len(types)))]))
    return sentence.with_entities(entities)
