"""What a training needs from prediction: development scores and loss, calibration, test scores."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from accelerate import Accelerator  # type: ignore[import-untyped]

from fencepost.data.entity import Entity, Sentence
from fencepost.evaluation import Evaluation, Mentions, Temperature, best_cut, evaluate, match, reliability
from fencepost.methods.decoder import WordArrays
from fencepost.methods.model import Model
from fencepost.methods.settings import PredictSettings
from fencepost.runtime.engine import Predictor, Watch
from fencepost.runtime.pytorch import make_predictor
from fencepost.runtime.recogniser import Recogniser
from fencepost.training.processes import gather

_LENIENT = 0.02
"""The threshold of the predictions of which the best threshold is chosen."""


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

    def watch(sentences: Sequence[Sentence], words: WordArrays, scores: Any) -> None:  # noqa: ARG001
        loss = model.compute_loss(sentences, words)
        check(math.isfinite(loss))
        losses.append((loss, len(sentences)))

    start = time.perf_counter()
    predicted, threshold = _predict_tuned(model, dev, asked, accelerator, watch)
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
    model: Model, dev: Sequence[Sentence], asked: PredictSettings, accelerator: Accelerator, watch: Watch
) -> tuple[list[Sentence], dict[str, float]]:
    """Return predictions with the threshold, unless it is set, of the best F1; and F1 with the usual one."""
    fitted = asked.threshold is None
    model.set_predict(asked.with_changes({"threshold": _LENIENT}) if fitted else asked)
    predicted = list(make_recogniser(model, accelerator).predict(dev, watch))
    if not fitted:
        return predicted, {}
    usual = asked.usual_threshold
    cut = best_cut(match(dev, predicted))
    model.set_predict(
        asked if cut is None else asked.with_changes({"threshold": dict.fromkeys(model.types, cut)})
    )
    cut = usual if cut is None else cut  # nothing is right
    at_usual = evaluate(dev, _keep_above(predicted, usual)).overall.f1
    return _keep_above(predicted, cut), {"dev_threshold": cut, "dev_f1_usual_threshold": at_usual}


def _keep_above(sentences: Sequence[Sentence], threshold: float) -> list[Sentence]:
    return [s.with_entities(e for e in s.entities if e.score >= threshold) for s in sentences]


class SharedPredictor(Predictor):
    """A predictor whose batches are shared among processes, each of which gets all results."""

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
        of_all = {index: of for part in gather(self.accelerator, predicted) for index, of in part}
        return [[Entity(*of) for of in of_all.get(index, ())] for index in range(len(sentences))]


def make_recogniser(model: Model, accelerator: Accelerator | None = None) -> Recogniser:
    """Return a recogniser that runs the model as it is, on all processes together."""
    predictor = make_predictor(model)
    if accelerator is not None and accelerator.num_processes > 1:
        predictor = SharedPredictor(predictor, accelerator)
    return Recogniser(predictor)


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
        predicted = apply_temperature(temperature, predicted)
    result = None if test is None or predicted is None else evaluate(test, predicted)
    return calibration, result, predicted, seconds


def _calibration_errors(part: str, mentions: Mentions, temperature: Temperature) -> dict[str, float | None]:
    return {
        f"{part}_ece_before": reliability(mentions.score, mentions.matched).ece,
        f"{part}_ece_after": reliability(temperature.apply(mentions.score), mentions.matched).ece,
    }


def apply_temperature(temperature: Temperature, sentences: Sequence[Sentence]) -> list[Sentence]:
    """Return what the model would have predicted with this temperature."""
    scores = np.array([entity.score for sentence in sentences for entity in sentence.entities])
    rest = iter(temperature.apply(scores).tolist())
    return [s.with_entities(replace(entity, score=next(rest)) for entity in s.entities) for s in sentences]


def _time_prediction(model: Model, sentences: Sequence[Sentence]) -> tuple[list[Sentence], float]:
    start = time.perf_counter()
    return list(make_recogniser(model).predict(sentences)), time.perf_counter() - start
