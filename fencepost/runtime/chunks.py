"""Which texts are computed together: a rule that looks at the texts alone.

What is found in a text depends a little on its company in a batch. So wherever texts are cut into chunks by
this rule, each chunk gives the same, in whatever process it is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

TEXTS = 1024
"""A chunk has at most so many texts."""

CHARACTERS = 128_000
"""A chunk has at most so many characters, unless one text alone has more."""


def chunks(items: Iterable[T], length: Callable[[T], int]) -> Iterator[list[T]]:
    """The items in lists, as a stream; `length` is how many characters the text of an item has.

    A chunk alone is again one chunk, and so are several one behind the other the same chunks.
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
