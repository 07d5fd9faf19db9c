"""Data sets of the `datasets` library to sentences; also any other rows that are dictionaries.

A row is read as the same object in a file of JSON lines would be, by the same readers: words with tags, words
with spans, or raw text with spans by character. Names of classes come from the data set's features.
"""

from __future__ import annotations

import io
import json
import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from fencepost.data import Note, ReadOptions, Rejected
from fencepost.data.entity import Entity, Sentence
from fencepost.data.formats import iob, json_text, json_tokens
from fencepost.data.formats.json_tokens import Shape
from fencepost.data.source import Found, Reading, Source
from fencepost.errors import DataError, UsageError, describe_error

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

COLUMNS: dict[str, tuple[str, ...]] = {
    "tokens": ("tokens", "words", "tokenized_text", "sentence"),
    "tags": ("ner_tags", "tags", "labels"),
    "spans": ("spans", "entities", "entity_mentions", "ner"),
    "text": ("text",),
    "id": ("id", "sent_id", "orig_id", "org_id"),
    "doc": ("doc", "doc_id", "doc_key"),
    "pos": ("pos", "pos_tags"),
    "left": ("left", "ltokens"),
    "right": ("right", "rtokens"),
    "space_after": ("space_after",),
}
"""What a row can tell, and the columns in which it is looked for."""

_NAMES = ("id", "doc")
_BESIDES = ("id", "doc", "pos", "left", "right", "space_after")
_TYPES = ("type", "label", "entity_type")
_SCHEME_ROWS = 1000  # that are looked at before the scheme of tags is decided
_OWN, _EITHER = (next(s for s in json_tokens.SHAPES if s.name == name) for name in ("jsonl", "jsonl-tokens"))


def sentences(
    rows: Iterable[Mapping[str, Any]],
    columns: Mapping[str, str] | None = None,
    options: ReadOptions | None = None,
    *,
    name: str = "the data set",
) -> Iterator[Sentence]:
    """The sentences of a data set, streamed. `columns` says where they are, as `{"tags": "fine_tags"}`."""
    return iter(Rows(rows, columns, options, name=name))


class Rows:
    """The sentences of a data set, with what there is to say about the reading.

    An invalid row raises a `DataError`, unless `on_invalid` takes it; then the reading goes on.
    """

    def __init__(
        self,
        rows: Iterable[Mapping[str, Any]],
        columns: Mapping[str, str] | None = None,
        options: ReadOptions | None = None,
        *,
        name: str = "the data set",
        on_invalid: Callable[[Rejected], None] | None = None,
    ) -> None:
        for role in columns or ():
            if role not in COLUMNS:
                raise UsageError.unknown("column", role, COLUMNS)
        self.name = name
        self.options = options or ReadOptions()
        self.on_invalid = on_invalid
        self.notes: list[Note] = []
        self._rows = rows
        self._named = dict(columns or {})

    def __iter__(self) -> Iterator[Sentence]:
        rows: Any = self._rows
        features = getattr(rows, "features", None) or {}
        there: list[str] | None = None
        if hasattr(rows, "with_format") and not _is_transformed(rows):
            rows = rows.with_format(None)  # plain values, whatever arrays it gives otherwise
            there = rows.column_names
            known = {*chain(*COLUMNS.values()), *json_text.SPAN_KEYS, *self._named.values(), "answer"}
            if wanted := [column for column in there or () if column in known]:
                rows = rows.select_columns(wanted)  # of the others, nothing is decoded
        stream = iter(rows)
        first = next(stream, None)
        if first is None:
            return
        if not isinstance(first, Mapping):
            raise DataError(
                f"a row is a dictionary, not {type(first).__name__}", source=f"{self.name}, row 0"
            )
        layout = _layout(there or list(first), self._named, _Row(first, features), self.name)
        writer = _Writer(layout, features, self.options, self.name)
        yield from self._read(writer, chain([first], stream))

    def _read(self, writer: _Writer, rows: Iterator[Any]) -> Iterator[Sentence]:
        source = Source.from_stream(self.name, io.BufferedReader(_Lines(writer.lines(rows))))
        try:
            for reading in writer.layout.read(source, writer.options):
                if isinstance(reading, Found):
                    yield reading.sentence
                else:
                    reason = writer.problems.pop(reading.line, reading.reason)
                    self._refuse(replace(reading, reason=in_python(reason)), writer.layout)
        except DataError as error:
            place = self.name if error.line is None else f"{self.name}, row {error.line - 1}"
            raise DataError(_about_rows(in_python(error.message)), source=place) from None
        except UsageError as error:
            raise UsageError(in_python(str(error))) from None
        finally:
            source.close()
            source.adopt(writer.notes.values())
            self.notes = [
                replace(note, kind=in_python(note.kind), place=self._place(note.place))
                for note in source.notes.values()
            ]

    def _refuse(self, rejected: Rejected, layout: _Layout) -> None:
        if self.on_invalid is None:
            raise DataError(rejected.reason + layout.renamed, source=self.name, line=rejected.line)
        self.on_invalid(rejected)

    def _place(self, place: str) -> str:
        """That of a note, which a reader of lines has written."""
        line = place.removeprefix(f"{self.name}:")
        return f"{self.name}, row {int(line) - 1}" if line.isdecimal() else place


