"""Feed-forward layer, which several methods apply to vectors."""

from __future__ import annotations

from torch import Tensor, nn


class FeedForward(nn.Module):
    """A linear layer, ReLU and dropout: `dropout(relu(W x + b))`."""

    def __init__(self, width: int, size: int, dropout: float) -> None:
        super().__init__()
        self.linear = nn.Linear(width, size)
        self.dropout = nn.Dropout(dropout)

    def forward(self, vectors: Tensor) -> Tensor:
        """Map `[..., width]` to `[..., size]`."""
        view: Tensor = self.dropout(self.linear(vectors).relu())
        return view
