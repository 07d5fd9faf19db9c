"""Convert the rows of a data set to sentences, with the functions that read the objects of JSON files."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain, islice
from typing import Any

from fencepost.data.formats import iob, json_text, json_tokens
from fencepost.data.formats.format import ReadOptions
from fencepost.data.formats.json_fields import explain_not_json, remove_none
from fencepost.data.formats.json_records import Record
from fencepost.data.formats.json_tokens import SHAPES, Shape
from fencepost.data.source import Input, Reading
from fencepost.errors import describe_error, quote

_OPTIONAL = ("pos", "left", "right", "space_after")
_TYPES = ("type", "label", "entity_type")
_SCHEME_ROWS = 1000  # number of rows from which the scheme of the tags is detected


class RowConverter:
    """Converts rows to objects as in JSON files, and these to sentences.

    `columns` has the column of each part of a sentence, and `features` those of a Hugging Face data set.
    """

    def __init__(
        self, columns: dict[str, str], features: Mapping[str, Any], source: Input, options: ReadOptions
    ) -> None:
        self.columns = columns
        self.source = source
        self.options = options
        self.shape = None if "text" in columns else _choose_shape(columns)
        self._names = {part: _find_class_names(features.get(column)) for part, column in columns.items()}
        self._item_names = _find_item_names(features.get(columns.get("spans", "")))
        self._scheme = options.scheme or "iob2"

    @property
    def column_hint(self) -> str:
        """Addition to messages about raw text that names the columns, since the reader uses fixed names."""
        others = [f"{part} is the column {name!r}" for part, name in self.columns.items() if part != name]
        return f" ({', '.join(others)})" if self.shape is None and others else ""

    def read(self, rows: Iterator[Record]) -> Iterator[Reading]:
        """Yield the sentences of each row, and the rows that are invalid."""
        if self.shape is None:
            return json_text.convert(self._convert_rows(rows), self.source, self.options)
        if "tags" not in self.columns:
            return json_tokens.convert(self._convert_rows(rows), self.source, self.options, self.shape)
        if self.options.scheme is None:
            head = list(islice(rows, _SCHEME_ROWS))
            self._scheme = iob.detect(self._read_tags(head))
            rows = chain(head, rows)
        options = replace(self.options, ends=None)  # tags have no ends
        return json_tokens.convert(self._convert_rows(rows), self.source, options, self.shape)

    def _read_tags(self, rows: Iterable[Record]) -> Iterator[list[str]]:
        for row in rows:
            try:
                yield self._parse_tags(_to_plain(row.value[self.columns["tags"]]))
            except (LookupError, TypeError, ValueError, RecursionError):
                continue  # `_convert_rows` reports it

    def _convert_rows(self, rows: Iterator[Record]) -> Iterator[Record]:
        for row in rows:
            if row.problem:
                yield row
                continue
            try:
                record = self._convert_row(row.value, row.line)
                problem = explain_not_json(record)
            except (TypeError, ValueError, RecursionError) as error:
                problem = describe_error(error)
            if problem:
                yield Record(row.line, row.raw or quote(row.value), {}, problem)
            else:
                yield Record(row.line, row.raw or str(record), record)

    def _convert_row(self, row: Any, line: int) -> dict[str, Any]:
        values = {part: row[column] for part, column in self.columns.items() if row.get(column) is not None}
        names = {
            part: self._parse_name(part, values.pop(part), line) for part in ("id", "doc") if part in values
        }
        values = {part: _to_plain(value) for part, value in values.items()}
        if "pos" in values:
            values["pos"] = self._parse_pos(values["pos"])
        if self.shape is None:
            record = {"text": values.get("text"), "spans": self._parse_spans(values, "label")}
            if "tokens" in values:
                record["tokens"] = self._parse_objects(values, "tokens")
            answer = row.get("answer")
            if isinstance(answer, str) and answer in json_text.NOT_ACCEPTED:
                record["answer"] = str(answer)
        else:
            keys = {"left": self.shape.left, "right": self.shape.right}
            record = {keys.get(part, part): values[part] for part in _OPTIONAL if part in values}
            record[self.shape.words] = values.get("tokens")
            tagged = "tags" in self.columns
            record[self.shape.entities] = (
                self._parse_entities(values, line) if tagged else self._parse_spans(values, self.shape.type)
            )
        return record | {part: name for part, name in names.items() if name is not None}

    def _parse_name(self, part: str, value: Any, line: int) -> str | None:
        """Return the name of a sentence or document; None, with a note, if it is no text or number."""
        value = value.tolist() if hasattr(value, "tolist") else value
        if isinstance(value, float) and math.isnan(value):  # a missing value in a table
            return None
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            return str(_to_plain(value))
        kind = f"{self.columns[part]!r} that is neither text nor a number, skipped"
        self.source.note(kind, line, repr(value)[:40])
        return None

    def _parse_pos(self, values: Any) -> list[str]:
        if not isinstance(values, list):
            raise ValueError(f"{self.columns['pos']!r} is {quote(values)}, not a list")
        names = self._names["pos"] or ()
        return [names[v] if type(v) is int and 0 <= v < len(names) else str(v) for v in values]

    def _parse_entities(self, values: dict[str, Any], line: int) -> list[dict[str, Any]]:
        """Return the entities that a row's tags describe."""
        column, words = self.columns["tags"], values.get("tokens")
        tags = self._parse_tags(values.get("tags"))
        if isinstance(words, list) and len(words) != len(tags):
            raise ValueError(
                f"{len(tags)} tags in {column!r} for {len(words)} words in {self.columns['tokens']!r}"
            )
        try:
            strict = self.options.scheme is not None
            entities, broken = iob.to_entities(tags, self._scheme, strict=strict)
        except iob.Invalid as error:
            raise ValueError(f"{column}[{error.index}]: {error}") from error
        if broken:
            example = f"{column}[{broken.index}]: {broken}"
            self.source.note(iob.BROKEN_RULES.format(self._scheme), line, example)
        return [{"start": entity.start, "end": entity.end, "type": entity.type} for entity in entities]

    def _parse_tags(self, values: Any) -> list[str]:
        if not isinstance(values, list):
            raise ValueError(_describe_no_list(self.columns["tags"], values))
        return [value if type(value) is str else self._name_tag(i, value) for i, value in enumerate(values)]

    def _name_tag(self, index: int, number: Any) -> str:
        column, names = self.columns["tags"], self._names["tags"]
        place = f"{column}[{index}] is"
        if type(number) is not int:
            raise ValueError(f"{place} {quote(number)}, not a tag")
        if names is None:
            raise ValueError(
                f"{place} the number {number}, but its tag is not known; give tags as strings, or name the "
                f"numbers: dataset.cast_column({column!r}, List(ClassLabel(names=[...])))"
            )
        if not 0 <= number < len(names):
            raise ValueError(f"{place} {number}, but the column has names for 0 to {len(names) - 1}")
        return names[number]

    def _parse_spans(self, values: dict[str, Any], type_key: str) -> list[Any]:
        """Return the spans of a row as objects, with names for the numbers of types."""
        spans = self._parse_objects(values, "spans")
        for index, item in enumerate(spans):
            if isinstance(item, list) and len(item) == 3:
                spans[index] = item = dict(zip(("start", "end", type_key), item, strict=True))
            if not isinstance(item, dict):
                continue
            for key, names in self._item_names.items():
                if type(number := item.get(key)) is int and 0 <= number < len(names):
                    item[key] = names[number]
            other = next((key for key in _TYPES if key in item), None)
            if self.shape is not None and type_key not in item and other is not None:
                item[type_key] = item.pop(other)
        return spans

    def _parse_objects(self, values: dict[str, Any], part: str) -> list[Any]:
        """Return the objects in a part of a row, which may be a list or a dictionary of lists."""
        column, value = self.columns[part], values.get(part)
        if isinstance(value, dict):
            if not all(isinstance(items, list) for items in value.values()):
                raise ValueError(f"{column!r} is neither a list nor a dictionary of lists")
            if len(set(map(len, value.values()))) > 1:
                raise ValueError(f"the lists in {column!r} differ in length")
            value = [dict(zip(value, items, strict=True)) for items in zip(*value.values(), strict=True)]
        if not isinstance(value, list):
            raise ValueError(_describe_no_list(column, value))
        # in a table, all objects of a column have the same keys, with missing values
        return [remove_none(item) if isinstance(item, dict) else item for item in value]


