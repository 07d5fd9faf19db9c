"""Read a corpus in any format, sentence by sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from fencepost.data.entity import Sentence
from fencepost.data.formats.format import Format, ReadOptions
from fencepost.data.formats.registry import detect_format, detect_table, format_by_name
from fencepost.data.formats.tables import CSV, PARQUET, XLSX
from fencepost.data.rows import Rows
from fencepost.data.source import Note, ReadSentence, Rejection, Source
from fencepost.errors import DataError, FencepostError, UsageError

OnInvalid = Callable[[Rejection], None]


class Reader:
    """An iterable over the sentences of a file, which also collects notes on problems in it.

    An invalid sentence raises a `DataError`, unless there is an `on_invalid`, which is called with it;
    reading then continues. The file is read lazily and only once. It is closed at its end; to close it
    earlier, use the reader as a context manager (`with Reader(path) as reader`).
    """

    def __init__(
        self,
        path: str | Path,
        format: str | None = None,  # noqa: A002 - the word that users know
        options: ReadOptions | None = None,
        on_invalid: OnInvalid | None = None,
    ) -> None:
        named = format_by_name(format) if format else None
        self.options = options or ReadOptions()
        if self.options.columns and named and named not in (CSV, XLSX, PARQUET):
            raise UsageError(f"--columns works with JSON, CSV, Excel and Parquet, not with {named.name}")
        self.source = Source.open(path)
        self.on_invalid = on_invalid
        detect = detect_table if self.options.columns else detect_format
        try:
            self.format: Format = named or detect(self.source)
        except FencepostError:
            self.source.close()
            raise
        self.line = 0  # line of the sentence that was yielded last
        self.file = self.source.name  # file of that sentence; a corpus may have several files
        self._is_used = False
        self.sentences = 0
        self.invalid = 0

    @property
    def place(self) -> str:
        """File and line of the last sentence."""
        return f"{self.file}:{self.line}" if self.line else self.file

    @property
    def notes(self) -> list[Note]:
        return list(self.source.notes.values())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.source.close()

    def __iter__(self) -> Iterator[Sentence]:
        if self._is_used:
            raise UsageError(f"{self.source.name}: a Reader can read its file only once; create another one")
        self._is_used = True
        try:
            for reading in self.format.read(self.source, self.options):
                if isinstance(reading, ReadSentence):
                    self.line, self.file = reading.line, reading.file or self.source.name
                    self.sentences += 1
                    yield reading.sentence
                else:
                    self._reject(reading)
        finally:
            self.source.close()
        if not self.sentences and not self.invalid:
            self.source.note("no sentence in the file")

    def _reject(self, rejected: Rejection) -> None:
        self.invalid += 1
        if self.on_invalid is None:
            place = rejected.file or self.source.name
            raise DataError(rejected.reason, source=place, line=rejected.line or None)
        self.on_invalid(rejected)


def read(
    path: str | Path | Iterable[Mapping[str, Any]],
    format: str | None = None,  # noqa: A002
    options: ReadOptions | None = None,
    on_invalid: OnInvalid | None = None,
) -> Iterator[Sentence]:
    """Yield the sentences of a corpus; by default, the format is detected from the content.

    Instead of a file, `path` may be a data frame of pandas or polars, or the rows of a data set.
    `on_invalid` is called with each invalid part of the file, which is then skipped; without it, the first
    one raises a `DataError`.
    """
    if isinstance(path, str | Path):
        return iter(Reader(path, format, options, on_invalid))
    if not hasattr(path, "to_batches") and not isinstance(path, Iterable):  # a table of Arrow is no iterable
        raise UsageError(f"path must be a file, a data frame or rows, not {type(path).__name__}")
    return iter(Rows(path, None, options, name="the data", on_invalid=on_invalid))
