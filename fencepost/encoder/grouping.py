"""Grouping of sentences of similar length, to compute them together."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence


def group_by_length(
    sizes: Sequence[int],
    *,
    lengths: Sequence[int] | None = None,
    members: Sequence[int] | None = None,
    count: float = math.inf,
    area: float = math.inf,
    pairs: float = math.inf,
) -> Iterator[list[int]]:
    """Yield the indices of sentences in groups of similar size, the largest first.

    A group has at most `count` sentences, and with its padding at most `area` sub-words and `pairs` pairs of
    words, unless it is a single item. `sizes` are in sub-words, and `lengths` in words (by default, the
    sizes). An item may be a block of several sentences, whose number is in `members`; its length is that of
    the longest. Items of size 0 are left out.
    """
    lengths = sizes if lengths is None else lengths
    group: list[int] = []
    longest = sentences = 0  # longest in words
    for index in sorted((index for index, size in enumerate(sizes) if size), key=lambda index: -sizes[index]):
        own = 1 if members is None else members[index]
        longest, sentences = max(longest, lengths[index]), sentences + own
        area_needed = (len(group) + 1) * sizes[group[0]] if group else 0
        if group and (sentences > count or area_needed > area or sentences * longest**2 > pairs):
            yield group
            group, longest, sentences = [], lengths[index], own
        group.append(index)
    if group:
        yield group
