"""Tables: CSV and TSV, Excel workbooks, Parquet, and JSON objects whose keys are named by the user.

What the columns may have is in `fencepost.data.layouts`. What is written has a row for each sentence: its
name, its document, its text, and its words and entities (as JSON in a cell of CSV or Excel).
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

from fencepost.data.columns import COLUMN_PARTS, SPAN_KEYS
from fencepost.data.entity import Sentence
from fencepost.data.formats import json_text, json_tokens
from fencepost.data.formats.delimited import Delimited, find_header
from fencepost.data.formats.format import Format, ReadOptions, WriteOptions
from fencepost.data.formats.json_records import records
from fencepost.data.formats.parquet import Table
from fencepost.data.formats.workbook import CELL_CHARACTERS, Workbook, write_workbook
from fencepost.data.layouts import has_sentences, read_records
from fencepost.data.output import whole_file
from fencepost.data.source import STREAM_BYTES, Reading, Source
from fencepost.errors import require_extra

_KNOWN = {*chain(*COLUMN_PARTS.values()), *SPAN_KEYS, "word", "token", "tag"}
_COLUMNS = ("id", "doc", "text", "words", "entities")
_LISTS = ("left", "right", "pos", "space_after")
_ROWS = 1000  # of Parquet that are written at a time


def has_header(source: Source) -> bool:
    """Return whether a file begins with a header that has the columns of sentences."""
    return has_sentences(find_header(source, _KNOWN)[1])


def read_csv(source: Source, options: ReadOptions) -> Iterator[Reading]:
    table = Delimited(source, {*_KNOWN, *(options.columns or {}).values()})
    return read_records(table.records(), source, options, table.header, gaps=True)


def read_xlsx(source: Source, options: ReadOptions) -> Iterator[Reading]:
    with closing(Workbook(source)) as book:
        yield from read_records(book.records(), source, options, book.header, gaps=True)


def read_parquet(source: Source, options: ReadOptions) -> Iterator[Reading]:
    file = source.path or io.BytesIO(source.read_all(STREAM_BYTES))
    with closing(Table(file, source.name)) as table:
        yield from read_records(table.records(0, table.rows), source, options, table.names, gaps=True)


def read_json(source: Source, options: ReadOptions) -> Iterator[Reading]:
    return read_records(records(source), source, options)


def _write_csv(sentences: Iterable[Sentence], path: Path | None, _: WriteOptions) -> None:
    delimiter = "\t" if path is not None and path.suffix.lower() == ".tsv" else ","
    with whole_file(path) as stream:
        text = io.StringIO(newline="")
        writer = csv.writer(text, delimiter=delimiter)
        for row in _rows_of_text(sentences):
            writer.writerow(row)
            stream.write(text.getvalue().encode("utf-8"))
            text.seek(0)
            text.truncate()


def _write_xlsx(sentences: Iterable[Sentence], path: Path | None, _: WriteOptions) -> None:
    with whole_file(path) as stream:
        write_workbook(_rows_of_text(sentences), stream)


def _rows_of_text(sentences: Iterable[Sentence]) -> Iterator[list[str]]:
    yield list(_COLUMNS)
    for sentence in sentences:
        yield _cells(sentence)


def _cells(sentence: Sentence) -> list[str]:
    cells = _record(sentence)
    lists = (json.dumps(cells[name], ensure_ascii=False) for name in ("words", "entities"))
    return [cells["id"] or "", cells["doc"] or "", cells["text"], *lists]


def _record(sentence: Sentence) -> dict[str, Any]:
    record = json_tokens.to_record(sentence)
    return {"id": sentence.id, "doc": sentence.doc, **record, "text": sentence.text}


def _write_parquet(sentences: Iterable[Sentence], path: Path | None, _: WriteOptions) -> None:
    with require_extra("tables", "writing Parquet"):
        import pyarrow as pa  # type: ignore[import-untyped]
        from pyarrow import parquet
    texts = pa.list_(pa.string())
    number, score = pa.int64(), pa.float64()
    entity = {"start": number, "end": number, "type": pa.string(), "score": score}
    kinds: Mapping[str, Any] = {
        **dict.fromkeys(("id", "doc", "text"), pa.string()),
        "words": texts,
        "entities": pa.list_(pa.struct(list(entity.items()))),
        **dict.fromkeys(("left", "right", "pos"), texts),
        "space_after": pa.list_(pa.bool_()),
    }
    schema = pa.schema(list(kinds.items()))
    rows = map(_record, sentences)
    with whole_file(path) as stream, parquet.ParquetWriter(stream, schema) as writer:
        while batch := list(islice(rows, _ROWS)):
            writer.write_table(pa.Table.from_pylist(batch, schema=schema))


def _empty_name(sentence: Sentence) -> str | None:
    is_empty = "" in (sentence.id, sentence.doc)
    return "an empty name of a sentence or a document" if is_empty else None


def _csv_obstacle(sentence: Sentence) -> str | None:
    """Return what a cell of CSV cannot hold."""
    if any("\0" in text for text in _cells(sentence)):
        return "a zero character"
    return _empty_name(sentence)


def _xlsx_obstacle(sentence: Sentence) -> str | None:
    """Return what a cell of a workbook cannot hold."""
    texts = _cells(sentence)
    if any(len(text.encode("utf-16-le", "replace")) > 2 * CELL_CHARACTERS for text in texts):
        return f"over {CELL_CHARACTERS:,} characters in a cell"
    if any(not _is_printable(text) for text in texts):
        return "a control character"
    return _csv_obstacle(sentence)


def _is_printable(text: str) -> bool:
    return not any((one < " " and one not in "\t\n") or one in "\ufffe\uffff" for one in text)


_KEPT = frozenset({"id", "doc", "score"})
CSV = Format(
    name="csv",
    summary="CSV or TSV with a header: a row for each sentence, each entity or each word",
    read=read_csv,
    write=_write_csv,
    obstacle=_csv_obstacle,
    overlaps="any",
    keeps=_KEPT | {"entity meta"},
    suffixes=(".csv",),
)
XLSX = replace(
    CSV,
    name="xlsx",
    summary="an Excel workbook, as csv",
    read=read_xlsx,
    write=_write_xlsx,
    obstacle=_xlsx_obstacle,
    suffixes=(".xlsx",),
)
PARQUET = Format(
    name="parquet",
    summary="Parquet, with the same columns as csv, or those of a data set of Hugging Face",
    read=read_parquet,
    write=_write_parquet,
    obstacle=_empty_name,
    overlaps="any",
    keeps=_KEPT | set(_LISTS),
    suffixes=(".parquet",),
)
JSON_KEYS = Format(
    name="JSON with the keys of --columns",
    summary="JSON objects whose keys the user names",
    read=read_json,
    write=json_text.JSONL_TEXT.write,
    obstacle=json_text.obstacle,
    overlaps="any",
    keeps=json_text.JSONL_TEXT.keeps,
)
"""Only read, and only with `--columns`: not among the formats by name."""
