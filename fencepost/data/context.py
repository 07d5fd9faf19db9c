"""Context of sentences: the words of their neighbours in the same document."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby, pairwise

from fencepost.data.entity import Sentence


def add_context(sentences: Iterable[Sentence], count: int) -> Iterator[Sentence]:
    """Yield each sentence with the words of `count` neighbours on each side as `left` and `right`.

    Neighbours are consecutive sentences with the same `doc`. A sentence that already has context keeps it,
    and one without `doc` gets none. At most `2 * count + 1` sentences are in memory.
    """
    for doc, group in groupby(sentences, key=lambda sentence: sentence.doc):
        if doc is None or count == 0:
            yield from group
        else:
            yield from _process_document(group, count)


def has_documents(sentences: Iterable[Sentence]) -> bool:
    """Return whether two consecutive sentences are of one document."""
    return any(first.doc is not None and first.doc == second.doc for first, second in pairwise(sentences))


def _process_document(sentences: Iterator[Sentence], count: int) -> Iterator[Sentence]:
    before: deque[Sentence] = deque(maxlen=count)
    waiting: deque[Sentence] = deque()  # the next sentence to yield, and those after it
    for sentence in sentences:
        waiting.append(sentence)
        if len(waiting) > count:
            yield _take_next(before, waiting)
    while waiting:
        yield _take_next(before, waiting)


def _take_next(before: deque[Sentence], waiting: deque[Sentence]) -> Sentence:
    sentence = waiting.popleft()
    left = sentence.left or [word for one in before for word in one.words]
    right = sentence.right or [word for one in waiting for word in one.words]
    before.append(sentence)
    return replace(sentence, left=tuple(left), right=tuple(right))
