"""What turns words into vectors: the contract of the encoder's lowest part, and of its features."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path

from torch import Tensor, nn

from fencepost.entity import Sentence

Batch = dict[str, Tensor]
"""Sentences as tensors. Every part of the model puts in what it needs, under names of its own."""

Vocabulary = dict[str, list[str]]
"""What a model knows by name, in order: words, characters, parts of speech."""

PAD, UNKNOWN, NAMED = 0, 1, 2
"""The first two rows of every embedding; the names of a vocabulary come behind them, from `NAMED` on."""


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

    def size(self, sentence: Sentence) -> int:
        """The length of what is computed for a sentence."""
        return len(sentence)

    def pretrained(self) -> Iterable[nn.Parameter]:
        """The weights that know something already, and so learn at the lower rate."""
        return ()

    def save(self, folder: Path) -> None:
        """Writes what is needed to build this again, the weights aside."""