@dataclass(frozen=True)
class _Layout:
    """Where in a row a sentence is, and how it is read."""

    columns: dict[str, str]
    """By what they tell."""
    read: Callable[[Source, ReadOptions], Iterator[Reading]]
    shape: Shape | None = None
    """Of words with entities; None for raw text."""

    @property
    def renamed(self) -> str:
        """What an error about raw text must add, as its reader knows one name for each column."""
        others = [f"{role} is the column {name!r}" for role, name in self.columns.items() if role != name]
        return f" ({', '.join(others)})" if self.shape is None and others else ""


@dataclass(frozen=True)
class _Row:
    """The first one, by which a layout is chosen, and what the data set says of its columns."""

    values: Mapping[str, Any]
    features: Mapping[str, Any]

    def may_be_tokens(self, column: str) -> bool:
        """Whether words can be here, or words with offsets; a text that has such a name is neither."""
        value = self.values.get(column)
        if value is None:
            return getattr(self.features.get(column), "dtype", None) not in ("string", "large_string")
        if isinstance(value, Mapping):
            return all(map(_is_list, value.values()))
        return _is_list(value)

    def may_be_words(self, column: str) -> bool:
        value = self.values.get(column)
        return value is None or (_is_list(value) and not any(isinstance(one, Mapping) for one in value))


def _layout(there: Sequence[str], named: dict[str, str], first: _Row, name: str) -> _Layout:
    """The one that the columns have, those that the user names before all others."""
    for role, given in named.items():
        if given not in there:
            raise UsageError(f"{name}: columns[{role!r}] is {given!r}, but the columns are {_list(there)}")
    found = dict(named)
    for role, names in COLUMNS.items():
        fit = [one for one in names if one in there and (role != "tokens" or first.may_be_tokens(one))]
        if fit:
            found.setdefault(role, fit[0])
    besides = {role: found[role] for role in _BESIDES if role in found}
    words = "tokens" in found and first.may_be_words(found["tokens"])
    if "tokens" in named or (words and "text" not in named):
        return _layout_of_words(found, named, besides, there, name)
    spans = named.get("spans") or next((one for one in json_text.SPAN_KEYS if one in there), None)
    if "text" not in found or spans is None:
        raise UsageError(
            f"{name}: no sentences are found in the columns {_list(there)}; needed are words "
            f"({_list(COLUMNS['tokens'])}) with tags ({_list(COLUMNS['tags'])}) or spans "
            f"({_list(COLUMNS['spans'])}), or text with spans; name them with columns, as "
            'columns={"tokens": "my_words", "tags": "my_tags"}'
        )
    columns = {"text": found["text"], "spans": spans}
    columns |= {role: column for role, column in besides.items() if role in _NAMES}
    if "tokens" in found and not words:  # with offsets, as in Prodigy
        columns["tokens"] = found["tokens"]
    return _Layout(columns, json_text.read)


