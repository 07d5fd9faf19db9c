"""The contents of a report as plain data, and reading them from the folder of a model or a training run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fencepost import __version__
from fencepost.analysis.epochs import Epoch, finite, read_epochs
from fencepost.data.entity import Sentence
from fencepost.data.files import read_json_object
from fencepost.errors import DataError, UsageError
from fencepost.evaluation import Evaluation

EXAMPLES = 3
"""Default number of examples of each kind of mistake."""


@dataclass(frozen=True, slots=True)
class Speed:
    """The speed of predictions, the engine, and the peak memory of the process."""

    engine: str
    sentences_per_second: float
    peak_memory_mb: float | None = None
    trained: bool = False  # the same process trained the model, which takes more memory


@dataclass(frozen=True, slots=True)
class Contents:
    """Everything that a report may show; what is not known is left out of it.

    `gold` and `predicted` are the same sentences, from `data`. Without them, the scores are those of
    `evaluation`, if they were saved. `statistics` has those of each corpus by its name, as
    `Statistics.to_dict` returns them.
    """

    name: str
    version: str
    made: datetime
    settings: Mapping[str, Any] = field(default_factory=dict)
    types: Sequence[str] = ()
    epochs: Sequence[Epoch] = ()
    kept: float | None = None
    calibration: Mapping[str, Any] | None = None
    data: str | None = None
    gold: Sequence[Sentence] | None = None
    predicted: Sequence[Sentence] | None = None
    evaluation: Evaluation | None = None
    statistics: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    speed: Speed | None = None
    examples: int = EXAMPLES


def run_contents(folder: Path) -> Contents:
    """Read the settings, types, learning curves and final scores from a folder, without PyTorch."""
    config, result = (
        read_json_object(path) if path.is_file() else {}
        for path in (folder / "config.json", folder / "metrics.json")
    )
    settings = _mapping(config.get("config")) or _run_settings(folder / "run.yaml")
    if not settings:
        raise UsageError(
            f"{folder}: there is no model and no training run here (a model is a folder with a config.json)"
        )
    types = config.get("types")
    evaluation = None
    if result.get("test"):
        try:
            evaluation = Evaluation.from_dict(result["test"])
        except ValueError:
            raise DataError(
                "its test scores are not those of a training run", source=str(folder / "metrics.json")
            ) from None
    return Contents(
        name=folder.resolve().name,
        version=__version__,
        made=datetime.now(UTC),
        settings=settings,
        types=[str(type_) for type_ in types] if isinstance(types, list) else [],
        epochs=read_epochs(folder),
        kept=finite(result.get("kept_epoch")),
        calibration=_mapping(result.get("calibration")) or None,
        data=None if evaluation is None else "the test data of the training",
        evaluation=evaluation,
    )


def _run_settings(path: Path) -> dict[str, Any]:
    """Return the settings of a run that has no model yet."""
    import yaml

    with suppress(OSError, ValueError, yaml.YAMLError):
        return _mapping(yaml.safe_load(path.read_text(encoding="utf-8")))
    return {}


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
