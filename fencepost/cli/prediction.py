"""Reading, predicting, drawing and writing texts for `fencepost predict`."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from rich.console import Console

from fencepost.cli.corpora import OverlapsName, report_losses, write_corpus
from fencepost.cli.draw import Palette, draw_text
from fencepost.cli.frame import explain_resume, format_count, say
from fencepost.cli.options import TextOptions
from fencepost.cli.progress import watch_predictions
from fencepost.data.formats.format import Format
from fencepost.data.source import Source
from fencepost.errors import UsageError
from fencepost.runtime.offsets import OffsetUnit
from fencepost.runtime.prediction.lines import find_rest, write_lines
from fencepost.runtime.prediction.results import Counts, PredictedText, predict_texts, to_sentences
from fencepost.runtime.prediction.text import Text, read_command_texts
from fencepost.runtime.recogniser import Recogniser


@contextmanager
def open_texts(
    source: str | None, texts: Sequence[str], reading: TextOptions
) -> Iterator[tuple[Iterable[Text], Source | None]]:
    """Yield the texts of the input file or the arguments, and the input file or None."""
    if source is not None:
        with reading.open(source) as (stream, _):
            yield stream, stream.source
    elif reading.text_column is not None:
        raise UsageError("--text-column needs --input")
    else:
        yield read_command_texts(texts, reading.read_options()), None


@dataclass
class Prediction:
    """Prediction of texts in this process."""

    recogniser: Recogniser
    texts: Iterator[Text]
    file: Source | None
    quiet: bool
    unit: OffsetUnit = "characters"
    counts: Counts = field(default_factory=Counts)
    start: float = 0.0

    def _predict(self, *, previous: int = 0, again: int = 0, silent: bool = False) -> Iterator[PredictedText]:
        """Predict and count the texts, and show progress unless `silent`.

        The output has `previous` texts of an earlier run; the first `again` texts of the input are among them
        and are left out of the result.
        """
        self.start = time.perf_counter()
        new = islice(predict_texts(self.recogniser, self.texts, self.unit), again, None)
        return watch_predictions(
            self.counts.count(new), self.file, previous=previous, quiet=self.quiet or silent
        )

    def draw(self) -> None:
        console = Console(highlight=False)
        palette, width = Palette(), min(console.width, 110)
        for one in self._predict(silent=True):
            console.print(draw_text(one.annotated, width, palette), soft_wrap=True)

    def write_lines(self, output: str, *, resume: bool) -> None:
        path = None if output == "-" else Path(output)
        previous = again = 0
        if path is not None and resume:
            rest = find_rest(self.texts, path)
            previous, again, self.texts = rest.predicted, rest.repeated, rest.texts
        predicted = self._predict(previous=previous, again=again, silent=path is None)
        with explain_resume(
            f"continue with the same command and --resume ({output} has the finished texts)", path
        ):
            write_lines(predicted, path, resume=resume)
        if previous and not self.counts.texts:
            say(f"{output}: already complete, with {format_count(previous, 'text')}", quiet=self.quiet)
        else:
            self._finish(
                f"{output} (after {format_count(previous, 'text')} of an earlier run)" if previous else output
            )

    def write_table(self, output: str, kind: str) -> None:
        from fencepost.runtime.prediction.tables import write_table

        path = None if output == "-" else Path(output)
        losses = write_table(self._predict(silent=path is None), path, kind)
        self._finish(f"{output} ({kind})")
        for name, count in losses.items():
            if count:
                say(f"{kind} has no place for {count:,} {name}", quiet=self.quiet)

    def write_corpus(
        self, output: str, target: Format, overlaps: OverlapsName, *, skip_invalid: bool
    ) -> None:
        sentences = to_sentences(self._predict(silent=output == "-"))
        result = write_corpus(sentences, output, target.name, overlaps, skip_invalid=skip_invalid)
        self._finish(f"{output} ({target.name})")
        report_losses(result, quiet=self.quiet)

    def _finish(self, where: str) -> None:
        """Print the counts and the speed."""
        seconds = max(time.perf_counter() - self.start, 1e-9)
        speed = (
            f"{self.counts.texts / seconds:,.1f} texts and {self.counts.sentences / seconds:,.1f} sentences"
        )
        say(f"{describe_counts(self.counts)} -> {where}; {speed} per second", quiet=self.quiet)


def check_flat(recogniser: Recogniser, target: Format, flat: str = "--flat") -> None:
    """Raise `UsageError` if the model predicts overlapping entities and the format cannot represent them.

    `flat` is the option that makes the model predict none.
    """
    if target.overlaps == "none" and recogniser.settings["select"] != "flat":
        raise UsageError(
            f"{target.name} cannot represent overlapping entities, which this model predicts: choose which "
            f"to keep with --overlaps outermost, innermost or best, predict none with {flat}, skip such "
            "sentences with --skip-invalid, or write jsonl"
        )


def describe_counts(counts: Counts) -> str:
    entities = format_count(counts.entities, "entity", "entities")
    return f"{format_count(counts.texts, 'text')}, {format_count(counts.sentences, 'sentence')}, {entities}"
