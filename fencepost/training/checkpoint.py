"""Checkpoints: the model, the optimiser, the schedule, the random number generators and the records.

Tensors are saved as safetensors, everything else as JSON, so that reading a checkpoint cannot execute code.
The file that is written last has the SHA-256 of all others: an incomplete checkpoint does not have it, and
damage is detected.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from fencepost.config import Config
from fencepost.data.files import read_json, read_json_object
from fencepost.data.output import raise_write_errors, whole_file
from fencepost.errors import DataError
from fencepost.methods.model import Model
from fencepost.runtime.folder import compute_sha256, read_saved_config, read_sums
from fencepost.runtime.pytorch import load_weights
from fencepost.training.records import Record, find_best_epoch

SUMS_FILE = "sha256.json"
_STATE_FILE = "trainer_state.json"
_MOMENTS_FILE, _SCHEDULE_FILE = "optimizer.safetensors", "schedule.json"


# Finding and removing checkpoints


def checkpoint_path(folder: Path, step: int) -> Path:
    """Return the folder of the checkpoint after this number of steps."""
    return folder / f"checkpoint-{step}"


def find_last_checkpoint(folder: Path) -> Path | None:
    """Return the newest complete checkpoint in a folder, even if it is damaged."""
    return next(_list_complete(folder), None)


def find_resumable(folder: Path) -> Path | None:
    """Return the newest undamaged checkpoint in a folder, or None if none was completed.

    The checkpoint of the best epoch until then must be undamaged, too. A message on standard error names
    damaged files. Raises `DataError` if all checkpoints are damaged.
    """
    damaged: list[Path] = []
    for checkpoint in _list_complete(folder):
        file = find_damaged_file(checkpoint) or _find_damaged_best(checkpoint)
        if file is None:
            if damaged:
                files = ", ".join(map(str, dict.fromkeys(damaged)))
                message = f"{files}: damaged; training continues from an earlier checkpoint, {checkpoint}"
                sys.stderr.write(f"{message}\n")
            return checkpoint
        damaged.append(file)
    if damaged:
        raise DataError(
            "this file is damaged, and there is no other checkpoint to continue from; remove the folder, or "
            "give another --out, and train again without --resume",
            source=str(damaged[0]),
        )
    return None


def _find_damaged_best(checkpoint: Path) -> Path | None:
    """Return a damaged file of the checkpoint of the best epoch, or None.

    If the checkpoint does not exist, it was removed because a later epoch was better; the same will happen
    again.
    """
    best = find_best_epoch(load_state(checkpoint)["records"])
    path = None if best is None else checkpoint_path(checkpoint.parent, best["step"])
    return find_damaged_file(path) if path is not None and path.exists() else None


def find_damaged_file(checkpoint: Path) -> Path | None:
    """Return a file of a complete checkpoint that differs from what was written, or None."""
    try:
        sums = read_json_object(checkpoint / SUMS_FILE)
    except DataError:
        sums = {}
    if _STATE_FILE not in sums:
        return checkpoint / SUMS_FILE
    for name, sha256 in sums.items():
        try:
            if compute_sha256(checkpoint / Path(name).name) != sha256:
                return checkpoint / name
        except OSError:
            return checkpoint / name
    return None


def remove_newer(folder: Path, checkpoint: Path | None) -> None:
    """Remove the checkpoints after this one, or all; they are incomplete or damaged."""
    for path in _list_checkpoints(folder):
        if checkpoint is None or _get_step(path) > _get_step(checkpoint):
            shutil.rmtree(path, ignore_errors=True)


def remove_older(folder: Path, records: Sequence[Record]) -> None:
    """Remove all checkpoints but the newest and that of the best epoch, or else the second newest."""
    older, best = _list_checkpoints(folder)[1:], find_best_epoch(records)
    needed = [path for path in older if best and _get_step(path) == best["step"]] or older[:1]
    for path in older:
        if path not in needed:
            shutil.rmtree(path, ignore_errors=True)


def _list_complete(folder: Path) -> Iterator[Path]:
    return (path for path in _list_checkpoints(folder) if (path / SUMS_FILE).exists())


def _list_checkpoints(folder: Path) -> list[Path]:
    """Return all checkpoints in a folder, the newest first."""
    paths = (path for path in folder.glob("checkpoint-*") if path.name.removeprefix("checkpoint-").isdigit())
    return sorted(paths, key=_get_step, reverse=True)


def _get_step(checkpoint: Path) -> int:
    return int(checkpoint.name.removeprefix("checkpoint-"))


# Saving and loading


def seal(checkpoint: Path) -> None:
    """Write the SHA-256 of all files of a checkpoint, which completes it.

    Those of the model's files were already computed when it was saved.
    """
    sums = read_sums(checkpoint) or {}
    for path in sorted(checkpoint.iterdir()):
        if path.name not in sums:
            sums[path.name] = compute_sha256(path)
    with whole_file(checkpoint / SUMS_FILE) as stream:
        stream.write(json.dumps(sums, indent=2).encode() + b"\n")


def load_model(folder: Path, model: Model) -> Config:
    """Load the weights, and the settings of prediction, which may have been tuned; return all settings."""
    load_weights(model, folder)
    config = read_saved_config(folder).parse_config()
    model.set_predict(config.predict)
    return config


def load_best(folder: Path, records: Sequence[Record], model: Model) -> None:
    """Load the model of the best epoch; without development data, keep that of the last epoch.

    Raises `DataError` if a file of the checkpoint is damaged.
    """
    best = find_best_epoch(records)
    if best is not None:
        path = checkpoint_path(folder, best["step"])
        damaged = find_damaged_file(path)
        if damaged is not None:
            message = "this file of the best epoch is missing or damaged; train again with another --out"
            raise DataError(message, source=str(damaged))
        load_model(path, model)


def save_state(folder: Path, state: dict[str, Any]) -> None:
    """Save the `step`, the number of `processes`, and the `records` so far."""
    _write(folder / _STATE_FILE, state)


def load_state(folder: Path) -> dict[str, Any]:
    return read_json_object(folder / _STATE_FILE)


def save_optimizer(folder: Path, optimizer: Any, schedule: Any) -> None:
    """Save the optimiser's moments as tensors, and its rates and the state of the schedule as JSON."""
    state = optimizer.state_dict()
    moments = {
        f"{weight}.{name}": moment.contiguous()
        for weight, of_weight in state["state"].items()
        for name, moment in of_weight.items()
    }
    with raise_write_errors(folder / _MOMENTS_FILE, SafetensorError):
        save_file(moments, folder / _MOMENTS_FILE)
    _write(folder / _SCHEDULE_FILE, {"groups": state["param_groups"], "schedule": schedule.state_dict()})


