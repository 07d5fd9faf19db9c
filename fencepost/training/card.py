"""The card of a model that has just been trained."""

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
    """Markdown for `README.md`; figures only where they were measured."""
    return card(
        Facts(
            types=model.types,
            config=model.settings.model_dump(mode="json"),
            weights=sum(parameter.numel() for parameter in model.parameters()),
            dev=dev,
            test=None if test is None else test.to_dict(),
            calibration=calibration,
        )
    )
