"""Messages about what was skipped in a corpus, and what a format could not hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from fencepost.cli.frame import say

if TYPE_CHECKING:
    from fencepost.data import Rejected
    from fencepost.data.source import Source
    from fencepost.data.writer import WriteResult

SHOWN = 5  # of the sentences that are skipped


class Skipped:
    """What is skipped while a file is read: the first ones, and their number."""

    def __init__(self) -> None:
        self.first: list[Rejected] = []
        self.count = 0

    def __call__(self, one: Rejected) -> None:
        self.count += 1
        if len(self.first) < SHOWN:
            self.first.append(one)

    def tell(self, source: Source, *, quiet: bool) -> None:
        """Print what was skipped, and the notes on the file."""
        for note in source.notes.values():
            say(str(note), quiet=quiet)
        for one in self.first:
            say(f"{one.file or source.name}:{one.line}: skipped: {one.reason}", quiet=quiet)
        if self.count > len(self.first):
            say(f"{source.name}: skipped {self.count - len(self.first):,} more", quiet=quiet)


def losses(result: WriteResult) -> Iterator[str]:
    """Yield messages on what the new format could not hold."""
    if result.entities_dropped:
        yield f"{result.entities_dropped:,} overlapping entities were dropped"
    if result.parts_lost:
        parts = ", ".join(f"{part} ({count:,})" for part, count in result.parts_lost.most_common())
        yield f"{result.format} has no place for these parts, so they are not in the output: {parts}"
