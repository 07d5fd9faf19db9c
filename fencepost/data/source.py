"""Inputs of the readers: a file or standard input, read line by line in bounded memory."""

from __future__ import annotations

import codecs
import io
import sys
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, cast

from fencepost.data import sample
from fencepost.data.entity import Sentence
from fencepost.errors import DataError, UsageError, describe_error, shorten

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

HEAD_BYTES = 1 << 20  # read ahead to detect the format
CHUNK_BYTES = 1 << 20
REASON_CHARACTERS = 1000  # a reason may quote the content of a file
LINE_BYTES = 1 << 26  # a longer line means that the file is of another kind
STREAM_BYTES = 1 << 28  # maximum size of a table from standard input, which must be read whole
STANDARD_INPUT = "-"
SAMPLE = "sample:"  # prefix of the parts of the corpus that ships with the package
BYTE_ORDER_MARK = codecs.BOM_UTF8
_UTF16_PREFIX = 64
_ZIP = b"PK\x03\x04"
_OTHER_FILES = {
    codecs.BOM_UTF16_LE: "UTF-16; save it as UTF-8",
    codecs.BOM_UTF16_BE: "UTF-16; save it as UTF-8",
    b"\x1f\x8b": "compressed with gzip; unpack it first",
    _ZIP: "a ZIP archive (or a Word file); unpack it, or save the data as text",
    b"BZh91AY&SY": "compressed with bzip2; unpack it first",
    b"\xfd7zXZ\x00": "compressed with xz; unpack it first",
    b"\x28\xb5\x2f\xfd": "compressed with zstd; unpack it first",
}
"""Kinds of files that no reader supports, by their first bytes."""


@dataclass(frozen=True, slots=True)
class ReadSentence:
    """A sentence and the line where it starts (0 if the format has no lines)."""

    line: int
    sentence: Sentence
    file: str | None = None  # if the corpus has several


@dataclass(frozen=True, slots=True)
class Rejection:
    """A part of a file that is not a valid sentence, and the reason."""

    line: int
    reason: str
    raw: str
    file: str | None = None  # if the corpus has several

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", shorten(self.reason, REASON_CHARACTERS))


Reading = ReadSentence | Rejection


@dataclass(slots=True)
class Note:
    """A kind of content that was changed or skipped, with its first place and number of occurrences."""

    kind: str
    place: str
    example: str = ""
    count: int = 0

    def __str__(self) -> str:
        times = f" ({self.count:,} times, first here)" if self.count > 1 else ""
        example = f": {self.example}" if self.example else ""
        return f"{self.place}: {self.kind}{times}{example}"


@dataclass(frozen=True, slots=True)
class Line:
    """One line; `problem` is set if its bytes are not UTF-8."""

    number: int
    text: str
    problem: str | None = None


@dataclass
class Input:
    """A named input of a reader, with notes on content that was changed or skipped."""

    name: str
    notes: dict[str, Note] = field(default_factory=dict, kw_only=True)

    def describe_position(self, line: int) -> str:
        """Return the description of a line for a message, such as `line 7`."""
        return f"line {line}"

    def place(self, line: int | None) -> str:
        """Return the name of the input and the line, with which a message starts."""
        return self.name if line is None else f"{self.name}:{line}"

    def note(self, kind: str, line: int | None = None, example: str = "", times: int = 1) -> None:
        """Count something that the user should know; the first place and example of a kind are kept."""
        if times:
            note = Note(kind, self.place(line), shorten(example))
            self.notes.setdefault(kind, note).count += times


