"""Read and write Excel workbooks (`.xlsx`): the first row of the first sheet has the names of the columns."""

from __future__ import annotations

import datetime as dt
import io
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import IO, Any, BinaryIO
from xml.sax.saxutils import escape

from fencepost.data.formats.json_records import Record
from fencepost.data.source import STREAM_BYTES, Source
from fencepost.errors import DataError, describe_error, quote, require_extra

CELL_CHARACTERS = 32767  # maximum in Excel
_UNPACKED = 1 << 30  # bytes; all strings of a workbook are in memory


class Workbook:
    """The first sheet of a workbook: its header (empty if the sheet is empty), and its rows."""

    def __init__(self, source: Source) -> None:
        with require_extra("tables", f"{source.name}: reading Excel workbooks"):
            import openpyxl  # type: ignore[import-untyped]
        path, stack = source.path, ExitStack()
        self.close = stack.close
        try:
            file: Any = (
                stack.enter_context(path.open("rb")) if path else io.BytesIO(source.read_all(STREAM_BYTES))
            )
            _check_size(file, source.name)
            self._book = openpyxl.load_workbook(file, read_only=True, data_only=True)
            sheets = self._book.worksheets
            self._rows = enumerate(sheets[0].iter_rows(values_only=True) if sheets else (), start=1)
            names: Iterable[Any] = next((row for _, row in self._rows if _has_value(row)), ())
        except Exception as error:  # openpyxl may raise anything
            stack.close()
            if isinstance(error, DataError):
                raise
            reason = f"the workbook cannot be read: {describe_error(error)}"
            raise DataError(reason, source=source.name) from None
        self.header = ["" if name is None else str(name) for name in names]
        self._name = source.name
        if len(sheets) > 1:
            source.note(f"only the first of {len(sheets)} sheets is read, {quote(sheets[0].title)}")

    def find_repeated(self) -> list[str]:
        """Return the names that are empty or that several columns have; these are not in the records."""
        return sorted({name for name in self.header if self.header.count(name) > 1 or not name})

    def read_rows(self) -> Iterator[Record]:
        """Yield the rows as objects, from the names in the header to the values; empty cells are ""."""
        repeated = set(self.find_repeated())
        try:
            for line, row in self._rows:
                if _has_value(row):
                    pairs = zip(self.header, map(_to_plain, row), strict=False)
                    yield Record(line, "", {name: value for name, value in pairs if name not in repeated})
        except Exception as error:  # noqa: BLE001
            reason = f"the rest of the workbook cannot be read: {describe_error(error)}"
            raise DataError(reason, source=self._name) from None


def _check_size(file: IO[bytes], name: str) -> None:
    with zipfile.ZipFile(file) as archive:
        size = sum(entry.file_size for entry in archive.infolist())
    if size > _UNPACKED:
        raise DataError(f"larger than {_UNPACKED >> 20:,} MB when unpacked; save it as CSV", source=name)


def _has_value(row: Iterable[Any]) -> bool:
    return any(value is not None for value in row)


def _to_plain(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    return value if isinstance(value, str | int | float) else str(value)


def write_workbook(rows: Iterable[Iterable[str]], stream: BinaryIO) -> None:
    """Write rows of texts, with the header first; no text becomes a formula."""
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in _PARTS.items():
            archive.writestr(_make_entry(name), _XML + content)
        with archive.open(_make_entry("xl/worksheets/sheet1.xml"), "w", force_zip64=True) as sheet:
            sheet.write(f'{_XML}<worksheet xmlns="{_MAIN}"><sheetData>'.encode())
            for row in rows:
                cells = (
                    f'<c t="inlineStr"><is><t xml:space="preserve">{escape(text)}</t></is></c>'
                    for text in row
                )
                sheet.write(f"<row>{''.join(cells)}</row>".encode())
            sheet.write(b"</sheetData></worksheet>")


def _make_entry(name: str) -> zipfile.ZipInfo:
    """Return the entry of a part of the archive, without a time so that the output is reproducible."""
    entry = zipfile.ZipInfo(name)
    entry.compress_type = zipfile.ZIP_DEFLATED
    return entry


_XML = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>'
_SCHEMAS = "http://schemas.openxmlformats.org"
_MAIN, _RELATED = f"{_SCHEMAS}/spreadsheetml/2006/main", f"{_SCHEMAS}/officeDocument/2006/relationships"
_TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml"
_PARTS = {
    "[Content_Types].xml": f'<Types xmlns="{_SCHEMAS}/package/2006/content-types">'
    '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    f'<Override PartName="/xl/workbook.xml" ContentType="{_TYPE}.sheet.main+xml"/>'
    f'<Override PartName="/xl/worksheets/sheet1.xml" ContentType="{_TYPE}.worksheet+xml"/></Types>',
    "_rels/.rels": f'<Relationships xmlns="{_SCHEMAS}/package/2006/relationships">'
    f'<Relationship Id="r1" Type="{_RELATED}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
    "xl/workbook.xml": f'<workbook xmlns="{_MAIN}" xmlns:r="{_RELATED}"><sheets>'
    '<sheet name="sentences" sheetId="1" r:id="r1"/></sheets></workbook>',
    "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{_SCHEMAS}/package/2006/relationships">'
    f'<Relationship Id="r1" Type="{_RELATED}/worksheet" Target="worksheets/sheet1.xml"/></Relationships>',
}
"""Parts of a workbook with one sheet, except the sheet."""