def _layout_of_words(
    found: dict[str, str], named: dict[str, str], besides: dict[str, str], there: Sequence[str], name: str
) -> _Layout:
    marks = [role for role in ("tags", "spans") if role in named]
    marks = marks or [role for role in ("tags", "spans") if role in found]
    if len(marks) != 1:
        what = "both tags and spans are there" if marks else "neither tags nor spans are there"
        raise UsageError(
            f"{name}: {what}, in the columns {_list(there)}; say where the entities are, as "
            'columns={"tags": "my_tags"} or columns={"spans": "my_spans"}'
        )
    tokens, entities = found["tokens"], found[marks[0]]
    shape = _OWN
    if marks == ["spans"]:
        of_names = (one for one in json_tokens.SHAPES if (one.words, one.entities) == (tokens, entities))
        shape = next(of_names, _EITHER)
    shape = replace(
        shape,
        words=tokens,
        entities=entities,
        triples=False,
        left="left",
        right="right",
        id=("id",),
        doc=("doc",),
    )
    columns = {"tokens": tokens, marks[0]: entities, **besides}
    return _Layout(columns, partial(json_tokens.read, shape=shape), shape)


def _is_transformed(rows: Any) -> bool:
    """Whether the rows of a data set are what a function of the user makes of them."""
    return (getattr(rows, "format", None) or {}).get("type") == "custom"


def _is_list(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)


def _number(value: Any) -> int | None:
    """A whole number, also one of an array; None is anything else."""
    try:
        return None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        return None


