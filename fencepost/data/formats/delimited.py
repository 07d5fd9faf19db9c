"""Rows of CSV and TSV: a header with the names of the columns, then a row for each record.

The delimiter (comma, semicolon or tab) is the one by which the header has most of the wanted columns. Fields
may be quoted and contain line ends; rows are read one by one, in bounded memory.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterator

from fencepost.data.formats.json_records import Record
from fencepost.data.source import BYTE_ORDER_MARK, LINE_BYTES, Source
from fencepost.errors import DataError, describe_error, quote

_DELIMITERS = ",;\t"


class Delimited:
    """The header of a file (empty if there is none), and its rows."""

    def __init__(self, source: Source, wanted: Collection[str]) -> None:
        """Read the header; raises `DataError` if the first row is none."""
        self.delimiter, _ = find_header(source, wanted)
        csv.field_size_limit(max(csv.field_size_limit(), LINE_BYTES))  # `lines` limits whole rows
        self._lines = _Lines(source)
        self._rows = csv.reader(self._lines, delimiter=self.delimiter, strict=True)
        try:
            self.header = next((row for row in self._rows if row), [])
        except csv.Error as error:
            raise DataError(f"not a header of CSV: {describe_error(error)}", source=source.name) from None

    def close(self) -> None:
        """Do nothing: who has opened the source closes it."""

    def repeated(self) -> list[str]:
        """Return the names that several columns have; those are not in the records."""
        return sorted({name for name in self.header if self.header.count(name) > 1})

    def records(self) -> Iterator[Record]:
        """Yield the rows as objects from the names in the header to the fields; `line` is where a row begins.

        A row that cannot be read has a `problem`. Raises `DataError` for a row of more than `LINE_BYTES`.
        """
        repeated = set(self.repeated())
        lines = self._lines
        while True:
            lines.start_row()
            try:
                row = next(self._rows)
            except StopIteration:
                return
            except csv.Error as error:
                reason = f"not a row of CSV, up to line {lines.number:,}: {describe_error(error)}"
                yield Record(lines.first, "".join(lines.row), {}, reason)
                continue
            if not row:
                continue
            problem, fields = lines.problem, {}
            if len(row) != len(self.header):
                wanted = f"{len(self.header)}, separated by {quote(self.delimiter)}"
                problem = f"{len(row)} fields where the first line has {wanted}"
            elif not problem:
                pairs = zip(self.header, row, strict=True)
                fields = {name: field for name, field in pairs if name not in repeated}
            yield Record(lines.first, "".join(lines.row), fields, problem)


def find_header(source: Source, wanted: Collection[str]) -> tuple[str, list[str]]:
    """Return the delimiter by which the first row has most wanted columns, or most columns; and the row."""
    head = source.head.removeprefix(BYTE_ORDER_MARK).decode("utf-8", "replace")
    headers = {}
    for delimiter in _DELIMITERS:
        rows = csv.reader(io.StringIO(head, newline=""), delimiter=delimiter)
        try:
            headers[delimiter] = next((row for row in rows if row), [])
        except csv.Error:
            headers[delimiter] = []
    known = {name.casefold() for name in wanted}

    def rank(delimiter: str) -> tuple[int, int]:
        names = headers[delimiter]
        return sum(name.casefold() in known for name in names), len(names)

    best = max(_DELIMITERS, key=rank)
    return best, headers[best]


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
