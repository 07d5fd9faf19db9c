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
    """Yield the sentences of a file, with a bar over its bytes."""
    path = reader.source.path
    if quiet or path is None or not path.is_file() or not sys.stderr.isatty():
        yield from reader
        return
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn

    name, sentences = TextColumn("{task.description}"), TextColumn("{task.fields[sentences]:,} sentences")
    with _bar(name, BarColumn(), DownloadColumn(), sentences, TimeRemainingColumn()) as progress:
        task = progress.add_task(path.name, total=path.stat().st_size, sentences=0)
        for sentence in reader:
            if reader.sentences % 500 == 0:
                progress.update(task, completed=reader.source.bytes_read, sentences=reader.sentences)
            yield sentence


@contextmanager
def count_to(total: int, name: str, unit: str, *, quiet: bool) -> Iterator[Callable[[], None]]:
    """Yield what advances a bar by one of `total` units; without a terminal, print one line instead."""
    if quiet or not sys.stderr.isatty():
        say(f"{name}: {unit.format(total)}", quiet=quiet)
        yield lambda: None
        return
    from rich.progress import Progress

    from fencepost.cli.scores import safe_text

    with _bar(*Progress.get_default_columns()) as progress:
        task = progress.add_task(safe_text(name), total=total)
        yield lambda: progress.advance(task)


def shown(
    predicted: Iterable[PredictedText], source: Source | None, *, done: int, quiet: bool
) -> Iterator[PredictedText]:
    """Yield the same texts and show progress; `done` texts were there before."""
    path = None if source is None else source.path
    size = path.stat().st_size if path is not None and path.is_file() else None
    with progress_bar(size, quiet=quiet) as report:
        report(0, done, 0)
        for count, one in enumerate(predicted, start=1):
            report(min(one.source.end, size or 0), done + count, count)
            yield one


@contextmanager
def progress_bar(total: int | None, *, quiet: bool) -> Iterator[Callable[[int, int, int], None]]:
    """Show a bar; yield a function that updates it.

    Its arguments are how much of `total` is done, the number of texts, and of those that count for the speed.
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
        TextColumn("{task.fields[rate]:,.0f} a second"),
        TimeElapsedColumn() if total is None else TimeRemainingColumn(),
    )
    start = time.perf_counter()
    with _bar(*columns) as bar:
        task = bar.add_task("", total=total, texts=0, rate=0.0)

        def report(completed: int, texts: int, new: int) -> None:
            rate = new / max(time.perf_counter() - start, 1e-9)
            bar.update(task, completed=completed, texts=texts, rate=rate)

        yield report


def duration(seconds: float) -> str:
    """Return a time for people."""
    minutes, rest = divmod(round(seconds), 60)
    if not minutes:
        return f"{rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours:,} h {minutes} min" if hours else f"{minutes} min {rest} s"


def _bar(*columns: ProgressColumn) -> Progress:
    from rich.console import Console
    from rich.progress import Progress

    return Progress(*columns, console=Console(stderr=True), transient=True)
