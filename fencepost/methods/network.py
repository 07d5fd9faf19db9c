"""What a method trains: a network from word vectors to scores, its loss, and the graphs of prediction."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from fencepost.encoder.encoder import Words
from fencepost.methods.decoder import GoldArrays

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Gold:
    """The true entities of a batch, as columns; spans are half-open."""

    sentence: Tensor  # [N], index in the batch
    start: Tensor  # [N]
    end: Tensor  # [N]
    type: Tensor  # [N], from 0

    @classmethod
    def of(cls, columns: Tensor) -> Gold:
        """Make one from a tensor `[N, 4]`."""
        return cls(*columns.unbind(dim=1))

    def to_numpy(self) -> GoldArrays:
        """Return the same columns as arrays of NumPy."""
        columns = (self.sentence, self.start, self.end, self.type)
        return GoldArrays(*(column.cpu().numpy() for column in columns))

    def by_sentence(self, batch: int) -> Tensor:
        """Return the indices of each sentence's entities, `[B, G]`, padded with their total number N."""
        order = torch.argsort(self.sentence, stable=True)
        rank = ranks(self.sentence[order], batch)
        most = int(rank.max()) + 1 if len(rank) else 1
        table = order.new_full((batch, most), len(order))
        table[self.sentence[order], rank] = order
        return table

    def take(self, sentences: list[int]) -> Gold:
        """Return the entities of some sentences, which are renumbered in this order."""
        chosen = torch.tensor(sentences, device=self.sentence.device)
        match = self.sentence[:, None] == chosen  # [N, S]
        kept = match.any(dim=1)
        return Gold(match[kept].long().argmax(dim=1), self.start[kept], self.end[kept], self.type[kept])


class Graph(NamedTuple):
    """A part of a network that prediction runs and that is exported, with an example of its inputs."""

    module: nn.Module
    inputs: Mapping[str, Tensor]
    axes: Mapping[str, Sequence[str | None]]
    """Names of the axes of each input and output; None for one that never changes its size."""

    @property
    def outputs(self) -> list[str]:
        return [name for name in self.axes if name not in self.inputs]


class Network(nn.Module, ABC, Generic[S]):
    """Word vectors to scores, and their loss; `S` is what the method scores."""

    reduce_count: Callable[[int | Tensor], Tensor] | None = None
    """Set while several processes train on shares of each batch: what `mean_count` returns then."""

    def __init__(self, settings: Any, width: int, types: Sequence[str]) -> None:
        """`settings` are those of the method, and `width` is that of the word vectors."""
        super().__init__()
        self.settings = settings
        self.width = width
        self.types = tuple(types)

    @abstractmethod
    def score(self, words: Words, gold: Gold) -> S:
        """Return what `loss` needs; `gold` is for methods that make their input from it."""

    @abstractmethod
    def loss(self, scores: S, gold: Gold) -> dict[str, Tensor]:
        """Return named terms, each one number, that add up to the loss: a mean over the batch, not a sum.

        What a mean divides by is `mean_count`, so that it is one over the shares of all processes.
        """

    @abstractmethod
    def graphs(self, words: Words) -> dict[str, Graph]:
        """Return what the method's decoder runs, by name; `words` are an example."""

    def mean_count(self, count: int | Tensor) -> int | Tensor:
        """Return what a mean over this many items of the batch divides by: never 0."""
        if self.reduce_count is not None and self.training:
            return self.reduce_count(count)
        return count.clamp(min=1) if isinstance(count, Tensor) else max(1, count)


def ranks(sentences: Tensor, batch: int) -> Tensor:
    """Number the items of each sentence from 0; `sentences` says in rising order which each belongs to."""
    counts = torch.bincount(sentences, minlength=batch)  # [B]
    return torch.arange(len(sentences), device=sentences.device) - (counts.cumsum(0) - counts)[sentences]


def word_axes(words: Words) -> tuple[dict[str, Tensor], dict[str, Sequence[str | None]]]:
    """Return the word vectors, and those of prompts if any, as inputs of a graph, and their axes."""
    inputs = {"vectors": words.vectors}
    axes: dict[str, Sequence[str | None]] = {"vectors": ("sentences", "words", None)}
    if words.prompts is not None:
        inputs["prompts"] = words.prompts
        axes["prompts"] = ("sentences", None, None)
    return inputs, axes
