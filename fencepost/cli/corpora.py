"""Writing corpora, and messages about skipped sentences and about what a format cannot represent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from fencepost.cli.frame import format_count, say

if TYPE_CHECKING:
    from fencepost.data import Rejection
    from fencepost.data.entity import Sentence
    from fencepost.data.source import Source
    from fencepost.data.writer import WriteResult

OverlapsName = Literal["refuse", "outermost", "innermost", "best"]
OVERLAPS_HELP = "Which of several overlapping entities to keep if the format cannot represent them."
MAX_MESSAGES = 5  # skipped sentences that are printed


class SkipLog:
    """Number of sentences skipped while reading a file, and the first of them."""

    def __init__(self) -> None:
        self.first: list[Rejection] = []
        self.count = 0

    def __call__(self, rejected: Rejection) -> None:
        self.count += 1
        if len(self.first) < MAX_MESSAGES:
            self.first.append(rejected)

    def report(self, source: Source, *, quiet: bool) -> None:
        """Print the notes on the file and the skipped sentences."""
        for note in source.notes.values():
            say(str(note), quiet=quiet)
        for rejected in self.first:
            place = f"{rejected.file or source.name}:{rejected.line}"
            say(f"{place}: skipped: {rejected.reason}", quiet=quiet)
        if self.count > len(self.first):
            say(f"{source.name}: skipped {self.count - len(self.first):,} more", quiet=quiet)


def write_corpus(
    sentences: Iterable[Sentence],
    path: str | Path,
    format_: str | None,
    overlaps: OverlapsName,
    *,
    skip_invalid: bool,
) -> WriteResult:
    """Write a corpus; with `skip_invalid`, leave out sentences that the format cannot represent."""
    from fencepost.data import write

    ignore = (lambda *_: None) if skip_invalid else None  # the writer counts them
    prefer = None if overlaps == "refuse" else overlaps
    return write(sentences, path, format_, prefer=prefer, on_refused=ignore)


def report_losses(result: WriteResult, *, quiet: bool) -> None:
    """Print what the format could not hold."""
    if result.left_out:
        count = format_count(result.left_out, "sentence")
        say(f"{count} skipped: {result.format} cannot represent them", quiet=quiet)
    for line in describe_losses(result):
        say(line, quiet=quiet)


def describe_losses(result: WriteResult) -> Iterator[str]:
    """Yield messages about entities and fields that the format could not hold."""
    if result.entities_dropped:
        yield f"{result.entities_dropped:,} overlapping entities were dropped"
    if result.parts_lost:
        fields = ", ".join(f"{field} ({count:,})" for field, count in result.parts_lost.most_common())
        yield f"{result.format} has no place for these fields, so the output lacks them: {fields}"
