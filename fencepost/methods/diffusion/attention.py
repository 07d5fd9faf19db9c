"""Attention with several heads, whose keys and values can be made once and asked many times."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional


class Source(NamedTuple):
    """What is attended to."""

    keys: Tensor  # [B, heads, d / heads, S]
    values: Tensor  # [B, heads, S, d / heads]


class Attention(nn.Module):
    """Vaswani et al., 2017, section 3.2.2."""

    def __init__(self, size: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.query, self.key, self.value, self.output = (nn.Linear(size, size) for _ in range(4))
        for linear in (self.query, self.key, self.value):
            nn.init.xavier_uniform_(linear.weight)

    def source(self, keys: Tensor, values: Tensor, *, often: bool = False) -> Source:
        """From vectors `[B, S, d]`; laid out in memory for being asked once, or often."""
        source = Source(self._split(self.key(keys)).transpose(2, 3), self._split(self.value(values)))
        return Source(*(part.contiguous() for part in source)) if often else source

    def forward(self, queries: Tensor, source: Source, mask: Tensor | None = None) -> Tensor:
        """`[B, N, d]` to the same; the mask `[B, S]` is true for what may be attended to."""
        asked = self._split(self.query(queries))
        scores = asked / math.sqrt(asked.shape[3]) @ source.keys  # [B, heads, N, S]
        if mask is not None:
            scores = scores.masked_fill(~mask[:, None, None], -torch.inf)
        weights = functional.dropout(scores.softmax(dim=3), self.dropout, self.training)
        output: Tensor = self.output((weights @ source.values).transpose(1, 2).flatten(2))
        return output

    def _split(self, vectors: Tensor) -> Tensor:
        return vectors.view(*vectors.shape[:2], self.heads, -1).transpose(1, 2)


def sinusoids(positions: Tensor, size: int) -> Tensor:
    """Codes of numbers: `[...]` to `[..., size]`, sines and cosines of wavelengths from 2 pi to 20,000 pi."""
    half = size // 2  # it is even
    exponents = torch.arange(half, device=positions.device) / half
    angles = positions[..., None] * torch.exp(-math.log(10_000) * exponents)
    return torch.cat((angles.sin(), angles.cos()), dim=-1)
