"""A layer that gives a word vector a view of its own."""

from __future__ import annotations

from torch import Tensor, nn


class FeedForward(nn.Module):
    """`dropout(relu(W x + b))`."""

    def __init__(self, width: int, size: int, dropout: float) -> None:
        super().__init__()
        self.linear = nn.Linear(width, size)
        self.dropout = nn.Dropout(dropout)

    def forward(self, vectors: Tensor) -> Tensor:
        """`[..., width]` to `[..., size]`."""
        view: Tensor = self.dropout(self.linear(vectors).relu())
        return view
