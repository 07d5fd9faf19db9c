"""An encoder that is trained from nothing: word embeddings and characters.

For languages and domains without a pretrained encoder, and for tests. Where a word is one character,
as in Chinese, the word embedding is the character embedding.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fencepost.encoder.arrays import NAMED, PAD, UNKNOWN, Vocabulary
from fencepost.encoder.embedder import Batch, Embedder
from fencepost.encoder.features import Characters
from fencepost.encoder.settings import ScratchSettings
from fencepost.errors import UsageError


class Scratch(Embedder):
    """Word embedding and characters, side by side."""

    def __init__(self, settings: ScratchSettings, known: Vocabulary) -> None:
        super().__init__()
        self.word_dropout = settings.word_dropout
        self.words: nn.Embedding | None = None
        self.characters: Characters | None = None
        if settings.word_size:
            self.words = nn.Embedding(NAMED + len(known["words"]), settings.word_size, padding_idx=PAD)
        if settings.characters != "none":
            self.characters = Characters(
                settings.characters, settings.character_size, settings.character_output, known["characters"]
            )
        if self.words is None and self.characters is None:
            raise UsageError("encoder.scratch: without words and without characters there is nothing to read")
        width = settings.word_size + (self.characters.width if self.characters else 0)
        self.width = self.prompt_width = width

    def forward(self, batch: Batch, prompts: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        parts: list[Tensor] = []
        if self.words is not None:
            numbers = batch["words"]  # [B, T]
            if self.training:
                forgotten = (torch.rand(numbers.shape, device=numbers.device) < self.word_dropout) & (
                    numbers != PAD
                )
                numbers = numbers.masked_fill(forgotten, UNKNOWN)
            parts.append(self.words(numbers))
        if self.characters is not None:
            parts.append(self.characters(batch))
        vectors = torch.cat(parts, dim=2)  # [B, T, width]
        return vectors, None if prompts is None else prompts.expand(vectors.shape[0], -1, -1)
