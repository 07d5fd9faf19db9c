"""The end of a training: confidences are calibrated on development data, and the test data is scored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace

import numpy as np

from fencepost.data.entity import Sentence
from fencepost.evaluation import Evaluation, Mentions, Temperature, evaluate, match, reliability
from fencepost.methods.model import Model
from fencepost.training.scoring import time_prediction


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
        predicted, seconds = time_prediction(model, dev)
        mentions = match(dev, predicted).predicted
        temperature = Temperature.fit(mentions.score, mentions.matched)
        calibration = asdict(temperature) | _calibration_errors("dev", mentions, temperature)
    if test is not None:
        predicted, seconds = time_prediction(model, test)
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
