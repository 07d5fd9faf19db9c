"""The model card: what a model finds, how it was made, how well it does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fencepost import __version__
from fencepost.evaluation import Evaluation
from fencepost.model import Model


def model_card(
    model: Model,
    dev: dict[str, Any] | None,
    test: Evaluation | None,
    calibration: dict[str, float | None] | None = None,
) -> str:
    """Markdown for `README.md`; figures only where they were measured."""
    config = model.settings
    weights = sum(parameter.numel() for parameter in model.parameters())
    lines = [
        "# A named entity recogniser",
        "",
        f"Finds entities of {len(model.types)} types: {', '.join(f'`{type_}`' for type_ in model.types)}.",
        "",
        f"- method: `{config.method.name}`",
        f"- encoder: `{config.encoder.name}`; {weights / 1e6:.1f} M weights in all",
        f"- selection: `{config.predict.select}`",
        f"- training: up to {config.training.epochs} epochs, seed {config.training.seed}",
        f"- made with fencepost {__version__}; all settings are in `config.json`",
        "",
    ]
    rows = []
    if dev is not None:
        rows.append(
            f"| development, epoch {dev['epoch']:.0f} | {_percent(dev['dev_precision'])} | "
            f"{_percent(dev['dev_recall'])} | {_percent(dev['dev_f1'])} |"
        )
    if test is not None:
        score = test.overall
        rows.append(
            f"| test | {_percent(score.precision)} | {_percent(score.recall)} | {_percent(score.f1)} |"
        )
    if rows:
        lines += ["Strict scores (start, end and type must all be right), in percent:", ""]
        lines += ["| data | precision | recall | F1 |", "|---|---|---|---|", *rows, ""]
    else:
        lines += ["It has not been scored: there was neither development nor test data.", ""]
    if calibration is not None:
        lines += [*_confidences(calibration), ""]
    return "\n".join(lines)


def _confidences(calibration: dict[str, float | None]) -> Iterator[str]:
    """How they were calibrated, and what it changed where something was predicted."""
    yield (
        f"Confidences are calibrated on the development data: temperature {calibration['temperature']:.2f}, "
        f"shift {calibration['shift']:z.2f}."
    )
    for part, name in (("dev", "development"), ("test", "test")):
        before, after = calibration.get(f"{part}_ece_before"), calibration.get(f"{part}_ece_after")
        if before is not None and after is not None:
            yield (
                f"On the {name} data that takes their expected calibration error from {before:.3f} "
                f"to {after:.3f}."
            )


def _percent(ratio: float) -> str:
    return f"{100 * ratio:.1f}"
