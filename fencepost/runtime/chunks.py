"""Chunks of texts that are computed together, by a rule that depends only on the texts.

The confidences of a text's entities depend slightly on the other texts in its batch. With the same chunks
everywhere, a text has the same entities in whichever process it is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

TEXTS = 1024
"""Maximum number of texts in a chunk."""

CHARACTERS = 128_000
"""Maximum number of characters in a chunk, unless a single text has more."""


def chunk_texts(items: Iterable[T], length: Callable[[T], int]) -> Iterator[list[T]]:
    """Yield lists of consecutive items; `length` returns the number of characters of an item.

    Applied to the items of one chunk, or of several consecutive ones, it yields the same chunks again.
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
