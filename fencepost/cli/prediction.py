"""How `fencepost predict` reads its texts, predicts them, and draws or writes the results."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from fencepost.cli.corpora import Skipped, losses
from fencepost.cli.draw import Palette, draw_text
from fencepost.cli.frame import resumable, say
from fencepost.cli.progress import shown
from fencepost.errors import UsageError
from fencepost.runtime.prediction.lines import find_rest, write_lines
from fencepost.runtime.prediction.results import Counts, PredictedText, predict_texts, to_sentences
from fencepost.runtime.prediction.text import read_command_texts

if TYPE_CHECKING:
    from fencepost.data import ReadOptions
    from fencepost.data.formats.format import Format
    from fencepost.data.formats.overlaps import Prefer
    from fencepost.data.source import Source
    from fencepost.runtime.offsets import OffsetUnit
    from fencepost.runtime.prediction.text import Text
    from fencepost.runtime.prediction.texts import Texts
    from fencepost.runtime.recogniser import Recogniser


@dataclass(frozen=True)
class Input:
    """The options by which files of texts are read."""

    options: ReadOptions
    format: str | None
    text_column: str | None
    skip_invalid: bool
    quiet: bool

    @contextmanager
    def open_file(self, path: str) -> Iterator[tuple[Texts, Skipped]]:
        """Yield the texts of a file, and those that are skipped; say at the end which these are."""
        from fencepost.runtime.prediction.texts import open_texts  # and with it all formats

        skipped = Skipped()
        on_invalid = skipped if self.skip_invalid else None
        with open_texts(path, self.format, self.options, on_invalid, self.text_column) as texts:
            yield texts, skipped
        skipped.tell(texts.source, quiet=self.quiet)

    @contextmanager
    def open(
        self, source: str | None, texts: Sequence[str]
    ) -> Iterator[tuple[Iterable[Text], Source | None]]:
        """Yield the texts of the input or of the command, and the file that they come from, if any."""
        if source is not None:
            with self.open_file(source) as (opened, _):
                yield opened, opened.source
        elif self.text_column is not None:
            raise UsageError("--text-column is about --input, which is missing")
        else:
            yield read_command_texts(texts, self.options), None


@dataclass
class Prediction:
    """A prediction of texts in this process."""

    recogniser: Recogniser
    texts: Iterator[Text]
    file: Source | None
    quiet: bool
    unit: OffsetUnit = "characters"
    counts: Counts = field(default_factory=Counts)
    start: float = 0.0

    def _predict(self, *, done: int = 0, again: int = 0, silent: bool = False) -> Iterator[PredictedText]:
        """Predict, count and show progress, unless that would come between the lines of the output.

        The first `again` texts are among the `done` ones that are there already.
        """
        self.start = time.perf_counter()
        predicted = self.counts.count(
            islice(predict_texts(self.recogniser, self.texts, self.unit), again, None)
        )
        return shown(predicted, self.file, done=done, quiet=self.quiet or silent)

    def draw(self) -> None:
        console = Console(highlight=False)
        palette, width = Palette(), min(console.width, 110)
        for one in self._predict(silent=True):
            console.print(draw_text(one.annotated, width, palette), soft_wrap=True)

    def write_lines(self, output: str, *, resume: bool) -> None:
        path = None if output == "-" else Path(output)
        done = again = 0
        if path is not None and resume:
            rest = find_rest(self.texts, path)
            done, again, self.texts = rest.predicted, rest.repeated, rest.texts
        predicted = self._predict(done=done, again=again, silent=path is None)
        with resumable(f"continue with the same command and --resume ({output} has what is done)", path):
            write_lines(predicted, path, resume=resume)
        if done and not self.counts.texts:
            say(f"{output}: is complete already, with {many(done, 'text')}", quiet=self.quiet)
        else:
            self._finish(f"{output} (and {many(done, 'text')} that were there)" if done else output)

    def write_table(self, output: str, kind: str) -> None:
        from fencepost.runtime.prediction.tables import write_table

        path = None if output == "-" else Path(output)
        missing = write_table(self._predict(silent=path is None), path, kind)
        self._finish(f"{output} ({kind})")
        for what, count in missing.items():
            if count:
                say(f"{kind} has no place for {count:,} {what}", quiet=self.quiet)

    def write_corpus(self, output: str, target: Format, prefer: Prefer | None, *, leave_out: bool) -> None:
        from fencepost.data import write

        result = write(
            to_sentences(self._predict(silent=output == "-")),
            output,
            target.name,
            prefer=prefer,
            on_refused=(lambda *_: None) if leave_out else None,  # the writer counts them
        )
        self._finish(f"{output} ({target.name})")
        if result.left_out:
            left_out = f"{many(result.left_out, 'sentence')} left out: {target.name} cannot hold them"
            say(left_out, quiet=self.quiet)
        for line in losses(result):
            say(line, quiet=self.quiet)

    def _finish(self, where: str) -> None:
        """Say what was done, and how fast."""
        seconds = max(time.perf_counter() - self.start, 1e-9)
        speed = (
            f"{self.counts.texts / seconds:,.1f} texts and {self.counts.sentences / seconds:,.1f} sentences"
        )
        say(f"{describe(self.counts)} -> {where}; {speed} a second", quiet=self.quiet)


def check_flat(recogniser: Recogniser, target: Format, flat: str = "--flat") -> None:
    """Refuse to write overlapping entities into a format that cannot hold them; `flat` prevents them."""
    if target.overlaps == "none" and recogniser.settings["select"] != "flat":
        raise UsageError(
            f"{target.name} cannot hold overlapping entities, and this model finds them: say which to keep "
            f"with --overlaps outermost, innermost or best, let it find none with {flat}, "
            "leave such sentences out with --skip-invalid, or write jsonl"
        )


def describe(counts: Counts) -> str:
    entities = many(counts.entities, "entity", "entities")
    return f"{many(counts.texts, 'text')}, {many(counts.sentences, 'sentence')}, {entities}"


def many(count: int, one: str, several: str = "") -> str:
    return f"{count:,} {one if count == 1 else several or one + 's'}"
