"""What turns words into vectors: the contract of the encoder's lowest part, and of its features."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from fencepost.data.entity import Sentence
from fencepost.encoder.arrays import NAMED, PAD, UNKNOWN, Arrays, Vocabulary

__all__ = ["NAMED", "PAD", "UNKNOWN", "Batch", "Embedder", "Vocabulary", "as_batch"]

Batch = dict[str, Tensor]
"""Sentences as tensors. Every part of the model puts in what it needs, under names of its own."""


def as_batch(arrays: Arrays) -> Batch:
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


class Embedder(nn.Module, ABC):
    """Words to vectors, and prompt vectors (if any) with them."""

    width: int
    """Of a word's vector."""
    prompt_width: int
    """Of the prompt vectors that it takes; those that it gives are `width` wide."""

    @abstractmethod
    def collate(self, sentences: Sequence[Sentence]) -> Batch:
        """What `forward` needs of these sentences."""

    @abstractmethod
    def forward(self, batch: Batch, prompts: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """Word vectors `[B, T, width]` and, for prompts `[P, prompt_width]`, theirs `[B, P, width]`."""

    def of_text(self, text: str) -> Tensor | None:  # noqa: ARG002 - for those who can read
        """What a prompt that says this would be, `[prompt_width]`; None if it is as good as random."""
        return None

    room: int | None = None
    """How many pieces of a sentence it can see at once; None is any number."""

    def sizes(self, words: Sequence[str]) -> list[int]:
        """How many pieces each word has."""
        return [1] * len(words)

    def size(self, sentence: Sentence) -> int:
        """The length of what is computed for a sentence."""
        return sum(self.sizes(sentence.words))

    def pretrained(self) -> Iterable[nn.Parameter]:
        """The weights that know something already, and so learn at the lower rate."""
        return ()

    def save(self, folder: Path) -> None:
        """Writes what is needed to build this again, the weights aside."""
