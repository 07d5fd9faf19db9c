"""Layouts of tables with annotated sentences: a row for each sentence or text, for each entity, or each word.

| layout | columns |
|---|---|
| a row for each sentence | words with tags or entities, or a text with entities |
| a row for each entity | a text with `start`, `end` and `type` of one entity (empty if it has none) |
| a row for each word | a word with its tag, and the sentence that it belongs to |

The rows of one text or sentence must be consecutive. The last two layouts are converted to the first one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, groupby, islice
from typing import Any

from fencepost.data.cells import is_list_text, is_missing, parse_list, parse_offset
from fencepost.data.columns import COLUMN_PARTS, SPAN_KEYS, Parts, check_columns, find_known, find_parts
from fencepost.data.formats.format import ReadOptions
from fencepost.data.formats.json_records import Record
from fencepost.data.row_converter import RowConverter
from fencepost.data.source import Input, Reading, Rejection
from fencepost.errors import DataError, UsageError, quote

_WORD_COLUMNS = ("word", "token", "words", "tokens")
_TAG_COLUMNS = ("tag", "tags", "ner_tag", "ner_tags", "label", "labels", "ner", "entity")
_LISTS = ("tokens", "tags", "spans", "pos", "left", "right", "space_after")
_NO_ENTITIES = "row whose entities are empty, read as one without entities"
_HEAD = 100  # records from which the columns are determined
_MAX_ROWS = 100_000  # maximum for one sentence or text


def read_records(
    records: Iterator[Record],
    source: Input,
    options: ReadOptions,
    columns: Sequence[str] | None = None,
    features: Mapping[str, Any] | None = None,
    *,
    gaps: bool = False,
) -> Iterator[Reading]:
    """Yield the sentences of a table, and the rows that are invalid.

    `columns` are all columns of the table, by default those of the first records; `features` are those of a
    Hugging Face data set. With `gaps`, an empty cell counts as missing, as in a spreadsheet. Raises
    `UsageError` if there are no sentences in the columns.
    """
    head = list(islice(records, _HEAD))
    records = chain(head, records)
    columns = list(columns or dict.fromkeys(key for record in head for key in record.value))
    if not columns:
        yield from (Rejection(one.line, one.problem or "an empty row", one.raw) for one in records)
        return
    named = options.columns or {}
    check_columns(named, columns, source.name)
    lists = find_list_columns(columns, named)
    if gaps:
        known = find_known(columns, {"spans": (*COLUMN_PARTS["spans"], *SPAN_KEYS)})["spans"]
        spans = dict.fromkeys([named["spans"]] if "spans" in named else known, "")
        records = (_remove_gaps(record, spans) for record in records)
    rows = [one.value for one in head if not one.problem]
    row = rows[0] if rows else {}
    if parts := _find_word_columns(columns, named, row):
        records = _join_words(records, parts, source)
        parts = {part: part for part in ("tokens", "tags", "id", "pos", "doc") if part in {**parts, "id": ""}}
    elif parts := _find_span_columns(columns, named):
        records = _join_spans(records, parts, source)
        parts = {part: part for part in ("text", "spans", "id", "doc") if part in {**parts, "spans": ""}}
    else:
        for name in lists:  # the first row may be invalid
            cell = next((one[name] for one in rows if is_list_text(one.get(name))), None)
            row = row if cell is None or not isinstance(row.get(name), str) else {**row, name: cell}
        parts = find_parts(columns, named, parse_cells(row, lists), features or {}, source.name)
        _check_words(rows, parts, source)
        records = (_parse_record(record, lists, parts, source) for record in records)
    converter = RowConverter(parts, features or {}, source, options)
    for reading in converter.read(records):
        if isinstance(reading, Rejection) and converter.column_hint:
            reading = replace(reading, reason=reading.reason + converter.column_hint)
        yield reading


def _remove_gaps(record: Record, spans: Mapping[str, str]) -> Record:
    """Return a row without its empty cells, except those of the columns `spans`."""
    cells = {name: cell for name, cell in record.value.items() if not is_missing(cell)}
    return replace(record, value={**spans, **cells})


def _check_words(rows: Sequence[Mapping[str, Any]], parts: Parts, source: Input) -> None:
    """Raise `UsageError` if rows that should be sentences have only one word each."""
    cells = [row.get(parts["tokens"]) for row in rows] if "tags" in parts else []
    if len(cells) > 2 and all(isinstance(cell, str) and len(cell.split()) < 2 for cell in cells):
        raise UsageError(
            f"{source.name}: each row has one word, and no column says which sentence it belongs to; "
            "name this column, as --columns sentence=my_sentence"
        )


def has_sentences(columns: Sequence[str]) -> bool:
    """Return whether the names of the columns show that the table has annotated sentences."""
    if _find_span_columns(columns, {}) or _find_word_columns(columns, {}, {}):
        return True
    known = find_known(columns, {**COLUMN_PARTS, "marks": SPAN_KEYS})
    return bool((known["text"] and known["marks"]) or (known["tokens"] and known["spans"]))


def _find_word_columns(
    columns: Sequence[str], named: Mapping[str, str], row: Mapping[str, Any]
) -> Parts | None:
    """Return the columns of a table with a row for each word; None if it has another layout."""
    names = {**COLUMN_PARTS, "tokens": _WORD_COLUMNS, "tags": _TAG_COLUMNS}
    parts = {**_find_first(columns, names), **named}
    if not {"tokens", "tags", "sentence"} <= parts.keys() or {"spans", "text"} & named.keys():
        return None
    value = row.get(parts["tokens"])
    if is_list_text(value) and try_parse_list(value) is not None:
        return None
    if value is not None and not isinstance(value, str | int | float):
        return None
    return {part: parts[part] for part in ("tokens", "tags", "sentence", "pos", "doc") if part in parts}


def _find_span_columns(columns: Sequence[str], named: Mapping[str, str]) -> Parts | None:
    """Return the columns of a table with a row for each entity; None if it has another layout."""
    parts = {**_find_first(columns, COLUMN_PARTS), **named}
    if not {"text", "start", "end", "type"} <= parts.keys() or {"spans", "tags"} & named.keys():
        return None
    return {part: parts[part] for part in ("text", "start", "end", "type", "id", "doc") if part in parts}


def _find_first(columns: Sequence[str], parts: Mapping[str, Sequence[str]]) -> Parts:
    return {part: known[0] for part, known in find_known(columns, parts).items() if known}


def _join_words(records: Iterator[Record], parts: Parts, source: Input) -> Iterator[Record]:
    """Yield a record for each sentence of a table with a row for each word."""
    state: list[Any] = [None, 0]

    def number(record: Record) -> int:
        """Return the number of the sentence of a row; an empty cell means that of the previous row."""
        name = record.value.get(parts["sentence"])
        if not record.problem and not is_missing(name):
            key = (record.value.get(parts.get("doc", "")), name)
            if key != state[0]:
                state[:] = [key, state[1] + 1]
        return int(state[1])

    digests: set[int] = set()
    for _, rows in groupby(records, number):
        yield _join(_take(rows, source), parts, source, digests)


def _take(rows: Iterator[Record], source: Input) -> list[Record]:
    """Return the rows of one sentence or text; raises `DataError` if there are too many."""
    records = list(islice(rows, _MAX_ROWS + 1))
    if len(records) > _MAX_ROWS:
        reason = f"over {_MAX_ROWS:,} rows for one sentence or text; are these the right columns?"
        raise DataError(reason, source=source.name, line=records[0].line)
    return records


def _join(rows: list[Record], parts: Parts, source: Input, digests: set[int]) -> Record:
    """Return the record of the sentence with these rows; `digests` has those of earlier sentences."""
    first, raw = rows[0], "".join(row.raw for row in rows)
    for row in rows:
        if row.problem:
            where = "" if row is first else f"{source.describe_position(row.line)}: "
            return Record(first.line, raw, {}, where + row.problem)
    key = (first.value.get(parts.get("doc", "")), first.value.get(parts["sentence"]))
    digest = hash(repr(key))
    if digest in digests:
        reason = f"the sentence {quote(key[1])} also has rows further above; its rows must be consecutive"
        return Record(first.line, raw, {}, reason)
    digests.add(digest)
    words = [row for row in rows if not is_missing(row.value.get(parts["tokens"]))]
    source.note("row without a word, skipped", first.line, times=len(rows) - len(words))
    value: dict[str, Any] = {"id": key[1], "doc": key[0]}
    for part in ("tokens", "tags", "pos"):
        if part in parts:
            cells = [row.value.get(parts[part]) for row in words]
            value[part] = cells if part == "tags" else [str(cell) for cell in cells]
    value["tags"] = ["O" if is_missing(tag) else tag for tag in value["tags"]]
    return Record(first.line, raw, {part: cell for part, cell in value.items() if not is_missing(cell)})


def _join_spans(records: Iterator[Record], parts: Parts, source: Input) -> Iterator[Record]:
    """Yield a record for each text of a table with a row for each entity."""

    def key(record: Record) -> tuple[Any, ...]:
        if record.problem:
            return (record.line,)
        return tuple(record.value.get(parts[part]) for part in ("id", "doc", "text") if part in parts)

    digests: set[int] = set()
    for text_key, group in groupby(records, key):
        rows = _take(group, source)
        first, raw = rows[0], "".join(row.raw for row in rows)
        digest = hash(repr(text_key))
        if digest in digests:
            source.note("text that occurs again after other texts, read as another one", first.line)
        digests.add(digest)
        try:
            if first.problem:
                raise ValueError(first.problem)
            spans = [span for row in rows if (span := _parse_span(row, parts, source, first.line))]
            value = {part: first.value.get(column) for part, column in parts.items()}
            yield Record(first.line, raw, {**value, "spans": spans})
        except ValueError as error:
            yield Record(first.line, raw, {}, str(error))


def _parse_span(record: Record, parts: Parts, source: Input, first: int) -> dict[str, Any] | None:
    """Return the entity of a row; None if its cells are empty."""
    cells = {part: record.value.get(parts[part]) for part in ("start", "end", "type")}
    if all(map(is_missing, cells.values())):
        return None
    try:
        start, end = (parse_offset(parts[part], cells[part]) for part in ("start", "end"))
    except ValueError as error:
        where = "" if record.line == first else f"{source.describe_position(record.line)}: "
        raise ValueError(f"{where}{error}") from None
    return {"start": start, "end": end, "label": cells["type"]}


def find_list_columns(columns: Sequence[str], named: Mapping[str, str]) -> dict[str, bool]:
    """Return the columns whose cells are lists, and whether these may be words separated by spaces."""
    known = {name: part for part in reversed(_LISTS) for name in COLUMN_PARTS[part] if name != "sentence"}
    known |= dict.fromkeys(SPAN_KEYS, "spans")
    has_text = "text" in named or find_known(columns)["text"]
    may_split = () if has_text else ("tokens", "tags")
    parts = {name: known[name.casefold()] for name in columns if name.casefold() in known}
    parts |= {column: part for part, column in named.items() if part in _LISTS}
    return {name: part in may_split for name, part in parts.items()}


def try_parse_list(cell: Any, *, split: bool = False) -> Any:
    """Return a cell, with a list parsed if it is a string; None if it contains no list."""
    try:
        return parse_list(cell, split=split) if isinstance(cell, str) else cell
    except ValueError:
        return None


def parse_cells(row: Mapping[str, Any], lists: Mapping[str, bool]) -> dict[str, Any]:
    """Return a row with parsed lists; a list that cannot be parsed becomes an empty one."""
    values = {name: try_parse_list(row[name], split=split) for name, split in lists.items() if name in row}
    broken: dict[str, Any] = {name: [] for name in values if is_list_text(row[name])}
    return {**row, **broken, **{name: value for name, value in values.items() if value is not None}}


def _parse_record(record: Record, lists: Mapping[str, bool], parts: Parts, source: Input) -> Record:
    """Return a record with parsed lists; an empty cell of entities becomes an empty list."""
    if record.problem:
        return record
    row = dict(record.value)
    try:
        for part, column in parts.items():
            if part == "spans" and row.get(column) == "":
                row[column] = []
                source.note(_NO_ENTITIES, record.line)
            elif column in lists and _has_list(row.get(column), split=lists[column]):
                row[column] = parse_list(row[column], split=lists[column])
    except ValueError as error:
        return Record(record.line, record.raw, {}, f"{column!r}: {error}")
    return replace(record, value=row)


def _has_list(cell: Any, *, split: bool) -> bool:
    return is_list_text(cell) or (split and isinstance(cell, str))
