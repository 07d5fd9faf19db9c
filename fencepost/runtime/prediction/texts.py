"""What is predicted: raw texts, a line, a JSON object or a row each, or the sentences of a corpus.

A corpus has words and entities, and is predicted sentence by sentence with the words that it has. All other
files are raw text, which the model's own rules split: lines of plain text, JSON with nothing but a text, and
CSV, TSV and Parquet with a column of texts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from fencepost.data.entity import Sentence
from fencepost.data.formats import conll, conll2012, iob, json_text, json_tokens
from fencepost.data.formats.docbin import is_docbin
from fencepost.data.formats.format import ReadOptions
from fencepost.data.formats.json_fields import SURROGATES, is_json
from fencepost.data.formats.json_records import Record, records
from fencepost.data.formats.registry import FORMATS, detect_format
from fencepost.data.source import BYTE_ORDER_MARK, HEAD_BYTES, ReadSentence, Rejected, Source
from fencepost.data.text import make_splitter
from fencepost.errors import DataError, UsageError, quote
from fencepost.runtime.prediction import delimited
from fencepost.runtime.prediction.parquet import Table, is_parquet

if TYPE_CHECKING:
    from pathlib import Path

    from fencepost.data import Format
    from fencepost.data.reader import OnInvalid
    from fencepost.data.text.splitter import Offsets

PLAIN_TEXT, JSON_TEXT, PARQUET, CSV = "text", "json", "parquet", "csv"
"""The kinds of files that are no corpora."""

TEXT = "text"
"""The column, or the key, with the texts, unless another one is named."""

_TEXT_NAMES = (".txt", ".text")
_CSV_NAMES = (".csv", ".tsv")
_JSON = re.compile(rb'\{\s*["}]|\[\s*["{\[\]]')
_BEGINS_WITH_TEXT = re.compile(
    rb'\s*\[?\s*(\{\s*("(?!tokens|words)\w+"\s*:\s*("[^"]{0,99}"|-?[\d.]+)\s*,\s*)*"text"\s*:\s*)?"'
)
_HEAD = 100  # objects that detection looks at
_TAGGED = 0.9  # of a corpus's lines have a tag; of a text's next to none


@dataclass(frozen=True, slots=True)
class Text:
    """What is predicted, and written, as one.

    `carried` goes to the output as it is. Where the words are known already, `sentences` has them, and
    `offsets` says where they stand in the text. `end` is how far the file was read, in bytes, and `line` the
    line or row where the text stands.
    """

    text: str
    carried: dict[str, Any] = field(default_factory=dict)
    sentences: Sequence[Sentence] | None = None
    offsets: Sequence[Sequence[Offsets]] = ()
    end: int = 0
    line: int = 0


Read = Callable[[Source], Iterator[Text | Rejected]]


class Texts:
    """The texts of a source, read once, as they are asked for; an invalid one is an error or skipped."""

    def __init__(
        self,
        source: Source,
        kind: str,
        options: ReadOptions,
        on_invalid: OnInvalid | None,
        text_column: str = TEXT,
    ) -> None:
        """`kind` is that of the file: text, json, parquet, csv, or the name of a corpus format."""
        self.source = source
        self.kind = kind
        self.text_column = text_column
        self._read = read_as(kind, options, text_column)
        self._on_invalid = on_invalid

    def __iter__(self) -> Iterator[Text]:
        empty = True
        for one in self._read(self.source):
            empty = False
            if isinstance(one, Text):
                yield one
            elif self._on_invalid is None:
                raise DataError(one.reason, source=one.file or self.source.name, line=one.line or None)
            else:
                self._on_invalid(one)
        if empty:
            self.source.note("there is no text in it")


@contextmanager
def opened_texts(
    path: str,
    format_: str | None,
    options: ReadOptions,
    on_invalid: OnInvalid | None,
    text_column: str | None = None,
) -> Iterator[Texts]:
    """The texts of a file; `text_column` is the column of a table, or the key of JSON objects, with them."""
    if format_ is not None and format_ not in (PLAIN_TEXT, CSV, *FORMATS):
        raise UsageError.unknown("format", format_, (PLAIN_TEXT, CSV, *FORMATS))
    source = Source.open(path)
    try:
        kind = _kind(source, format_) if text_column is None else _kind_with_columns(source, format_)
        yield Texts(source, kind, options, on_invalid, text_column or TEXT)
    finally:
        source.close()


def given(texts: Sequence[str], options: ReadOptions) -> Iterator[Text]:
    """The texts that stand in the command."""
    for number, text in enumerate(texts, start=1):
        if SURROGATES.search(text):
            raise UsageError(f"text {number} of the command is not UTF-8")
        yield _split(Text(text), options)


# Which kind a file is


def _kind(source: Source, format_: str | None) -> str:
    if format_ in (PLAIN_TEXT, CSV) and source.path is not None and source.path.is_dir():
        raise UsageError(f"{source.name}: is a folder; text is read from a file")
    if format_ is not None:
        return format_
    if is_parquet(source.head):
        return PARQUET
    if _has_csv_name(source) and not _has_tags(source.head_lines()):
        return CSV
    if _is_blank(source) and (of_blank := _kind_of_blank(source)):
        return of_blank
    if _is_plain(source):
        return PLAIN_TEXT
    return JSON_TEXT if _is_json_text(source) else detect_format(source).name


def _kind_with_columns(source: Source, format_: str | None) -> str:
    """The kind of a file in which the user has named a column, or a key."""
    if is_parquet(source.head) and format_ is None:
        return PARQUET
    if format_ == CSV or (_has_csv_name(source) and format_ is None):
        return CSV
    is_json = _JSON.match(source.head.removeprefix(BYTE_ORDER_MARK).lstrip())
    if format_ is None and (is_json or (_is_blank(source) and _kind_of_blank(source) == JSON_TEXT)):
        return JSON_TEXT
    raise UsageError(
        f"{source.name}: --text-column names a column of CSV, TSV or Parquet, or a key of JSON objects, and "
        "this file is not read as any of these; CSV with another ending needs --format csv"
    )


def _has_csv_name(source: Source) -> bool:
    return source.path is not None and source.path.suffix.lower() in _CSV_NAMES and not source.path.is_dir()


def _is_blank(source: Source) -> bool:
    """Whether nothing but white space is in a file."""
    is_folder = source.path is not None and source.path.is_dir()
    whole = len(source.head) < HEAD_BYTES
    return whole and not is_folder and not source.head.removeprefix(BYTE_ORDER_MARK).strip()


def _kind_of_blank(source: Source) -> str | None:
    """By the name alone; None where that is the name of a corpus."""
    name = "" if source.path is None else source.path.name.lower()
    if name.endswith(FORMATS["jsonl"].suffixes):
        return JSON_TEXT
    return None if source.path is not None and _is_corpus_name(source.path) else PLAIN_TEXT


def _is_corpus_name(path: Path) -> bool:
    suffixes = tuple(suffix for format_ in FORMATS.values() for suffix in format_.suffixes)
    return path.name.lower().endswith(suffixes) or path.with_suffix(".ann").is_file()


def _is_plain(source: Source) -> bool:
    """Whether each line is a text: by the name, or because the content is nothing else."""
    path = source.path
    if path is not None and (path.is_dir() or _is_corpus_name(path)):
        return False
    if is_docbin(source.head) or _has_tags(source.head_lines()):
        return False
    if path is not None and path.name.lower().endswith(_TEXT_NAMES):
        return True
    head = source.head.removeprefix(BYTE_ORDER_MARK).lstrip()
    if b"\x00" in head or head.startswith(b"<") or _JSON.match(head):
        return False
    return not _are_strings(source.head_lines())


def _has_tags(lines: Sequence[str]) -> bool:
    """Whether the lines are words with tags. A single line is not: too many a text ends in a lone O."""
    contents = [text for line in lines if (text := line.strip()) and not text.startswith(("#", "-DOCSTART-"))]
    if len(contents) < 2:
        return False
    tagged = sum(any(map(iob.parse, conll.columns_of(text).split(text)[1:])) for text in contents)
    return tagged >= _TAGGED * len(contents) or conll2012.looks_bracketed(list(lines))


def _is_json_text(source: Source) -> bool:
    """Whether a file has strings, or objects with a text and neither words nor entities."""
    if len(source.head) == HEAD_BYTES and b"\n" not in source.head.rstrip():  # one that is cut off
        return _BEGINS_WITH_TEXT.match(source.head.removeprefix(BYTE_ORDER_MARK)) is not None
    head = Source.from_bytes(source.head, source.name)
    try:
        first = list(islice(records(head), _HEAD))
    except DataError:  # a line without an end
        return False
    values = [record.value for record in first]
    if any(shape.fits(value) for value in values for shape in json_tokens.SHAPES):
        return False
    if any("tokens" in value or _has_entities(value) for value in values):
        return False
    return any(_string(record) or isinstance(record.value.get("text"), str) for record in first)


def _are_strings(lines: Sequence[str]) -> bool:
    """Whether all lines are JSON's strings, as `jq .text` makes them."""
    contents = [line for line in lines if line.strip()][:_HEAD]
    return bool(contents) and all(_string(Record(0, line, {}, "a string")) is not None for line in contents)