def load_optimizer(folder: Path, optimizer: Any, schedule: Any) -> None:
    moments: dict[int, dict[str, torch.Tensor]] = {}
    for key, moment in load_file(folder / _MOMENTS_FILE).items():
        weight, name = key.split(".")
        moments.setdefault(int(weight), {})[name] = moment
    saved = read_json(folder / _SCHEDULE_FILE)
    optimizer.load_state_dict({"state": moments, "param_groups": saved["groups"]})
    schedule.load_state_dict(saved["schedule"])


def save_random_state(folder: Path, process: int) -> None:
    """Save the states of all random number generators of one process."""
    folder.mkdir(parents=True, exist_ok=True)  # another process may be about to make it
    numpy_state = np.random.get_state(legacy=False)  # noqa: NPY002 - libraries may use the global state
    numpy_state["state"]["key"] = numpy_state["state"]["key"].tolist()
    device = torch.get_device_module() if torch.accelerator.is_available() else None
    state = {
        "python": random.getstate(),
        "numpy": numpy_state,
        "torch": torch.get_rng_state().tolist(),
        "device": device.get_rng_state().tolist() if device else None,
    }
    _write(folder / f"random-{process}.json", state)


def load_random_state(folder: Path, process: int) -> None:
    """Restore the random number generators of a process and its device, if their states were saved."""
    path = folder / f"random-{process}.json"
    if not path.is_file():
        return
    state = read_json(path)
    version, numbers, gauss = state["python"]
    random.setstate((version, tuple(numbers), gauss))
    np.random.set_state(state["numpy"])  # noqa: NPY002
    torch.set_rng_state(torch.tensor(state["torch"], dtype=torch.uint8))
    if state["device"] is not None and torch.accelerator.is_available():
        torch.get_device_module().set_rng_state(torch.tensor(state["device"], dtype=torch.uint8))


def _write(path: Path, value: Any) -> None:
    with raise_write_errors(path):
        path.write_text(json.dumps(value), encoding="utf-8")
