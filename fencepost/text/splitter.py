"""Raw text to sentences of words, as character offsets: nothing of the text is ever changed.

Two splitters: spaCy's rules for a language (single characters for Chinese), and white space for text
that somebody has tokenised already.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

from fencepost.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spacy.language import Language

Offsets = tuple[int, int]  # text[start:end]

_WORD = re.compile(r"\S+")
_PARAGRAPH_BREAK = re.compile(r"\n[^\S\n]*\n")


class Splitter(Protocol):
    """Cuts a text into sentences, and each of them into words."""

    def split(self, text: str) -> list[list[Offsets]]:
        """The words of each sentence; every character that is not white space is in a word."""


class WhitespaceSplitter:
    """Words are separated by white space and sentences by line ends: text that is tokenised already."""

    def split(self, text: str) -> list[list[Offsets]]:
        sentences = []
        for start, end in _pieces(text, re.compile("\n")):
            words = [match.span() for match in _WORD.finditer(text, start, end)]
            if words:
                sentences.append(words)
        return sentences


class SpacySplitter:
    """spaCy's rule tokenizer and sentencizer for a language; no model is needed."""

    def __init__(self, language: str = "en") -> None:
        self.language = language
        self._nlp = _blank(language)

    def split(self, text: str) -> list[list[Offsets]]:
        sentences: list[list[Offsets]] = []
        # By paragraph: no sentence runs over a blank line, and a whole book need not be one Doc.
        for start, end in _pieces(text, _PARAGRAPH_BREAK):
            sentences.extend(self._split_paragraph(text[start:end], start))
        return sentences

    def _split_paragraph(self, paragraph: str, offset: int) -> Iterator[list[Offsets]]:
        for sentence in self._nlp(paragraph).sents:
            words = [
                (offset + token.idx, offset + token.idx + len(token))
                for token in sentence
                if not token.is_space
            ]
            if words:
                yield words


def make_splitter(language: str, *, pretokenized: bool = False) -> Splitter:
    """The splitter for a text in `language`, or for one whose words are separated already."""
    return WhitespaceSplitter() if pretokenized else SpacySplitter(language)


@lru_cache(maxsize=4)
def _blank(language: str) -> Language:
    import spacy

    try:
        nlp = spacy.blank(language)
    except (ImportError, ValueError) as error:
        raise UsageError(
            f"spaCy has no rules for the language {language!r}, or needs another package for them; "
            f"give a language code such as en, de, zh or xx (any language): {error}"
        ) from error
    nlp.max_length = 10**9  # the limit protects parsers, which we do not run
    nlp.add_pipe("sentencizer")
    return nlp


def _pieces(text: str, separator: re.Pattern[str]) -> Iterator[Offsets]:
    start = 0
    for match in separator.finditer(text):
        yield start, match.start()
        start = match.end()
    yield start, len(text)
