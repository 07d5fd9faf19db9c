"""Several processes that train one model, as torchrun starts them: what they must know of each other.

Together they do in a step what one process would do with a batch as large as theirs together.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from accelerate import Accelerator  # type: ignore[import-untyped]
from torch import Tensor

from fencepost.config import Config
from fencepost.data.context import with_context
from fencepost.data.entity import Entity, Sentence
from fencepost.errors import UsageError
from fencepost.methods.model import Model, Watch
from fencepost.runtime.engine import LOOK_AHEAD, batches

_ASKED = "ACCELERATE_MIXED_PRECISION"


def as_launched(config: Config) -> Config:
    """With the precision that `accelerate launch` was told, so that it is written down with the rest."""
    asked = os.environ.get(_ASKED, "no").lower()
    if asked in ("no", "bf16"):
        precision = "bfloat16" if asked == "bf16" else config.training.precision
        training = config.training.model_copy(update={"precision": precision})
        return config.model_copy(update={"training": training})
    raise UsageError(
        f"{_ASKED}={asked}: there is no training with this precision here; there are no and bf16 "
        "(accelerate launch --mixed_precision bf16)"
    )


class Share:
    """What this process has of the batch that all have together."""

    def __init__(self, accelerator: Accelerator) -> None:
        self._accelerator = accelerator
        self.empty = False
        """Whether it has nothing, and computes with a sentence that counts for nothing."""

    def mean_count(self, count: int | Tensor) -> Tensor:
        """How many there are in the whole batch, at least 1, divided by the number of processes.

        The gradient is the mean of those of the processes. With this under each process's sum, it is
        that of the sum over the whole batch, divided by how many there are in it.
        """
        own = torch.as_tensor(count, dtype=torch.float32, device=self._accelerator.device)
        whole: Tensor = self._accelerator.reduce(own * (not self.empty), "sum")
        return whole.clamp(min=1) / int(self._accelerator.num_processes)


def gathered(accelerator: Accelerator, value: Any) -> list[Any]:
    """The values of all processes; they travel as JSON, where torch would pickle them."""
    if accelerator.num_processes == 1:
        return [value]
    text = torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8)
    text = text.to(accelerator.device)[None]
    rows = accelerator.gather(accelerator.pad_across_processes(text, dim=1, pad_index=ord(" ")))
    return [json.loads(row.cpu().numpy().tobytes()) for row in rows]


def predicted_together(
    model: Model, sentences: Sequence[Sentence], accelerator: Accelerator, watch: Watch | None = None
) -> list[Sentence]:
    """As `Model.predict`, in the same batches, each of which is computed by one process."""
    if accelerator.num_processes == 1:
        return list(model.predict(sentences, watch))
    seen = list(with_context(sentences, model.settings.encoder.context))
    own = list(_batches(model, seen))[accelerator.process_index :: accelerator.num_processes]
    found = {
        index: [(*entity.key, entity.score) for entity in entities]
        for batch in own
        for index, entities in zip(batch, model.found([seen[i] for i in batch], watch), strict=True)
    }
    everywhere = {index: of for part in gathered(accelerator, list(found.items())) for index, of in part}
    return [
        sentence.with_entities(Entity(*of) for of in everywhere.get(index, ()))
        for index, sentence in enumerate(sentences)
    ]


def _batches(model: Model, sentences: Sequence[Sentence]) -> Iterator[list[int]]:
    """As prediction forms them; sentences without words are in none."""
    for first in range(0, len(sentences), LOOK_AHEAD):
        chunk = sentences[first : first + LOOK_AHEAD]
        sizes = [model.encoder.size(sentence) if sentence.words else 0 for sentence in chunk]
        lengths = [len(sentence) for sentence in chunk]
        for batch in batches(sizes, lengths, model.settings.predict.batch_size):
            yield [first + index for index in batch]
