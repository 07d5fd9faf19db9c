"""Reading corpora for a command: with its options, and with a word about what was found and skipped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fencepost.cli.frame import progress_of, say

if TYPE_CHECKING:
    from fencepost.corpus import Reader, ReadOptions, Rejected
    from fencepost.corpus.writer import Written
    from fencepost.entity import Sentence

SHOWN = 5  # of the sentences that are skipped


@contextmanager
def opened(
    path: str, format_: str | None, options: ReadOptions, *, skip_invalid: bool, quiet: bool
) -> Iterator[Reader]:
    """A reader; when it is done, its notes and what it skipped are told."""
    from fencepost.corpus import Reader

    skipped: list[Rejected] = []

    def remember(one: Rejected) -> None:
        if len(skipped) < SHOWN:
            skipped.append(one)

    with Reader(path, format_, options, remember if skip_invalid else None) as reader:
        yield reader
    for note in reader.notes:
        say(str(note), quiet=quiet)
    for one in skipped:
        say(f"{one.file or reader.source.name}:{one.line}: skipped: {one.reason}", quiet=quiet)
    if reader.invalid > len(skipped):
        say(f"{reader.source.name}: skipped {reader.invalid - len(skipped):,} more", quiet=quiet)


def losses(result: Written) -> Iterator[str]:
    """What the new format could not hold."""
    if result.entities_dropped:
        yield f"{result.entities_dropped:,} overlapping entities were dropped"
    if result.parts_lost:
        parts = ", ".join(f"{part} ({count:,})" for part, count in result.parts_lost.most_common())
        yield f"{result.format} has no place for these parts, so they are not in the output: {parts}"


def read_all(
    path: str, format_: str | None, options: ReadOptions, *, skip_invalid: bool, quiet: bool
) -> list[Sentence]:
    """All sentences of a file."""
    sentences = []
    with (
        opened(path, format_, options, skip_invalid=skip_invalid, quiet=quiet) as reader,
        progress_of(reader, quiet=quiet) as advance,
    ):
        for sentence in reader:
            advance()
            sentences.append(sentence)
    return sentences