def _name(value: Any) -> str | int | None:
    """Of a sentence or a document; None is what is neither text nor a number."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, float):  # in a table, all numbers of a column with gaps
        return str(float(value))
    return _number(value)


def _list(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:12])) + (" and others" if len(names) > 12 else "")


class _Writer:
    """Rows to lines of JSON; a row that cannot be one is a line that is refused, for a reason kept here."""

    def __init__(self, layout: _Layout, features: Mapping[str, Any], options: ReadOptions, name: str) -> None:
        self.layout = layout
        self.tags = layout.columns.get("tags")
        self.options = options if self.tags is None else replace(options, ends=None)  # tags have no ends
        self.problems: dict[int, str] = {}
        self.notes: dict[str, Note] = {}
        self._name = name
        self._tag_names = _class_names(features.get(self.tags or ""))
        self._pos_names = _class_names(features.get(layout.columns.get("pos", "")))
        self._item_names = _item_names(features.get(layout.columns.get("spans", "")))
        self._scheme = options.scheme or "iob2"

    def lines(self, rows: Iterator[Any]) -> Iterator[bytes]:
        if self.tags is not None and self.options.scheme is None:
            head = list(islice(rows, _SCHEME_ROWS))
            self._scheme = iob.detect(self._readable_tags(head))
            rows = chain(head, rows)
        for line, row in enumerate(rows, start=1):
            try:
                text = json.dumps(self._record(row, line), default=_plain)
            except (TypeError, ValueError, RecursionError) as error:
                self.problems[line] = describe_error(error)
                text = "null"
            yield text.encode("ascii") + b"\n"

    def _readable_tags(self, rows: Sequence[Any]) -> Iterator[list[str]]:
        for row in rows:
            try:
                yield self._tags_of(row)
            except (AttributeError, TypeError, ValueError):
                continue  # it is refused when its turn comes

    def _record(self, row: Any, line: int) -> dict[str, Any]:
        if not isinstance(row, Mapping):
            raise ValueError(f"a row is a dictionary, not {type(row).__name__}")
        columns, shape = self.layout.columns, self.layout.shape
        record = {role: row[columns[role]] for role in _BESIDES if row.get(columns.get(role, "")) is not None}
        record = self._with_names(record, line)
        if "pos" in record:
            record["pos"] = self._pos_of(record["pos"])
        if shape is None:
            record |= {"text": row.get(columns["text"]), "spans": self._items(row, "label")}
            if row.get(columns.get("tokens", "")) is not None:
                record["tokens"] = self._dictionaries(columns["tokens"], row)
            answer = row.get("answer")
            if isinstance(answer, str) and answer in json_text.NOT_ACCEPTED:
                record["answer"] = answer
            return record
        record[shape.words] = row.get(shape.words)
        record[shape.entities] = (
            self._items(row, shape.type) if self.tags is None else self._tagged(row, line)
        )
        return record

    def _with_names(self, record: dict[str, Any], line: int) -> dict[str, Any]:
        """What a row tells besides, its names as text or numbers; of what can be neither a note is made."""
        for role in (role for role in _NAMES if role in record):
            value = record.pop(role)
            value = value.tolist() if hasattr(value, "tolist") else value
            if isinstance(value, float) and math.isnan(value):  # a gap in a table
                continue
            if (name := _name(value)) is not None:
                record[role] = name
            else:
                kind = f"{self.layout.columns[role]!r} that is neither text nor a number, left out"
                self.notes.setdefault(kind, Note(kind, f"{self._name}:{line}", repr(value)[:40])).count += 1
        return record

    def _pos_of(self, values: Any) -> list[str]:
        if not _is_list(values):
            raise ValueError(f"{self.layout.columns['pos']!r} is {values!r}, not a list")
        return [self._pos_name(value) for value in _values(values)]

    def _pos_name(self, value: Any) -> str:
        names, number = self._pos_names or (), _number(value)
        return names[number] if number is not None and 0 <= number < len(names) else str(value)

    def _tagged(self, row: Mapping[str, Any], line: int) -> list[dict[str, Any]]:
        """The entities that a row's tags describe."""
        tags, words = self._tags_of(row), row.get(self.layout.columns["tokens"])
        if _is_list(words) and len(_values(words)) != len(tags):
            raise ValueError(
                f"{len(tags)} tags in {self.tags!r} for {len(_values(words))} words in "
                f"{self.layout.columns['tokens']!r}"
            )
        entities, irregular = iob.to_entities(tags, self._scheme)
        if irregular is not None:
            reason = f"{self.tags}[{irregular.index}]: {irregular.reason}"
            if self.options.scheme is not None or iob.parse(tags[irregular.index]) is None:
                raise ValueError(reason)
            kind = f"sentence whose tags break the rules of {self._scheme}, read as the CoNLL scorer does"
            note = self.notes.setdefault(kind, Note(kind, f"{self._name}:{line}", reason))
            note.count += 1
        return [_item(entity) for entity in entities]

    def _tags_of(self, row: Mapping[str, Any]) -> list[str]:
        values = row.get(self.tags or "")
        if not _is_list(values):
            raise ValueError(f"{self.tags!r} is missing, or not a list")
        return [self._tag(index, value) for index, value in enumerate(_values(values))]

    def _tag(self, index: int, value: Any) -> str:
        if isinstance(value, str):
            return value
        place, number = f"{self.tags}[{index}]", _number(value)
        if number is None:
            raise ValueError(f"{place} is {value!r}, not a tag")
        if self._tag_names is None:
            raise ValueError(
                f"{place} is the number {value}, and nothing says which tag that is; give tags as strings, "
                f"or names to the numbers: dataset.cast_column({self.tags!r}, List(ClassLabel(names=[...])))"
            )
        if not 0 <= number < len(self._tag_names):
            raise ValueError(
                f"{place} is {value}, but the column has names for 0 to {len(self._tag_names) - 1}"
            )
        return self._tag_names[number]

    def _items(self, row: Mapping[str, Any], type_key: str) -> list[Any]:
        """The spans of a row: each a dictionary, whatever the table had instead."""
        items = self._dictionaries(self.layout.columns["spans"], row)
        return [self._span(item, type_key) for item in items]

    def _dictionaries(self, column: str, row: Mapping[str, Any]) -> list[Any]:
        value = row.get(column)
        if isinstance(value, Mapping):
            value = _transposed(column, value)
        if not _is_list(value):
            raise ValueError(f"{column!r} is missing, or not a list")
        return [_without_nothing(item) for item in _values(value)]

    def _span(self, item: Any, type_key: str) -> Any:
        if _is_list(item) and len(_values(item)) == 3:
            item = dict(zip(("start", "end", type_key), _values(item), strict=True))
        if not isinstance(item, Mapping):
            return item
        span = dict(item)
        for key, names in self._item_names.items():
            number = _number(span.get(key))
            if number is not None and 0 <= number < len(names):
                span[key] = names[number]
        other = next((key for key in _TYPES if key in span), None)
        if self.layout.shape is not None and type_key not in span and other is not None:
            span[type_key] = span.pop(other)
        return span


