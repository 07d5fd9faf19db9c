"""Grouping of sentences of similar length, to compute them together."""

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

    A group has at most `count` sentences, and with its padding at most `area` sub-words and `pairs` pairs of
    words, unless it is a single sentence. `sizes` are in sub-words, and `lengths` in words (by default, the
    sizes). Sentences of size 0 are left out.
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
