"""What a corpus format is, and the options under which corpora are read and written."""

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
    """How to read what a file cannot say of itself; None means: find out from the content.

    Numbers of columns count from 1, and from -1 for the last one. `columns` names those of a table, or the
    keys of JSON objects, by the part of a sentence that they have.
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
                raise UsageError(f"{name} is 0, but columns count from 1 (or from -1 for the last)")
        if self.scheme is not None and self.scheme not in iob.READ_SCHEMES:
            raise UsageError.unknown("scheme to read", self.scheme, iob.READ_SCHEMES)
        if self.ends not in (None, "inclusive", "exclusive"):
            raise UsageError(f"ends are inclusive or exclusive, not {self.ends!r}")
        check_lines(self.lines)

    def with_defaults(self, language: str | None, lines: Lines | None) -> ReadOptions:
        """Return these options, with these rules for raw text where none were chosen."""
        return replace(self, language=self.language or language, lines=self.lines or lines)


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How to write: the tag scheme of `conll`, and whether JSON is one array or a line each."""

    scheme: str = "iob2"
    array: bool = False

    def __post_init__(self) -> None:
        if self.scheme not in iob.WRITE_SCHEMES:
            raise UsageError.unknown("scheme to write", self.scheme, iob.WRITE_SCHEMES)


@dataclass(frozen=True, slots=True)
class Format:
    """A way to keep sentences in files.

    `overlaps` says which overlaps of entities it can hold, `keeps` which of a sentence's optional
    parts, and `obstacle` what else in a sentence it cannot hold (None where it can).
    """

    name: str
    summary: str
    read: Callable[[Source, ReadOptions], Iterator[Reading]]
    write: Callable[[Iterable[Sentence], Path | None, WriteOptions], None]
    obstacle: Callable[[Sentence], str | None]
    overlaps: Overlaps
    keeps: frozenset[str]
    suffixes: tuple[str, ...] = ()
