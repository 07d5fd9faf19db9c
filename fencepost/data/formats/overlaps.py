"""Overlapping entities: find them, select those that a format can represent, and list them as brackets."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Literal

from fencepost.data.entity import Entity, Sentence
from fencepost.data.formats.format import Overlaps

Prefer = Literal["outermost", "innermost", "best"]

_PREFERENCES: dict[str, Callable[[Entity], float]] = {
    "outermost": lambda entity: -len(entity),
    "innermost": len,
    "best": lambda entity: -entity.score,
}


def list_brackets(sentence: Sentence) -> list[tuple[list[Entity], int]]:
    """Return for each word the entities that start with it, outer ones first, and how many end with it."""
    starts: list[list[Entity]] = [[] for _ in sentence.words]
    ends = [0] * len(sentence)
    for entity in sorted(sentence.entities, key=lambda entity: (entity.start, -entity.end)):
        starts[entity.start].append(entity)
        ends[entity.end - 1] += 1
    return list(zip(starts, ends, strict=True))


def has_forbidden_overlap(entities: Iterable[Entity], allowed: Overlaps) -> bool:
    """Return whether some entities overlap in a way that is not `allowed`."""
    if allowed == "any":
        return False
    ordered = sorted(entities, key=lambda entity: (entity.start, -entity.end))
    if allowed == "none":
        return any(one.end > two.start for one, two in itertools.pairwise(ordered))
    ends: list[int] = []  # ends of the entities around the current one, the innermost last
    for entity in ordered:
        while ends and ends[-1] <= entity.start:
            ends.pop()
        if ends and entity.end > ends[-1]:
            return True
        ends.append(entity.end)
    return False


def select_compatible(entities: Iterable[Entity], allowed: Overlaps, prefer: Prefer) -> list[Entity]:
    """Select entities in the order of preference, without those that overlap in a way not `allowed`."""
    selected: list[Entity] = []
    boundaries, covered = Boundaries(), set[int]()
    rank = _PREFERENCES[prefer]
    for entity in sorted(entities, key=lambda entity: (rank(entity), *entity.key, -entity.score)):
        words = range(entity.start, entity.end)
        if boundaries.crosses(entity) if allowed == "nested" else not covered.isdisjoint(words):
            continue
        selected.append(entity)
        boundaries.add(entity)
        covered.update(words)
    return selected


class Boundaries:
    """Boundaries of entities, which show whether another entity crosses any of them."""

    def __init__(self, entities: Iterable[Entity] = ()) -> None:
        self._furthest: dict[int, int] = {}  # the largest end of the entities with each start
        self._nearest: dict[int, int] = {}  # the smallest start of the entities with each end
        for entity in entities:
            self.add(entity)

    def add(self, entity: Entity) -> None:
        start, end = entity.span
        self._furthest[start] = max(end, self._furthest.get(start, end))
        self._nearest[end] = min(start, self._nearest.get(end, start))

    def crosses(self, entity: Entity) -> bool:
        """Return whether the entity overlaps one of these without nesting."""
        start, end = entity.span
        return any(
            self._furthest.get(inside, end) > end or self._nearest.get(inside, start) < start
            for inside in range(start + 1, end)
        )
