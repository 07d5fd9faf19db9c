"""A row of a data set to a sentence, through the same functions as an object of a JSON file."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain, islice
from typing import Any

from fencepost.data.formats import iob, json_text, json_tokens
from fencepost.data.formats.format import ReadOptions
from fencepost.data.formats.json_fields import why_not_json
from fencepost.data.formats.json_records import Record
from fencepost.data.formats.json_tokens import SHAPES, Shape
from fencepost.data.source import Input, Reading
from fencepost.errors import describe_error, quote

_OPTIONAL = ("pos", "left", "right", "space_after")
_TYPES = ("type", "label", "entity_type")
_SCHEME_ROWS = 1000  # that are looked at before the scheme of tags is decided


class RowConverter:
    """Turns rows into objects as a file of JSON lines has them, and those into sentences.

    `columns` has the column of each part of a sentence, and `features` what a data set says of its columns.
    """

    def __init__(
        self, columns: dict[str, str], features: Mapping[str, Any], source: Input, options: ReadOptions
    ) -> None:
        self.columns = columns
        self.source = source
        self.options = options
        self.shape = None if "text" in columns else _shape(columns)
        self._names = {part: _class_names(features.get(column)) for part, column in columns.items()}
        self._item_names = _item_names(features.get(columns.get("spans", "")))
        self._scheme = options.scheme or "iob2"

    @property
    def renamed(self) -> str:
        """What an error about raw text must add, as its reader knows one name for each column."""
        others = [f"{part} is the column {name!r}" for part, name in self.columns.items() if part != name]
        return f" ({', '.join(others)})" if self.shape is None and others else ""

    def read(self, rows: Iterator[Record]) -> Iterator[Reading]:
        """Yield the sentences of each row, or why it has none."""
        if self.shape is None:
            return json_text.convert(self._records(rows), self.source, self.options)
        if "tags" not in self.columns:
            return json_tokens.convert(self._records(rows), self.source, self.options, self.shape)
        if self.options.scheme is None:
            head = list(islice(rows, _SCHEME_ROWS))
            self._scheme = iob.detect(self._readable_tags(head))
            rows = chain(head, rows)
        options = replace(self.options, ends=None)  # tags have no ends
        return json_tokens.convert(self._records(rows), self.source, options, self.shape)

    def _readable_tags(self, rows: Iterable[Record]) -> Iterator[list[str]]:
        for row in rows:
            try:
                yield self._tags(_plain(row.value[self.columns["tags"]]))
            except (LookupError, TypeError, ValueError, RecursionError):
                continue  # it is refused when its turn comes

    def _records(self, rows: Iterator[Record]) -> Iterator[Record]:
        for row in rows:
            if row.problem:
                yield row
                continue
            try:
                record = self._record(row.value, row.line)
                problem = why_not_json(record)
            except (TypeError, ValueError, RecursionError) as error:
                problem = describe_error(error)
            if problem:
                yield Record(row.line, row.raw or quote(row.value), {}, problem)
            else:
                yield Record(row.line, row.raw or str(record), record)

    def _record(self, row: Any, line: int) -> dict[str, Any]:
        if not isinstance(row, Mapping):
            raise ValueError(f"a row is a dictionary, not {type(row).__name__}")
        values = {part: row[column] for part, column in self.columns.items() if row.get(column) is not None}
        names = {part: self._name(part, values.pop(part), line) for part in ("id", "doc") if part in values}
        values = {part: _plain(value) for part, value in values.items()}
        if "pos" in values:
            values["pos"] = self._pos(values["pos"])
        if self.shape is None:
            record = {"text": values.get("text"), "spans": self._spans(values, "label")}
            if "tokens" in values:
                record["tokens"] = self._objects(values, "tokens")
            answer = row.get("answer")
            if isinstance(answer, str) and answer in json_text.NOT_ACCEPTED:
                record["answer"] = str(answer)
        else:
            keys = {"left": self.shape.left, "right": self.shape.right}
            record = {keys.get(part, part): values[part] for part in _OPTIONAL if part in values}
            record[self.shape.words] = values.get("tokens")
            tagged = "tags" in self.columns
            record[self.shape.entities] = (
                self._entities(values, line) if tagged else self._spans(values, self.shape.type)
            )
        return record | {part: name for part, name in names.items() if name is not None}

    def _name(self, part: str, value: Any, line: int) -> str | None:
        """Return the name of a sentence or a document; note what is neither text nor a number."""
        value = value.tolist() if hasattr(value, "tolist") else value
        if isinstance(value, float) and math.isnan(value):  # a gap in a table
            return None
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            return str(_plain(value))
        kind = f"{self.columns[part]!r} that is neither text nor a number, left out"
        self.source.note(kind, line, repr(value)[:40])
        return None

    def _pos(self, values: Any) -> list[str]:
        if not isinstance(values, list):
            raise ValueError(f"{self.columns['pos']!r} is {quote(values)}, not a list")
        names = self._names["pos"] or ()
        return [names[v] if type(v) is int and 0 <= v < len(names) else str(v) for v in values]

    def _entities(self, values: dict[str, Any], line: int) -> list[dict[str, Any]]:
        """Return the entities that a row's tags describe."""
        column, words = self.columns["tags"], values.get("tokens")
        tags = self._tags(values.get("tags"))
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

    def _tags(self, values: Any) -> list[str]:
        if not isinstance(values, list):
            raise ValueError(_no_list(self.columns["tags"], values))
        return [value if type(value) is str else self._tag(i, value) for i, value in enumerate(values)]

    def _tag(self, index: int, number: Any) -> str:
        column, names = self.columns["tags"], self._names["tags"]
        place = f"{column}[{index}] is"
        if type(number) is not int:
            raise ValueError(f"{place} {quote(number)}, not a tag")
        if names is None:
            raise ValueError(
                f"{place} the number {number}, and nothing says which tag that is; give tags as strings, "
                f"or names to the numbers: dataset.cast_column({column!r}, List(ClassLabel(names=[...])))"
            )
        if not 0 <= number < len(names):
            raise ValueError(f"{place} {number}, but the column has names for 0 to {len(names) - 1}")
        return names[number]

    def _spans(self, values: dict[str, Any], type_key: str) -> list[Any]:
        """Return the spans of a row: objects with the name of their type, where a triple may have stood."""
        spans = self._objects(values, "spans")
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

    def _objects(self, values: dict[str, Any], part: str) -> list[Any]:
        """Return a list of objects, also where the table has an object of lists."""
        column, value = self.columns[part], values.get(part)
        if isinstance(value, dict):
            if not all(isinstance(items, list) for items in value.values()):
                raise ValueError(f"{column!r} is neither a list nor a dictionary of lists")
            if len(set(map(len, value.values()))) > 1:
                raise ValueError(f"the lists in {column!r} are not of one length")
            value = [dict(zip(value, items, strict=True)) for items in zip(*value.values(), strict=True)]
        if not isinstance(value, list):
            raise ValueError(_no_list(column, value))
        return [_without_none(item) if isinstance(item, dict) else item for item in value]