def _choose_shape(columns: Mapping[str, str]) -> Shape:
    """Return the shape of the objects of rows with these columns."""
    shapes = {(shape.words, shape.entities): shape for shape in SHAPES}
    if "tags" in columns:  # converted to entities as in Fencepost's own format
        return replace(shapes["words", "entities"], words=columns["tokens"], entities=columns["tags"])
    words, entities = columns["tokens"], columns["spans"]
    shape = shapes.get((words, entities), shapes["tokens", "entities"])
    return replace(shape, words=words, entities=entities, triples=False)


def _describe_no_list(column: str, value: Any) -> str:
    return f"{column!r} is missing" if value is None else f"{column!r} is {quote(value)}, not a list"


def _to_plain(value: Any) -> Any:
    """Convert a value to types of JSON: arrays to lists, and their numbers to those of Python."""
    if value is None or type(value) in (str, int, float, bool):
        return value
    if hasattr(value, "tolist"):
        return _to_plain(value.tolist())
    if isinstance(value, list | tuple):
        return list(value) if {str}.issuperset(map(type, value)) else list(map(_to_plain, value))
    if isinstance(value, Mapping):
        return {str(key): _to_plain(inner) for key, inner in value.items()}
    for kind in (str, int, float):
        if isinstance(value, kind):
            return kind(value)
    raise ValueError(f"a word, tag, span or name cannot be of type {type(value).__name__}")


def _find_class_names(feature: Any) -> list[str] | None:
    """Return the names of a column's classes, from its feature or that of its lists; None without any."""
    while feature is not None and not isinstance(feature, Mapping):
        if (names := getattr(feature, "names", None)) is not None:
            return [str(name) for name in names]
        feature = getattr(feature, "feature", None)
    return None


def _find_item_names(feature: Any) -> dict[str, list[str]]:
    """Return the names of the classes of each key of the spans in a column."""
    inner = feature if isinstance(feature, Mapping) else getattr(feature, "feature", None)
    names = {str(key): _find_class_names(value) for key, value in dict(inner or {}).items()}
    return {key: classes for key, classes in names.items() if classes is not None}
