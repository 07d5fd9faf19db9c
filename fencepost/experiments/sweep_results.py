"""What a sweep comes to: mean and standard deviation over the seeds of each cell, as JSON and as CSV."""

from __future__ import annotations

import csv
import io
import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fencepost import __version__
from fencepost.data.files import read_json
from fencepost.data.output import whole_file
from fencepost.errors import DataError, describe_error
from fencepost.experiments.cells import Cell
from fencepost.training.run import RESULT_FILE

if TYPE_CHECKING:
    from fencepost.experiments.sweep import Run

CELLS_FILE, RUNS_FILE, SWEEP_FILE = "sweep.csv", "runs.csv", "sweep.json"
MEASURES = (
    "dev_f1",
    "dev_ece_raw",
    "dev_ece",
    "test_precision",
    "test_recall",
    "test_f1",
    "test_ece_raw",
    "test_ece",
)
"""Of the epoch that was kept; `ece_raw` is before calibration, `ece` after it."""

Scores = dict[str, float | None]
"""By measure; None where a run has none, as without test data."""

Row = dict[str, Any]


def scores_of(folder: Path) -> Scores:
    """The measures of a finished run."""
    path = folder / RESULT_FILE
    try:
        result = read_json(path)
        dev, test = result["dev"] or {}, result["test"] or {}
        errors = result.get("calibration")
        # without calibration, the error that the test scores have is the raw one
        raw = errors["test_ece_before"] if errors and test else test.get("ece")
        found = {
            "dev_f1": dev.get("dev_f1"),
            "dev_ece_raw": errors["dev_ece_before"] if errors else dev.get("dev_ece"),
            "dev_ece": errors["dev_ece_after"] if errors else None,
            **{f"test_{name}": test.get(name) for name in ("precision", "recall", "f1")},
            "test_ece_raw": raw,
            "test_ece": errors["test_ece_after"] if errors and test else None,
        }
    except (DataError, KeyError, TypeError, AttributeError) as error:
        reason = error.message if isinstance(error, DataError) else describe_error(error)
        message = (
            f"these are not the results of a training run ({reason}); remove the folder to train it again"
        )
        raise DataError(message, source=str(path)) from None
    return {name: found[name] for name in MEASURES}


def results_of(cells: Sequence[Cell], scores: Mapping[Run, Scores]) -> dict[str, Any]:
    """All of it, as JSON has it: `cells` with what is over their seeds, and `runs`."""
    by_cell: dict[Cell, list[Scores]] = {cell: [] for cell in cells}
    for run, found in scores.items():
        by_cell[run.cell].append(found)
    return {
        "cells": [
            {**_described(cell), "seeds": len(found), **{name: _over(found, name) for name in MEASURES}}
            for cell, found in by_cell.items()
        ],
        "runs": [
            {
                **_described(run.cell),
                "seed": run.seed,
                "folder": f"{run.folder.parent.name}/{run.folder.name}",
                **found,
            }
            for run, found in scores.items()
        ],
    }


def _described(cell: Cell) -> Row:
    return {
        "cell": cell.label,
        "settings": cell.settings,
        "share": cell.share,
        "boundary_noise": cell.noise,
    }


def _over(found: Iterable[Scores], name: str) -> Scores:
    """Over seeds; a standard deviation, that of a sample, needs two of them."""
    values = [value for scores in found if (value := scores[name]) is not None]
    return {
        "mean": statistics.fmean(values) if values else None,
        "std": statistics.stdev(values) if len(values) > 1 else None,
    }


def write_results(out: Path, results: Mapping[str, Any]) -> None:
    """As `sweep.json`, `sweep.csv` (a row for each cell) and `runs.csv`, each whole at any time."""
    told = {"fencepost": __version__, **results}
    _write(out / SWEEP_FILE, json.dumps(told, indent=2, ensure_ascii=False) + "\n")
    _write(out / CELLS_FILE, _csv(results["cells"]))
    _write(out / RUNS_FILE, _csv(results["runs"]))


def _csv(rows: Sequence[Row]) -> str:
    """With a column for each setting that changes, and two for what has a mean."""
    if not rows:
        return ""
    keys = list(dict.fromkeys(key for row in rows for key in row["settings"]))
    flat = [_flat(row, keys) for row in rows]
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(flat[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    return stream.getvalue()


def _flat(row: Row, keys: Iterable[str]) -> Row:
    flat: Row = {"cell": row["cell"], **{key: row["settings"].get(key) for key in keys}}
    for name, value in row.items():
        if name in MEASURES and isinstance(value, Mapping):
            flat |= {f"{name}_{kind}": number for kind, number in value.items()}
        elif name != "settings":
            flat[name] = value
    return flat


def _write(path: Path, text: str) -> None:
    with whole_file(path) as stream:
        stream.write(text.encode("utf-8", "backslashreplace"))
