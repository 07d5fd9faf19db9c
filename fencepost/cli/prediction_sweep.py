"""`fencepost evaluate --sweep`: the same model, predicted with one combination of settings after another."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import product
from typing import TYPE_CHECKING, Any

from fencepost.cli.frame import say
from fencepost.errors import UsageError

if TYPE_CHECKING:
    from fencepost.data.entity import Sentence
    from fencepost.methods.decoder import PredictSettings
    from fencepost.methods.model import Model


Grid = list[tuple[dict[str, Any], "PredictSettings"]]
"""What is set, and the settings that result."""


def combinations(model: Model, axes: Sequence[str]) -> Grid:
    """Of all values of all settings, given as `steps=1,2,5`."""
    values: dict[str, list[str]] = {}
    for axis in axes:
        key, _, listed = axis.partition("=")
        key = key.removeprefix("predict.")
        if not key or not all(listed.split(",")):
            raise UsageError(f"--sweep {axis}: write it as KEY=VALUE,VALUE, for example steps=1,2,5")
        if key in values:
            raise UsageError(f"--sweep {axis}: {key} is swept already")
        values[key] = list(dict.fromkeys(listed.split(",")))
    found: Grid = []
    for chosen in product(*values.values()):
        changes = [f"predict.{key}={value}" for key, value in zip(values, chosen, strict=True)]
        predict = model.settings.changed(changes).predict
        found.append(({key: getattr(predict, key) for key in values}, predict))
    return found


def swept(
    model: Model, sentences: Sequence[Sentence], grid: Grid, *, quiet: bool
) -> Iterator[dict[str, Any]]:
    """The scores and the speed of each combination.

    Words are cut into pieces before, so that the first one does not pay for it.
    """
    from fencepost import evaluation

    if not any(sentence.words for sentence in sentences):
        raise UsageError("--sweep: the corpus has no sentences to predict")
    for sentence in sentences:
        model.encoder.size(sentence)
    model.use(grid[0][1])
    list(model.predict(sentences[: model.settings.predict.batch_size]))  # whatever is slow the first time
    for number, (named, predict) in enumerate(grid, start=1):
        model.use(predict)
        start = time.perf_counter()
        predicted = list(model.predict(sentences))
        seconds = time.perf_counter() - start
        overall = evaluation.evaluate(sentences, predicted).overall
        speed = len(sentences) / seconds
        told = " ".join(f"{key}={value}" for key, value in named.items())
        say(f"{number}/{len(grid)} {told}: F1 {100 * overall.f1:.1f}, {speed:,.1f} a second", quiet=quiet)
        yield {"set": named, **asdict(overall), "sentences_per_second": speed}
