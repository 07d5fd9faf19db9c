"""Interface of embedders, the lowest part of an encoder, which turns words into vectors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path

import torch
from torch import Tensor, nn

from fencepost.encoder.arrays import Arrays
from fencepost.encoder.subwords import Subwords

Batch = dict[str, Tensor]
"""Input tensors of sentences by name (see `fencepost.encoder.arrays.AXES`)."""


def to_tensors(arrays: Arrays) -> Batch:
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


class Embedder(nn.Module, ABC):
    """Network from words, and prompt vectors if any, to vectors."""

    width: int
    """Width of the output vectors."""
    prompt_width: int
    """Width of the prompt vectors in the input."""
    subwords: Subwords | None = None
    """Tokenizer into sub-words; None if words are read whole."""
    room: int | None = None
    """Maximum number of sub-words of a sentence that are read at once; None for no limit."""

    @abstractmethod
    def forward(self, batch: Batch, prompts: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """Return word vectors `[B, T, width]` and, for prompts `[P, prompt_width]`, `[B, P, width]`."""

    def embed_text(self, text: str) -> Tensor | None:  # noqa: ARG002
        """Return a prompt vector for a text, `[prompt_width]`; None if the embedder has no meaningful one."""
        return None

    def pretrained_weights(self) -> Iterable[nn.Parameter]:
        """Return the weights that are pretrained, and so are trained at the encoder's learning rate."""
        return ()

    def save(self, folder: Path) -> None:
        """Write what is needed to build this embedder again, except for the weights."""
