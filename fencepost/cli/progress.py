"""Progress bars on standard error, in terminals only."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fencepost.cli.frame import say

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn

    from fencepost.data.entity import Sentence
    from fencepost.data.reader import Reader
    from fencepost.data.source import Source
    from fencepost.runtime.prediction.results import PredictedText


def watch_reader(reader: Reader, *, quiet: bool) -> Iterator[Sentence]:
    """Yield the sentences of a file and show a progress bar over its bytes."""
    path = reader.source.path
    if quiet or path is None or not path.is_file() or not sys.stderr.isatty():
        yield from reader
        return
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn

    name, sentences = TextColumn("{task.description}"), TextColumn("{task.fields[sentences]:,} sentences")
    with _make_bar(name, BarColumn(), DownloadColumn(), sentences, TimeRemainingColumn()) as progress:
        task = progress.add_task(path.name, total=path.stat().st_size, sentences=0)
        for sentence in reader:
            if reader.sentences % 500 == 0:
                progress.update(task, completed=reader.source.bytes_read, sentences=reader.sentences)
            yield sentence


@contextmanager
def count_steps(total: int, name: str, unit: str, *, quiet: bool) -> Iterator[Callable[[], None]]:
    """Show a progress bar of `total` steps; yield a function that advances it by one.

    Without a terminal, print one line instead.
    """
    if quiet or not sys.stderr.isatty():
        say(f"{name}: {unit.format(total)}", quiet=quiet)
        yield lambda: None
        return
    from rich.progress import Progress

    from fencepost.cli.scores import escape_text

    with _make_bar(*Progress.get_default_columns()) as progress:
        task = progress.add_task(escape_text(name), total=total)
        yield lambda: progress.advance(task)


def watch_predictions(
    texts: Iterable[PredictedText], source: Source | None, *, previous: int, quiet: bool
) -> Iterator[PredictedText]:
    """Yield the texts and show a progress bar; `previous` texts were predicted by an earlier run."""
    path = None if source is None else source.path
    size = path.stat().st_size if path is not None and path.is_file() else None
    with show_bar(size, quiet=quiet) as report:
        report(0, previous, 0)
        for count, text in enumerate(texts, start=1):
            report(min(text.source.end, size or 0), previous + count, count)
            yield text


@contextmanager
def show_bar(total: int | None, *, quiet: bool) -> Iterator[Callable[[int, int, int], None]]:
    """Show a progress bar; yield a function that updates it.

    Its arguments are the completed part of `total`, the number of texts, and the number of texts that this
    run has predicted, from which the speed is computed.
    """
    if quiet or not sys.stderr.isatty():
        yield lambda *_: None
        return
    from rich.progress import (
        BarColumn,
        SpinnerColumn,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        *((SpinnerColumn(),) if total is None else (BarColumn(), TaskProgressColumn())),
        TextColumn("{task.fields[texts]:,} texts"),
        TextColumn("{task.fields[rate]:,.0f} per second"),
        TimeElapsedColumn() if total is None else TimeRemainingColumn(),
    )
    start = time.perf_counter()
    with _make_bar(*columns) as bar:
        task = bar.add_task("", total=total, texts=0, rate=0.0)

        def report(completed: int, texts: int, new: int) -> None:
            rate = new / max(time.perf_counter() - start, 1e-9)
            bar.update(task, completed=completed, texts=texts, rate=rate)

        yield report


def format_duration(seconds: float) -> str:
    """Return a duration in hours, minutes and seconds."""
    minutes, rest = divmod(round(seconds), 60)
    if not minutes:
        return f"{rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours:,} h {minutes} min" if hours else f"{minutes} min {rest} s"


def _make_bar(*columns: ProgressColumn) -> Progress:
    from rich.console import Console
    from rich.progress import Progress

    return Progress(*columns, console=Console(stderr=True), transient=True)
