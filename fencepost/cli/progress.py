"""Progress of a prediction: texts, texts a second, and a bar where the end is known; in terminals only."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fencepost.data.source import Source
    from fencepost.runtime.prediction.results import PredictedText


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
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
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
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total, texts=0, rate=0.0)

        def report(completed: int, texts: int, new: int) -> None:
            rate = new / max(time.perf_counter() - start, 1e-9)
            bar.update(task, completed=completed, texts=texts, rate=rate)

        yield report
