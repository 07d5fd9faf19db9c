"""Read sentences from rows that are dictionaries, such as those of a Hugging Face data set.

A row is read like an object of a JSON file: words with spans, or raw text with spans by character. Words may
also have tags. The names of classes come from the features of the data set.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain, count
from typing import Any

from fencepost.data.columns import COLUMN_PARTS, SPAN_KEYS
from fencepost.data.entity import Sentence
from fencepost.data.formats.format import ReadOptions
from fencepost.data.formats.json_records import Record
from fencepost.data.layouts import read_records
from fencepost.data.source import Input, Note, ReadSentence, Rejection
from fencepost.errors import DataError, UsageError, quote


def sentences(
    rows: Iterable[Mapping[str, Any]],
    columns: Mapping[str, str] | None = None,
    options: ReadOptions | None = None,
    *,
    name: str = "the data set",
) -> Iterator[Sentence]:
    """Yield the sentences of a data set; `columns` names those of their parts: `{"tags": "fine_tags"}`."""
    return iter(Rows(rows, columns, options, name=name))


class Rows:
    """An iterable over the sentences of a data set, which also collects notes on problems in it.

    An invalid row raises a `DataError`, unless there is an `on_invalid`, which is called with it; reading
    then continues.
    """

    def __init__(
        self,
        rows: Iterable[Mapping[str, Any]],
        columns: Mapping[str, str] | None = None,
        options: ReadOptions | None = None,
        *,
        name: str = "the data set",
        on_invalid: Callable[[Rejection], None] | None = None,
    ) -> None:
        options = options or ReadOptions()
        self.options = options if columns is None else replace(options, columns=columns)
        self.on_invalid = on_invalid
        self._rows = rows
        self._input = _RowInput(name)

    @property
    def notes(self) -> list[Note]:
        return [replace(note, kind=use_python_names(note.kind)) for note in self._input.notes.values()]

    def __iter__(self) -> Iterator[Sentence]:
        self._input.notes.clear()
        rows, is_frame = _iterate(self._rows)
        features = getattr(rows, "features", None) or {}
        columns: list[str] | None = None
        if hasattr(rows, "with_format") and (getattr(rows, "format", None) or {}).get("type") != "custom":
            rows, columns = self._select(rows)  # rows of a "custom" format come from a function of the user
        stream = iter(rows)
        first = next(stream, None)
        if first is None:
            return
        if not isinstance(first, Mapping):
            raise DataError(f"a row must be a dict, not {type(first).__name__}", source=self._input.place(1))
        records = map(_to_record, count(1), chain([first], stream))
        try:
            for reading in read_records(
                records, self._input, self.options, columns or list(first), features, gaps=is_frame
            ):
                if isinstance(reading, ReadSentence):
                    yield reading.sentence
                elif self.on_invalid is not None:
                    self.on_invalid(replace(reading, reason=use_python_names(reading.reason)))
                else:
                    raise DataError(reading.reason, source=self._input.name, line=reading.line)
        except DataError as error:
            place = self._input.place(error.line)
            raise DataError(use_python_names(error.message), source=place) from None
        except UsageError as error:
            raise UsageError(use_python_names(str(error))) from None

    def _select(self, rows: Any) -> tuple[Any, list[str] | None]:
        """Return the data set with Python values and only the columns that are read, and all its columns."""
        rows = rows.with_format(None)
        named = (self.options.columns or {}).values()
        known = {*chain(*COLUMN_PARTS.values()), *SPAN_KEYS, "word", "token", "tag", "answer"}
        names = [name for name in rows.column_names or () if name in named or name.casefold() in known]
        return rows.select_columns(names) if names else rows, rows.column_names


def _to_record(line: int, row: Any) -> Record:
    if isinstance(row, Mapping):
        return Record(line, "", row)  # type: ignore[arg-type]
    return Record(line, quote(row), {}, f"a row must be a dict, not {type(row).__name__}")


def _iterate(data: Any) -> tuple[Any, bool]:
    """Return the rows, and whether the data are a data frame of pandas or polars, or a table of Arrow."""
    if hasattr(data, "iter_rows"):
        return data.iter_rows(named=True), True
    if hasattr(data, "itertuples"):
        rows = data.itertuples(index=False, name=None)
        return (dict(zip(map(str, data.columns), row, strict=True)) for row in rows), True
    if hasattr(data, "to_batches"):
        return (row for batch in data.to_batches() for row in batch.to_pylist()), True
    return data, False


class _RowInput(Input):
    """An input whose lines are rows, counted from 0 in messages as in `dataset[0]`."""

    def describe_position(self, line: int) -> str:
        return f"row {line - 1}"

    def place(self, line: int | None) -> str:
        return self.name if line is None else f"{self.name}, {self.describe_position(line)}"


_OPTIONS = (
    (
        r"--columns (\S*\w)",
        lambda match: f"columns={json.dumps(dict(p.split('=', 1) for p in match[1].split(',')))}",
    ),
    (r"--ends (inclusive|exclusive)", r'options=ReadOptions(ends="\1")'),
    (r"--ends", "options=ReadOptions(ends=...)"),
    (r"--no-check-text", "options=ReadOptions(check_text=False)"),
    (r"--keep-rejected", "options=ReadOptions(keep_rejected=True)"),
    (r"--resume", "resume=True"),
    (r"--dev\b(?!-)", "dev"),
)


def use_python_names(message: str) -> str:
    """Return a message in which arguments of Python replace the options of the command line."""
    for option, argument in _OPTIONS:
        message = re.sub(option, argument, message)
    return message
