"""Options of the commands that read corpora."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from fencepost.cli.corpora import SkipLog
from fencepost.cli.frame import Quiet, say
from fencepost.cli.groups import OptionGroup, option
from fencepost.cli.progress import watch_reader

if TYPE_CHECKING:
    from fencepost.data import Reader, ReadOptions
    from fencepost.data.entity import Sentence
    from fencepost.runtime.prediction.texts import Texts

_READING = "How to read the input"
TextDefaults = Mapping[str, Any]
"""Default values of `--language` and `--lines`, by name."""


SkipInvalid = Annotated[
    bool,
    typer.Option(
        "--skip-invalid",
        help="Skip and count invalid sentences instead of stopping at the first one.",
        rich_help_panel=_READING,
    ),
]


@dataclass(frozen=True, kw_only=True)
class FormatOptions(OptionGroup):
    """Options for the fields of `fencepost.data.ReadOptions`."""

    title = _READING

    scheme: Literal["iob1", "iob2", "bioes"] | None = option(
        None, "conll: treat sentences whose tags violate this scheme as invalid."
    )
    word_column: int | None = option(
        None, "Columns: number of the column with the words; 1 is the first, -1 the last."
    )
    tag_column: int | None = option(None, "Columns: number of the column with the tags.")
    pos_column: int | None = option(None, "Columns: number of the column with parts of speech.")
    ends: Literal["inclusive", "exclusive"] | None = option(
        None, "JSON: whether the end of a span is its last word (inclusive) or the word after it."
    )
    check_text: bool = option(
        True, "Whether the text of an entity must match its words.", "--check-text/--no-check-text"
    )
    language: str | None = option(
        None,
        "Raw text: language whose rules split it into words and sentences; zh splits by character. "
        "Default: that of the model, or en.",
    )
    lines: Literal["auto", "break", "join"] | None = option(
        None,
        "Raw text: line breaks that end a sentence: all (break), only blank lines (join), or those in "
        "lists, forms and tables, but not in wrapped paragraphs (auto). Default: that of the model, or "
        "auto.",
    )
    pretokenized: bool = option(
        False, "Raw text: words are separated by white space, sentences by line breaks."
    )
    spans_key: str | None = option(
        None, "spacy: span group with the entities; webanno: layer with the entities, or LAYER.FEATURE."
    )
    keep_rejected: bool = option(
        False,
        "Read records that an annotator has rejected or ignored (jsonl-text) or not finished "
        "(label-studio) instead of skipping them.",
    )
    columns: str | None = option(
        None,
        "CSV, Excel, Parquet and JSON: columns or keys with the fields of a sentence. Fields: text, "
        "entities, words, tags, id, doc; start, end, type (one row per entity); sentence (one row per "
        "word).",
        metavar="FIELD=COLUMN,...",
    )

    def read_options(self, text: TextDefaults = MappingProxyType({})) -> ReadOptions:
        """Return the options for the Python API; `text` has the defaults of `--language` and `--lines`."""
        from fencepost.data import ReadOptions

        values = {field.name: getattr(self, field.name) for field in fields(FormatOptions)}
        return ReadOptions(**values).with_defaults(text.get("language"), text.get("lines"))


@dataclass(frozen=True, kw_only=True)
class ReadingOptions(FormatOptions):
    """Options for reading corpora and for messages about it."""

    format: str | None = option(None, "Format of the input. Default: detected from the content.")
    skip_invalid: SkipInvalid = False
    quiet: Quiet = False

    @contextmanager
    def open(self, path: str, text: TextDefaults = MappingProxyType({})) -> Iterator[Reader]:
        """Open a file; at the end, print the notes about it and the skipped sentences.

        `text` has the defaults of `--language` and `--lines`.
        """
        from fencepost.data import Reader

        skip_log = SkipLog()
        options = self.read_options(text)
        with Reader(path, self.format, options, skip_log if self.skip_invalid else None) as reader:
            yield reader
        skip_log.report(reader.source, quiet=self.quiet)

    def read(self, path: str, text: TextDefaults = MappingProxyType({})) -> list[Sentence]:
        """Return all sentences of a file."""
        with self.open(path, text) as reader:
            return list(watch_reader(reader, quiet=self.quiet))

    def say(self, message: str) -> None:
        """Print a message about the work on standard error, unless `--quiet` is set."""
        say(message, quiet=self.quiet)


@dataclass(frozen=True, kw_only=True)
class TextOptions(FormatOptions):
    """Options for reading texts and for messages about it."""

    format: str | None = option(
        None, "Format of the texts: text (one text per line), csv or a corpus format. Default: detected."
    )
    text_column: str | None = option(
        None, "CSV, TSV, Excel and Parquet: column with the texts; JSON: key. Default: text."
    )
    skip_invalid: SkipInvalid = False
    quiet: Quiet = False

    @contextmanager
    def open(self, path: str) -> Iterator[tuple[Texts, SkipLog]]:
        """Yield the texts of a file and the log of skipped ones; print the log at the end."""
        from fencepost.runtime.prediction.texts import open_texts  # it imports all formats

        skip_log = SkipLog()
        on_invalid = skip_log if self.skip_invalid else None
        with open_texts(path, self.format, self.read_options(), on_invalid, self.text_column) as texts:
            yield texts, skip_log
        skip_log.report(texts.source, quiet=self.quiet)
