"""Which entities overlap, and which of them to keep in a format that cannot hold them all."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Literal

from fencepost.corpus.format import Overlaps
from fencepost.entity import Entity

Prefer = Literal["outermost", "innermost", "best"]

_PREFERENCES: dict[str, Callable[[Entity], tuple[float, int, int, str]]] = {
    "outermost": lambda entity: (-len(entity), entity.start, entity.end, entity.type),
    "innermost": lambda entity: (len(entity), entity.start, entity.end, entity.type),
    "best": lambda entity: (-entity.score, entity.start, entity.end, entity.type),
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
    for entity in sorted(entities, key=_PREFERENCES[prefer]):
        clashes = (
            any(entity.crosses(other) for other in kept)
            if allowed == "nested"
            else any(entity.start < other.end and other.start < entity.end for other in kept)
        )
        if not clashes:
            kept.append(entity)
    return kept
