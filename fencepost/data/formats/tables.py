"""Tables: CSV and TSV, Excel workbooks, Parquet, and JSON objects whose keys the user names.

`fencepost.data.layouts` describes the columns. The output has a row for each sentence, with its id, document,
text, words and entities; in CSV and Excel, the last two are JSON.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

from fencepost.data.columns import COLUMN_PARTS, SPAN_KEYS
from fencepost.data.entity import Sentence
from fencepost.data.formats import json_text, json_tokens
from fencepost.data.formats.delimited import DelimitedTable, find_header
from fencepost.data.formats.format import Format, ReadOptions, WriteOptions
from fencepost.data.formats.json_records import read_objects
from fencepost.data.formats.parquet import ParquetTable
from fencepost.data.formats.workbook import CELL_CHARACTERS, Workbook, write_workbook
from fencepost.data.layouts import has_sentences, read_records
from fencepost.data.output import whole_file
from fencepost.data.source import STREAM_BYTES, Reading, Source
from fencepost.errors import require_extra

_KNOWN = {*chain(*COLUMN_PARTS.values()), *SPAN_KEYS, "word", "token", "tag"}
_COLUMNS = ("id", "doc", "text", "words", "entities")
_LISTS = ("left", "right", "pos", "space_after")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\ufffe\uffff]")  # characters that XML cannot represent
_ROWS = 1000  # number of rows that are written to Parquet at once


def has_header(source: Source) -> bool:
    """Return whether a file starts with a header of columns with annotated sentences."""
    return has_sentences(find_header(source, _KNOWN)[1])


def read_csv(source: Source, options: ReadOptions) -> Iterator[Reading]:
    table = DelimitedTable(source, {*_KNOWN, *(options.columns or {}).values()})
    return read_records(table.read_rows(), source, options, table.header, gaps=True)


def read_xlsx(source: Source, options: ReadOptions) -> Iterator[Reading]:
    with closing(Workbook(source)) as book:
        yield from read_records(book.read_rows(), source, options, book.header, gaps=True)


def read_parquet(source: Source, options: ReadOptions) -> Iterator[Reading]:
    file = source.path or io.BytesIO(source.read_all(STREAM_BYTES))
    with closing(ParquetTable(file, source.name)) as table:
        yield from read_records(table.read_rows(0, table.rows), source, options, table.names, gaps=True)


def read_json(source: Source, options: ReadOptions) -> Iterator[Reading]:
    return read_records(read_objects(source), source, options)


def _write_csv(sentences: Iterable[Sentence], path: Path | None, _: WriteOptions) -> None:
    delimiter = "\t" if path is not None and path.suffix.lower() == ".tsv" else ","
    with whole_file(path) as stream:
        text = codecs.getwriter("utf-8")(stream)
        csv.writer(text, delimiter=delimiter).writerows(_format_rows(sentences))


def _write_xlsx(sentences: Iterable[Sentence], path: Path | None, _: WriteOptions) -> None:
    with whole_file(path) as stream:
        write_workbook(_format_rows(sentences), stream)


def _format_rows(sentences: Iterable[Sentence]) -> Iterator[list[str]]:
    yield list(_COLUMNS)
    for sentence in sentences:
        yield _format_cells(sentence)


def _format_cells(sentence: Sentence) -> list[str]:
    cells = _make_record(sentence)
    lists = (json.dumps(cells[name], ensure_ascii=False) for name in ("words", "entities"))
    return [cells["id"] or "", cells["doc"] or "", cells["text"], *lists]


def _make_record(sentence: Sentence) -> dict[str, Any]:
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
    rows = map(_make_record, sentences)
    with whole_file(path) as stream, parquet.ParquetWriter(stream, schema) as writer:
        while batch := list(islice(rows, _ROWS)):
            writer.write_table(pa.Table.from_pylist(batch, schema=schema))


def _find_empty_name(sentence: Sentence) -> str | None:
    return "an empty id of a sentence or a document" if "" in (sentence.id, sentence.doc) else None


def _find_csv_obstacle(sentence: Sentence) -> str | None:
    """Return what a cell of CSV cannot represent; None if there is nothing."""
    if any("\0" in text for text in _format_cells(sentence)):
        return "a null character"
    return _find_empty_name(sentence)


def _find_xlsx_obstacle(sentence: Sentence) -> str | None:
    """Return what a cell of a workbook cannot represent; None if there is nothing."""
    texts = _format_cells(sentence)
    if any(len(text.encode("utf-16-le", "replace")) > 2 * CELL_CHARACTERS for text in texts):
        return f"more than {CELL_CHARACTERS:,} characters in a cell"
    if any(map(_CONTROL.search, texts)):
        return "a control character"
    return _find_csv_obstacle(sentence)


_KEEPS = frozenset({"id", "doc", "score"})
CSV = Format(
    name="csv",
    summary="CSV or TSV with a header: a row for each sentence, each entity or each word",
    read=read_csv,
    write=_write_csv,
    find_obstacle=_find_csv_obstacle,
    overlaps="any",
    keeps=_KEEPS | {"entity meta"},
    suffixes=(".csv",),
)
XLSX = replace(
    CSV,
    name="xlsx",
    summary="an Excel workbook, with the same columns as csv",
    read=read_xlsx,
    write=_write_xlsx,
    find_obstacle=_find_xlsx_obstacle,
    suffixes=(".xlsx",),
)
PARQUET = Format(
    name="parquet",
    summary="Parquet, with the same columns as csv, or those of a Hugging Face data set",
    read=read_parquet,
    write=_write_parquet,
    find_obstacle=_find_empty_name,
    overlaps="any",
    keeps=_KEEPS | set(_LISTS),
    suffixes=(".parquet",),
)
JSON_KEYS = replace(
    json_text.JSONL_TEXT,
    name="JSON with the keys of --columns",
    summary="JSON objects whose keys the user names",
    read=read_json,
)
"""Read with `--columns` only; it is not one of the formats by name."""
