"""Read the rows of Parquet files in bounded memory."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from fencepost.data.formats.json_fields import is_json
from fencepost.data.formats.json_records import Record
from fencepost.errors import DataError, describe_error, quote, require_extra, shorten

if TYPE_CHECKING:
    from fencepost.data.source import Source

_BATCH = 1024  # rows that are in memory at once
_NOT_JSON = "what JSON cannot represent is not in the output"


def is_parquet(head: bytes) -> bool:
    return head.startswith(b"PAR1")


class ParquetTable:
    """A Parquet file with the columns `names` that can be read; reading rows in order is fast.

    If `column` is given, it must be a column of texts.
    """

    def __init__(self, path: Path | BinaryIO, name: str, column: str | None = None) -> None:
        with require_extra("tables", f"{name}: reading Parquet"):
            from pyarrow import ArrowException, parquet  # type: ignore[import-untyped]
        self.name = name
        self.column = column
        self._errors = (ArrowException, OSError, ValueError, OverflowError)
        try:
            self._file = parquet.ParquetFile(path)
        except self._errors as error:
            raise DataError(
                f"the Parquet file cannot be read: {describe_error(error)}", source=name
            ) from None
        metadata = self._file.metadata
        sizes = (metadata.row_group(number).num_rows for number in range(metadata.num_row_groups))
        self._groups = list(accumulate(sizes, initial=0))  # the first row of each, and the end
        self.rows = self._groups[-1]
        self._batches: Iterator[Any] = iter(())
        self._batch: Any = None
        self._start = self._end = 0  # the rows of the current batch
        if column is not None:
            self._check_text(column)
        self.names, self._notes = _choose(self._file.schema_arrow)

    def close(self) -> None:
        self._file.close()

    def _check_text(self, column: str) -> None:
        from pyarrow import types

        columns = self._file.schema_arrow
        if columns.names.count(column) != 1:
            names = shorten(", ".join(columns.names))
            raise DataError(
                f"there must be one column {quote(column)}; the columns are {names}; name another one "
                "with --text-column",
                source=self.name,
            )
        kind = columns.field(column).type
        kind = kind.value_type if types.is_dictionary(kind) else kind
        if not any(fits(kind) for fits in (types.is_string, types.is_large_string, types.is_string_view)):
            raise DataError(f"the column {quote(column)} is {kind}, not string", source=self.name)

    def read_rows(self, first: int, end: int, source: Source | None = None) -> Iterator[Record]:
        """Yield the rows `[first, end)` as objects; the source notes values that JSON cannot represent."""
        if source:
            for note in self._notes:
                source.note(note)
        try:
            while first < end:
                self._seek(first)
                for row in self._batch.slice(first - self._start, end - first).to_pylist():
                    first += 1
                    unfit = [key for key, value in row.items() if not is_json({key: value})]
                    for key in unfit:
                        del row[key]
                        if source:
                            source.note(f"{_NOT_JSON}: column {key!r}", first)
                    yield Record(first, "", row)
        except self._errors as error:
            message = f"this row, or one close after it, cannot be read: {describe_error(error)}"
            raise DataError(message, source=self.name, line=first + 1) from None

    def _seek(self, row: int) -> None:
        """Make the batch with this row the current one."""
        group = bisect_right(self._groups, row) - 1
        if row < self._start or self._groups[group] > self._end or self._batch is None:
            groups = list(range(group, len(self._groups) - 1))
            self._batches = self._file.iter_batches(_BATCH, row_groups=groups, columns=self.names)
            self._end = self._groups[group]
            self._advance()
        while row >= self._end:
            self._advance()

    def _advance(self) -> None:
        self._batch = next(self._batches).select(self.names)  # column `a` also matches `a.b`
        self._start, self._end = self._end, self._end + self._batch.num_rows


def _choose(columns: Any) -> tuple[list[str], list[str]]:
    """Return the names of the columns that can be read, and notes on the others."""
    names: list[str] = []
    notes: dict[str, None] = {}  # each once, in order
    for column in columns:
        if columns.names.count(column.name) > 1:
            notes[f"columns with the same name are not in the output: {column.name!r}"] = None
        elif not _fits_json(column.type):
            kind = f"column {column.name!r} ({column.type})"
            notes[f"{_NOT_JSON}: {kind}"] = None
        else:
            names.append(column.name)
    return names, list(notes)


def _fits_json(kind: Any) -> bool:
    """Return whether JSON can represent values of this type, including nested types."""
    from pyarrow import types

    if types.is_dictionary(kind):
        return _fits_json(kind.value_type)
    if types.is_nested(kind):
        return all(_fits_json(kind.field(number).type) for number in range(kind.num_fields))
    unfit = (
        types.is_temporal,  # including durations
        types.is_decimal,
        types.is_binary,
        types.is_large_binary,
        types.is_binary_view,
        types.is_fixed_size_binary,
    )
    return not any(is_kind(kind) for is_kind in unfit)
