"""The options of the commands that read corpora."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fencepost.cli.corpora import Skipped
from fencepost.cli.frame import Quiet, say
from fencepost.cli.groups import OptionGroup, option
from fencepost.cli.progress import watch_reader

if TYPE_CHECKING:
    from fencepost.data import Reader, ReadOptions
    from fencepost.data.entity import Sentence

_READING = "How to read the input"
TextDefaults = Mapping[str, Any]
"""Rules for raw text, by name, where no options give them."""


def reading_option(name: str, text: str) -> Any:
    return option(name, text, _READING)


SkipInvalid = Annotated[
    bool,
    reading_option("--skip-invalid", "Skip and count invalid sentences instead of stopping at the first."),
]


@dataclass(frozen=True, kw_only=True)
class FormatOptions(OptionGroup):
    """The fields of `fencepost.data.ReadOptions`, each as an option."""

    title = _READING

    scheme: Annotated[
        Literal["iob1", "iob2", "bioes"] | None,
        option("--scheme", "conll: sentences whose tags break this scheme's rules are invalid."),
    ] = None
    word_column: Annotated[
        int | None, option("--word-column", "Columns: where the words are; 1 is the first, -1 the last.")
    ] = None
    tag_column: Annotated[int | None, option("--tag-column", "Columns: where the tags are.")] = None
    pos_column: Annotated[int | None, option("--pos-column", "Columns: where the parts of speech are.")] = (
        None
    )
    ends: Annotated[
        Literal["inclusive", "exclusive"] | None,
        option("--ends", "JSON: whether a span's end is its last word or the word after it."),
    ] = None
    check_text: Annotated[
        bool, option("--check-text/--no-check-text", "Whether an entity's text must be that of its words.")
    ] = True
    language: Annotated[
        str | None,
        option(
            "--language",
            "Raw text: language whose rules split it into words and sentences; zh splits by character. "
            "Default: the model's, or en.",
        ),
    ] = None
    lines: Annotated[
        Literal["auto", "break", "join"] | None,
        option(
            "--lines",
            "Raw text: line breaks that end a sentence: all (break), only blank lines (join), or those of "
            "lists, forms and tables, but not of wrapped paragraphs (auto). Default: the model's, or auto.",
        ),
    ] = None
    pretokenized: Annotated[
        bool,
        option("--pretokenized", "Raw text: words are separated by white space, sentences by line ends."),
    ] = False
    spans_key: Annotated[
        str | None,
        option(
            "--spans-key",
            "spacy: the span group with the entities; webanno: the layer with them, or LAYER.FEATURE.",
        ),
    ] = None
    keep_rejected: Annotated[
        bool,
        option(
            "--keep-rejected",
            "Read records that an annotator has rejected or ignored (jsonl-text) or never finished "
            "(label-studio), instead of skipping them.",
        ),
    ] = False
    columns: Annotated[
        str | None,
        option(
            "--columns",
            "CSV, Excel, Parquet and JSON: the columns or keys with the parts of a sentence, by part: text, "
            "entities, words, tags, id, doc; start, end, type (a row for each entity); sentence (a row for "
            "each word).",
            metavar="PART=COLUMN,...",
        ),
    ] = None

    def read_options(self, text: TextDefaults = MappingProxyType({})) -> ReadOptions:
        """Return the options for the Python API; `text` has defaults of `--language` and `--lines`."""
        from fencepost.data import ReadOptions

        values = {field.name: getattr(self, field.name) for field in fields(FormatOptions)}
        return ReadOptions(**values).with_defaults(text.get("language"), text.get("lines"))


@dataclass(frozen=True, kw_only=True)
class ReadingOptions(FormatOptions):
    """How a command reads corpora, and whether it says anything about it."""

    format: Annotated[
        str | None, option("--format", "The input's format, instead of finding it out from the content.")
    ] = None
    skip_invalid: SkipInvalid = False
    quiet: Quiet = False

    @contextmanager
    def open(self, path: str, text: TextDefaults = MappingProxyType({})) -> Iterator[Reader]:
        """Open a file; when it was read, print its notes and what was skipped.

        `text` has defaults of `--language` and `--lines`.
        """
        from fencepost.data import Reader

        skipped = Skipped()
        options = self.read_options(text)
        with Reader(path, self.format, options, skipped if self.skip_invalid else None) as reader:
            yield reader
        skipped.tell(reader.source, quiet=self.quiet)

    def read(self, path: str, text: TextDefaults = MappingProxyType({})) -> list[Sentence]:
        """Return all sentences of a file."""
        with self.open(path, text) as reader:
            return list(watch_reader(reader, quiet=self.quiet))

    def say(self, message: str) -> None:
        """Print a message about the work on standard error, unless `--quiet` is set."""
        say(message, quiet=self.quiet)
