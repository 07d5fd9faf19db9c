"""Groups of texts that are computed together, by a rule that depends on the texts alone.

The entities of a text depend a little on the other texts of its batch. Since chunks follow this rule
everywhere, each gives the same entities in whatever process it is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

TEXTS = 1024
"""Largest number of texts of a chunk."""

CHARACTERS = 128_000
"""Largest number of characters of a chunk, unless one text alone has more."""


def chunks(items: Iterable[T], length: Callable[[T], int]) -> Iterator[list[T]]:
    """Yield the items in lists, as a stream; `length` returns the number of characters of an item.

    A chunk alone gives the same chunk again, and several in a row give the same chunks.
    """
    chunk: list[T] = []
    characters = 0
    for item in items:
        size = length(item)
        if chunk and characters + size > CHARACTERS:
            yield chunk
            chunk, characters = [], 0
        chunk.append(item)
        characters += size
        if len(chunk) == TEXTS or characters >= CHARACTERS:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk
