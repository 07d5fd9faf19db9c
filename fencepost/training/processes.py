"""Training on several processes, as started by torchrun, and the device of each process.

A step of all processes is equivalent to a step of one process with a batch as large as theirs together.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from accelerate import Accelerator, DistributedDataParallelKwargs  # type: ignore[import-untyped]
from torch import Tensor

from fencepost.config import Config
from fencepost.errors import UsageError
from fencepost.runtime.engine import DeviceName
from fencepost.runtime.pytorch import choose_device

_PRECISION = "ACCELERATE_MIXED_PRECISION"


def apply_launch_precision(config: Config) -> Config:
    """Return the settings with the precision given to `accelerate launch`, so that it is recorded."""
    name = os.environ.get(_PRECISION, "no").lower()
    if name in ("no", "bf16"):
        precision = "bfloat16" if name == "bf16" else config.training.precision
        training = config.training.model_copy(update={"precision": precision})
        return config.model_copy(update={"training": training})
    raise UsageError(
        f"{_PRECISION}={name}: this precision is not supported; use no or bf16 "
        "(accelerate launch --mixed_precision bf16)"
    )


def choose_precision(name: str, device: torch.device, *, pretrained: bool) -> str:
    """Return the number format of the computation; `auto` depends on the processor."""
    if name != "auto":
        return name
    capabilities: Mapping[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()  # absent in PyTorch 2.8
    is_fast = any(capabilities.get(instructions) for instructions in ("avx512_bf16", "amx_bf16"))
    return "bfloat16" if is_fast and pretrained and device.type == "cpu" else "float32"


def start_processes(name: DeviceName) -> tuple[Accelerator, torch.device]:
    """Return the connection of this process to the others, and its device."""
    device = choose_device(name)
    several = int(os.environ.get("WORLD_SIZE", "1")) > 1
    accelerator = Accelerator(
        cpu=several and device.type == "cpu",  # a single process uses the device chosen above
        mixed_precision="no",  # handled in `Trainer.compute_loss`
        device_placement=False,
        kwargs_handlers=[DistributedDataParallelKwargs(find_unused_parameters=True)],
    )
    return accelerator, accelerator.device if accelerator.num_processes > 1 else device


_MALLOC_OPTIONS = ((-1, 128 * 1024, 2**31 - 1), (-4, 65_536, 0))
"""Of M_TRIM_THRESHOLD and M_MMAP_MAX in glibc: number, default, and the value that keeps freed memory."""


@contextmanager
def keep_freed_memory() -> Iterator[None]:
    """Let the C library keep freed memory for the next step, if it is glibc.

    Otherwise, large tensors, such as the gradient of the embeddings, get new pages from the system in
    each step.
    """
    library = ctypes.CDLL(None) if sys.platform == "linux" else None
    if library is None or not hasattr(library, "malloc_trim"):  # other C libraries do not have it
        yield
        return
    for option, _, value in _MALLOC_OPTIONS:
        library.mallopt(option, value)
    try:
        yield
    finally:
        for option, default, _ in _MALLOC_OPTIONS:
            library.mallopt(option, default)
        library.malloc_trim(0)


class Share:
    """Part of a batch that this process computes."""

    def __init__(self, accelerator: Accelerator) -> None:
        self._accelerator = accelerator
        self.empty = False
        """Whether the part is empty; the process then computes a sentence with weight 0."""

    def mean_count(self, count: int | Tensor) -> Tensor:
        """Return the count in the whole batch, at least 1, divided by the number of processes.

        The gradient is the mean of the gradients of all processes. If each process divides its sum by this
        number, it is the gradient of the mean over the whole batch.
        """
        own = torch.as_tensor(count, dtype=torch.float32, device=self._accelerator.device)
        whole: Tensor = self._accelerator.reduce(own * (not self.empty), "sum")
        return whole.clamp(min=1) / int(self._accelerator.num_processes)


def gather(accelerator: Accelerator, value: Any) -> list[Any]:
    """Return the values of all processes; they are sent as JSON, because torch would pickle them."""
    if accelerator.num_processes == 1:
        return [value]
    text = torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8)
    text = text.to(accelerator.device)[None]
    rows = accelerator.gather(accelerator.pad_across_processes(text, dim=1, pad_index=ord(" ")))
    return [json.loads(row.cpu().numpy().tobytes()) for row in rows]
