"""Split raw text into sentences and words, as character offsets; the text itself is not changed.

There are two splitters: one with spaCy's rules for a language (single characters for Chinese), and one that
splits at white space, for text that is already tokenised.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Protocol

from fencepost.data.text.lines import LINE_BREAK, Lines, find_sentence_ends
from fencepost.data.text.tokenizer import Kind, RuleTokenizer, load_rules, resolve_language

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fencepost.data.text.tokenizer import Token

Offsets = tuple[int, int]  # start and end, as in text[start:end]

LONG_WORD = 250  # characters; a longer sequence without white space is split
_LONG_PUNCTUATION = 50  # characters; the rules take quadratic time on sequences of punctuation
_AT_ONCE = 2_000  # characters that are tokenised at once, plus the rest of the last word

_WORD = re.compile(r"\S+")
_REST_OF_WORD = re.compile(r"\S*\s*")
_SURROGATE = re.compile("[\ud800-\udfff]")
_AFTER_SENTENCE = (Kind.WORD, Kind.SPACE)  # tokens before which a sentence with a stop ends
_LONG_RUNS = (re.compile(rf"[^\w\s]{{{_LONG_PUNCTUATION}}}(?=\S)"), re.compile(rf"\S{{{LONG_WORD}}}(?=\S)"))


class Splitter(Protocol):
    """Splits a text into sentences, and each of them into words."""

    def sentences(self, text: str, limit: int | None = None) -> Iterator[list[Offsets]]:
        """Yield the offsets of the words of each sentence; they cover all characters except white space.

        The text is read lazily. With a `limit`, it stops after `limit` + 1 words.
        """

    def split(self, text: str) -> list[list[Offsets]]:
        """Return everything that `sentences` yields."""
        return list(self.sentences(text))


class WhitespaceSplitter(Splitter):
    """Splitter for tokenised text: words are separated by white space and sentences by line ends."""

    def sentences(self, text: str, limit: int | None = None) -> Iterator[list[Offsets]]:
        count = 0
        for line in re.finditer(r"[^\n]+", text):
            most = None if limit is None else limit + 1 - count
            if words := [match.span() for match in islice(_WORD.finditer(text, *line.span()), most)]:
                yield words
                count += len(words)


class RuleSplitter(Splitter):
    """Splitter with the rule tokenizer for a language and the rule of spaCy's sentencizer."""

    def __init__(self, language: str = "en", lines: Lines = "auto") -> None:
        self.lines = lines
        self._tokenize = _make_tokenizer(language)

    def sentences(self, text: str, limit: int | None = None) -> Iterator[list[Offsets]]:
        """Yield the sentences that spaCy's sentencizer finds, which also end at some line breaks.

        After a stop, a sentence ends before the next token that is not punctuation. `find_sentence_ends`
        chooses the line breaks; the others count as spaces.
        """
        readable = _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)  # spaCy cannot read surrogates
        readable = LINE_BREAK.sub(" ", readable)  # otherwise each would be a token
        breaks = find_sentence_ends(text, self.lines)
        next_break = next(breaks, len(readable))
        sentence: list[Offsets] = []
        count, after_stop = 0, False
        for start, token, kind in self._iterate_tokens(readable):
            if start >= next_break or (after_stop and kind in _AFTER_SENTENCE):
                if sentence:
                    yield sentence
                sentence, after_stop = [], False
                while start >= next_break:
                    next_break = next(breaks, len(readable))
            after_stop = after_stop or kind is Kind.STOP
            if kind is not Kind.SPACE:
                sentence.append((start, start + len(token)))
                count += 1
                if limit is not None and count > limit:
                    break
        if sentence:
            yield sentence

    def _iterate_tokens(self, text: str) -> Iterator[Token]:
        for first, last in _split_pieces(text):
            for start, token, kind in self._tokenize(text[first:last]):
                yield first + start, token, kind


@lru_cache(maxsize=4)  # splitters for the same language share a tokenizer and its cache
def _make_tokenizer(language: str) -> Callable[[str], list[Token]]:
    if (code := resolve_language(language)) is not None:
        return RuleTokenizer(load_rules(code))
    # for other languages: spaCy may be missing
    from fencepost.data.text.spacy_tokenizer import SpacyTokenizer

    return SpacyTokenizer(language)


def _split_pieces(text: str) -> Iterator[Offsets]:
    """Yield the offsets of the parts to tokenise: a text is cut at white space, and inside long words."""
    start = 0
    while start < len(text):
        match = _REST_OF_WORD.match(text, start + _AT_ONCE)
        end = match.end() if match else len(text)
        for first, last in _cut(text, start, end, _LONG_RUNS[0]):
            yield from _cut(text, first, last, _LONG_RUNS[1])
        start = end


def _cut(text: str, start: int, end: int, run: re.Pattern[str]) -> Iterator[Offsets]:
    """Yield the parts of a span of a text that end after each match."""
    return pairwise([start, *(match.end() for match in run.finditer(text, start, end)), end])


def make_splitter(
    language: str | None, *, lines: Lines | None = None, pretokenized: bool = False
) -> Splitter:
    """Return the splitter for texts in `language` (default: English), or for tokenised texts.

    `lines` says which line breaks end a sentence (default: `auto`).
    """
    if pretokenized:
        return WhitespaceSplitter()
    return RuleSplitter("en" if language is None else language, lines or "auto")
