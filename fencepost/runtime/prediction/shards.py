"""Files of texts, cut into parts that processes can predict independently of each other.

A part has the texts of one chunk (see `fencepost.runtime.chunks`), so that it gives the same lines as it does
in a process that reads the whole file. It is identified by its place in the file: bytes, or rows of Parquet.
"""

from __future__ import annotations

import glob
import hashlib
import io
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from io import BufferedIOBase
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, BinaryIO

from fencepost.data.formats.format import ReadOptions
from fencepost.data.formats.json_records import is_array
from fencepost.data.formats.parquet import Table
from fencepost.data.source import BYTE_ORDER_MARK, SAMPLE, STANDARD_INPUT, Source
from fencepost.errors import DataError, UsageError
from fencepost.runtime.chunks import chunk_texts
from fencepost.runtime.prediction.kinds import CSV, JSON_TEXT, PARQUET, PLAIN_TEXT
from fencepost.runtime.prediction.text import TEXT, Text
from fencepost.runtime.prediction.texts import Texts, read_rows, read_texts


@dataclass(frozen=True, slots=True)
class ShardPart:
    """The `texts` texts between two places of a file."""

    start: int
    end: int
    texts: int


@dataclass(frozen=True, slots=True)
class File:
    """A file when it was cut into parts: its kind (text, json or parquet) and its size in bytes."""

    path: str
    kind: str
    size: int
    text_column: str = TEXT


@dataclass(frozen=True, slots=True)
class Shard:
    """A file of texts, and its parts in order; `name` is the user's name for it."""

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
    """Return the files that `--input` names: one, those of a folder, or those of a pattern; in order."""
    if not name:
        raise UsageError("an empty file name")
    if name == STANDARD_INPUT or name.startswith(SAMPLE):
        raise UsageError(f"--input {name}: several processes read files; name one, a folder or a pattern")
    path = Path(name)
    if path.is_file():
        return [path]
    if path.is_dir():
        found: Iterable[Path] = path.iterdir()
    elif any(sign in name for sign in "*?["):
        found = map(Path, glob.glob(name, recursive=True))  # noqa: PTH207 - a pattern may be absolute
    else:
        raise UsageError(f"{name}: there is no such file or folder")
    # tools leave files with names like `.crc` and `_SUCCESS` beside the data
    files = sorted(one for one in found if one.is_file() and not one.name.startswith((".", "_")))
    if not files:
        raise UsageError(f"{name}: there is no file in it" if path.is_dir() else f"{name}: no file fits it")
    return files


def plan_shard(texts: Texts) -> Shard:
    """Cut an open file into parts; it is read through, and none of it is kept."""
    source = texts.source
    _check_kind(texts.kind, source)
    path = Path(source.name)
    before = _state(source.rest)
    lines, counts = [0], []  # the line, or row, before each part; the number of texts of each
    for chunk in chunk_texts(texts, lambda text: len(text.text)):
        lines.append(chunk[-1].line)
        counts.append(len(chunk))
    with path.open("rb") as stream:
        if texts.kind == PARQUET:
            places, sha256 = lines, hashlib.file_digest(stream, "sha256").hexdigest()
        else:
            places, sha256 = _find_lines(stream, lines)
        size = stream.tell()
        same = before == _state(stream) == _state(source.rest)
    if len(places) < len(lines) or not same:
        raise _changed(source.name)
    if source.head.startswith(BYTE_ORDER_MARK) and texts.kind != PARQUET:
        places[0] = len(BYTE_ORDER_MARK)
    parts = [ShardPart(*place, count) for place, count in zip(pairwise(places), counts, strict=True)]
    return Shard(source.name, File(str(path.resolve()), texts.kind, size, texts.text_column), sha256, parts)


def _state(stream: BinaryIO | BufferedIOBase) -> tuple[int, int, int]:
    """Return what shows whether a file has changed."""
    status = os.fstat(stream.fileno())
    return status.st_ino, status.st_size, status.st_mtime_ns


def _find_lines(stream: BinaryIO, lines: Sequence[int]) -> tuple[list[int], str]:
    """Return where these lines end, in bytes (0 is the start of the first), and the file's SHA-256."""
    wanted, places = set(lines), []
    digest, position = hashlib.sha256(), 0
    for number, line in enumerate(chain([b""], stream)):
        digest.update(line)
        position += len(line)
        if number in wanted:
            places.append(position)
    return places, digest.hexdigest()


def _check_kind(kind: str, source: Source) -> None:
    problem = None
    if kind == CSV:
        problem = (
            "is CSV, whose rows cannot be told apart from the middle of the file; leave out --engine ray, or "
            "save it as Parquet or as JSON lines"
        )
    elif kind not in (PLAIN_TEXT, JSON_TEXT, PARQUET):
        problem = (
            f"is a corpus ({kind}), whose sentences belong together; files that several processes share are "
            "plain text, JSON lines with nothing but a text, or Parquet"
        )
    elif source.line_end != b"\n" and kind != PARQUET:
        problem = (
            "has carriage returns for line ends; several processes need line feeds, which tr '\\r' '\\n' "
            "makes of them"
        )
    elif kind == JSON_TEXT and is_array(source):
        problem = "is one JSON array; several processes need an object a line"
    if problem:
        raise UsageError(f"{source.name}: {problem}")


class PartReader:
    """Reads parts of files; the last Parquet file stays open, for the next part is often in it."""

    def __init__(self) -> None:
        self._table: Table | None = None

    def read(self, file: File, part: ShardPart) -> list[Text]:
        """Return the texts of a part."""
        path = Path(file.path)
        try:
            if path.stat().st_size != file.size:
                raise _changed(file.path)
            if file.kind == PARQUET:
                found = read_rows(self._open(file), part.start, part.end)
            else:
                with path.open("rb") as stream:
                    stream.seek(part.start)
                    data = io.BytesIO(stream.read(part.end - part.start))
                found = read_texts(Source(file.path, b"", data), file.kind, ReadOptions(), file.text_column)
            texts = [one for one in found if isinstance(one, Text)]
        except OSError as error:
            raise UsageError(f"{file.path}: cannot be read: {error.strerror}") from error
        if len(texts) != part.texts:
            raise _changed(file.path)
        return texts

    def _open(self, file: File) -> Table:
        if self._table is not None and self._table.name != file.path:
            self._table.close()
            self._table = None
        self._table = self._table or Table(Path(file.path), file.path, file.text_column)
        return self._table


def _changed(name: str) -> DataError:
    return DataError("has changed since it was read first; do not change it until all is done", source=name)
