"""Where sentences come from: a file or standard input, line by line, in bounded memory."""

from __future__ import annotations

import io
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, cast

from fencepost.corpus import sample
from fencepost.entity import Sentence
from fencepost.errors import DataError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

HEAD_BYTES = 1 << 20  # what detection may look at before the reading starts
CHUNK_BYTES = 1 << 20
LINE_BYTES = 1 << 26  # a longer line is no sentence but a file of another kind
STANDARD_INPUT = "-"
SAMPLE = "sample:"  # before the name of a part of the corpus that ships with the package
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Found:
    """A sentence, and the line where it begins (0 where a format has no lines)."""

    line: int
    sentence: Sentence
    file: str | None = None  # where a corpus has several


@dataclass(frozen=True, slots=True)
class Rejected:
    """A part of a file that is not a valid sentence, why, and the part itself."""

    line: int
    reason: str
    raw: str
    file: str | None = None  # where a corpus has several


Reading = Found | Rejected


@dataclass(slots=True)
class Note:
    """Something that was read with a change or passed over: where first, and how often."""

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
    """One line without its line end; `problem` is set when its bytes are not UTF-8."""

    number: int
    text: str
    problem: str | None = None


@dataclass
class Source:
    """Bytes with a name, whose beginning can be looked at before they are read (once)."""

    name: str
    head: bytes
    rest: io.BufferedIOBase
    path: Path | None = None
    notes: dict[str, Note] = field(default_factory=dict)
    bytes_read: int = 0

    @classmethod
    def open(cls, path: str | Path) -> Source:
        """A file, a folder (whose format reads its files itself), `-`, or `sample:train`."""
        if not str(path):
            raise UsageError("an empty file name")
        if str(path) == STANDARD_INPUT:
            if sys.stdin is None:
                raise UsageError("there is no standard input to read")
            return cls.from_stream("standard input", cast("io.BufferedReader", sys.stdin.buffer))
        name = str(path)
        path = sample.path(name.removeprefix(SAMPLE)) if name.startswith(SAMPLE) else Path(path)
        try:
            if path.is_dir():
                return cls(name, b"", io.BytesIO(), path)
            source = cls.from_stream(name, path.open("rb"))
        except (OSError, ValueError) as error:  # a ValueError is a name that no file can have
            raise UsageError(f"{path}: cannot be read: {getattr(error, 'strerror', error)}") from error
        source.path = path
        return source

    @classmethod
    def from_stream(cls, name: str, stream: io.BufferedIOBase) -> Source:
        try:
            source = cls(name, stream.read(HEAD_BYTES), stream)
        except OSError:
            stream.close()
            raise
        if source.head.startswith((b"\xff\xfe", b"\xfe\xff")):
            source.close()
            raise DataError("this is UTF-16; save it as UTF-8", source=name, line=1)
        return source

    @classmethod
    def from_bytes(cls, data: bytes, name: str = "data") -> Source:
        return cls.from_stream(name, io.BytesIO(data))

    def close(self) -> None:
        if sys.stdin is None or self.rest is not sys.stdin.buffer:
            self.rest.close()

    def note(self, kind: str, line: int | None = None, example: str = "") -> None:
        """Keeps something that the user should hear of, by kind, with the first place as example."""
        if kind not in self.notes:
            place = self.name if line is None else f"{self.name}:{line}"
            self.notes[kind] = Note(kind, place, example)
        self.notes[kind].count += 1

    def adopt(self, notes: Iterable[Note]) -> None:
        """Takes over the notes on one of several files."""
        for note in notes:
            if note.kind in self.notes:
                self.notes[note.kind].count += note.count
            else:
                self.notes[note.kind] = note

    def chunks(self) -> Iterator[bytes]:
        """All bytes, in pieces, without the byte order mark."""
        self.bytes_read = len(self.head)
        if head := self.head.removeprefix(BYTE_ORDER_MARK):
            yield head
        while chunk := self.rest.read1(CHUNK_BYTES):  # not `read`, which Ctrl-C cannot always end
            self.bytes_read += len(chunk)
            yield chunk

    def read_all(self, limit: int) -> bytes:
        """All bytes at once, for formats that cannot be streamed."""
        data = self.head + self.rest.read(limit)
        if len(data) > limit:
            raise DataError(
                f"larger than {limit >> 20:,} MB; this format must be read whole, so split the file",
                source=self.name,
            )
        return data

    def lines(self) -> Iterator[Line]:
        """The lines, separated by line feeds only: other separators may stand in a word."""
        number = 0
        pending: list[bytes] = []  # the pieces of a line whose end is still to come
        for chunk in self.chunks():
            *whole, rest = chunk.split(b"\n")
            if whole:
                whole[0] = b"".join([*pending, whole[0]])
                pending.clear()
            for raw in whole:
                number += 1
                yield _line(number, raw)
            pending.append(rest)
            if sum(map(len, pending)) > LINE_BYTES:
                raise DataError(
                    f"a line of over {LINE_BYTES >> 20} MB is too long for one; break it up",
                    source=self.name,
                    line=number + 1,
                )
        if any(pending):
            yield _line(number + 1, b"".join(pending))

    def head_lines(self) -> list[str]:
        """The whole lines among the first megabyte, for detection; broken bytes are replaced."""
        head = self.head.removeprefix(BYTE_ORDER_MARK)
        lines = head.split(b"\n")
        if len(self.head) == HEAD_BYTES and len(lines) > 1:
            lines.pop()  # cut in the middle
        return [line.decode("utf-8", "replace").removesuffix("\r") for line in lines]


def _line(number: int, raw: bytes) -> Line:
    try:
        return Line(number, raw.decode("utf-8").removesuffix("\r"))
    except UnicodeDecodeError as error:
        problem = f"not UTF-8 at byte {error.start + 1} of the line"
        return Line(number, raw.decode("utf-8", "backslashreplace").removesuffix("\r"), problem)
