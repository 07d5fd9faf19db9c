"""What a checkpoint has besides the model: the optimiser, the schedule and the random number generators.

`Trainer` would pickle them. Here tensors are safetensors and all else is JSON, so that reading a
checkpoint cannot execute code. The last file that is written has the SHA-256 of all others, so a checkpoint
that was not completed has none, and a damaged one is recognised.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from fencepost.data.files import read_json, read_json_object
from fencepost.data.output import naming, whole_file
from fencepost.errors import DataError
from fencepost.runtime.folder import sha256_of

SUMS_FILE = "sha256.json"
_STATE_FILE = "trainer_state.json"
_MOMENTS_FILE, _SCHEDULE_FILE = "optimizer.safetensors", "schedule.json"


def seal(checkpoint: Path) -> None:
    """Write the SHA-256 of all files of a checkpoint, which makes it a complete one."""
    sums = {path.name: sha256_of(path) for path in sorted(checkpoint.iterdir()) if path.is_file()}
    with whole_file(checkpoint / SUMS_FILE) as stream:
        stream.write(json.dumps(sums, indent=2).encode() + b"\n")


def damaged_file(checkpoint: Path) -> Path | None:
    """Return a file of a complete checkpoint that is not as it was written, or None."""
    try:
        sums = read_json_object(checkpoint / SUMS_FILE)
        if _STATE_FILE not in sums:
            return checkpoint / SUMS_FILE
    except DataError:
        return checkpoint / SUMS_FILE
    for name, sha256 in sums.items():
        try:
            if sha256_of(checkpoint / Path(name).name) != sha256:
                return checkpoint / name
        except OSError:
            return checkpoint / name
    return None


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
    step = read_json_object(checkpoint / _STATE_FILE).get("best_global_step")
    best = checkpoint.with_name(f"checkpoint-{step}")
    return damaged_file(best) if best.exists() else None


def remove_newer(folder: Path, checkpoint: Path | None) -> None:
    """Remove the checkpoints after this one, or all: they are incomplete or damaged, and made again."""
    for path in _checkpoints(folder):
        if checkpoint is None or _step(path) > _step(checkpoint):
            shutil.rmtree(path, ignore_errors=True)


def _complete(folder: Path) -> Iterator[Path]:
    return (path for path in _checkpoints(folder) if (path / SUMS_FILE).exists())


def _checkpoints(folder: Path) -> list[Path]:
    """Return all checkpoints in a folder, the newest first."""
    paths = (path for path in folder.glob("checkpoint-*") if path.name.removeprefix("checkpoint-").isdigit())
    return sorted(paths, key=_step, reverse=True)


def _step(checkpoint: Path) -> int:
    return int(checkpoint.name.removeprefix("checkpoint-"))


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


def save_chance(folder: Path, process: int) -> None:
    """The states of all random number generators of one process."""
    folder.mkdir(parents=True, exist_ok=True)  # another process may be about to make it
    numpy_state = np.random.get_state(legacy=False)  # noqa: NPY002 - whoever uses the global one
    state = {
        "python": random.getstate(),
        "numpy": numpy_state
        | {"state": numpy_state["state"] | {"key": numpy_state["state"]["key"].tolist()}},
        "torch": torch.get_rng_state().tolist(),
        "cuda": torch.cuda.get_rng_state().tolist() if torch.cuda.is_available() else None,
    }
    _write(folder / _chance_file(process), state)


def processes_of(folder: Path) -> int:
    """How many processes have left the state of their chance in this checkpoint."""
    return len(list(folder.glob(_chance_file("*"))))


def load_chance(folder: Path, process: int) -> None:
    """As they were; a process or a device that was not there before keeps its own."""
    if not (folder / _chance_file(process)).is_file():
        return
    state = read_json(folder / _chance_file(process))
    version, numbers, gauss = state["python"]
    random.setstate((version, tuple(numbers), gauss))
    np.random.set_state(state["numpy"])  # noqa: NPY002
    torch.set_rng_state(torch.tensor(state["torch"], dtype=torch.uint8))
    if state["cuda"] is not None and torch.cuda.is_available():
        torch.cuda.set_rng_state(torch.tensor(state["cuda"], dtype=torch.uint8))


def _chance_file(process: int | str) -> str:
    return f"random-{process}.json"


def _write(path: Path, value: Any) -> None:
    with naming(path):
        path.write_text(json.dumps(value), encoding="utf-8")
