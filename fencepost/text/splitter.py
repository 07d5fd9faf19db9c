"""Raw text to sentences of words, as character offsets: nothing of the text is ever changed.

Two splitters: spaCy's rules for a language (single characters for Chinese), and white space for text
that somebody has tokenised already.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

from fencepost.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spacy.language import Language
    from spacy.tokens import Doc

Offsets = tuple[int, int]  # text[start:end]

LONG_WORD = 250  # characters; spaCy's rules take quadratic time on longer runs of punctuation
_REMEMBERED = 200_000
"""spaCy remembers every word that it ever saw, and splits the known ones faster; then it starts anew."""

_WORD = re.compile(r"\S+")
_SURROGATE = re.compile("[\ud800-\udfff]")
_PARAGRAPH_BREAK = re.compile(r"\n[^\S\n]*\n")
_LONG_RUN = re.compile(rf"\S{{{LONG_WORD}}}(?=\S)")


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
        readable = _SURROGATE.sub(
            "\N{REPLACEMENT CHARACTER}", text
        )  # what is no character, spaCy cannot read
        for start, end in _pieces(readable, _PARAGRAPH_BREAK):
            sentences.extend(self._split_paragraph(readable[start:end], start))
        return sentences

    def _split_paragraph(self, paragraph: str, offset: int) -> list[list[Offsets]]:
        nlp = self._nlp  # one for the whole paragraph: another thread may put a new one there
        if len(nlp.vocab) > _REMEMBERED:
            nlp = self._nlp = _fresh(self.language)
        doc = nlp(_tokens(nlp, paragraph))
        start, length, is_space, begins = doc.to_array(["IDX", "LENGTH", "IS_SPACE", "SENT_START"]).T.tolist()
        sentences: list[list[Offsets]] = []
        for first, size, space, new in zip(start, length, is_space, begins, strict=True):
            if new == 1 or not sentences:
                sentences.append([])
            if not space:
                sentences[-1].append((offset + first, offset + first + size))
        return [words for words in sentences if words]


def _tokens(nlp: Language, paragraph: str) -> Doc:
    """The paragraph as spaCy's tokens; what is too long to be a word is cut before."""
    from spacy.tokens import Doc

    cuts = [0, *(match.end() for match in _LONG_RUN.finditer(paragraph)), len(paragraph)]
    pieces = [nlp.make_doc(paragraph[start:end]) for start, end in pairwise(cuts)]
    if len(pieces) == 1:
        return pieces[0]
    joined = Doc.from_docs(pieces, ensure_whitespace=False, attrs=["SPACY"])
    assert joined is not None  # noqa: S101 - it is None for no pieces only
    return joined


def make_splitter(language: str | None, *, pretokenized: bool = False) -> Splitter:
    """Return the splitter for texts in `language` (English if None), or for texts that are tokenised."""
    return WhitespaceSplitter() if pretokenized else SpacySplitter("en" if language is None else language)


def _fresh(language: str) -> Language:
    import spacy

    try:
        nlp = spacy.blank(language)
    except (AttributeError, ImportError, ValueError) as error:  # a module of spaCy's that is no language
        raise UsageError(
            f"spaCy has no rules for the language {language!r}, or needs another package for them; "
            f"give a language code such as en, de, zh or xx (any language): {error}"
        ) from error
    nlp.max_length = 10**9  # the limit protects parsers, which we do not run
    nlp.add_pipe("sentencizer")
    return nlp


_blank = lru_cache(maxsize=4)(_fresh)  # the first one of each language, which splitters share


def _pieces(text: str, separator: re.Pattern[str]) -> Iterator[Offsets]:
    start = 0
    for match in separator.finditer(text):
        yield start, match.start()
        start = match.end()
    yield start, len(text)