@dataclass
class Source(Input):
    """A named stream of bytes that is read once; `head` has its first bytes, to detect the format."""

    head: bytes
    rest: io.BufferedIOBase
    path: Path | None = None
    bytes_read: int = 0

    @classmethod
    def open(cls, path: str | Path) -> Source:
        """Open a file, a folder, standard input (`-`), or a part of the sample corpus (`sample:train`)."""
        if not str(path):
            raise UsageError("the file name is empty")
        if str(path) == STANDARD_INPUT:
            if sys.stdin is None:
                raise UsageError("there is no standard input")
            return cls.from_stream("standard input", cast("io.BufferedReader", sys.stdin.buffer))
        name = str(path)
        path = sample.get_path(name.removeprefix(SAMPLE)) if name.startswith(SAMPLE) else Path(path)
        try:
            if path.is_dir():
                return cls(name, b"", io.BytesIO(), path)
            source = cls.from_stream(name, path.open("rb"))
        except (OSError, ValueError) as error:  # ValueError: a name that no file can have
            reason = getattr(error, "strerror", None) or describe_error(error)
            raise UsageError(f"{path}: cannot be read: {reason}") from error
        source.path = path
        return source

    @classmethod
    def from_stream(cls, name: str, stream: io.BufferedIOBase) -> Source:
        try:
            source = cls(name, stream.read(HEAD_BYTES), stream)
        except OSError:
            stream.close()
            raise
        if (kind := _detect_other_kind(source.head)) and not is_workbook(source.head):
            source.close()
            raise DataError(f"this file is {kind}", source=name)
        return source

    @classmethod
    def from_bytes(cls, data: bytes, name: str = "data") -> Source:
        return cls.from_stream(name, io.BytesIO(data))

    def close(self) -> None:
        if sys.stdin is None or self.rest is not sys.stdin.buffer:
            self.rest.close()

    def merge_notes(self, notes: Iterable[Note]) -> None:
        """Add the notes of one of several files."""
        for note in notes:
            self.notes.setdefault(note.kind, replace(note, count=0)).count += note.count

    def read_chunks(self) -> Iterator[bytes]:
        """Yield all bytes in chunks, without the byte order mark."""
        self.bytes_read = len(self.head)
        if head := self.head.removeprefix(BYTE_ORDER_MARK):
            yield head
        while chunk := self.rest.read1(CHUNK_BYTES):  # Ctrl-C cannot always interrupt `read`
            self.bytes_read += len(chunk)
            yield chunk

    def read_all(self, limit: int) -> bytes:
        """Return all bytes, for formats that cannot be streamed; raises `DataError` above the limit."""
        chunks, size = [], 0
        for chunk in self.read_chunks():
            chunks.append(chunk)
            size += len(chunk)
            if size > limit:
                problem = f"larger than {limit >> 20:,} MB; this format must be read whole, so split the file"
                raise DataError(problem, source=self.name)
        return b"".join(chunks)

    @property
    def line_end(self) -> bytes:
        """Line end of the file: a line feed, or a carriage return if the head has no line feed."""
        # A carriage return at the end of the head may have a line feed after it.
        head = self.head if len(self.head) < HEAD_BYTES else self.head[:-1]
        return b"\r" if b"\r" in head and b"\n" not in head else b"\n"

    def read_lines(self, *, keep_ends: bool = False) -> Iterator[Line]:
        """Yield the lines, by default without their line ends; other separators do not end a line.

        Other separators are, for example, U+2028. Raises `DataError` for a line of more than `LINE_BYTES`.
        """
        raw_lines = (
            raw + end if keep_ends else raw.removesuffix(b"\r")
            for lines, end in self._read_batches()
            for raw in lines
        )
        return map(_decode_line, count(1), raw_lines)

    def read_lines_noting_marks(self) -> Iterator[Line]:
        """Yield the lines; note byte order marks after the first line, which become part of a word."""
        for line in self.read_lines():
            if line.text.startswith("\ufeff") and line.number > 1:
                kind = "line that starts with a byte order mark, which is kept (were files joined?)"
                self.note(kind, line.number)
            yield line

    def _read_batches(self) -> Iterator[tuple[list[bytes], bytes]]:
        """Yield the lines of each chunk without their line end, and the line end (empty after the last)."""
        end = self.line_end
        number = 0
        pending: list[bytes] = []  # the parts of a line that has not ended
        for chunk in self.read_chunks():
            *whole, rest = chunk.split(end)
            if whole:
                whole[0] = b"".join([*pending, whole[0]])
                pending.clear()
            yield whole, end
            number += len(whole)
            pending.append(rest)
            if sum(map(len, pending)) > LINE_BYTES:
                raise DataError(
                    f"the line is longer than {LINE_BYTES >> 20} MB; split it",
                    source=self.name,
                    line=number + 1,
                )
        if any(pending):
            yield [b"".join(pending)], b""

    def get_head_lines(self) -> list[str]:
        """Return the complete lines of the head, to detect the format; invalid bytes are replaced.

        A carriage return also ends a line, as it does when columns are read.
        """
        lines = self.head.removeprefix(BYTE_ORDER_MARK).split(self.line_end)
        if len(self.head) == HEAD_BYTES and len(lines) > 1:
            lines.pop()  # it may be incomplete
        texts = (line.decode("utf-8", "replace").rstrip("\r") for line in lines)
        return [part for text in texts for part in text.split("\r")]


def _detect_other_kind(head: bytes) -> str | None:
    """Return the kind of a file that no reader supports; None if its first bytes show no such kind."""
    for magic, kind in _OTHER_FILES.items():
        if head.startswith(magic):
            return kind
    first = head[:_UTF16_PREFIX]
    zeros = [first[parity::2].count(0) for parity in (0, 1)]
    if len(first) >= 8 and 0 in zeros and max(zeros) == len(first) // 2:
        return "UTF-16 without a byte order mark; save it as UTF-8"
    return None


def is_workbook(head: bytes) -> bool:
    """Return whether a file starts like an Excel workbook: a ZIP archive with a folder `xl`."""
    return head.startswith(_ZIP) and b"xl/" in head


def _decode_line(number: int, raw: bytes) -> Line:
    try:
        return Line(number, raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        problem = f"not UTF-8 at byte {error.start + 1} of the line"
        return Line(number, raw.decode("utf-8", "backslashreplace"), problem)
