"""Read CSV and TSV: a header with the names of the columns, then a row for each record.

The delimiter (comma, semicolon or tab) is the one with which the header has most of the expected columns.
Fields may be quoted and contain line ends; rows are read one by one, in bounded memory.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterator

from fencepost.data.formats.json_records import Record
from fencepost.data.source import BYTE_ORDER_MARK, LINE_BYTES, Source
from fencepost.errors import DataError, describe_error, quote

_DELIMITERS = ",;\t"


class DelimitedTable:
    """A CSV file: its header (empty if the file is empty), and its rows."""

    def __init__(self, source: Source, columns: Collection[str]) -> None:
        """Read the header, which has some of `columns`; raises `DataError` if it is not valid CSV."""
        self.delimiter, _ = find_header(source, columns)
        csv.field_size_limit(max(csv.field_size_limit(), LINE_BYTES))  # `_Lines` limits whole rows
        self._lines = _Lines(source)
        self._rows = csv.reader(self._lines, delimiter=self.delimiter, strict=True)
        try:
            self.header = next((row for row in self._rows if row), [])
        except csv.Error as error:
            raise DataError(f"the header is not CSV: {describe_error(error)}", source=source.name) from None

    def close(self) -> None:
        """Do nothing: the caller closes the source."""

    def find_repeated(self) -> list[str]:
        """Return the names that several columns have; these columns are not in the records."""
        return sorted({name for name in self.header if self.header.count(name) > 1})

    def read_rows(self) -> Iterator[Record]:
        """Yield the rows as objects, from the names in the header to the fields.

        An invalid row has a `problem`. Raises `DataError` for a row of more than `LINE_BYTES`.
        """
        repeated = set(self.find_repeated())
        lines = self._lines
        while True:
            lines.start_row()
            try:
                row = next(self._rows)
            except StopIteration:
                return
            except csv.Error as error:
                reason = f"the row, up to line {lines.number:,}, is not CSV: {describe_error(error)}"
                yield Record(lines.first, "".join(lines.row), {}, reason)
                continue
            if not row:
                continue
            problem, fields = lines.problem, {}
            if len(row) != len(self.header):
                expected = f"{len(self.header)}, separated by {quote(self.delimiter)}"
                problem = f"the row has {len(row)} fields, but the header has {expected}"
            elif not problem:
                pairs = zip(self.header, row, strict=True)
                fields = {name: field for name, field in pairs if name not in repeated}
            yield Record(lines.first, "".join(lines.row), fields, problem)


def find_header(source: Source, columns: Collection[str]) -> tuple[str, list[str]]:
    """Return the first row and its delimiter: the one with most of `columns`, or else with most columns."""
    head = source.head.removeprefix(BYTE_ORDER_MARK).decode("utf-8", "replace")
    headers = {}
    for delimiter in _DELIMITERS:
        rows = csv.reader(io.StringIO(head, newline=""), delimiter=delimiter)
        try:
            headers[delimiter] = next((row for row in rows if row), [])
        except csv.Error:
            headers[delimiter] = []
    known = {name.casefold() for name in columns}

    def rank(delimiter: str) -> tuple[int, int]:
        names = headers[delimiter]
        return sum(name.casefold() in known for name in names), len(names)

    best = max(_DELIMITERS, key=rank)
    return best, headers[best]


class _Lines:
    """Lines of a source for the `csv` module; `row` has those of the current row."""

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
        for line in self._source.read_lines(keep_ends=True):
            self.number = line.number
            self.problem = line.problem or self.problem
            self.row.append(line.text)
            self._characters += len(line.text)
            if self._characters > LINE_BYTES:
                reason = f"the row is longer than {LINE_BYTES >> 20} MB; is a closing quotation mark missing?"
                raise DataError(reason, source=self._source.name, line=self.first)
            yield line.text
