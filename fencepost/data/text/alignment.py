"""Convert annotations in characters to entities in words, without losing any.

White space at the boundaries of a span is trimmed, a word that contains a boundary is split there, and
sentences are joined if a span covers the boundary between them.
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

WORD_SPLIT = "word split because an entity starts or ends inside it (are the offsets right?)"
"""Note for each word that was split."""


@dataclass(frozen=True, slots=True)
class CharSpan:
    """An entity of a `type` in the characters `[start, end)` of a text."""

    start: int
    end: int
    type: str
    score: float = 1.0
    meta: Mapping[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class AlignedText:
    """The sentences of a text; `offsets[i]` has the offsets of the words of `sentences[i]`."""

    sentences: list[Sentence]
    offsets: list[list[Offsets]]
    words_split: int  # number of splits of words in which a span starts or ends


def align(text: str, spans: Sequence[CharSpan], sentences: Sequence[Sequence[Offsets]]) -> AlignedText:
    """Align spans with the words of `sentences`, whose offsets a splitter has returned.

    Raises `ValueError` for a span that lies outside the text or contains only white space.
    """
    spans = [trim(text, span) for span in spans]
    boundaries = sorted({boundary for span in spans for boundary in (span.start, span.end)})
    offsets = [_cut(words, boundaries) for words in sentences]
    words_split = sum(map(len, offsets)) - sum(map(len, sentences))
    offsets = _join(offsets, spans)
    groups = _group(offsets, spans)
    aligned = [_make_sentence(text, words, members) for words, members in zip(offsets, groups, strict=True)]
    return AlignedText(aligned, offsets, words_split)


def split_document(
    text: str, spans: Sequence[CharSpan], splitter: Splitter, name: str | None, doc: str | None
) -> AlignedText:
    """Split a text into sentences of the document `doc`, with the ids `name-1`, `name-2` and so on."""
    document = align(text, spans, splitter.split(text))
    sentences = [
        replace(sentence, doc=doc, id=None if name is None else f"{name}-{number}")
        for number, sentence in enumerate(document.sentences, start=1)
    ]
    return replace(document, sentences=sentences)


def trim(text: str, span: CharSpan) -> CharSpan:
    """Return the span without white space at its boundaries; raises `ValueError` if nothing is left."""
    if not 0 <= span.start < span.end <= len(text):
        raise ValueError(
            f"the span {span.type} [{span.start}, {span.end}) is empty or lies outside "
            f"the text's {len(text)} characters"
        )
    phrase = text[span.start : span.end]
    start = span.start + len(phrase) - len(phrase.lstrip())
    end = span.end - len(phrase) + len(phrase.rstrip())
    if start >= end:
        raise ValueError(f"the span {span.type} [{span.start}, {span.end}) contains only white space")
    return CharSpan(start, end, span.type, span.score, span.meta)


def _cut(words: Sequence[Offsets], boundaries: list[int]) -> list[Offsets]:
    """Split the words that contain a boundary of a span."""
    offsets: list[Offsets] = []
    for start, end in words:
        inner = boundaries[bisect_right(boundaries, start) : bisect_left(boundaries, end)]
        offsets.extend(itertools.pairwise([start, *inner, end]))
    return offsets


def _join(sentences: list[list[Offsets]], spans: Sequence[CharSpan]) -> list[list[Offsets]]:
    """Join the sentences whose boundary a span covers."""
    first_characters = [words[0][0] for words in sentences]
    starts = set(find_uncrossed(first_characters, [(span.start, span.end) for span in spans]))
    result: list[list[Offsets]] = []
    for words in sentences:
        if words[0][0] in starts:
            result.append(words)
        else:
            result[-1].extend(words)
    return result


def find_uncrossed(starts: Sequence[int], spans: Iterable[Offsets]) -> list[int]:
    """Return the starts of sentences that are not inside a span."""
    changes = [0] * (len(starts) + 1)  # changes in the number of spans that contain a start
    for start, end in spans:
        changes[bisect_right(starts, start)] += 1
        changes[bisect_left(starts, end)] -= 1
    counts = itertools.accumulate(changes[:-1])
    return [start for start, count in zip(starts, counts, strict=True) if not count]


def _group(sentences: list[list[Offsets]], spans: Sequence[CharSpan]) -> list[list[CharSpan]]:
    first_characters = [words[0][0] for words in sentences]
    groups: list[list[CharSpan]] = [[] for _ in sentences]
    for span in spans:
        groups[bisect_right(first_characters, span.start) - 1].append(span)
    return groups


def _make_sentence(text: str, words: list[Offsets], spans: list[CharSpan]) -> Sentence:
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
