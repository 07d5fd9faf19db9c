"""Losses and scores of a training run by epoch, from its records; read without PyTorch."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

RECORDS_FILE = "metrics.jsonl"


@dataclass(frozen=True, slots=True)
class Epoch:
    """Measurements of an epoch; scores are between 0 and 1, and None if not measured."""

    number: float
    loss: float | None = None
    dev_loss: float | None = None
    dev_precision: float | None = None
    dev_recall: float | None = None
    dev_f1: float | None = None
    dev_ece: float | None = None


def read_epochs(folder: Path) -> list[Epoch]:
    """Read the development scores and the mean training loss of each epoch from the folder of a run."""
    records = read_records(folder)
    losses = _compute_losses(records)
    scored = {parse_finite(record.get("epoch")): record for record in records if "dev_f1" in record}
    names = [field.name for field in fields(Epoch) if field.name.startswith("dev_")]
    return [
        Epoch(number, losses.get(number), *(parse_finite(scored.get(number, {}).get(name)) for name in names))
        for number in sorted({number for number in (*scored, *losses) if number is not None})
    ]


def get_points(epochs: Sequence[Epoch], name: str, factor: float = 1) -> list[tuple[float, float]]:
    """Return (epoch, factor * value) of the epochs for which the field `name` was measured."""
    values = ((epoch.number, getattr(epoch, name)) for epoch in epochs)
    return [(number, factor * value) for number, value in values if value is not None]


def parse_finite(value: Any) -> float | None:
    """Return a finite number as a float, and None for anything else: a loss may be NaN."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def read_records(folder: Path) -> list[dict[str, Any]]:
    """Read the records of a run: one with `dev_f1` ends an epoch, the others are of steps within one."""
    records = []
    with suppress(OSError, UnicodeDecodeError):
        for line in (folder / RECORDS_FILE).read_text(encoding="utf-8").splitlines():
            with suppress(ValueError):  # the last line is incomplete if the process was killed
                record = json.loads(line)
                if isinstance(record, dict):
                    records.append(record)
    return records


def _compute_losses(records: Sequence[Mapping[str, Any]]) -> dict[float, float]:
    """Return the mean training loss of each epoch; a record has the mean since the previous record."""
    sums: dict[float, tuple[float, float]] = {}
    previous = 0.0
    for record in records:
        step, epoch, loss = (parse_finite(record.get(name)) for name in ("step", "epoch", "loss"))
        if step is None or epoch is None or loss is None:
            continue
        total, steps = sums.get(math.ceil(epoch), (0.0, 0.0))
        sums[math.ceil(epoch)] = (total + loss * (step - previous), steps + step - previous)
        previous = step
    return {number: total / steps for number, (total, steps) in sums.items() if steps > 0}
