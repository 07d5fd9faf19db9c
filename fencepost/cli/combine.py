"""`fencepost combine`: make one model of several trained ones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fencepost.cli.frame import Json, check_json_target, command, output_result
from fencepost.cli.groups import REQUIRED, argument, option
from fencepost.cli.models import Device, find_text_rules
from fencepost.cli.options import ReadingOptions
from fencepost.errors import UsageError, require_extra

if TYPE_CHECKING:
    from fencepost.training import Combined


@command("combine")
def combine(
    *,
    models: list[Path] = argument("MODEL...", "Folders or names of two or more models with the same types."),
    out: Path = option(REQUIRED, "Folder for the combination; new or empty.", metavar="FOLDER"),
    reading: ReadingOptions,
    dev: str | None = option(
        None,
        "Development data, to fit weights, threshold and calibration. Default: equal weights.",
        metavar="DATA",
    ),
    device: Device = "auto",
    json: Json = None,
) -> None:
    """Combine trained models into one, which predicts the entities that they agree on.

    The models may differ in method, encoder and seed, but not in their types. All other commands accept
    the combination like any other model.

    Example: fencepost combine model-1 model-2 model-3 --dev dev.conll --out combined
    """
    from fencepost.runtime.loading import find_model

    check_json_target(json)
    with require_extra("train", "combining models"):
        from fencepost.training import combine as run
    models = [find_model(model) for model in models]
    sentences = None if dev is None else reading.read(dev, find_text_rules(models))
    if sentences is not None and not sentences:
        raise UsageError(f"{dev}: contains no sentences")
    result = run(models, out, sentences, device=device)
    output_result(_to_dict(result, out), json, lambda: _show(result, out))


def _to_dict(result: Combined, out: Path) -> dict[str, object]:
    return {
        "model": str(out),
        "settings": result.settings.model_dump(mode="json"),
        "dev": None if result.dev is None else result.dev.to_dict(),
        "members": [one.to_dict() for one in result.members],
        "calibration": result.calibration,
        "threshold": result.threshold,
    }


def _show(result: Combined, out: Path) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    if result.dev is not None:
        table = Table(title="Strict scores on the development data, in percent")
        for name in ("model", "precision", "recall", "F1", "weight"):
            table.add_column(name, justify="left" if name == "model" else "right")
        names, weights = result.settings.members, [f"{slope:.2f}" for slope in result.settings.slopes]
        rows = zip([*names, "combination"], [*result.members, result.dev], [*weights, ""], strict=True)
        for name, scores, weight in rows:
            one = scores.overall
            values = (f"{100 * value:.1f}" for value in (one.precision, one.recall, one.f1))
            table.add_row(name, *values, weight)
        console.print(table)
    else:
        console.print("without development data (--dev), all members have the same weight")
    console.print(f"the model is in {out}", soft_wrap=True, markup=False)
