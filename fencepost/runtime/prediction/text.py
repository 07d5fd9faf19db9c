"""Texts to predict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fencepost.data.entity import Sentence
from fencepost.data.formats.format import ReadOptions
from fencepost.data.formats.json_fields import SURROGATES
from fencepost.data.text import make_splitter
from fencepost.data.text.splitter import Offsets
from fencepost.errors import UsageError

TEXT = "text"
"""Default name of the column, or the key, with the texts."""


@dataclass(frozen=True, slots=True)
class Text:
    """A text to predict.

    `fields` are copied to the output. If the words are given, `sentences` has them, and `offsets` their
    offsets in the text. `end` is the number of bytes of the file read so far, and `line` the line or row.
    """

    text: str
    fields: dict[str, Any] = field(default_factory=dict)
    sentences: Sequence[Sentence] | None = None
    offsets: Sequence[Sequence[Offsets]] = ()
    end: int = 0
    line: int = 0

    def to_record(self) -> dict[str, Any]:
        """Return the JSON object of the output, without the entities."""
        return {**self.fields, TEXT: self.text}


def read_command_texts(texts: Sequence[str], options: ReadOptions) -> Iterator[Text]:
    """Yield the texts given as arguments of the command."""
    for number, text in enumerate(texts, start=1):
        if SURROGATES.search(text):
            raise UsageError(f"text {number} of the command is not valid UTF-8")
        yield add_words(Text(text), options)


def add_words(text: Text, options: ReadOptions) -> Text:
    """Return the text with its words if the options say that white space separates them."""
    if not options.pretokenized:
        return text
    offsets = make_splitter(options.language, pretokenized=True).split(text.text)
    sentences = [Sentence([text.text[start:end] for start, end in words]) for words in offsets]
    return replace(text, sentences=sentences, offsets=offsets)