def _shape(columns: Mapping[str, str]) -> Shape:
    """Return the shape of objects with these columns: one of the usual shapes, by their names."""
    shapes = {(shape.words, shape.entities): shape for shape in SHAPES}
    if "tags" in columns:  # which become entities as Fencepost's own files have them
        return replace(shapes["words", "entities"], words=columns["tokens"], entities=columns["tags"])
    words, entities = columns["tokens"], columns["spans"]
    shape = shapes.get((words, entities), shapes["tokens", "entities"])
    return replace(shape, words=words, entities=entities, triples=False)


def _no_list(column: str, value: Any) -> str:
    return f"{column!r} is missing" if value is None else f"{column!r} is {quote(value)}, not a list"


def _without_none(item: dict[str, Any]) -> dict[str, Any]:
    """Return an object without its empty keys: a table gives all objects of a column the same keys."""
    return {key: value for key, value in item.items() if value is not None}


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: arrays as lists, and their numbers as Python has them."""
    if value is None or type(value) in (str, int, float, bool):
        return value
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return list(value) if {str}.issuperset(map(type, value)) else list(map(_plain, value))
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    for kind in (str, int, float):
        if isinstance(value, kind):
            return kind(value)
    raise ValueError(f"a value of the type {type(value).__name__} is no word, tag, span or name")


def _class_names(feature: Any) -> list[str] | None:
    """Return the names of a column's classes, if its feature, or that of the lists in it, has some."""
    while feature is not None and not isinstance(feature, Mapping):
        if (names := getattr(feature, "names", None)) is not None:
            return [str(name) for name in names]
        feature = getattr(feature, "feature", None)
    return None


def _item_names(feature: Any) -> dict[str, list[str]]:
    """Return the same for the keys of the spans in a column."""
    inner = feature if isinstance(feature, Mapping) else getattr(feature, "feature", None)
    found = {str(key): _class_names(of_key) for key, of_key in dict(inner or {}).items()}
    return {key: names for key, names in found.items() if names is not None}
