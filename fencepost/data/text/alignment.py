"""Annotations in characters to entities in words.

People annotate characters and networks read words. Nothing may get lost between the two: white space
at a span's edges is trimmed, a word that a boundary cuts is split there, and sentences over which an
annotation runs are joined.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from fencepost.data.entity import Entity, Sentence

if TYPE_CHECKING:
    from fencepost.data.text.splitter import Offsets, Splitter

WORD_SPLIT = "word cut in two because an entity begins or ends inside it (are the offsets right?)"
"""Note on a document, for each such word."""


@dataclass(frozen=True, slots=True)
class CharSpan:
    """The characters `[start, end)` of a text are a `type`."""

    start: int
    end: int
    type: str
    score: float = 1.0
    meta: Mapping[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Document:
    """A text as sentences; `offsets[i]` has the characters of the words of `sentences[i]`."""

    sentences: list[Sentence]
    offsets: list[list[Offsets]]
    words_split: int  # words that had to be cut because a span begins or ends inside them


def align(text: str, spans: Sequence[CharSpan], sentences: Sequence[Sequence[Offsets]]) -> Document:
    """Put the spans on the words of `sentences` (from a splitter).

    Raises `ValueError` for a span that lies outside the text or holds nothing but white space.
    """
    trimmed = [trim(text, span) for span in spans]
    cuts = sorted({edge for span in trimmed for edge in (span.start, span.end)})
    offsets = [_cut(words, cuts) for words in sentences]
    words_split = sum(map(len, offsets)) - sum(map(len, sentences))
    offsets = _join(offsets, trimmed)
    inside = _group(offsets, trimmed)
    made = [_sentence(text, words, members) for words, members in zip(offsets, inside, strict=True)]
    return Document(made, offsets, words_split)


def split_document(
    text: str, spans: Sequence[CharSpan], splitter: Splitter, name: str | None, doc: str | None
) -> Document:
    """Split a text into sentences of the document `doc`, named `name-1`, `name-2` and so on."""
    document = align(text, spans, splitter.split(text))
    named = [
        replace(sentence, doc=doc, id=None if name is None else f"{name}-{number}")
        for number, sentence in enumerate(document.sentences, start=1)
    ]
    return replace(document, sentences=named)


def trim(text: str, span: CharSpan) -> CharSpan:
    """The span without the white space at its edges."""
    if not 0 <= span.start < span.end <= len(text):
        raise ValueError(
            f"the span {span.type} [{span.start}, {span.end}) is empty or lies outside "
            f"the text's {len(text)} characters"
        )
    held = text[span.start : span.end]
    start = span.start + len(held) - len(held.lstrip())
    end = span.end - len(held) + len(held.rstrip())
    if start >= end:
        raise ValueError(f"the span {span.type} [{span.start}, {span.end}) holds only white space")
    return CharSpan(start, end, span.type, span.score, span.meta)


def _cut(words: Sequence[Offsets], cuts: list[int]) -> list[Offsets]:
    """The words, split where a cut falls inside one."""
    pieces: list[Offsets] = []
    for start, end in words:
        inner = cuts[bisect_right(cuts, start) : bisect_left(cuts, end)]
        edges = [start, *inner, end]
        pieces.extend(itertools.pairwise(edges))
    return pieces


def _join(sentences: list[list[Offsets]], spans: list[CharSpan]) -> list[list[Offsets]]:
    """The sentences, joined where a span runs over the boundary between two of them."""
    first_characters = [words[0][0] for words in sentences]
    beginnings = set(uncrossed(first_characters, [(span.start, span.end) for span in spans]))
    joined: list[list[Offsets]] = []
    for words in sentences:
        if words[0][0] in beginnings:
            joined.append(words)
        else:
            joined[-1].extend(words)
    return joined


def uncrossed(beginnings: Sequence[int], spans: Iterable[Offsets]) -> list[int]:
    """Those of the sentences' beginnings over which no span runs."""
    changes = [0] * (len(beginnings) + 1)  # in how many spans run over a beginning
    for start, end in spans:
        changes[bisect_right(beginnings, start)] += 1
        changes[bisect_left(beginnings, end)] -= 1
    return [
        beginning
        for beginning, crossing in zip(beginnings, itertools.accumulate(changes[:-1]), strict=True)
        if not crossing
    ]


def _group(sentences: list[list[Offsets]], spans: list[CharSpan]) -> list[list[CharSpan]]:
    first_characters = [words[0][0] for words in sentences]
    groups: list[list[CharSpan]] = [[] for _ in sentences]
    for span in spans:
        groups[bisect_right(first_characters, span.start) - 1].append(span)
    return groups


def _sentence(text: str, words: list[Offsets], spans: list[CharSpan]) -> Sentence:
    starts = {start: index for index, (start, _) in enumerate(words)}
    ends = {end: index + 1 for index, (_, end) in enumerate(words)}
    spaces = [end < start for (_, end), (start, _) in itertools.pairwise(words)]
    return Sentence(
        words=[text[start:end] for start, end in words],
        entities=[
            Entity(starts[span.start], ends[span.end], span.type, span.score, span.meta) for span in spans
        ],
        space_after=None if all(spaces) else [*spaces, False],
    )
