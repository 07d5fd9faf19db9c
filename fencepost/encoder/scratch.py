"""Embedder that is trained from scratch: word embeddings and characters.

It is for languages and domains without a pretrained encoder, and for tests. If words are single characters,
as in Chinese corpora, the word embedding is a character embedding.
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
    """Concatenation of word embeddings and characters."""

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
            raise UsageError("encoder.scratch: word_size is 0 and characters is none; enable one of them")
        width = settings.word_size + (self.characters.width if self.characters else 0)
        self.width = self.prompt_width = width

    def forward(self, batch: Batch, prompts: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        parts: list[Tensor] = []
        if self.words is not None:
            numbers = batch["words"]  # [B, T]
            if self.training:
                dropped = torch.rand(numbers.shape, device=numbers.device) < self.word_dropout
                numbers = numbers.masked_fill(dropped & (numbers != PAD), UNKNOWN)
            parts.append(self.words(numbers))
        if self.characters is not None:
            parts.append(self.characters(batch))
        vectors = torch.cat(parts, dim=2)  # [B, T, width]
        return vectors, None if prompts is None else prompts.expand(vectors.shape[0], -1, -1)
