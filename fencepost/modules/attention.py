"""Attention with several heads, whose keys and values can be made once and asked many times."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional


class Source(NamedTuple):
    """What is attended to."""

    keys: Tensor  # [B, heads, S, d / heads]
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

    def source(self, keys: Tensor, values: Tensor) -> Source:
        """From vectors `[B, S, d]`."""
        return Source(self._split(self.key(keys)), self._split(self.value(values)))

    def forward(self, queries: Tensor, source: Source, mask: Tensor | None = None) -> Tensor:
        """`[B, N, d]` to the same; the mask `[B, S]` is true for what may be attended to."""
        dropout = self.dropout if self.training else 0.0
        allowed = None if mask is None else mask[:, None, None]
        heads = functional.scaled_dot_product_attention(
            self._split(self.query(queries)), *source, attn_mask=allowed, dropout_p=dropout
        )
        output: Tensor = self.output(heads.transpose(1, 2).flatten(2))
        return output

    def _split(self, vectors: Tensor) -> Tensor:
        return vectors.view(*vectors.shape[:2], self.heads, -1).transpose(1, 2)


def sinusoids(positions: Tensor, size: int) -> Tensor:
    """Codes of numbers: `[...]` to `[..., size]`, sines and cosines of wavelengths from 2 pi to 20,000 pi."""
    half = size // 2  # it is even
    exponents = torch.arange(half, device=positions.device) / half
    angles = positions[..., None] * torch.exp(-math.log(10_000) * exponents)
    return torch.cat((angles.sin(), angles.cos()), dim=-1)
