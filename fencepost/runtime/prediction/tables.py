"""Output of predicted texts as a table with a row for each text: CSV, an Excel workbook or Parquet.

The columns are those of the input, the text and its entities. In CSV and Excel, entities and values that are
lists or objects are JSON. The first texts determine the columns, and their types in Parquet.
"""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO

from fencepost.data.formats.workbook import CELL_CHARACTERS, write_workbook
from fencepost.data.output import whole_file
from fencepost.errors import require_extra
from fencepost.runtime.prediction.html import write_html
from fencepost.runtime.prediction.results import PredictedText

_HEAD = 1000  # number of texts that determine the columns
_CONTROL = {code: None for code in range(32) if chr(code) not in "\t\n"} | {0xFFFE: None, 0xFFFF: None}

Record = dict[str, Any]
Losses = Counter[str]
"""Number of values that could not be written, by description."""


def write_table(predicted: Iterable[PredictedText], path: Path | None, kind: str) -> Losses:
    """Write csv, xlsx, parquet or html to a file or standard output (None); return what was not written."""
    losses: Losses = Counter()
    with whole_file(path) as stream:
        if kind == "html":
            write_html(predicted, stream)
            return losses
        records = (one.to_record() for one in predicted)
        head = list(islice(records, _HEAD))
        columns = list(dict.fromkeys(key for record in head for key in record)) or ["text", "entities"]
        columns = [*(name for name in columns if name not in ("text", "entities")), "text", "entities"]
        rows = _fit(chain(head, records), columns, losses)
        _WRITERS[kind](rows, columns, head, stream, losses)
    return losses


def _fit(records: Iterable[Record], columns: list[str], losses: Losses) -> Iterator[Record]:
    """Yield the records with these columns; count values without a column."""
    known = set(columns)
    for record in records:
        losses.update(f"values of {name!r}, absent from the first texts" for name in record.keys() - known)
        yield {name: record.get(name) for name in columns}


def _write_csv(
    rows: Iterable[Record], columns: list[str], _: list[Record], stream: BinaryIO, __: Losses
) -> None:
    text = io.TextIOWrapper(stream, encoding="utf-8", newline="", write_through=True)
    writer = csv.writer(text)
    writer.writerow(columns)
    writer.writerows(map(_format_row, rows))
    text.detach()


def _write_xlsx(
    rows: Iterable[Record], columns: list[str], _: list[Record], stream: BinaryIO, losses: Losses
) -> None:
    def fit(cell: str) -> str:
        shortened = cell.translate(_CONTROL)[:CELL_CHARACTERS]
        losses["texts that Excel does not allow (too long, or control characters)"] += shortened != cell
        return shortened

    write_workbook(chain([columns], ([fit(cell) for cell in _format_row(row)] for row in rows)), stream)


def _format_row(row: Record) -> list[str]:
    return [_format_cell(value) for value in row.values()]


def _format_cell(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False)


def _write_parquet(
    rows: Iterable[Record], columns: list[str], head: list[Record], stream: BinaryIO, losses: Losses
) -> None:
    with require_extra("tables", "writing Parquet"):
        import pyarrow as pa  # type: ignore[import-untyped]
        from pyarrow import parquet
    number, text = pa.int64(), pa.string()
    entity = [("start", number), ("end", number), ("type", text), ("score", pa.float64()), ("text", text)]
    fixed = {"text": text, "entities": pa.list_(pa.struct(entity))}

    def infer_type(name: str) -> Any:
        try:
            kind = pa.infer_type([record.get(name) for record in head])
        except pa.ArrowException:  # values of several types
            return text
        return text if pa.types.is_null(kind) else kind

    schema = pa.schema([(name, fixed.get(name) or infer_type(name)) for name in columns])

    def make_column(name: str, values: list[Any]) -> Any:
        kind = schema.field(name).type
        try:
            return pa.array(values, kind)
        except (pa.ArrowException, OverflowError):
            fitting = [value if _fits(pa, value, kind) else None for value in values]
        if kind == text:
            return pa.array([None if value is None else _format_cell(value) for value in values], text)
        losses[f"values of {name!r} that have another type than the first ones"] += sum(
            one is None is not value for one, value in zip(fitting, values, strict=True)
        )
        return pa.array(fitting, kind)

    rows = iter(rows)
    with parquet.ParquetWriter(stream, schema) as writer:
        while batch := list(islice(rows, _HEAD)):
            arrays = [make_column(name, [row[name] for row in batch]) for name in columns]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))


def _fits(pa: Any, value: Any, kind: Any) -> bool:
    try:
        pa.array([value], kind)
    except (pa.ArrowException, OverflowError):
        return False
    return True


_WRITERS: dict[str, Callable[[Iterable[Record], list[str], list[Record], BinaryIO, Losses], None]] = {
    "csv": _write_csv,
    "xlsx": _write_xlsx,
    "parquet": _write_parquet,
}