def _has_entities(record: dict[str, Any]) -> bool:
    """Whether there is something that may be an entity where entities stand; a list of names is none."""
    return any(
        isinstance(item, (dict, list))
        for key in json_text.SPAN_KEYS
        if isinstance(record.get(key), list)
        for item in record[key]
    )


# How it is read


def read_as(kind: str, options: ReadOptions, text_column: str = TEXT) -> Read:
    """What reads a file of this kind."""
    if kind in FORMATS:
        return partial(_sentences, format_=FORMATS[kind], options=options)
    if kind == PLAIN_TEXT:
        return partial(_lines, options=options)
    read = {JSON_TEXT: _objects, PARQUET: _rows, CSV: _csv_rows}[kind]
    return partial(read, options=options, column=text_column)


def _lines(source: Source, options: ReadOptions) -> Iterator[Text | Rejected]:
    """Each line as a text, blank ones too."""
    end = 0
    for line in source.lines_with_marks_noted():
        end += len(line.text.encode("utf-8")) + 1
        if line.problem:
            yield Rejected(line.number, line.problem, line.text)
        else:
            yield _split(Text(line.text, end=end, line=line.number), options)


def _objects(source: Source, options: ReadOptions, column: str) -> Iterator[Text | Rejected]:
    """Each string, or each object with a text, whose other keys go to the output."""
    end = 0
    for record in records(source):
        end += len(record.raw.encode("utf-8", "replace")) + 1
        _note_replaced(record, source, column)
        yield _of_record(record, options, end, column)


