"""What a checkpoint has besides the model: the optimiser, the schedule and the state of chance.

`Trainer` would pickle them. Here tensors are safetensors and all else is JSON, so that reading a
checkpoint can run nobody's code.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file

_STATE_FILE = "trainer_state.json"
_MOMENTS_FILE, _SCHEDULE_FILE = "optimizer.safetensors", "schedule.json"


def last_checkpoint(folder: Path) -> Path | None:
    """The newest checkpoint that is whole: its state is written last, so a broken-off one has none."""
    found = [path for path in folder.glob("checkpoint-*") if _step(path).isdigit() and _is_whole(path)]
    return max(found, key=lambda path: int(_step(path)), default=None)


def _step(checkpoint: Path) -> str:
    return checkpoint.name.removeprefix("checkpoint-")


def _is_whole(checkpoint: Path) -> bool:
    try:
        json.loads((checkpoint / _STATE_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return True


def save_optimizer(folder: Path, optimizer: Any, schedule: Any) -> None:
    """The optimiser's moments as tensors; its rates and where the schedule stands as JSON."""
    state = optimizer.state_dict()
    moments = {
        f"{weight}.{name}": moment.contiguous()
        for weight, of_weight in state["state"].items()
        for name, moment in of_weight.items()
    }
    save_file(moments, folder / _MOMENTS_FILE)
    _write(folder / _SCHEDULE_FILE, {"groups": state["param_groups"], "schedule": schedule.state_dict()})


def load_optimizer(folder: Path, optimizer: Any, schedule: Any) -> None:
    moments: dict[int, dict[str, torch.Tensor]] = {}
    for key, moment in load_file(folder / _MOMENTS_FILE).items():
        weight, name = key.split(".")
        moments.setdefault(int(weight), {})[name] = moment
    saved = _read(folder / _SCHEDULE_FILE)
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
    state = _read(folder / _chance_file(process))
    version, numbers, gauss = state["python"]
    random.setstate((version, tuple(numbers), gauss))
    np.random.set_state(state["numpy"])  # noqa: NPY002
    torch.set_rng_state(torch.tensor(state["torch"], dtype=torch.uint8))
    if state["cuda"] is not None and torch.cuda.is_available():
        torch.cuda.set_rng_state(torch.tensor(state["cuda"], dtype=torch.uint8))


def _chance_file(process: int | str) -> str:
    return f"random-{process}.json"


def _write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))
