"""Raw text to sentences of words, as character offsets: nothing of the text is ever changed.

Two splitters: spaCy's rules for a language (single characters for Chinese), and white space for text
that somebody has tokenised already.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Protocol

from fencepost.data.text.lines import LINE_BREAK, Lines, sentence_ends
from fencepost.errors import UsageError, describe_error

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spacy.language import Language

Offsets = tuple[int, int]  # text[start:end]

LONG_WORD = 250  # characters; a longer run of anything but white space is cut
_LONG_PUNCTUATION = 50  # characters; spaCy's rules take quadratic time on runs of punctuation
_AT_ONCE = 2_000
"""Characters that spaCy reads at once, up to the end of a word: no other thread can run meanwhile."""

_REMEMBERED = 30_000
"""Number of words in spaCy's vocabulary, about 1 kB each, above which it is replaced by an empty one."""

_WORD = re.compile(r"\S+")
_REST_OF_WORD = re.compile(r"\S*\s*")
_SURROGATE = re.compile("[\ud800-\udfff]")
_LONG_RUNS = (
    re.compile(rf"[^\w\s]{{{_LONG_PUNCTUATION}}}(?=\S)"),
    re.compile(rf"\S{{{LONG_WORD}}}(?=\S)"),
)


class Splitter(Protocol):
    """Cuts a text into sentences, and each of them into words."""

    def sentences(self, text: str, limit: int | None = None) -> Iterator[list[Offsets]]:
        """Yield the words of each sentence; every character that is not white space is in a word.

        The text is read as far as needed only. With a `limit`, the end is the first word above that number.
        """

    def split(self, text: str) -> list[list[Offsets]]:
        """Return all that `sentences` yields."""
        return list(self.sentences(text))


class WhitespaceSplitter(Splitter):
    """Words are separated by white space and sentences by line ends: text that is tokenised already."""

    def sentences(self, text: str, limit: int | None = None) -> Iterator[list[Offsets]]:
        count = 0
        for line in re.finditer(r"[^\n]+", text):
            most = None if limit is None else limit + 1 - count
            if words := [match.span() for match in islice(_WORD.finditer(text, *line.span()), most)]:
                yield words
                count += len(words)


class SpacySplitter(Splitter):
    """spaCy's rule tokenizer for a language, and the rule of its sentencizer; no model is needed."""

    def __init__(self, language: str = "en", lines: Lines = "auto") -> None:
        from spacy.pipeline import Sentencizer
        from spacy.strings import get_string_id

        self.language, self.lines = language, lines
        self._nlp = _blank(language)
        self._stops = frozenset(map(get_string_id, Sentencizer.default_punct_chars))

    def sentences(self, text: str, limit: int | None = None) -> Iterator[list[Offsets]]:
        """As spaCy's sentencizer: after a stop, a sentence ends before the next token that is no punctuation.

        It also ends at some line breaks (`sentence_ends`), and all others are spaces. The sentencizer itself
        wants the whole text as one `Doc`, and lets no other thread run while it reads it.
        """
        readable = _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)  # spaCy cannot read surrogates
        readable = LINE_BREAK.sub(" ", readable)  # for spaCy, each would be a token
        paragraphs = sentence_ends(text, self.lines)
        paragraph = next(paragraphs, len(readable))  # where the next one starts
        sentence: list[Offsets] = []
        count, after_stop = 0, False
        for start, length, orth, is_punct, is_space in self._tokens(readable):
            is_stop = orth in self._stops
            if start >= paragraph or (after_stop and not is_punct and not is_stop):
                if sentence:
                    yield sentence
                sentence, after_stop = [], False
                while start >= paragraph:
                    paragraph = next(paragraphs, len(readable))
            after_stop = after_stop or is_stop
            if not is_space:
                sentence.append((start, start + length))
                count += 1
                if limit is not None and count > limit:
                    break
        if sentence:
            yield sentence

    def _tokens(self, text: str) -> Iterator[list[int]]:
        """Yield start, length, spelling and whether it is punctuation or white space, of each token."""
        for start, end in _pieces(text):
            nlp = self._nlp  # one for the whole piece: another thread may replace it
            if len(nlp.vocab) > _REMEMBERED:
                nlp = self._nlp = _fresh(self.language)
            tokens = nlp.make_doc(text[start:end]).to_array(["IDX", "LENGTH", "ORTH", "IS_PUNCT", "IS_SPACE"])
            for first, *rest in tokens.tolist():
                yield [start + first, *rest]


def _pieces(text: str) -> Iterator[Offsets]:
    """Cut a text into pieces for spaCy: at white space, and inside of what is too long for a word."""
    start = 0
    while start < len(text):
        match = _REST_OF_WORD.match(text, start + _AT_ONCE)
        end = match.end() if match else len(text)
        for first, last in _cut(text, start, end, _LONG_RUNS[0]):
            yield from _cut(text, first, last, _LONG_RUNS[1])
        start = end


def _cut(text: str, start: int, end: int, run: re.Pattern[str]) -> Iterator[Offsets]:
    """Cut a part of a text after each match."""
    return pairwise([start, *(match.end() for match in run.finditer(text, start, end)), end])


def make_splitter(
    language: str | None, *, lines: Lines | None = None, pretokenized: bool = False
) -> Splitter:
    """Return the splitter for texts in `language` (English if None), or for texts that are tokenised.

    `lines` says which line breaks end a sentence (`auto` if None).
    """
    if pretokenized:
        return WhitespaceSplitter()
    return SpacySplitter("en" if language is None else language, lines or "auto")


def _fresh(language: str) -> Language:
    import spacy

    try:
        nlp = spacy.blank(language)
    except (AttributeError, ImportError, ValueError) as error:  # a module of spaCy's that is no language
        raise UsageError(
            f"spaCy has no rules for the language {language!r}, or needs another package for them; "
            f"give a language code such as en, de, zh or xx (any language): {describe_error(error)}"
        ) from error
    nlp.max_length = 10**9  # the limit protects parsers, which we do not run
    return nlp


_blank = lru_cache(maxsize=4)(_fresh)  # the first one of each language, which splitters share
