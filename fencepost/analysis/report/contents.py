"""Contents of a report, and how they are read from the folder of a model or of a training run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fencepost import __version__
from fencepost.analysis.epochs import Epoch, parse_finite, read_epochs
from fencepost.data.entity import Sentence
from fencepost.data.files import read_json_object
from fencepost.errors import DataError, UsageError
from fencepost.evaluation import Evaluation

EXAMPLES = 3
"""Default number of examples of each kind of error."""


@dataclass(frozen=True, slots=True)
class Speed:
    """Speed of prediction, the engine, and the peak memory of the process."""

    engine: str
    sentences_per_second: float
    peak_memory_mb: float | None = None
    trained: bool = False  # whether the same process trained the model, which takes more memory


@dataclass(frozen=True, slots=True)
class Contents:
    """Contents of a report; parts that are missing are left out of the report.

    `gold` and `predicted` are the same sentences, with annotated and with predicted entities; `data` is the
    name of their corpus. Without them, the report has the scores of `evaluation`. `statistics` has the
    results of `Statistics.to_dict` by the name of the corpus.
    """

    name: str
    version: str
    created: datetime
    settings: Mapping[str, Any] = field(default_factory=dict)
    types: Sequence[str] = ()
    epochs: Sequence[Epoch] = ()
    kept_epoch: float | None = None
    calibration: Mapping[str, Any] | None = None
    data: str | None = None
    gold: Sequence[Sentence] | None = None
    predicted: Sequence[Sentence] | None = None
    evaluation: Evaluation | None = None
    statistics: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    speed: Speed | None = None
    examples: int = EXAMPLES


def read_contents(folder: Path) -> Contents:
    """Read the settings, types, learning curves and test scores from a folder, without PyTorch."""
    config, result = (
        read_json_object(path) if path.is_file() else {}
        for path in (folder / "config.json", folder / "metrics.json")
    )
    settings = _to_dict(config.get("config")) or _read_run_settings(folder / "run.yaml")
    if not settings:
        raise UsageError.no_model(folder, ", nor the folder of a training run")
    types = config.get("types")
    evaluation = None
    if result.get("test"):
        try:
            evaluation = Evaluation.from_dict(result["test"])
        except ValueError:
            raise DataError(
                "the test scores are not those of a training run", source=str(folder / "metrics.json")
            ) from None
    return Contents(
        name=folder.resolve().name,
        version=__version__,
        created=datetime.now(UTC),
        settings=settings,
        types=[str(type_) for type_ in types] if isinstance(types, list) else [],
        epochs=read_epochs(folder),
        kept_epoch=parse_finite(result.get("kept_epoch")),
        calibration=_to_dict(result.get("calibration")) or None,
        data=None if evaluation is None else "the test data of the training run",
        evaluation=evaluation,
    )


def _read_run_settings(path: Path) -> dict[str, Any]:
    """Read the settings of a run that has no model yet; return none if they cannot be read."""
    import yaml

    with suppress(OSError, ValueError, yaml.YAMLError):
        return _to_dict(yaml.safe_load(path.read_text(encoding="utf-8")))
    return {}


def _to_dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
