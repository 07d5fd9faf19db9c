"""What a training needs from prediction: development scores and loss, calibration, test scores."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from accelerate import Accelerator  # type: ignore[import-untyped]

from fencepost.data.context import with_context
from fencepost.data.entity import Entity, Sentence
from fencepost.evaluation import Evaluation, Mentions, Temperature, best_cut, evaluate, match, reliability
from fencepost.methods.decoder import PredictSettings
from fencepost.methods.model import Model, Watch
from fencepost.runtime.engine import LOOK_AHEAD, batches
from fencepost.training.processes import gather


def score_development(
    model: Model,
    dev: Sequence[Sentence],
    asked: PredictSettings,
    accelerator: Accelerator,
    check: Callable[[bool], None],
) -> dict[str, float | None]:
    """Return the strict scores and the loss on the development data; `check` gets whether it is finite.

    Before, the model's settings for prediction are tuned to the data where `asked` leaves that open.
    """
    model.eval()
    losses: list[tuple[float, int]] = []

    def watch(sentences: Sequence[Sentence], *of_batch: Any) -> None:
        loss = model.loss_of(*of_batch)
        check(math.isfinite(loss))
        losses.append((loss, len(sentences)))

    start = time.perf_counter()
    predicted = _predict_tuned(model, dev, asked, accelerator, watch)
    seconds = time.perf_counter() - start
    losses = [of_batch for part in gather(accelerator, losses) for of_batch in part]
    result = evaluate(dev, predicted)
    return {
        "dev_loss": sum(loss * count for loss, count in losses) / max(1, sum(n for _, n in losses)),
        "dev_precision": result.overall.precision,
        "dev_recall": result.overall.recall,
        "dev_f1": result.overall.f1,
        "dev_ece": result.calibration.ece if result.calibration else None,
        "dev_seconds": seconds,
    }


def _predict_tuned(
    model: Model, dev: Sequence[Sentence], asked: PredictSettings, accelerator: Accelerator, watch: Watch
) -> list[Sentence]:
    """Return predictions with the least confidence of an entity, if that is open, set to where F1 is best."""
    lenient = asked.at_least(0.0)
    if lenient is None:
        return predict_together(model, dev, accelerator, watch)
    model.use(lenient)
    predicted = predict_together(model, dev, accelerator, watch)
    cut = best_cut(match(dev, predicted))
    if cut is None:  # nothing is right
        model.use(asked)
        return predict_together(model, dev, accelerator)
    model.use(asked.at_least(cut) or asked)
    return [s.with_entities(e for e in s.entities if e.score >= cut) for s in predicted]


def predict_together(
    model: Model, sentences: Sequence[Sentence], accelerator: Accelerator, watch: Watch | None = None
) -> list[Sentence]:
    """Return what `Model.predict` does; each of its batches is computed by one process."""
    if accelerator.num_processes == 1:
        return list(model.predict(sentences, watch))
    seen = list(with_context(sentences, model.settings.encoder.context))
    own = list(_batches(model, seen))[accelerator.process_index :: accelerator.num_processes]
    predicted = {
        index: [(*entity.key, entity.score) for entity in entities]
        for batch in own
        for index, entities in zip(batch, model.found([seen[i] for i in batch], watch), strict=True)
    }
    of_all = {index: of for part in gather(accelerator, list(predicted.items())) for index, of in part}
    return [
        sentence.with_entities(Entity(*of) for of in of_all.get(index, ()))
        for index, sentence in enumerate(sentences)
    ]


def _batches(model: Model, sentences: Sequence[Sentence]) -> Iterator[list[int]]:
    """Yield the batches that prediction forms; sentences without words are in none."""
    for first in range(0, len(sentences), LOOK_AHEAD):
        chunk = sentences[first : first + LOOK_AHEAD]
        sizes = [model.encoder.size(sentence) if sentence.words else 0 for sentence in chunk]
        lengths = [len(sentence) for sentence in chunk]
        for batch in batches(sizes, lengths, model.settings.predict.batch_size):
            yield [first + index for index in batch]


def calibrate(
    model: Model, dev: Sequence[Sentence] | None, test: Sequence[Sentence] | None
) -> tuple[dict[str, float | None] | None, Evaluation | None, list[Sentence] | None, float]:
    """Calibrate the model on the development data, if there is any, and score it on the test data.

    Returns the calibration with its errors, the test scores, the predictions in the last of these data, and
    how many seconds they took.
    """
    temperature, calibration = Temperature(), None
    predicted, seconds = None, 0.0  # not calibrated yet, so that both errors can be computed from it
    if dev is not None:
        predicted, seconds = _time_prediction(model, dev)
        mentions = match(dev, predicted).predicted
        temperature = Temperature.fit(mentions.score, mentions.matched)
        calibration = asdict(temperature) | _calibration_errors("dev", mentions, temperature)
    if test is not None:
        predicted, seconds = _time_prediction(model, test)
        if calibration is not None:
            mentions = match(test, predicted).predicted
            calibration |= _calibration_errors("test", mentions, temperature)
    model.calibration = temperature
    if predicted is not None:
        predicted = list(_apply(temperature, predicted))
    result = None if test is None or predicted is None else evaluate(test, predicted)
    return calibration, result, predicted, seconds


def _calibration_errors(part: str, mentions: Mentions, temperature: Temperature) -> dict[str, float | None]:
    return {
        f"{part}_ece_before": reliability(mentions.score, mentions.matched).ece,
        f"{part}_ece_after": reliability(temperature.apply(mentions.score), mentions.matched).ece,
    }


def _apply(temperature: Temperature, sentences: Sequence[Sentence]) -> Iterator[Sentence]:
    """Yield what the model would have predicted with this temperature."""
    scores = np.array([entity.score for sentence in sentences for entity in sentence.entities])
    rest = iter(temperature.apply(scores).tolist())
    for sentence in sentences:
        yield sentence.with_entities(replace(entity, score=next(rest)) for entity in sentence.entities)


def _time_prediction(model: Model, sentences: Sequence[Sentence]) -> tuple[list[Sentence], float]:
    start = time.perf_counter()
    return list(model.predict(sentences)), time.perf_counter() - start