def _item(entity: Entity) -> dict[str, Any]:
    return {"start": entity.start, "end": entity.end, "type": entity.type}


def _without_nothing(item: Any) -> Any:
    """A table gives all dictionaries of a column the same keys, with None where one had not that key."""
    if not isinstance(item, Mapping):
        return item
    return {key: value for key, value in item.items() if value is not None}


def _transposed(column: str, lists: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A dictionary of lists, as some data sets have it, as a list of dictionaries."""
    if not all(_is_list(values) for values in lists.values()):
        raise ValueError(f"{column!r} is neither a list nor a dictionary of lists")
    columns = [_values(values) for values in lists.values()]
    if len(set(map(len, columns))) > 1:
        raise ValueError(f"the lists in {column!r} are not of one length")
    return [dict(zip(lists, values, strict=True)) for values in zip(*columns, strict=True)]


def _values(values: Any) -> list[Any]:
    """A list, also of an array."""
    return list(values.tolist() if hasattr(values, "tolist") else values)


def _plain(value: Any) -> Any:
    """For JSON: arrays and their numbers as Python has them."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise ValueError(f"a value of the type {type(value).__name__} is no word, tag, span or name")


def _class_names(feature: Any) -> list[str] | None:
    """The names of a column's classes, if its feature, or that of the lists in it, has some."""
    while feature is not None and not isinstance(feature, Mapping):
        names = getattr(feature, "names", None)
        if names is not None:
            return [str(name) for name in names]
        feature = getattr(feature, "feature", None)
    return None


def _item_names(feature: Any) -> dict[str, list[str]]:
    """The same for the keys of the spans in a column."""
    inner = feature if isinstance(feature, Mapping) else getattr(feature, "feature", None)
    if not isinstance(inner, Mapping):
        return {}
    found = {str(key): _class_names(of_key) for key, of_key in inner.items()}
    return {key: names for key, names in found.items() if names is not None}


def _about_rows(message: str) -> str:
    """Rows are counted from 0, as in `dataset[0]`; the lines of a message are not."""
    return re.sub(r"\bline (\d+)\b", lambda line: f"row {int(line[1]) - 1}", message)


class _Lines(io.RawIOBase):
    """Lines as they are made, as a file."""

    def __init__(self, lines: Iterator[bytes]) -> None:
        self._lines = lines
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        if not self._rest:
            self._rest = memoryview(next(self._lines, b""))
        target = memoryview(buffer).cast("B")
        size = min(len(target), len(self._rest))
        target[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size


def in_python(message: str) -> str:
    """A message that names options of the command line, for those who write Python."""
    for option, words in (
        (r"--ends (inclusive|exclusive)", r'options=ReadOptions(ends="\1")'),
        (r"--ends", "options=ReadOptions(ends=...)"),
        (r"--no-check-text", "options=ReadOptions(check_text=False)"),
        (r"--keep-rejected", "options=ReadOptions(keep_rejected=True)"),
        (r"--resume", "resume=True"),
        (r"--dev\b(?!-)", "dev"),
    ):
        message = re.sub(option, words, message)
    return message
