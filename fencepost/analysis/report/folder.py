"""What the folder of a model or of a training run tells for a report, read without PyTorch."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fencepost import __version__
from fencepost.analysis.report.contents import Contents, Epoch
from fencepost.errors import UsageError
from fencepost.evaluation import Calibration, Evaluation, ReliabilityBin, Score

_CONFIG, _RUN, _RESULT, _RECORDS = "config.json", "run.yaml", "metrics.json", "metrics.jsonl"


def run_contents(folder: Path) -> Contents:
    """All that the folder tells: settings, types, how the training went, and what scores it ended with."""
    config, result = _object(folder / _CONFIG), _object(folder / _RESULT)
    settings = _mapping(config.get("config")) or _run_settings(folder / _RUN)
    if not settings:
        raise UsageError(
            f"{folder}: there is no model and no training run here (a model is a folder with a {_CONFIG})"
        )
    types = config.get("types")
    records = _records(folder / _RECORDS)
    measured = result.get("epochs") or [record for record in records if "dev_f1" in record]
    return Contents(
        name=folder.resolve().name,
        version=__version__,
        made=datetime.now(UTC),
        settings=settings,
        types=[str(type_) for type_ in types] if isinstance(types, list) else [],
        epochs=_epochs(measured if isinstance(measured, list) else [], records),
        kept=_number(result.get("kept_epoch")),
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


def _records(path: Path) -> list[dict[str, Any]]:
    records = []
    with suppress(OSError, UnicodeDecodeError):
        for line in path.read_text(encoding="utf-8").splitlines():
            with suppress(ValueError):  # the last line of a process that was killed may be cut off
                records.append(_mapping(json.loads(line)))
    return records


def _epochs(measured: Sequence[Any], records: Sequence[Mapping[str, Any]]) -> list[Epoch]:
    """What was measured on the development data, and the mean training loss, by epoch."""
    losses = _losses(records)
    scored = {
        number: record for record in map(_mapping, measured) if (number := _number(record.get("epoch")))
    }
    return [
        Epoch(
            number,
            losses.get(number),
            *(
                _number(scored.get(number, {}).get(f"dev_{name}"))
                for name in ("loss", "precision", "recall", "f1")
            ),
        )
        for number in sorted(scored.keys() | losses.keys())
    ]


def _losses(records: Sequence[Mapping[str, Any]]) -> dict[float, float]:
    """The mean training loss of each epoch: a record is the mean over the steps since the one before."""
    sums: dict[float, tuple[float, float]] = {}
    before = 0.0
    for record in records:
        step, epoch, loss = (_number(record.get(name)) for name in ("step", "epoch", "loss"))
        if step is None or epoch is None or loss is None:
            continue
        total, steps = sums.get(math.ceil(epoch), (0.0, 0.0))
        sums[math.ceil(epoch)] = (total + loss * (step - before), steps + step - before)
        before = step
    return {number: total / steps for number, (total, steps) in sums.items() if steps > 0}


def _evaluation(saved: Any, path: Path) -> Evaluation:
    """The scores as they were before they became JSON."""
    try:
        bins = tuple(ReliabilityBin(**one) for one in saved["reliability"])
        return Evaluation(
            overall=_score(saved),
            macro_f1=float(saved["macro_f1"]),
            by_type={str(name): _score(one) for name, one in saved["by_type"].items()},
            by_length={int(length): _score(one) for length, one in saved["by_length"].items()},
            calibration=Calibration(_number(saved["ece"]), bins) if bins else None,
            sentences=int(saved["sentences"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        raise UsageError(f"{path}: is damaged: its test scores cannot be understood") from None


def _score(saved: Mapping[str, Any]) -> Score:
    return Score.of(*(int(saved[name]) for name in ("true_positives", "predicted", "support")))


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _number(value: Any) -> float | None:
    """A finite number, or None: a loss may have become something else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)
