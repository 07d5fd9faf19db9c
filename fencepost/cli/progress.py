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
    """Yield the same, with a bar; `done` texts were there before, and do not count for the speed."""
    if quiet or not sys.stderr.isatty():
        yield from predicted
        return
    path = None if source is None else source.path
    size = path.stat().st_size if path is not None and path.is_file() else None
    start = time.perf_counter()
    with bar(known=size is not None) as progress:
        task = progress.add_task("", total=size, texts=done, rate=0.0)
        for count, one in enumerate(predicted, start=1):
            rate = count / (time.perf_counter() - start)
            progress.update(task, completed=min(one.source.end, size or 0), texts=done + count, rate=rate)
            yield one


def bar(*, known: bool) -> Progress:
    """Return a bar with the number of texts and their rate, and the time left if the total is `known`."""
    from rich.progress import (
        BarColumn,
        SpinnerColumn,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    texts, rate = TextColumn("{task.fields[texts]:,} texts"), TextColumn("{task.fields[rate]:,.0f} a second")
    if known:
        return _bar(BarColumn(), TaskProgressColumn(), texts, rate, TimeRemainingColumn())
    return _bar(SpinnerColumn(), texts, rate, TimeElapsedColumn())


def _bar(*columns: ProgressColumn) -> Progress:
    from rich.console import Console
    from rich.progress import Progress

    return Progress(*columns, console=Console(stderr=True), transient=True)
