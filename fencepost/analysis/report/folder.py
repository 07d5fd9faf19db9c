"""What the folder of a model or of a training run tells for a report, read without PyTorch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fencepost import __version__
from fencepost.analysis.epochs import finite, read_epochs
from fencepost.analysis.report.contents import Contents
from fencepost.errors import UsageError
from fencepost.evaluation import Calibration, Evaluation, ReliabilityBin, Score

_CONFIG, _RUN, _RESULT = "config.json", "run.yaml", "metrics.json"


def run_contents(folder: Path) -> Contents:
    """All that the folder tells: settings, types, how the training went, and what scores it ended with."""
    config, result = _object(folder / _CONFIG), _object(folder / _RESULT)
    settings = _mapping(config.get("config")) or _run_settings(folder / _RUN)
    if not settings:
        raise UsageError(
            f"{folder}: there is no model and no training run here (a model is a folder with a {_CONFIG})"
        )
    types = config.get("types")
    return Contents(
        name=folder.resolve().name,
        version=__version__,
        made=datetime.now(UTC),
        settings=settings,
        types=[str(type_) for type_ in types] if isinstance(types, list) else [],
        epochs=read_epochs(folder),
        kept=finite(result.get("kept_epoch")),
        calibration=_mapping(result.get("calibration")) or None,
        data="the test data of the training" if result.get("test") else None,
        evaluation=_evaluation(result["test"], folder / _RESULT) if result.get("test") else None,
    )


def _object(path: Path) -> dict[str, Any]:
    """A JSON object; an absent file is an empty one."""
    if not path.is_file():
        return {}
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise UsageError(f"{path}: is damaged: it is not valid JSON") from None
    if not isinstance(value, dict):
        raise UsageError(f"{path}: is damaged: it is no JSON object")
    return value


def _run_settings(path: Path) -> dict[str, Any]:
    """The settings of a run that has no model yet."""
    import yaml

    with suppress(OSError, ValueError, yaml.YAMLError):
        return _mapping(yaml.safe_load(path.read_text(encoding="utf-8")))
    return {}


def _evaluation(saved: Any, path: Path) -> Evaluation:
    """The scores as they were before they became JSON."""
    try:
        bins = tuple(ReliabilityBin(**one) for one in saved["reliability"])
        return Evaluation(
            overall=_score(saved),
            macro_f1=float(saved["macro_f1"]),
            by_type={str(name): _score(one) for name, one in saved["by_type"].items()},
            by_length={int(length): _score(one) for length, one in saved["by_length"].items()},
            calibration=Calibration(finite(saved["ece"]), bins) if bins else None,
            sentences=int(saved["sentences"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        raise UsageError(f"{path}: is damaged: its test scores cannot be understood") from None


def _score(saved: Mapping[str, Any]) -> Score:
    return Score.of(*(int(saved[name]) for name in ("true_positives", "predicted", "support")))


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
