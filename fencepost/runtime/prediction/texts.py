"""Reading of texts to predict: lines, JSON objects or rows, or the sentences of a corpus.

A corpus is predicted sentence by sentence with its own words. All other files are raw text, which the model
splits into words: lines of plain text, JSON without words and entities, and a column of CSV, TSV, Excel or
Parquet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from fencepost.data.columns import SPAN_KEYS
from fencepost.data.formats.delimited import DelimitedTable
from fencepost.data.formats.format import ReadOptions
from fencepost.data.formats.json_fields import is_json
from fencepost.data.formats.json_records import Record, read_objects
from fencepost.data.formats.parquet import ParquetTable
from fencepost.data.formats.registry import FORMATS
from fencepost.data.formats.workbook import Workbook
from fencepost.data.reader import OnInvalid
from fencepost.data.source import ReadSentence, Rejection, Source, is_workbook
from fencepost.errors import DataError, UsageError, quote, shorten
from fencepost.runtime.prediction.kinds import (
    CSV,
    JSON_TEXT,
    PARQUET,
    PLAIN_TEXT,
    XLSX,
    detect_kind,
    parse_string,
)
from fencepost.runtime.prediction.text import TEXT, Text, add_words


@dataclass
class Texts:
    """The texts of a source, which are read once, when needed; an invalid one is an error or skipped.

    `kind` is that of the file: text, json, parquet, csv, or the name of a corpus format.
    """

    source: Source
    kind: str
    options: ReadOptions
    on_invalid: OnInvalid | None
    text_column: str = TEXT

    def __iter__(self) -> Iterator[Text]:
        empty = True
        for one in read_texts(self.source, self.kind, self.options, self.text_column):
            empty = False
            if isinstance(one, Text):
                yield one
            elif self.on_invalid is None:
                raise DataError(one.reason, source=one.file or self.source.name, line=one.line or None)
            else:
                self.on_invalid(one)
        if empty:
            self.source.note("contains no text")


@contextmanager
def open_texts(
    path: str,
    format_: str | None,
    options: ReadOptions,
    on_invalid: OnInvalid | None,
    text_column: str | None = None,
) -> Iterator[Texts]:
    """Open a file of texts; `text_column` is the column of a table, or the key of JSON objects."""
    if format_ is not None and format_ not in (PLAIN_TEXT, CSV, *FORMATS):
        raise UsageError.unknown("format", format_, (PLAIN_TEXT, CSV, *FORMATS))
    with closing(Source.open(path)) as source:
        kind = detect_kind(source, format_, has_column=text_column is not None)
        yield Texts(source, kind, options, on_invalid, text_column or TEXT)


def read_texts(
    source: Source, kind: str, options: ReadOptions, column: str = TEXT
) -> Iterator[Text | Rejection]:
    """Yield the texts of a file of this kind, and the records without a valid text."""
    if kind in FORMATS and kind not in (CSV, PARQUET, XLSX):
        return _read_corpus(source, kind, options)
    if kind == PLAIN_TEXT:
        return _read_lines(source, options)
    read = {JSON_TEXT: _read_json, CSV: _read_table, XLSX: _read_table}.get(kind, _read_parquet)
    return _to_texts(read(source, column), column, options, source)


def _read_lines(source: Source, options: ReadOptions) -> Iterator[Text | Rejection]:
    """Yield each line as a text, including blank lines."""
    end = 0
    for line in source.read_lines_noting_marks():
        end += len(line.text.encode("utf-8")) + 1
        if line.problem:
            yield Rejection(line.number, line.problem, line.text)
        else:
            yield add_words(Text(line.text, end=end, line=line.number), options)


def _read_json(source: Source, column: str) -> Iterator[tuple[Record, int]]:
    """Yield each object (a string becomes one) and the number of bytes up to its end."""
    end = 0
    for record in read_objects(source):
        end += len(record.raw.encode("utf-8", "replace")) + 1
        text = parse_string(record)
        yield record if text is None else Record(record.line, record.raw, {column: text}), end


def _read_table(source: Source, column: str) -> Iterator[tuple[Record, int]]:
    """Yield the rows of CSV or of a workbook."""
    with closing(Workbook(source) if is_workbook(source.head) else DelimitedTable(source, [column])) as table:
        if table.header and table.header.count(column) != 1:
            names = shorten(", ".join(map(quote, table.header)))
            raise DataError(
                f"the first line must have one column {quote(column)}, but its columns are {names}; "
                "give another one with --text-column",
                source=source.name,
            )
        for name in table.find_repeated():
            source.note(f"columns with the same name are not in the output: {quote(name)}")
        for record in table.read_rows():
            yield record, source.bytes_read


def _read_parquet(source: Source, column: str) -> Iterator[tuple[Record, int]]:
    if source.path is None:
        raise UsageError(f"{source.name}: Parquet can only be read from a file; use --input")
    size = source.path.stat().st_size
    with closing(ParquetTable(source.path, source.name, column)) as table:
        for record in table.read_rows(0, table.rows, source):
            yield record, size * record.line // table.rows


def read_rows(table: ParquetTable, first: int, end: int) -> Iterator[Text | Rejection]:
    """Yield the texts of the rows `[first, end)` of a Parquet file."""
    return _to_texts(
        ((record, 0) for record in table.read_rows(first, end)), table.column or TEXT, ReadOptions()
    )


def _to_texts(
    readings: Iterable[tuple[Record, int]], column: str, options: ReadOptions, source: Source | None = None
) -> Iterator[Text | Rejection]:
    """Yield the text of each record with its other fields; note those that the output replaces."""
    for record, end in readings:
        text, problem = record.value.get(column), record.problem
        if source is not None:
            _note_replaced(record, source, column)
        if isinstance(text, str) and not problem:
            fields = _select_fields(record.value, column)
            yield add_words(Text(text, fields, end=end, line=record.line), options)
        else:
            problem = problem or f"{quote(column)} is missing, or not a string"
            yield Rejection(record.line, problem, record.raw)


def _select_fields(record: dict[str, Any], column: str) -> dict[str, Any]:
    """Return the fields to copy to the output: not the text, the entities, or empty lists of entities."""
    return {
        key: value
        for key, value in record.items()
        if key not in (column, TEXT, "entities") and not (key in SPAN_KEYS and value == [])
    }


def _note_replaced(record: Record, source: Source, column: str) -> None:
    if record.value.get("entities"):
        source.note("'entities' of the input are replaced by the predicted ones in the output", record.line)
    if column != TEXT and record.value.get(TEXT):
        source.note(f"'text' of the input is replaced by {quote(column)} in the output", record.line)


def _read_corpus(source: Source, format_: str, options: ReadOptions) -> Iterator[Text | Rejection]:
    """Yield each sentence of a corpus without its entities, even if these are invalid."""
    for reading in FORMATS[format_].read(source, replace(options, keep_rejected=True)):
        if not isinstance(reading, ReadSentence):
            yield reading
            continue
        sentence = reading.sentence.with_entities(())
        meta = dict(sentence.meta)
        if not is_json(meta):
            source.note("meta is not in the output, because JSON cannot represent it", reading.line or None)
            meta = {}
        parts = {"id": sentence.id, "doc": sentence.doc, "meta": meta or None}
        fields = {key: value for key, value in parts.items() if value is not None}
        yield Text(sentence.text, fields, [sentence], [sentence.word_offsets()], end=source.bytes_read)
