"""How far a prediction is: texts, texts a second, and for a file a bar over its bytes; in terminals only."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

    from fencepost.data.source import Source
    from fencepost.runtime.prediction.results import PredictedText


def shown(
    predicted: Iterable[PredictedText], source: Source | None, *, done: int, quiet: bool
) -> Iterator[PredictedText]:
    """The same, shown while it passes; `done` texts were there before, and do not count for the speed."""
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

    bar = (BarColumn(), TaskProgressColumn()) if known else (SpinnerColumn(),)
    columns = (
        *bar,
        TextColumn("{task.fields[texts]:,} texts"),
        TextColumn("{task.fields[rate]:,.0f} a second"),
        TimeRemainingColumn() if known else TimeElapsedColumn(),
    )
    return Progress(*columns, console=Console(stderr=True), transient=True)
