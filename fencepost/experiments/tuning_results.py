"""What a tuning comes to: `tuning.json`, `trials.csv`, and the best settings as `best.yaml`."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fencepost import __version__
from fencepost.config import Config
from fencepost.data.output import whole_file
from fencepost.experiments.tuning_study import Trial

RESULTS_FILE, TRIALS_FILE, BEST_FILE = "tuning.json", "trials.csv", "best.yaml"


def folder_of(number: int) -> str:
    """Where a trial is, in the folder of the tuning."""
    return f"trials/{number:04}"


def best_of(trials: Sequence[Trial]) -> Trial | None:
    """The complete trial with the highest development F1; of several, the first."""
    complete = [trial for trial in trials if trial.state == "complete"]
    return max(complete, key=lambda trial: trial.f1 or 0.0, default=None)


def described(trial: Trial) -> dict[str, Any]:
    """As JSON has it; `dev_f1` is that of the best epoch."""
    return {
        "trial": trial.number,
        "state": trial.state,
        "dev_f1": trial.f1,
        "epochs": len(trial.by_epoch),
        "values": trial.values,
        "seconds": trial.seconds,
        "dev_f1_by_epoch": list(trial.by_epoch.values()),
        "same_as": trial.same_as,
        "failure": trial.failure,
    }


def described_best(trial: Trial | None) -> dict[str, Any] | None:
    if trial is None:
        return None
    told = {"trial": trial.number, "dev_f1": trial.f1, "values": trial.values}
    return {**told, "config": BEST_FILE, "model": folder_of(trial.number)}


def write_results(out: Path, results: Mapping[str, Any], best: Config | None) -> None:
    """Each file is whole at any time."""
    told = {"fencepost": __version__, **results}
    _write(out / RESULTS_FILE, json.dumps(told, indent=2, ensure_ascii=False) + "\n")
    _write(out / TRIALS_FILE, _csv(results["trials"], list(results["space"])))
    if best is not None:
        _write(out / BEST_FILE, best.to_yaml())


def _csv(rows: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    before, behind = ("trial", "state", "dev_f1", "epochs"), ("seconds", "same_as", "failure")
    writer.writerow((*before, *keys, *behind))
    for row in rows:
        values = (row["values"][key] for key in keys)
        texts = [json.dumps(one) if isinstance(one, list | dict | bool) else one for one in values]
        writer.writerow([*(row[name] for name in before), *texts, *(row[name] for name in behind)])
    return stream.getvalue()


def _write(path: Path, text: str) -> None:
    with whole_file(path) as stream:
        stream.write(text.encode("utf-8", "backslashreplace"))