def _csv_rows(source: Source, options: ReadOptions, column: str) -> Iterator[Text | Rejected]:
    """Each row of CSV with a text, whose other columns go to the output."""
    for record in delimited.records(source, column):
        _note_replaced(record, source, column)
        if record.problem:  # which may look like a string of JSON
            yield Rejected(record.line, record.problem, record.raw)
        else:
            yield _of_record(record, options, source.bytes_read, column)


def _rows(source: Source, options: ReadOptions, column: str) -> Iterator[Text | Rejected]:
    """Each row of Parquet with a text, whose other columns go to the output."""
    if source.path is None:
        raise UsageError(f"{source.name}: Parquet is read from a file; name it with --input")
    size = source.path.stat().st_size
    with Table(source.path, source.name, column) as table:
        for record in table.records(0, table.rows, source):
            _note_replaced(record, source, column)
            yield _of_record(record, options, size * record.line // table.rows, column)


def rows_between(table: Table, first: int, end: int) -> Iterator[Text | Rejected]:
    """As all rows are read, those from `first` up to `end`."""
    return (_of_record(record, ReadOptions(), 0, table.column) for record in table.records(first, end))


def _of_record(record: Record, options: ReadOptions, end: int, column: str) -> Text | Rejected:
    text, problem = _string(record), record.problem
    if text is None and not problem:
        text = record.value.get(column)
        problem = None if isinstance(text, str) else f"{quote(column)} is missing, or not a string"
    elif text is not None:
        problem = None
    if problem or not isinstance(text, str):
        return Rejected(record.line, problem or "", record.raw)
    return _split(Text(text, _carried(record.value, column), end=end, line=record.line), options)


def _string(record: Record) -> str | None:
    """The text, where a string stands in the place of an object."""
    if not record.problem or not record.raw.lstrip().startswith('"'):
        return None
    try:
        value = json.loads(record.raw)
    except ValueError:  # bytes that are not UTF-8 are among the reasons
        return None
    return value if isinstance(value, str) and not SURROGATES.search(value) else None


def _carried(record: dict[str, Any], column: str) -> dict[str, Any]:
    """Without what the output says itself, and without empty lists where other tools look for entities."""
    return {
        key: value
        for key, value in record.items()
        if key not in (column, TEXT, "entities") and not (key in json_text.SPAN_KEYS and value == [])
    }


def _note_replaced(record: Record, source: Source, column: str) -> None:
    """Note what the record has under the names that the output uses for its own."""
    if record.value.get("entities"):
        source.note("the output has entities of its own, not what the input has as 'entities'", record.line)
    if column != TEXT and record.value.get(TEXT):
        source.note(
            f"the output has the text of {quote(column)}, not what the input has as 'text'", record.line
        )


def _sentences(source: Source, format_: Format, options: ReadOptions) -> Iterator[Text | Rejected]:
    """Each sentence of a corpus, without the entities that it has, and so whether or not it was accepted."""
    for reading in format_.read(source, replace(options, keep_rejected=True)):
        if isinstance(reading, ReadSentence):
            sentence = reading.sentence.with_entities(())
            meta = dict(sentence.meta)
            if not is_json(meta):
                source.note("what JSON cannot hold is not in the output: meta", reading.line or None)
                meta = {}
            parts = {"id": sentence.id, "doc": sentence.doc, "meta": meta or None}
            carried = {key: value for key, value in parts.items() if value is not None}
            offsets = [sentence.word_offsets()]
            yield Text(sentence.text, carried, [sentence], offsets, end=source.bytes_read)
        else:
            yield reading


def _split(text: Text, options: ReadOptions) -> Text:
    """The text with its words, where it is said that white space separates them."""
    if not options.pretokenized:
        return text
    offsets = make_splitter(options.language, pretokenized=True).split(text.text)
    sentences = [Sentence([text.text[start:end] for start, end in words]) for words in offsets]
    return replace(text, sentences=sentences, offsets=offsets)
