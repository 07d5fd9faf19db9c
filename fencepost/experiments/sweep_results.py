"""Results of a sweep: mean and standard deviation over the seeds of each cell, as JSON and CSV."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fencepost.data.files import read_json
from fencepost.errors import DataError, describe_error
from fencepost.experiments.cells import GridCell
from fencepost.experiments.trials import Trial, write_csv, write_json
from fencepost.training.folder import RESULT_FILE

CELLS_FILE, RUNS_FILE, SWEEP_FILE = "sweep.csv", "runs.csv", "sweep.json"

Scores = dict[str, float | None]
"""Scores by measure; None if a run does not have it, as without test data."""

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
"""Measures of the kept epoch; `ece_raw` is before calibration, `ece` after it."""


def read_scores(folder: Path) -> Scores:
    """Return the scores of a complete run; raise `DataError` if its results cannot be read."""
    path = folder / RESULT_FILE
    try:
        result = read_json(path)
        dev, test, errors = result["dev"] or {}, result["test"] or {}, result.get("calibration") or {}
        # without calibration, the ECE of the test scores is the raw one
        values = (
            dev.get("dev_f1"),
            errors.get("dev_ece_before", dev.get("dev_ece")),
            errors.get("dev_ece_after"),
            *(test.get(name) for name in ("precision", "recall", "f1")),
            errors.get("test_ece_before", test.get("ece")),
            errors.get("test_ece_after"),
        )
    except (DataError, KeyError, TypeError, AttributeError) as error:
        reason = error.message if isinstance(error, DataError) else describe_error(error)
        raise DataError(
            f"not the results of a training run ({reason}); remove the folder to train it again",
            source=str(path),
        ) from None
    return dict(zip(MEASURES, values, strict=True))


def summarize_scores(cells: Sequence[GridCell], scores: Mapping[Trial, Scores]) -> dict[str, Any]:
    """Return the results for JSON: `cells` with means over their seeds, and `runs`."""
    by_cell: dict[GridCell, list[Scores]] = {cell: [] for cell in cells}
    for run, run_scores in scores.items():
        by_cell[run.cell].append(run_scores)
    return {
        "cells": [
            {
                **_describe_cell(cell),
                "seeds": len(seed_scores),
                **{name: _average(seed_scores, name) for name in MEASURES},
            }
            for cell, seed_scores in by_cell.items()
        ],
        "runs": [
            {
                **_describe_cell(run.cell),
                "seed": run.seed,
                "folder": f"{run.folder.parent.name}/{run.folder.name}",
                **run_scores,
            }
            for run, run_scores in scores.items()
        ],
    }


def _describe_cell(cell: GridCell) -> dict[str, Any]:
    return {"cell": cell.label, "settings": cell.settings, "share": cell.share, "boundary_noise": cell.noise}


def _average(runs: Iterable[Scores], name: str) -> Scores:
    """Return mean and sample standard deviation over seeds; None if there are too few."""
    values = [value for scores in runs if (value := scores[name]) is not None]
    return {
        "mean": statistics.fmean(values) if values else None,
        "std": statistics.stdev(values) if len(values) > 1 else None,
    }


def write_results(out: Path, results: Mapping[str, Any]) -> None:
    """Write `sweep.json`, `sweep.csv` (one row per cell) and `runs.csv`."""
    write_json(out / SWEEP_FILE, results)
    for name, rows in ((CELLS_FILE, results["cells"]), (RUNS_FILE, results["runs"])):
        keys = dict.fromkeys(key for row in rows for key in row["settings"])
        flat = [_flatten_row(row, keys) for row in rows]
        write_csv(out / name, flat[0] if flat else (), flat)


def _flatten_row(row: Mapping[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    """Return a row with one column per setting, and two (mean and std) per measure of a cell."""
    flat = {"cell": row["cell"], **{key: row["settings"].get(key) for key in keys}}
    for name, value in row.items():
        if name in MEASURES and isinstance(value, Mapping):
            flat |= {f"{name}_{kind}": number for kind, number in value.items()}
        elif name != "settings":
            flat[name] = value
    return flat
