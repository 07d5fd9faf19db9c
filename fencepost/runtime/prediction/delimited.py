"""Texts in CSV and TSV: a header, a column with the texts, and other columns that go to the output.

The delimiter (comma, semicolon or tab) is the one by which the header has the column of the texts. Fields may
be quoted and contain line ends; rows are read one by one, so memory does not depend on the size of the file.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence

from fencepost.data.formats.json_records import Record
from fencepost.data.source import BYTE_ORDER_MARK, LINE_BYTES, Source
from fencepost.errors import DataError, describe_error, quote, shorten


def records(source: Source, column: str) -> Iterator[Record]:
    """Yield the rows as objects from the names in the header to the fields; `line` is where a row begins.

    Raises `DataError` unless the header has exactly one such column, and for a row of more than `LINE_BYTES`.
    A row that cannot be read has a `problem`.
    """
    lines = _Lines(source)
    delimiter = _delimiter(source, column)
    csv.field_size_limit(max(csv.field_size_limit(), LINE_BYTES))  # `lines` limits whole rows
    rows = csv.reader(lines, delimiter=delimiter, strict=True)
    try:
        header = next((row for row in rows if row), None)
    except csv.Error as error:
        raise DataError(f"not a header of CSV: {describe_error(error)}", source=source.name) from None
    if header is None:
        return
    _check_header(header, column, source)
    unique = {name for name in header if header.count(name) == 1}
    while True:
        lines.start_row()
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            reason = f"not a row of CSV, up to line {lines.number:,}: {describe_error(error)}"
            yield Record(lines.first, "".join(lines.row), {}, reason)
            continue
        if not row:
            continue
        problem, fields = lines.problem, {}
        if len(row) != len(header):
            wanted = f"{len(header)}, separated by {quote(delimiter)}"
            problem = f"{len(row)} fields where the first line has {wanted}"
        elif not problem:
            fields = {name: field for name, field in zip(header, row, strict=True) if name in unique}
        yield Record(lines.first, "".join(lines.row), fields, problem)


def _check_header(header: Sequence[str], column: str, source: Source) -> None:
    if header.count(column) != 1:
        names = shorten(", ".join(map(quote, header)))
        raise DataError(
            f"there must be one column {quote(column)} in the first line, whose columns are {names}; "
            "name another one with --text-column",
            source=source.name,
        )
    for name in sorted({name for name in header if header.count(name) > 1}):
        source.note(f"columns with the same name are not in the output: {quote(name)}")


def _delimiter(source: Source, column: str) -> str:
    """Return the delimiter by which the header has the column, or else the most columns."""
    head = source.head.removeprefix(BYTE_ORDER_MARK).decode("utf-8", "replace")

    def rank(delimiter: str) -> tuple[bool, int]:
        try:
            rows = csv.reader(io.StringIO(head, newline=""), delimiter=delimiter)
            header = next((row for row in rows if row), [])
        except csv.Error:
            header = []
        return column in header, len(header)

    return max(",;\t", key=rank)


class _Lines:
    """The lines of a source for the `csv` module; `row` has those of the row that is being read."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.number = 0
        self.start_row()

    def start_row(self) -> None:
        self.row: list[str] = []
        self.first = self.number + 1
        self.problem: str | None = None
        self._characters = 0

    def __iter__(self) -> Iterator[str]:
        for raw in self._source.raw_lines():
            self.number += 1
            try:
                text = raw.decode("utf-8")
            except UnicodeDecodeError as error:
                self.problem = f"not UTF-8 at byte {error.start + 1} of the line"
                text = raw.decode("utf-8", "backslashreplace")
            self.row.append(text)
            self._characters += len(text)
            if self._characters > LINE_BYTES:
                reason = f"a row of over {LINE_BYTES >> 20} MB; is the end of a quotation missing?"
                raise DataError(reason, source=self._source.name, line=self.first)
            yield text
