"""`fencepost analyze settings`: score a model with all combinations of prediction settings."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fencepost.cli.models import parse_prediction_changes
from fencepost.errors import UsageError

if TYPE_CHECKING:
    from fencepost.data.entity import Sentence
    from fencepost.runtime.recogniser import Recogniser

Grid = list[tuple[dict[str, Any], "Recogniser"]]
"""Combinations of settings, each with a recogniser that uses them."""

_WARM_UP = 256
"""Number of sentences predicted before the speed is measured, because the first ones are slower."""


def combine_settings(recogniser: Recogniser, folder: str, axes: Sequence[str]) -> Grid:
    """Return all combinations of settings; each axis is a setting with its values, as `steps=1,2,5`."""
    values: dict[str, list[str]] = {}
    for axis in axes:
        key, _, text = axis.partition("=")
        key = key.removeprefix("predict.")
        if not key or not all(text.split(",")):
            raise UsageError(f"--sweep {axis}: write it as KEY=VALUE,VALUE, for example steps=1,2,5")
        if key in values:
            raise UsageError(f"--sweep {axis}: {key} is given twice; give all its values at once")
        values[key] = list(dict.fromkeys(text.split(",")))
    grid: Grid = []
    for combination in product(*values.values()):
        changes = [f"predict.{key}={value}" for key, value in zip(values, combination, strict=True)]
        variant = recogniser.with_options(**parse_prediction_changes(Path(folder), changes))
        grid.append(({key: variant.settings[key] for key in values}, variant))
    return grid


def score_settings(
    grid: Grid, sentences: Sequence[Sentence], say: Callable[[str], None]
) -> Iterator[dict[str, Any]]:
    """Yield the scores and the speed of each combination."""
    from fencepost import evaluation

    if not any(sentence.words for sentence in sentences):
        raise UsageError("--sweep: the corpus contains no sentences")
    list(grid[0][1].predict(sentences[:_WARM_UP]))
    for number, (settings, recogniser) in enumerate(grid, start=1):
        start = time.perf_counter()
        predicted = list(recogniser.predict(sentences))
        speed = len(sentences) / (time.perf_counter() - start)
        overall = evaluation.evaluate(sentences, predicted).overall
        text = " ".join(f"{key}={value}" for key, value in settings.items())
        say(f"{number}/{len(grid)} {text}: F1 {100 * overall.f1:.1f}, {speed:,.1f} sentences per second")
        yield {"set": settings, **asdict(overall), "sentences_per_second": speed}
