"""The course of a training run, epoch by epoch, from the records it wrote; read without PyTorch."""

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
    """The measurements of an epoch of training; ratios are between 0 and 1, None is not measured."""

    number: float
    loss: float | None = None
    dev_loss: float | None = None
    dev_precision: float | None = None
    dev_recall: float | None = None
    dev_f1: float | None = None
    dev_ece: float | None = None


def read_epochs(folder: Path) -> list[Epoch]:
    """Read the scores on the development data, and the mean training loss, of each epoch."""
    records = read_records(folder)
    losses = _losses(records)
    scored = {finite(record.get("epoch")): record for record in records if "dev_f1" in record}
    names = [field.name for field in fields(Epoch) if field.name.startswith("dev_")]
    return [
        Epoch(number, losses.get(number), *(finite(scored.get(number, {}).get(name)) for name in names))
        for number in sorted({number for number in (*scored, *losses) if number is not None})
    ]


def points_of(epochs: Sequence[Epoch], name: str, factor: float = 1) -> list[tuple[float, float]]:
    """Return (epoch, factor * value) of the epochs in which this was measured."""
    values = ((epoch.number, getattr(epoch, name)) for epoch in epochs)
    return [(number, factor * value) for number, value in values if value is not None]


def finite(value: Any) -> float | None:
    """Return a finite number, or None for anything else: a loss may be NaN."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def read_records(folder: Path) -> list[dict[str, Any]]:
    """Return the records of a run: those with `dev_f1` are of an epoch's end, the others of steps between."""
    records = []
    with suppress(OSError, UnicodeDecodeError):
        for line in (folder / RECORDS_FILE).read_text(encoding="utf-8").splitlines():
            with suppress(ValueError):  # the last line of a process that was killed may be cut off
                record = json.loads(line)
                if isinstance(record, dict):
                    records.append(record)
    return records


def _losses(records: Sequence[Mapping[str, Any]]) -> dict[float, float]:
    """Return the mean training loss of each epoch; a record is the mean over the steps since the last one."""
    sums: dict[float, tuple[float, float]] = {}
    before = 0.0
    for record in records:
        step, epoch, loss = (finite(record.get(name)) for name in ("step", "epoch", "loss"))
        if step is None or epoch is None or loss is None:
            continue
        total, steps = sums.get(math.ceil(epoch), (0.0, 0.0))
        sums[math.ceil(epoch)] = (total + loss * (step - before), steps + step - before)
        before = step
    return {number: total / steps for number, (total, steps) in sums.items() if steps > 0}
