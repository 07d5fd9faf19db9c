"""Splitting of files of texts into parts that processes can predict independently of each other.

A part has the texts of one chunk (see `fencepost.runtime.chunks`), so that its output is the same as that of
a process that reads the whole file. It is identified by its position in the file: bytes, or rows of Parquet.
"""

from __future__ import annotations

import glob
import hashlib
import io
import os
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from io import BufferedIOBase
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, BinaryIO

from fencepost.data.formats.format import ReadOptions
from fencepost.data.formats.json_records import is_array
from fencepost.data.formats.parquet import ParquetTable
from fencepost.data.source import BYTE_ORDER_MARK, SAMPLE, STANDARD_INPUT, Source
from fencepost.errors import DataError, UsageError
from fencepost.runtime.chunks import chunk_texts
from fencepost.runtime.prediction.kinds import CSV, JSON_TEXT, PARQUET, PLAIN_TEXT
from fencepost.runtime.prediction.text import TEXT, Text
from fencepost.runtime.prediction.texts import Texts, read_rows, read_texts


@dataclass(frozen=True, slots=True)
class ShardPart:
    """The `texts` texts between two positions in a file."""

    start: int
    end: int
    texts: int


@dataclass(frozen=True, slots=True)
class File:
    """A file at the time it was split: its kind (text, json or parquet) and its size in bytes."""

    path: str
    kind: str
    size: int
    text_column: str = TEXT


@dataclass(frozen=True, slots=True)
class Shard:
    """A file of texts and its parts in order; `name` is as the user gives it."""

    name: str
    file: File
    sha256: str
    parts: Sequence[ShardPart]

    @property
    def texts(self) -> int:
        return sum(part.texts for part in self.parts)

    def to_record(self, rejected: int) -> dict[str, Any]:
        """Return the description of the input in a job; `rejected` is the number of invalid texts."""
        return {
            "input": self.name,
            "format": self.file.kind,
            "input_bytes": self.file.size,
            "input_sha256": self.sha256,
            "parts": len(self.parts),
            "rejected": rejected,
        }


def find_files(name: str) -> list[Path]:
    """Return the files of `--input`, sorted: one file, those in a folder, or those that match a pattern."""
    if not name:
        raise UsageError("--input: the file name is empty")
    if name == STANDARD_INPUT or name.startswith(SAMPLE):
        raise UsageError(f"--input {name}: several processes need files; give a file, a folder or a pattern")
    path = Path(name)
    if path.is_file():
        return [path]
    if path.is_dir():
        paths: Iterable[Path] = path.iterdir()
    elif any(sign in name for sign in "*?["):
        paths = map(Path, glob.glob(name, recursive=True))  # noqa: PTH207 - a pattern may be absolute
    else:
        raise UsageError(f"{name}: there is no such file or folder")
    # other tools write files with names like `.crc` and `_SUCCESS` beside the data
    files = sorted(one for one in paths if one.is_file() and not one.name.startswith((".", "_")))
    if not files:
        problem = "the folder has no files" if path.is_dir() else "no file matches this pattern"
        raise UsageError(f"{name}: {problem}")
    return files


def plan_shard(texts: Texts) -> Shard:
    """Split an open file into parts; the whole file is read, with bounded memory."""
    source = texts.source
    _check_kind(texts.kind, source)
    path = Path(source.name)
    before = _get_state(source.rest)
    lines, counts = [0], []  # the line, or row, before each part; the number of texts of each part
    for chunk in chunk_texts(texts, lambda text: len(text.text)):
        lines.append(chunk[-1].line)
        counts.append(len(chunk))
    with path.open("rb") as stream:
        if texts.kind == PARQUET:
            positions, sha256 = lines, hashlib.file_digest(stream, "sha256").hexdigest()
        else:
            positions, sha256 = _find_line_ends(stream, set(lines))
        size = stream.tell()
        is_same = before == _get_state(stream) == _get_state(source.rest)
    if len(positions) < len(lines) or not is_same:
        raise _make_change_error(source.name)
    if source.head.startswith(BYTE_ORDER_MARK) and texts.kind != PARQUET:
        positions[0] = len(BYTE_ORDER_MARK)
    parts = [ShardPart(*pair, count) for pair, count in zip(pairwise(positions), counts, strict=True)]
    return Shard(source.name, File(str(path.resolve()), texts.kind, size, texts.text_column), sha256, parts)


def _get_state(stream: BinaryIO | BufferedIOBase) -> tuple[int, int, int]:
    """Return numbers that change when the file changes."""
    status = os.fstat(stream.fileno())
    return status.st_ino, status.st_size, status.st_mtime_ns


def _find_line_ends(stream: BinaryIO, lines: Collection[int]) -> tuple[list[int], str]:
    """Return the positions in bytes at which these lines end (0 for line 0), and the file's SHA-256."""
    ends: list[int] = []
    digest, position = hashlib.sha256(), 0
    for number, line in enumerate(chain([b""], stream)):
        digest.update(line)
        position += len(line)
        if number in lines:
            ends.append(position)
    return ends, digest.hexdigest()


def _check_kind(kind: str, source: Source) -> None:
    problem = None
    if kind == CSV:
        problem = (
            "is CSV, which cannot be split into parts; leave out --engine ray, or save it as Parquet or as "
            "JSON lines"
        )
    elif kind not in (PLAIN_TEXT, JSON_TEXT, PARQUET):
        problem = (
            f"is a corpus ({kind}), which cannot be split into parts; several processes need plain text, "
            "JSON lines with raw texts, or Parquet"
        )
    elif source.line_end != b"\n" and kind != PARQUET:
        problem = (
            "has carriage returns as line ends, but several processes need line feeds; convert them with "
            "tr '\\r' '\\n'"
        )
    elif kind == JSON_TEXT and is_array(source):
        problem = "is one JSON array, but several processes need an object on each line"
    if problem:
        raise UsageError(f"{source.name}: {problem}")


class PartReader:
    """Reader of parts of files; keeps the last Parquet file open, since the next part is often in it."""

    def __init__(self) -> None:
        self._table: ParquetTable | None = None

    def read(self, file: File, part: ShardPart) -> list[Text]:
        """Return the texts of a part; raise `DataError` if the file has changed."""
        path = Path(file.path)
        try:
            if path.stat().st_size != file.size:
                raise _make_change_error(file.path)
            if file.kind == PARQUET:
                readings = read_rows(self._open(file), part.start, part.end)
            else:
                with path.open("rb") as stream:
                    stream.seek(part.start)
                    data = io.BytesIO(stream.read(part.end - part.start))
                source = Source(file.path, b"", data)
                readings = read_texts(source, file.kind, ReadOptions(), file.text_column)
            texts = [one for one in readings if isinstance(one, Text)]
        except OSError as error:
            raise UsageError(f"{file.path}: cannot be read: {error.strerror}") from error
        if len(texts) != part.texts:
            raise _make_change_error(file.path)
        return texts

    def _open(self, file: File) -> ParquetTable:
        if self._table is not None and self._table.name != file.path:
            self._table.close()
            self._table = None
        self._table = self._table or ParquetTable(Path(file.path), file.path, file.text_column)
        return self._table


def _make_change_error(name: str) -> DataError:
    return DataError("has changed since it was first read; run the command again", source=name)
