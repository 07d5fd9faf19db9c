"""Detection of the kind of an input file: raw texts in lines, JSON, Parquet, CSV or Excel, or a corpus."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from fencepost.data.columns import SPAN_KEYS
from fencepost.data.formats import conll, conll2012, iob, json_tokens
from fencepost.data.formats.json_fields import SURROGATES
from fencepost.data.formats.json_records import Record, read_objects
from fencepost.data.formats.parquet import is_parquet
from fencepost.data.formats.registry import FORMATS, detect_beginning, detect_format
from fencepost.data.source import BYTE_ORDER_MARK, HEAD_BYTES, Source, is_workbook
from fencepost.errors import DataError, UsageError

PLAIN_TEXT, JSON_TEXT, PARQUET, CSV, XLSX = "text", "json", "parquet", "csv", "xlsx"
"""Kinds of files that are not corpora."""

_JSON = re.compile(rb'\{\s*["}]|\[\s*["{\[\]]')
_TEXT_FIRST = re.compile(
    rb'\s*\[?\s*(\{\s*("(?!tokens|words)\w+"\s*:\s*("[^"]{0,99}"|-?[\d.]+)\s*,\s*)*"text"\s*:\s*)?"'
)
_HEAD = 100  # number of objects that detection reads
_MIN_TAGGED = 0.9  # share of lines with a tag in a corpus; hardly any line of a text has one


def detect_kind(source: Source, format_: str | None, *, has_column: bool = False) -> str:
    """Return the kind of a file, or the name of its corpus format.

    `format_` is the format that the user gives, if any; `has_column` is whether they give a column or a key.
    """
    if format_ in (PLAIN_TEXT, CSV) and _is_folder(source):
        raise UsageError(f"{source.name}: is a folder; text is read from a file")
    if has_column:
        return _detect_kind_with_column(source, format_)
    if format_ is not None:
        return format_
    if is_parquet(source.head):
        return PARQUET
    if corpus_format := detect_beginning(source):
        return corpus_format.name
    if _has_csv_name(source) and not _has_tags(source.get_head_lines()):
        return CSV
    if _is_blank(source) and (kind := _detect_kind_by_name(source)):
        return kind
    if _is_plain(source):
        return PLAIN_TEXT
    return JSON_TEXT if is_json_text(source) else detect_format(source).name


def _detect_kind_with_column(source: Source, format_: str | None) -> str:
    """Return the kind of a file for which the user has given a column or a key."""
    if format_ == CSV:
        return CSV
    if format_ is None:
        if is_parquet(source.head):
            return PARQUET
        if is_workbook(source.head):
            return XLSX
        if _has_csv_name(source):
            return CSV
        is_blank_json = _is_blank(source) and _detect_kind_by_name(source) == JSON_TEXT
        if is_blank_json or _JSON.match(_read_head(source).lstrip()):
            return JSON_TEXT
    raise UsageError(
        f"{source.name}: --text-column is for a column of CSV, TSV, Excel or Parquet, or a key of JSON, and "
        "this file is none of these; for CSV with another file extension, use --format csv"
    )


def _read_head(source: Source) -> bytes:
    return source.head.removeprefix(BYTE_ORDER_MARK)


def _is_folder(source: Source) -> bool:
    return source.path is not None and source.path.is_dir()


def _has_csv_name(source: Source) -> bool:
    path = source.path
    return path is not None and path.suffix.lower() in (".csv", ".tsv") and not path.is_dir()


def _is_blank(source: Source) -> bool:
    """Return whether a file contains only white space."""
    is_whole = len(source.head) < HEAD_BYTES
    return is_whole and not _is_folder(source) and not _read_head(source).strip()


def _detect_kind_by_name(source: Source) -> str | None:
    """Return the kind of a blank file by its name; None if that is the name of a corpus."""
    if source.path is None:
        return PLAIN_TEXT
    if source.path.name.lower().endswith(FORMATS["jsonl"].suffixes):
        return JSON_TEXT
    return None if _is_corpus_name(source.path) else PLAIN_TEXT


def _is_corpus_name(path: Path) -> bool:
    suffixes = tuple(suffix for format_ in FORMATS.values() for suffix in format_.suffixes)
    return path.name.lower().endswith(suffixes) or path.with_suffix(".ann").is_file()


def _is_plain(source: Source) -> bool:
    """Return whether each line of a file is a text, by its name or because its content is no other kind."""
    path = source.path
    if path is not None and (path.is_dir() or _is_corpus_name(path)):
        return False
    if _has_tags(source.get_head_lines()):
        return False
    if path is not None and path.name.lower().endswith((".txt", ".text")):
        return True
    head = _read_head(source).lstrip()
    if b"\x00" in head or head.startswith(b"<") or _JSON.match(head):
        return False
    # JSON strings, as `jq .text` writes them
    lines = [line for line in source.get_head_lines() if line.strip()][:_HEAD]
    return not lines or any(parse_string(Record(0, line, {}, "a string")) is None for line in lines)


def _has_tags(lines: Sequence[str]) -> bool:
    """Return whether the lines are words with tags; there must be two, since a text may end in a single O."""
    contents = [text for line in lines if (text := line.strip()) and not text.startswith(("#", "-DOCSTART-"))]
    if len(contents) < 2:
        return False
    tagged = sum(any(map(iob.parse, conll.detect_line_columns(text).split(text)[1:])) for text in contents)
    return tagged >= _MIN_TAGGED * len(contents) or conll2012.looks_bracketed(list(lines))


def is_json_text(source: Source) -> bool:
    """Return whether a file has strings, or objects with a text but without words and entities."""
    if len(source.head) == HEAD_BYTES and b"\n" not in source.head.rstrip():  # part of an object
        return _TEXT_FIRST.match(_read_head(source)) is not None
    try:
        first = list(islice(read_objects(Source.from_bytes(source.head, source.name)), _HEAD))
    except DataError:  # a line that is too long
        return False
    values = [record.value for record in first]
    if any("tokens" in value or _has_entities(value) for value in values):
        return False
    if any(shape.fits(value) for value in values for shape in json_tokens.SHAPES):
        return False
    return any(parse_string(record) or isinstance(record.value.get("text"), str) for record in first)


def _has_entities(record: dict[str, Any]) -> bool:
    """Return whether a record may contain entities; a list of strings is not one of entities."""
    lists = (record.get(key) for key in SPAN_KEYS)
    return any(isinstance(item, dict | list) for one in lists if isinstance(one, list) for item in one)


def parse_string(record: Record) -> str | None:
    """Return the text of a record that is a string; None if it is an object."""
    if not record.problem or not record.raw.lstrip().startswith('"'):
        return None
    try:
        value = json.loads(record.raw)
    except ValueError:  # also for bytes that are not UTF-8
        return None
    return value if isinstance(value, str) and not SURROGATES.search(value) else None
