"""The contract of the encoder's lowest part, which turns words into vectors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path

import torch
from torch import Tensor, nn

from fencepost.encoder.arrays import Arrays
from fencepost.encoder.subwords import Subwords

Batch = dict[str, Tensor]
"""Input arrays of sentences as tensors, by name (see `fencepost.encoder.arrays.AXES`)."""


def as_batch(arrays: Arrays) -> Batch:
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


class Embedder(nn.Module, ABC):
    """Words to vectors, and prompt vectors (if any) with them."""

    width: int
    """Of a word's vector."""
    prompt_width: int
    """Of the prompt vectors that it takes; those that it gives are `width` wide."""

    @abstractmethod
    def forward(self, batch: Batch, prompts: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """Word vectors `[B, T, width]` and, for prompts `[P, prompt_width]`, theirs `[B, P, width]`."""

    def of_text(self, text: str) -> Tensor | None:  # noqa: ARG002 - for those who can read
        """What a prompt that says this would be, `[prompt_width]`; None if it is as good as random."""
        return None

    subwords: Subwords | None = None
    """What cuts words into pieces; None if words are read whole."""

    room: int | None = None
    """Number of pieces of a sentence that it reads at once; None is any number."""

    def pretrained(self) -> Iterable[nn.Parameter]:
        """The weights that know something already, and so learn at the lower rate."""
        return ()

    def save(self, folder: Path) -> None:
        """Writes what is needed to build this again, the weights aside."""
