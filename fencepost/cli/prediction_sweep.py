"""`fencepost analyze settings`: a model with one combination of settings of prediction after another."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fencepost.cli.models import settings_of
from fencepost.errors import UsageError

if TYPE_CHECKING:
    from fencepost.data.entity import Sentence
    from fencepost.runtime.recogniser import Recogniser

Grid = list[tuple[dict[str, Any], "Recogniser"]]
"""Combinations of settings, each with the recogniser that uses it."""

_WARM_UP = 256
"""Number of sentences predicted before time is measured, since the first ones are slower."""


def combine_settings(recogniser: Recogniser, folder: str, axes: Sequence[str]) -> Grid:
    """Return all combinations of the values of all settings, given as `steps=1,2,5`."""
    values: dict[str, list[str]] = {}
    for axis in axes:
        key, _, listed = axis.partition("=")
        key = key.removeprefix("predict.")
        if not key or not all(listed.split(",")):
            raise UsageError(f"--sweep {axis}: write it as KEY=VALUE,VALUE, for example steps=1,2,5")
        if key in values:
            raise UsageError(f"--sweep {axis}: {key} is swept already")
        values[key] = list(dict.fromkeys(listed.split(",")))
    grid: Grid = []
    for chosen in product(*values.values()):
        changes = [f"predict.{key}={value}" for key, value in zip(values, chosen, strict=True)]
        changed = recogniser.with_options(**settings_of(Path(folder), changes))
        grid.append(({key: changed.settings[key] for key in values}, changed))
    return grid


def score_settings(
    grid: Grid, sentences: Sequence[Sentence], say: Callable[[str], None]
) -> Iterator[dict[str, Any]]:
    """Yield the scores and the speed of each combination."""
    from fencepost import evaluation

    if not any(sentence.words for sentence in sentences):
        raise UsageError("--sweep: the corpus has no sentences to predict")
    list(grid[0][1].predict(sentences[:_WARM_UP]))
    for number, (settings, recogniser) in enumerate(grid, start=1):
        start = time.perf_counter()
        predicted = list(recogniser.predict(sentences))
        speed = len(sentences) / (time.perf_counter() - start)
        overall = evaluation.evaluate(sentences, predicted).overall
        listed = " ".join(f"{key}={value}" for key, value in settings.items())
        say(f"{number}/{len(grid)} {listed}: F1 {100 * overall.f1:.1f}, {speed:,.1f} a second")
        yield {"set": settings, **asdict(overall), "sentences_per_second": speed}
