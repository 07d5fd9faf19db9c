"""Files of texts cut into parts that different processes can predict, none of which needs the others.

A part has the texts of one chunk (see `fencepost.runtime.chunks`), so that it gives the same lines as it does
in a process that reads the whole file. It is known by where it stands in the file: bytes, or rows of Parquet.
"""

from __future__ import annotations

import glob
import hashlib
import io
import os
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from io import BufferedIOBase
from itertools import chain, pairwise
from pathlib import Path
from typing import BinaryIO

from fencepost.data.formats.format import ReadOptions
from fencepost.data.formats.json_records import is_array
from fencepost.data.source import BYTE_ORDER_MARK, SAMPLE, STANDARD_INPUT, Source
from fencepost.errors import DataError, UsageError
from fencepost.runtime.chunks import chunks
from fencepost.runtime.prediction.parquet import Table
from fencepost.runtime.prediction.texts import (
    CSV,
    JSON_TEXT,
    PARQUET,
    PLAIN_TEXT,
    TEXT,
    Text,
    Texts,
    read_as,
    rows_between,
)

_HIDDEN = (".", "_")  # before the names of files that tools leave beside the data
_GLOB = "*?["


@dataclass(frozen=True, slots=True)
class Part:
    """The texts between two places of a file, of which there are `texts`."""

    start: int
    end: int
    texts: int


@dataclass(frozen=True, slots=True)
class File:
    """A file as it was when it was cut into parts: text, json or parquet, and its bytes."""

    path: str
    kind: str
    size: int
    text_column: str = TEXT


@dataclass(frozen=True, slots=True)
class Shard:
    """A file of texts, and its parts in order; `name` is what the user calls it."""

    name: str
    file: File
    sha256: str
    parts: Sequence[Part]

    @property
    def texts(self) -> int:
        return sum(part.texts for part in self.parts)


def shard_files(named: str) -> list[Path]:
    """The files that `--input` names: one, those of a folder, or those that fit a pattern; in order."""
    if not named:
        raise UsageError("an empty file name")
    if named == STANDARD_INPUT or named.startswith(SAMPLE):
        raise UsageError(f"--input {named}: several processes read files; name one, a folder or a pattern")
    path = Path(named)
    if path.is_file():
        return [path]
    if path.is_dir():
        found: Iterable[Path] = path.iterdir()
    elif any(sign in named for sign in _GLOB):
        found = map(Path, glob.glob(named, recursive=True))  # noqa: PTH207 - a pattern may be absolute
    else:
        raise UsageError(f"{named}: there is no such file or folder")
    files = sorted(one for one in found if one.is_file() and not one.name.startswith(_HIDDEN))
    if not files:
        raise UsageError(f"{named}: there is no file in it" if path.is_dir() else f"{named}: no file fits it")
    return files


def planned(texts: Texts) -> Shard:
    """The parts of a file that is open; it is read through, and none of it is kept."""
    source = texts.source
    _check_kind(texts.kind, source)
    path = Path(source.name)
    before = _state(source.rest)
    lines, counts = [0], []  # behind which line, or row, a part begins; the texts of each
    for chunk in chunks(texts, lambda text: len(text.text)):
        lines.append(chunk[-1].line)
        counts.append(len(chunk))
    with path.open("rb") as stream:
        if texts.kind == PARQUET:
            places, sha256 = lines, hashlib.file_digest(stream, "sha256").hexdigest()
        else:
            places, sha256 = _places(stream, lines)
        size = stream.tell()
        same = before == _state(stream) == _state(source.rest)
    if len(places) < len(lines) or not same:
        raise _changed(source.name)
    if source.head.startswith(BYTE_ORDER_MARK) and texts.kind != PARQUET:
        places[0] = len(BYTE_ORDER_MARK)
    parts = [Part(*place, count) for place, count in zip(pairwise(places), counts, strict=True)]
    return Shard(source.name, File(str(path.resolve()), texts.kind, size, texts.text_column), sha256, parts)


def _state(stream: BinaryIO | BufferedIOBase) -> tuple[int, int, int]:
    """By which it is seen whether a file has changed."""
    facts = os.fstat(stream.fileno())
    return facts.st_ino, facts.st_size, facts.st_mtime_ns


def _places(stream: BinaryIO, lines: Sequence[int]) -> tuple[list[int], str]:
    """Where these lines end, as bytes from the beginning (0 is where the first begins), and the SHA-256."""
    wanted = deque(lines)
    places: list[int] = []
    digest = hashlib.sha256()
    position = 0
    for number, line in enumerate(chain([b""], stream)):
        digest.update(line)
        position += len(line)
        if wanted and number == wanted[0]:
            places.append(position)
            wanted.popleft()
    return places, digest.hexdigest()


def _check_kind(kind: str, source: Source) -> None:
    if kind == CSV:
        raise UsageError(
            f"{source.name}: is CSV, whose rows cannot be told apart from the middle of the file; leave out "
            "--engine ray, or save it as Parquet or as JSON lines"
        )
    if kind not in (PLAIN_TEXT, JSON_TEXT, PARQUET):
        raise UsageError(
            f"{source.name}: is a corpus ({kind}), whose sentences belong together; files that several "
            "processes share are plain text, JSON lines with nothing but a text, or Parquet"
        )
    if source.line_end != b"\n" and kind != PARQUET:
        raise UsageError(
            f"{source.name}: has carriage returns for line ends; several processes need line feeds, which "
            "tr '\\r' '\\n' makes of them"
        )
    if kind == JSON_TEXT and is_array(source):
        raise UsageError(f"{source.name}: is one JSON array; several processes need an object a line")


def texts_of(file: File, part: Part, tables: Tables) -> list[Text]:
    """The texts of a part."""
    path = Path(file.path)
    try:
        if path.stat().st_size != file.size:
            raise _changed(file.path)
        if file.kind == PARQUET:
            found = rows_between(tables.of(path, file.text_column), part.start, part.end)
        else:
            with path.open("rb") as stream:
                stream.seek(part.start)
                data = stream.read(part.end - part.start)
            read = read_as(file.kind, ReadOptions(), file.text_column)
            found = read(Source(file.path, b"", io.BytesIO(data)))
        texts = [one for one in found if isinstance(one, Text)]
    except OSError as error:
        raise UsageError(f"{file.path}: cannot be read: {error.strerror}") from error
    if len(texts) != part.texts:
        raise _changed(file.path)
    return texts


class Tables:
    """The Parquet file that was read last: it stays open, for the next part is often in it."""

    def __init__(self) -> None:
        self._open: dict[Path, Table] = {}

    def of(self, path: Path, text_column: str) -> Table:
        if path not in self._open:
            for table in self._open.values():
                table.close()
            self._open = {path: Table(path, str(path), text_column)}
        return self._open[path]


def _changed(name: str) -> DataError:
    return DataError("has changed since it was read first; leave it alone until all is done", source=name)
