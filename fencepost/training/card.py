"""The card of a trained model."""

from __future__ import annotations

from typing import Any

from fencepost.evaluation import Evaluation
from fencepost.methods.model import Model
from fencepost.runtime.card import Facts, card


def model_card(
    model: Model,
    dev: dict[str, Any] | None,
    test: Evaluation | None,
    calibration: dict[str, float | None] | None = None,
) -> str:
    """Return the Markdown of `README.md`, with the scores that were measured."""
    config = model.settings.model_dump(mode="json")
    weights = sum(parameter.numel() for parameter in model.parameters())
    scores = None if test is None else test.to_dict()
    return card(Facts(model.types, config, weights, dev, scores, calibration))
