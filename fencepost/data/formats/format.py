"""`Format`, which describes a corpus format, and the options for reading and writing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from fencepost.data.columns import parse_columns
from fencepost.data.entity import Sentence
from fencepost.data.formats import iob
from fencepost.data.source import Reading, Source
from fencepost.data.text.lines import Lines, check_lines
from fencepost.errors import UsageError

Ends = Literal["inclusive", "exclusive"]
Overlaps = Literal["any", "nested", "none"]


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options for reading a corpus; None means that the content of the file decides.

    Columns are numbered from 1, or backwards from -1 for the last one. `columns` maps the parts of a sentence
    to the columns of a table or the keys of JSON objects.
    """

    word_column: int | None = None
    tag_column: int | None = None
    pos_column: int | None = None
    scheme: str | None = None
    ends: Ends | None = None
    check_text: bool = True
    language: str | None = None
    lines: Lines | None = None
    pretokenized: bool = False
    spans_key: str | None = None
    keep_rejected: bool = False
    columns: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        if self.columns is not None:
            object.__setattr__(self, "columns", parse_columns(self.columns))
        for name in ("word_column", "tag_column", "pos_column"):
            if getattr(self, name) == 0:
                raise UsageError(f"{name} is 0, but columns are numbered from 1 (or from -1 for the last)")
        if self.scheme is not None and self.scheme not in iob.READ_SCHEMES:
            raise UsageError.unknown("scheme to read", self.scheme, iob.READ_SCHEMES)
        if self.ends not in (None, "inclusive", "exclusive"):
            raise UsageError(f"ends must be inclusive or exclusive, not {self.ends!r}")
        check_lines(self.lines)

    def with_defaults(self, language: str | None, lines: Lines | None) -> ReadOptions:
        """Return a copy with this language and line mode if none were set."""
        return replace(self, language=self.language or language, lines=self.lines or lines)


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Options for writing a corpus: the tag scheme of `conll`, and whether JSON is written as one array."""

    scheme: str = "iob2"
    array: bool = False

    def __post_init__(self) -> None:
        if self.scheme not in iob.WRITE_SCHEMES:
            raise UsageError.unknown("scheme to write", self.scheme, iob.WRITE_SCHEMES)


Write = Callable[[Iterable[Sentence], Path | None, WriteOptions], None]


@dataclass(frozen=True, slots=True)
class Format:
    """A corpus format, with its functions to read and write.

    `overlaps` says which overlaps of entities it can represent, `keeps` which optional parts of a sentence.
    `find_obstacle` returns what else in a sentence it cannot represent; None if there is nothing.
    """

    name: str
    summary: str
    read: Callable[[Source, ReadOptions], Iterator[Reading]]
    write: Write
    find_obstacle: Callable[[Sentence], str | None]
    overlaps: Overlaps
    keeps: frozenset[str]
    suffixes: tuple[str, ...] = ()
