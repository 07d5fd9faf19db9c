"""Checkpoints: the model, the optimiser, the schedule, the random number generators and the records.

Tensors are safetensors and all else is JSON, so that reading a checkpoint cannot execute code. The last
file that is written has the SHA-256 of all others: an incomplete checkpoint has none, and a damaged one is
recognised.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from fencepost.data.files import read_json, read_json_object
from fencepost.data.output import naming, whole_file
from fencepost.errors import DataError
from fencepost.methods.model import Model
from fencepost.runtime.folder import compute_sha256, read_saved_config, read_sums
from fencepost.runtime.pytorch import load_weights
from fencepost.training.records import Record, best_epoch

SUMS_FILE = "sha256.json"
_STATE_FILE = "trainer_state.json"
_MOMENTS_FILE, _SCHEDULE_FILE = "optimizer.safetensors", "schedule.json"


# Which checkpoint


def path_of(folder: Path, step: int) -> Path:
    """Return the folder of the checkpoint after this number of steps."""
    return folder / f"checkpoint-{step}"


def last_checkpoint(folder: Path) -> Path | None:
    """Return the newest complete checkpoint in a folder, whether it is damaged or not."""
    return next(_complete(folder), None)


def checkpoint_to_resume(folder: Path, warn: Callable[[str], None]) -> Path | None:
    """Return the newest undamaged checkpoint in a folder, or None if none was completed.

    The checkpoint of the epoch that was the best until then must be undamaged, too. What is damaged is
    passed to `warn`. Raises `DataError` if no checkpoint is left.
    """
    damaged: list[Path] = []
    for checkpoint in _complete(folder):
        file = damaged_file(checkpoint) or _damaged_best(checkpoint)
        if file is None:
            if damaged:
                files = ", ".join(map(str, dict.fromkeys(damaged)))
                warn(f"{files}: damaged; training continues from the checkpoint before it, {checkpoint}")
            return checkpoint
        damaged.append(file)
    if damaged:
        raise DataError(
            "this file is damaged, and there is no other checkpoint to continue from; remove the folder of "
            "the run, or give another --out, and train again without --resume",
            source=str(damaged[0]),
        )
    return None


def _damaged_best(checkpoint: Path) -> Path | None:
    """Return a damaged file of the best epoch's checkpoint.

    One that is absent was removed when a later epoch was better, and so it will be again.
    """
    best = best_epoch(load_state(checkpoint)["records"])
    path = None if best is None else path_of(checkpoint.parent, best["step"])
    return damaged_file(path) if path is not None and path.exists() else None


def damaged_file(checkpoint: Path) -> Path | None:
    """Return a file of a complete checkpoint that is not as it was written, or None."""
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
    """Remove the checkpoints after this one, or all: they are incomplete or damaged, and made again."""
    for path in _checkpoints(folder):
        if checkpoint is None or _step(path) > _step(checkpoint):
            shutil.rmtree(path, ignore_errors=True)


def remove_older(folder: Path, records: Sequence[Record]) -> None:
    """Remove all checkpoints but the newest and that of the best epoch, or else the one before the newest."""
    older, best = _checkpoints(folder)[1:], best_epoch(records)
    kept = [path for path in older if best and _step(path) == best["step"]] or older[:1]
    for path in older:
        if path not in kept:
            shutil.rmtree(path, ignore_errors=True)


def _complete(folder: Path) -> Iterator[Path]:
    return (path for path in _checkpoints(folder) if (path / SUMS_FILE).exists())


def _checkpoints(folder: Path) -> list[Path]:
    """Return all checkpoints in a folder, the newest first."""
    paths = (path for path in folder.glob("checkpoint-*") if path.name.removeprefix("checkpoint-").isdigit())
    return sorted(paths, key=_step, reverse=True)


def _step(checkpoint: Path) -> int:
    return int(checkpoint.name.removeprefix("checkpoint-"))


# What is in it


def seal(checkpoint: Path) -> None:
    """Write the SHA-256 of all files of a checkpoint, which makes it a complete one.

    Those of the model's files were computed when it was saved.
    """
    sums = read_sums(checkpoint) or {}
    for path in sorted(checkpoint.iterdir()):
        if path.name not in sums:
            sums[path.name] = compute_sha256(path)
    with whole_file(checkpoint / SUMS_FILE) as stream:
        stream.write(json.dumps(sums, indent=2).encode() + b"\n")


def load_model(folder: Path, model: Model) -> None:
    """Load the weights, and the settings for prediction, which may have been tuned."""
    load_weights(model, folder)
    model.set_predict(read_saved_config(folder).parse_config().predict)


def load_best(folder: Path, records: Sequence[Record], model: Model) -> None:
    """Load the model of the best epoch; without development data, the model stays that of the last one.

    Raises `DataError` if a file of its checkpoint is damaged.
    """
    best = best_epoch(records)
    if best is not None:
        path = path_of(folder, best["step"])
        damaged = damaged_file(path)
        if damaged is not None:
            message = "this file of the best epoch is missing or damaged; train again with another --out"
            raise DataError(message, source=str(damaged))
        load_model(path, model)


def save_state(folder: Path, state: dict[str, Any]) -> None:
    """Save the `step`, the number of `processes`, and the `records` until then."""
    _write(folder / _STATE_FILE, state)


def load_state(folder: Path) -> dict[str, Any]:
    return read_json_object(folder / _STATE_FILE)


def save_optimizer(folder: Path, optimizer: Any, schedule: Any) -> None:
    """Save the optimiser's moments as tensors, its rates and the position in the schedule as JSON."""
    state = optimizer.state_dict()
    moments = {
        f"{weight}.{name}": moment.contiguous()
        for weight, of_weight in state["state"].items()
        for name, moment in of_weight.items()
    }
    with naming(folder / _MOMENTS_FILE, SafetensorError):
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
    numpy_state = np.random.get_state(legacy=False)  # noqa: NPY002 - libraries may use the global one
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
    """Restore the generators of a process; one that has saved none keeps its own, and so does a device."""
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
    with naming(path):
        path.write_text(json.dumps(value), encoding="utf-8")
