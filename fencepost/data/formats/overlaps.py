"""Which entities overlap, and which of them to keep in a format that cannot hold them all."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Literal

from fencepost.data.entity import Entity
from fencepost.data.formats.format import Overlaps

Prefer = Literal["outermost", "innermost", "best"]

_PREFERENCES: dict[str, Callable[[Entity], tuple[float, int, int, str, float]]] = {
    "outermost": lambda entity: (-len(entity), *entity.key, -entity.score),
    "innermost": lambda entity: (len(entity), *entity.key, -entity.score),
    "best": lambda entity: (-entity.score, *entity.key, -entity.score),
}


def overlapping(entities: Iterable[Entity], allowed: Overlaps) -> bool:
    """Whether some entities overlap in a way that is not `allowed`."""
    if allowed == "any":
        return False
    ordered = sorted(entities, key=lambda entity: (entity.start, -entity.end))
    if allowed == "none":
        return any(one.end > two.start for one, two in itertools.pairwise(ordered))
    ends: list[int] = []  # of the entities that are open, the innermost last
    for entity in ordered:
        while ends and ends[-1] <= entity.start:
            ends.pop()
        if ends and entity.end > ends[-1]:
            return True
        ends.append(entity.end)
    return False


def keep_compatible(entities: Iterable[Entity], allowed: Overlaps, prefer: Prefer) -> list[Entity]:
    """The preferred entities first, and each further one that overlaps with none of them as forbidden."""
    kept: list[Entity] = []
    edges, taken = Edges(), set[int]()
    for entity in sorted(entities, key=_PREFERENCES[prefer]):
        words = range(entity.start, entity.end)
        if edges.crossing(entity) if allowed == "nested" else not taken.isdisjoint(words):
            continue
        kept.append(entity)
        edges.add(entity)
        taken.update(words)
    return kept


class Edges:
    """Where entities begin and end: enough to know whether another one crosses any of them."""

    def __init__(self, entities: Iterable[Entity] = ()) -> None:
        self._furthest: dict[int, int] = {}  # by start: the last end of those that begin there
        self._nearest: dict[int, int] = {}  # by end: the first start of those that end there
        for entity in entities:
            self.add(entity)

    def add(self, entity: Entity) -> None:
        start, end = entity.span
        self._furthest[start] = max(end, self._furthest.get(start, end))
        self._nearest[end] = min(start, self._nearest.get(end, start))

    def crossing(self, entity: Entity) -> bool:
        """Whether one begins inside the entity and ends after it, or begins before it and ends inside."""
        start, end = entity.span
        return any(
            self._furthest.get(inside, end) > end or self._nearest.get(inside, start) < start
            for inside in range(start + 1, end)
        )
