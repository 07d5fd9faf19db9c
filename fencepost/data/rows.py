"""Rows that are dictionaries, such as those of a Hugging Face data set, to sentences.

A row is read as the same object in a file of JSON lines is: words with spans, or raw text with spans by
character. Words may also have tags. The names of classes come from the data set's features.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any

from fencepost.data.entity import Sentence
from fencepost.data.formats import json_text
from fencepost.data.formats.format import ReadOptions
from fencepost.data.row_converter import RowConverter
from fencepost.data.source import Input, Note, ReadSentence, Rejected
from fencepost.errors import DataError, UsageError

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
"""The parts of a sentence, and the columns in which each is looked for."""

_OPTIONAL = ("id", "doc", "pos", "left", "right", "space_after")


def sentences(
    rows: Iterable[Mapping[str, Any]],
    columns: Mapping[str, str] | None = None,
    options: ReadOptions | None = None,
    *,
    name: str = "the data set",
) -> Iterator[Sentence]:
    """Yield the sentences of a data set. `columns` says where their parts are, as `{"tags": "fine_tags"}`."""
    return iter(Rows(rows, columns, options, name=name))


class Rows:
    """The sentences of a data set, and notes on the reading.

    An invalid row raises a `DataError`, unless `on_invalid` takes it; then the next row is read.
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
        for part in columns or ():
            if part not in COLUMNS:
                raise UsageError.unknown("column", part, COLUMNS)
        self.options = options or ReadOptions()
        self.on_invalid = on_invalid
        self._rows = rows
        self._named = dict(columns or {})
        self._input = _RowInput(name)

    @property
    def notes(self) -> list[Note]:
        return [replace(note, kind=in_python(note.kind)) for note in self._input.notes.values()]

    def __iter__(self) -> Iterator[Sentence]:
        self._input.notes.clear()
        rows: Any = self._rows
        features = getattr(rows, "features", None) or {}
        columns: list[str] | None = None
        if hasattr(rows, "with_format") and (getattr(rows, "format", None) or {}).get("type") != "custom":
            rows, columns = self._select(rows)  # of a "custom" one, the user's function makes the rows
        stream = iter(rows)
        first = next(stream, None)
        if first is None:
            return
        if not isinstance(first, Mapping):
            raise DataError(f"a row is a dictionary, not {type(first).__name__}", source=self._input.place(1))
        parts = self._find_parts(columns or list(first), first, features)
        converter = RowConverter(parts, features, self._input, self.options)
        try:
            for reading in converter.read(chain([first], stream)):
                if isinstance(reading, ReadSentence):
                    yield reading.sentence
                elif self.on_invalid is not None:
                    self.on_invalid(replace(reading, reason=in_python(reading.reason)))
                else:
                    reason = reading.reason + converter.renamed
                    raise DataError(reason, source=self._input.name, line=reading.line)
        except DataError as error:
            place = self._input.place(error.line)
            raise DataError(in_python(error.message), source=place) from None
        except UsageError as error:
            raise UsageError(in_python(str(error))) from None

    def _select(self, rows: Any) -> tuple[Any, list[str] | None]:
        """Return a data set with plain values and only the columns that may be read, and all its columns."""
        rows = rows.with_format(None)
        known = {*chain(*COLUMNS.values()), *json_text.SPAN_KEYS, *self._named.values(), "answer"}
        wanted = [column for column in rows.column_names or () if column in known]
        return rows.select_columns(wanted) if wanted else rows, rows.column_names

    def _find_parts(
        self, there: list[str], first: Mapping[str, Any], features: Mapping[str, Any]
    ) -> dict[str, str]:
        """Return the column of each part of a sentence: those that are named, and the usual ones.

        These are words with tags or spans, or a text with spans and perhaps the offsets of its words.
        """
        name, named = self._input.name, self._named
        for part, column in named.items():
            if column not in there:
                raise UsageError(
                    f"{name}: columns[{part!r}] is {column!r}, but the columns are {_list(there)}"
                )
        usual = {part: [column for column in columns if column in there] for part, columns in COLUMNS.items()}
        kinds = {
            column: _kind_of_tokens(first.get(column), features.get(column))
            for column in (*usual["tokens"], named.get("tokens", ""))
        }
        usual["tokens"] = [column for column in usual["tokens"] if kinds[column]]
        found = {part: columns[0] for part, columns in usual.items() if columns} | named
        has_words = "tokens" in found and kinds[found["tokens"]] == "words"
        if "tokens" in named or (has_words and "text" not in named):
            marks = {"tags", "spans"} & named.keys() or {"tags", "spans"} & found.keys()
            if len(marks) != 1:
                what = "both tags and spans are there" if marks else "neither tags nor spans are there"
                raise UsageError(
                    f"{name}: {what}, in the columns {_list(there)}; say where the entities are, as "
                    'columns={"tags": "my_tags"} or columns={"spans": "my_spans"}'
                )
            return {part: found[part] for part in ("tokens", *marks, *_OPTIONAL) if part in found}
        spans = named.get("spans") or next((key for key in json_text.SPAN_KEYS if key in there), None)
        if "text" not in found or spans is None:
            raise UsageError(
                f"{name}: no sentences are found in the columns {_list(there)}; needed are words "
                f"({_list(COLUMNS['tokens'])}) with tags ({_list(COLUMNS['tags'])}) or spans "
                f"({_list(COLUMNS['spans'])}), or text with spans; name them with columns, as "
                'columns={"tokens": "my_words", "tags": "my_tags"}'
            )
        wanted = {"text", "id", "doc"} if has_words else {"text", "id", "doc", "tokens"}
        return {part: column for part, column in found.items() if part in wanted} | {"spans": spans}


class _RowInput(Input):
    """Rows are counted from 0, as in `dataset[0]`, and lines from 1."""

    def position(self, line: int) -> str:
        return f"row {line - 1}"

    def place(self, line: int | None) -> str:
        return self.name if line is None else f"{self.name}, {self.position(line)}"


def _kind_of_tokens(value: Any, feature: Any) -> str | None:
    """Return whether a column with this value has words, or objects with their offsets (None: neither)."""
    if value is None:
        return None if getattr(feature, "dtype", None) in ("string", "large_string") else "words"
    if isinstance(value, Mapping):
        return "objects" if all(map(_is_list, value.values())) else None
    if not _is_list(value):
        return None
    return "objects" if any(isinstance(item, Mapping) for item in value) else "words"


def _is_list(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)


def _list(names: list[str] | tuple[str, ...]) -> str:
    return ", ".join(map(repr, names[:12])) + (" and others" if len(names) > 12 else "")


_OPTIONS = (
    (r"--ends (inclusive|exclusive)", r'options=ReadOptions(ends="\1")'),
    (r"--ends", "options=ReadOptions(ends=...)"),
    (r"--no-check-text", "options=ReadOptions(check_text=False)"),
    (r"--keep-rejected", "options=ReadOptions(keep_rejected=True)"),
    (r"--resume", "resume=True"),
    (r"--dev\b(?!-)", "dev"),
)


def in_python(message: str) -> str:
    """Return a message with the options of the command line as arguments in Python."""
    for option, argument in _OPTIONS:
        message = re.sub(option, argument, message)
    return message
