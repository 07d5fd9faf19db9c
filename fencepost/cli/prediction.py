"""What `fencepost predict` does with its texts: finds, counts, and draws or writes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from fencepost.cli.corpora import losses
from fencepost.cli.draw import Palette, draw_text
from fencepost.cli.frame import resumable, say
from fencepost.cli.progress import shown
from fencepost.data import write
from fencepost.runtime.prediction.results import Found, Tally, as_sentences, find
from fencepost.runtime.prediction.lines import without_done, write_lines

if TYPE_CHECKING:
    from fencepost.data.formats.format import Format
    from fencepost.data.formats.overlaps import Prefer
    from fencepost.data.source import Source
    from fencepost.runtime.prediction.texts import Text
    from fencepost.runtime.recogniser import Recogniser


class Prediction:
    """Texts, what finds entities in them, and where these go."""

    def __init__(
        self, recogniser: Recogniser, texts: Iterator[Text], file: Source | None, *, quiet: bool
    ) -> None:
        self.recogniser = recogniser
        self.texts = texts
        self.file = file
        self.quiet = quiet
        self.tally = Tally()
        self.start = time.perf_counter()

    def _found(self, *, done: int = 0, again: int = 0, silent: bool = False) -> Iterator[Found]:
        """What is found, counted, and shown unless that would come between the lines of the output.

        The first `again` are among the `done` that are there already.
        """
        self.start = time.perf_counter()
        found = self.tally.counting(islice(find(self.recogniser, self.texts), again, None))
        return shown(found, self.file, done=done, quiet=self.quiet or silent)

    def draw(self) -> None:
        console = Console(highlight=False)
        palette, width = Palette(), min(console.width, 110)
        for found in self._found(silent=True):
            console.print(draw_text(found.annotated, width, palette), soft_wrap=True)

    def write_lines(self, output: str, *, resume: bool) -> None:
        path = None if output == "-" else Path(output)
        done = again = 0
        if path is not None and resume:
            rest = without_done(self.texts, path)
            done, again, self.texts = rest.done, rest.again, rest.texts
        found = self._found(done=done, again=again, silent=path is None)
        with resumable(f"continue with the same command and --resume ({output} has what is done)", path):
            write_lines(found, path, resume=resume)
        if done and not self.tally.texts:
            say(f"{output}: is complete already, with {many(done, 'text')}", quiet=self.quiet)
        else:
            self._close(f"{output} (and {many(done, 'text')} that were there)" if done else output)

    def write_corpus(self, output: str, target: Format, prefer: Prefer | None, *, leave_out: bool) -> None:
        result = write(
            as_sentences(self._found(silent=output == "-")),
            output,
            target.name,
            prefer=prefer,
            on_refused=(lambda *_: None) if leave_out else None,  # the writer counts them
        )
        self._close(f"{output} ({target.name})")
        if result.left_out:
            say(
                f"{many(result.left_out, 'sentence')} left out: {target.name} cannot hold them",
                quiet=self.quiet,
            )
        for line in losses(result):
            say(line, quiet=self.quiet)

    def _close(self, where: str) -> None:
        """What was done, and how fast."""
        seconds = max(time.perf_counter() - self.start, 1e-9)
        tally = self.tally
        say(
            f"{many(tally.texts, 'text')}, {many(tally.sentences, 'sentence')}, "
            f"{many(tally.entities, 'entity', 'entities')} -> {where}; {tally.texts / seconds:,.1f} texts "
            f"and {tally.sentences / seconds:,.1f} sentences a second",
            quiet=self.quiet,
        )


def many(count: int, one: str, several: str = "") -> str:
    return f"{count:,} {one if count == 1 else several or one + 's'}"
