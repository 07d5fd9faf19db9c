"""Tables with annotated sentences: a row for each sentence or text, for each entity, or for each word.

| layout | columns |
|---|---|
| a row for each sentence | words with tags or entities, or a text with entities |
| a row for each entity | a text with the `start`, `end` and `type` of one entity, or without them for none |
| a row for each word | a word with its tag, and the sentence that it belongs to |

Rows of one text or sentence follow each other. The last two layouts are turned into the first one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, groupby, islice
from typing import Any

from fencepost.data.cells import is_list_text, is_missing, parse_list, parse_offset
from fencepost.data.columns import COLUMN_PARTS, SPAN_KEYS, Parts, check_named, find_parts, find_usual
from fencepost.data.formats.format import ReadOptions
from fencepost.data.formats.json_records import Record
from fencepost.data.row_converter import RowConverter
from fencepost.data.source import Input, Reading, Rejected
from fencepost.errors import DataError, UsageError, quote

_WORD_COLUMNS = ("word", "token", "words", "tokens")
_TAG_COLUMNS = ("tag", "tags", "ner_tag", "ner_tags", "label", "labels", "ner", "entity")
_LISTS = ("tokens", "tags", "spans", "pos", "left", "right", "space_after")
_NO_ENTITIES = "row whose entities are empty, read as one without entities"
_HEAD = 100  # records whose keys are looked at
_MOST_ROWS = 100_000  # of one sentence or text


def read_records(
    records: Iterator[Record],
    source: Input,
    options: ReadOptions,
    columns: Sequence[str] | None = None,
    features: Mapping[str, Any] | None = None,
    *,
    gaps: bool = False,
) -> Iterator[Reading]:
    """Yield the sentences of a table, or why a row has none.

    `columns` are all columns of the table, by default those of the first records; `features` is what a data
    set says of its columns. With `gaps`, an empty cell is as good as none, as in a spreadsheet. Raises
    `UsageError` if the columns have no sentences.
    """
    head = list(islice(records, _HEAD))
    records = chain(head, records)
    there = list(columns or dict.fromkeys(key for record in head for key in record.value))
    if not there:
        yield from (Rejected(one.line, one.problem or "an empty row", one.raw) for one in records)
        return
    named = options.columns or {}
    check_named(named, there, source.name)
    lists = list_columns(there, named)
    if gaps:
        usual = find_usual(there, {"spans": (*COLUMN_PARTS["spans"], *SPAN_KEYS)})["spans"]
        spans = dict.fromkeys([named["spans"]] if "spans" in named else usual, "")
        records = (_without_gaps(record, spans) for record in records)
    rows = [one.value for one in head if not one.problem]
    row = rows[0] if rows else {}
    if parts := _token_parts(there, named, row):
        records = _join_words(records, parts, source)
        parts = {part: part for part in ("tokens", "tags", "id", "pos", "doc") if part in {**parts, "id": ""}}
    elif parts := _span_parts(there, named):
        records = _join_spans(records, parts, source)
        parts = {part: part for part in ("text", "spans", "id", "doc") if part in {**parts, "spans": ""}}
    else:
        for name in lists:  # the first row may be a broken one
            listed = next((one[name] for one in rows if is_list_text(one.get(name))), None)
            row = row if listed is None or not isinstance(row.get(name), str) else {**row, name: listed}
        parts = find_parts(there, named, parse_cells(row, lists), features or {}, source.name)
        _check_words(rows, parts, source)
        records = (_parse(record, lists, parts, source) for record in records)
    converter = RowConverter(parts, features or {}, source, options)
    for reading in converter.read(records):
        if isinstance(reading, Rejected) and converter.renamed:
            reading = replace(reading, reason=reading.reason + converter.renamed)
        yield reading


def _without_gaps(record: Record, spans: Mapping[str, str]) -> Record:
    """Return a row without its empty cells, except for those where entities would be."""
    cells = {name: cell for name, cell in record.value.items() if not is_missing(cell)}
    return replace(record, value={**spans, **cells})


def _check_words(rows: Sequence[Mapping[str, Any]], parts: Parts, source: Input) -> None:
    """Raise `UsageError` if rows that should be sentences have a word each."""
    cells = [row.get(parts["tokens"]) for row in rows] if "tags" in parts else []
    if len(cells) > 2 and all(isinstance(cell, str) and len(cell.split()) < 2 for cell in cells):
        raise UsageError(
            f"{source.name}: there is one word in each row, and no column says which sentence it belongs to; "
            "name the column that does, as --columns sentence=my_sentence"
        )


def has_sentences(columns: Sequence[str]) -> bool:
    """Return whether columns with these names are surely those of a table with sentences."""
    if _span_parts(columns, {}) or _token_parts(columns, {}, {}):
        return True
    usual = find_usual(columns, {**COLUMN_PARTS, "marks": SPAN_KEYS})
    return bool((usual["text"] and usual["marks"]) or (usual["tokens"] and usual["spans"]))


def _token_parts(there: Sequence[str], named: Mapping[str, str], row: Mapping[str, Any]) -> Parts | None:
    """Return the columns of a table with a row for each word; None if it is no such."""
    names = {**COLUMN_PARTS, "tokens": _WORD_COLUMNS, "tags": _TAG_COLUMNS}
    found = {**_first(there, names), **named}
    if not {"tokens", "tags", "sentence"} <= found.keys() or {"spans", "text"} & named.keys():
        return None
    value = row.get(found["tokens"])
    if is_list_text(value) and parse_quietly(value) is not None:
        return None
    if value is not None and not isinstance(value, str | int | float):
        return None
    return {part: found[part] for part in ("tokens", "tags", "sentence", "pos", "doc") if part in found}


def _span_parts(there: Sequence[str], named: Mapping[str, str]) -> Parts | None:
    """Return the columns of a table with a row for each entity; None if it is no such."""
    found = {**_first(there, COLUMN_PARTS), **named}
    if not {"text", "start", "end", "type"} <= found.keys() or {"spans", "tags"} & named.keys():
        return None
    return {part: found[part] for part in ("text", "start", "end", "type", "id", "doc") if part in found}


def _first(there: Sequence[str], parts: Mapping[str, Sequence[str]]) -> Parts:
    return {part: columns[0] for part, columns in find_usual(there, parts).items() if columns}


def _join_words(records: Iterator[Record], parts: Parts, source: Input) -> Iterator[Record]:
    """Yield a record for each sentence of a table with a row for each word."""
    state: list[Any] = [None, 0]

    def number(record: Record) -> int:
        """Return the number of the sentence that a row belongs to; an empty cell is the one before it."""
        name = record.value.get(parts["sentence"])
        if not record.problem and not is_missing(name):
            key = (record.value.get(parts.get("doc", "")), name)
            if key != state[0]:
                state[:] = [key, state[1] + 1]
        return int(state[1])

    seen: set[int] = set()
    for _, rows in groupby(records, number):
        yield _join(_take(rows, source), parts, source, seen)


def _take(rows: Iterator[Record], source: Input) -> list[Record]:
    """Return the rows of one sentence or text; raises `DataError` if they are too many to be that."""
    taken = list(islice(rows, _MOST_ROWS + 1))
    if len(taken) > _MOST_ROWS:
        reason = f"over {_MOST_ROWS:,} rows for one sentence or text; are these the right columns?"
        raise DataError(reason, source=source.name, line=taken[0].line)
    return taken


def _join(rows: list[Record], parts: Parts, source: Input, seen: set[int]) -> Record:
    """Return the record of a sentence whose words are these rows."""
    first, raw = rows[0], "".join(row.raw for row in rows)
    for row in rows:
        if row.problem:
            where = "" if row is first else f"{source.position(row.line)}: "
            return Record(first.line, raw, {}, where + row.problem)
    key = (first.value.get(parts.get("doc", "")), first.value.get(parts["sentence"]))
    digest = hash(repr(key))
    if digest in seen:
        reason = f"the sentence {quote(key[1])} has rows further above; put the rows of a sentence together"
        return Record(first.line, raw, {}, reason)
    seen.add(digest)
    words = [row for row in rows if not is_missing(row.value.get(parts["tokens"]))]
    source.note("row without a word, left out", first.line, times=len(rows) - len(words))
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

    seen: set[int] = set()
    for of_text, group in groupby(records, key):
        rows = _take(group, source)
        first, raw = rows[0], "".join(row.raw for row in rows)
        digest = hash(repr(of_text))
        if digest in seen:
            source.note("text that occurs again after other texts, read as another one", first.line)
        seen.add(digest)
        try:
            if first.problem:
                raise ValueError(first.problem)
            spans = [span for row in rows if (span := _span(row, parts, source, first.line))]
            of_row = {part: first.value.get(column) for part, column in parts.items()}
            yield Record(first.line, raw, {**of_row, "spans": spans})
        except ValueError as error:
            yield Record(first.line, raw, {}, str(error))


def _span(record: Record, parts: Parts, source: Input, first: int) -> dict[str, Any] | None:
    """Return the entity of a row; None if its cells are empty."""
    cells = {part: record.value.get(parts[part]) for part in ("start", "end", "type")}
    if all(map(is_missing, cells.values())):
        return None
    try:
        start, end = (parse_offset(parts[part], cells[part]) for part in ("start", "end"))
    except ValueError as error:
        where = "" if record.line == first else f"{source.position(record.line)}: "
        raise ValueError(f"{where}{error}") from None
    return {"start": start, "end": end, "label": cells["type"]}


def list_columns(there: Sequence[str], named: Mapping[str, str]) -> dict[str, bool]:
    """Return the columns whose cells are lists, and whether these may be words with spaces between them."""
    parts = {name: part for part in reversed(_LISTS) for name in COLUMN_PARTS[part]}
    parts |= dict.fromkeys(SPAN_KEYS, "spans")
    has_text = "text" in named or find_usual(there)["text"]
    may_split = () if has_text else ("tokens", "tags")
    found = {name: parts[name.casefold()] for name in there if name.casefold() in parts}
    found = {name: part for name, part in found.items() if name.casefold() != "sentence"}
    found |= {column: part for part, column in named.items() if part in _LISTS}
    return {name: part in may_split for name, part in found.items()}


def parse_quietly(cell: Any, *, split: bool = False) -> Any:
    """Return the list in a cell that is a text; None if there is none."""
    try:
        return parse_list(cell, split=split) if isinstance(cell, str) else cell
    except ValueError:
        return None


def parse_cells(row: Mapping[str, Any], lists: Mapping[str, bool]) -> dict[str, Any]:
    """Return a row with lists where a text has one, or begins like one that cannot be read."""
    parsed = {name: parse_quietly(row[name], split=split) for name, split in lists.items() if name in row}
    broken: dict[str, Any] = {name: [] for name in parsed if is_list_text(row[name])}
    return {**row, **broken, **{name: value for name, value in parsed.items() if value is not None}}


def _parse(record: Record, lists: Mapping[str, bool], parts: Parts, source: Input) -> Record:
    """Return a record with the lists of its cells; an empty cell of entities is an empty list."""
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
