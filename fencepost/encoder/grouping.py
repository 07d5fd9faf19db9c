"""Which sentences are computed together: those of similar length, in groups of a bounded size."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence


def group_by_length(
    sizes: Sequence[int],
    *,
    lengths: Sequence[int] | None = None,
    count: float = math.inf,
    area: float = math.inf,
    pairs: float = math.inf,
) -> Iterator[list[int]]:
    """Yield the indices of sentences in groups of similar size, the largest first.

    A group has at most `count` sentences, `area` pieces with its padding, and `pairs` pairs of words with its
    padding, unless it is a single sentence. `sizes` are in pieces, and `lengths` in words (the sizes by
    default). Sentences of size 0 are in no group.
    """
    lengths = sizes if lengths is None else lengths
    group: list[int] = []
    longest = 0  # in words
    for index in sorted((index for index, size in enumerate(sizes) if size), key=lambda index: -sizes[index]):
        longest, members = max(longest, lengths[index]), len(group) + 1
        if group and (members > count or members * sizes[group[0]] > area or members * longest**2 > pairs):
            yield group
            group, longest = [], lengths[index]
        group.append(index)
    if group:
        yield group
