"""Annotated raw text to sentences: what the formats with character offsets share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fencepost.data.entity import Sentence
from fencepost.data.text import CharSpan, Splitter, align

WORD_SPLIT = "word cut in two because an entity begins or ends inside it (are the offsets right?)"


def sentences_of(
    text: str, spans: Sequence[CharSpan], splitter: Splitter, name: str | None, doc: str | None
) -> tuple[list[tuple[int, int, Sentence]], int]:
    """The sentences of a document, and how many words had to be cut.

    Each sentence comes with the characters `[start, end)` where it stands, and is called `name-1`,
    `name-2` and so on.
    """
    document = align(text, spans, splitter.split(text))
    placed = []
    pairs = zip(document.sentences, document.offsets, strict=True)
    for number, (sentence, offsets) in enumerate(pairs, start=1):
        named = replace(sentence, doc=doc, id=None if name is None else f"{name}-{number}")
        placed.append((offsets[0][0], offsets[-1][1], named))
    return placed, document.words_split
