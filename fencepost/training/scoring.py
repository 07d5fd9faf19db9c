"""Scores in training: development scores and loss, threshold, calibration, test scores."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from accelerate import Accelerator  # type: ignore[import-untyped]

from fencepost.data.entity import Entity, Sentence
from fencepost.evaluation import Evaluation, Temperature, evaluate, fit_threshold, match, reliability
from fencepost.evaluation.strict import EntityTable
from fencepost.methods.decoder import WordArrays
from fencepost.methods.model import Model
from fencepost.methods.settings import PredictSettings
from fencepost.runtime.engine import Predictor, Watch
from fencepost.runtime.pytorch import make_predictor
from fencepost.runtime.recogniser import Recogniser
from fencepost.training.processes import gather

_LENIENT = 0.02
"""Low threshold of the predictions among which the best threshold is chosen."""


def score_development(
    model: Model,
    dev: Sequence[Sentence],
    settings: PredictSettings,
    accelerator: Accelerator,
    check: Callable[[bool], None],
) -> dict[str, float | None]:
    """Return the strict scores and the loss on the development data.

    If `settings` have no threshold, that of the model is set to the best one on this data. `check` is called
    with whether the loss is finite.
    """
    model.eval()
    losses: list[tuple[float, int]] = []

    def watch(sentences: Sequence[Sentence], words: WordArrays, scores: Any) -> None:  # noqa: ARG001
        loss = model.compute_loss(sentences, words)
        check(math.isfinite(loss))
        losses.append((loss, len(sentences)))

    start = time.perf_counter()
    predicted, threshold = _predict_tuned(model, dev, settings, accelerator, watch)
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
        **threshold,
    }


def _predict_tuned(
    model: Model, dev: Sequence[Sentence], settings: PredictSettings, accelerator: Accelerator, watch: Watch
) -> tuple[list[Sentence], dict[str, float]]:
    """Return predictions with the threshold that is set, or else with a fitted one and scores about it."""
    if settings.threshold is not None:
        model.set_predict(settings)
        return list(make_recogniser(model, accelerator).predict(dev, watch)), {}
    model.set_predict(settings.with_changes({"threshold": _LENIENT}))
    predicted = list(make_recogniser(model, accelerator).predict(dev, watch))
    default = settings.default_threshold
    fitted = fit_threshold(match(dev, predicted))  # None if no prediction is correct
    model.set_predict(
        settings
        if fitted is None
        else settings.with_changes({"threshold": dict.fromkeys(model.types, fitted)})
    )
    fitted = default if fitted is None else fitted
    default_f1 = evaluate(dev, _select_above(predicted, default)).overall.f1
    return _select_above(predicted, fitted), {"dev_threshold": fitted, "dev_f1_default_threshold": default_f1}


def _select_above(sentences: Sequence[Sentence], threshold: float) -> list[Sentence]:
    return [s.with_entities(e for e in s.entities if e.score >= threshold) for s in sentences]


class SharedPredictor(Predictor):
    """Predictor that divides batches among processes; each process gets all results."""

    def __init__(self, predictor: Predictor, accelerator: Accelerator) -> None:
        vars(self).update(vars(predictor))
        self.accelerator = accelerator

    def predict_entities(
        self, sentences: Sequence[Sentence], watch: Watch | None = None
    ) -> list[list[Entity]]:
        own = self.make_batches(sentences)[self.accelerator.process_index :: self.accelerator.num_processes]
        predicted = [
            (index, [(*entity.key, entity.score) for entity in entities])
            for batch in own
            for index, entities in zip(
                batch, self.predict_batch([sentences[index] for index in batch], watch), strict=True
            )
        ]
        rows = {index: entities for part in gather(self.accelerator, predicted) for index, entities in part}
        return [[Entity(*row) for row in rows.get(index, ())] for index in range(len(sentences))]


def make_recogniser(model: Model, accelerator: Accelerator | None = None) -> Recogniser:
    """Return a recogniser that runs the model, divided among all processes if there are several."""
    predictor = make_predictor(model)
    if accelerator is not None and accelerator.num_processes > 1:
        predictor = SharedPredictor(predictor, accelerator)
    return Recogniser(predictor)


def calibrate(
    model: Model, dev: Sequence[Sentence] | None, test: Sequence[Sentence] | None
) -> tuple[dict[str, float | None] | None, Evaluation | None, list[Sentence] | None, float]:
    """Calibrate the model on the development data, if there is any, and score it on the test data.

    Returns the calibration with its errors, the test scores, the predictions on the test data (or else on the
    development data), and the seconds that they took.
    """
    temperature, calibration = Temperature(), None
    predicted, seconds = None, 0.0  # predictions are calibrated after both errors are computed from them
    if dev is not None:
        predicted, seconds = _time_prediction(model, dev)
        mentions = match(dev, predicted).predicted
        temperature = Temperature.fit(mentions.score, mentions.matched)
        calibration = asdict(temperature) | compute_errors("dev", mentions, temperature)
    if test is not None:
        predicted, seconds = _time_prediction(model, test)
        if calibration is not None:
            mentions = match(test, predicted).predicted
            calibration |= compute_errors("test", mentions, temperature)
    model.calibration = temperature
    if predicted is not None:
        predicted = apply_temperature(temperature, predicted)
    result = None if test is None or predicted is None else evaluate(test, predicted)
    return calibration, result, predicted, seconds


def compute_errors(part: str, mentions: EntityTable, temperature: Temperature) -> dict[str, float | None]:
    """Return the expected calibration errors of predictions before and after their calibration."""
    return {
        f"{part}_ece_before": reliability(mentions.score, mentions.matched).ece,
        f"{part}_ece_after": reliability(temperature.apply(mentions.score), mentions.matched).ece,
    }


def apply_temperature(temperature: Temperature, sentences: Sequence[Sentence]) -> list[Sentence]:
    """Return the predictions with calibrated confidences."""
    scores = np.array([entity.score for sentence in sentences for entity in sentence.entities])
    rest = iter(temperature.apply(scores).tolist())
    return [s.with_entities(replace(entity, score=next(rest)) for entity in s.entities) for s in sentences]


def _time_prediction(model: Model, sentences: Sequence[Sentence]) -> tuple[list[Sentence], float]:
    start = time.perf_counter()
    return list(make_recogniser(model).predict(sentences)), time.perf_counter() - start
