"""Networks: the part of a method that is trained, from word vectors to scores and their loss."""

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

_NEVER = -1e4
"""Log probability of an impossible class; finite, so that its product with a target of 0 is 0."""


@dataclass(frozen=True, slots=True)
class Gold:
    """The gold entities of a batch, as columns; spans are half-open."""

    sentence: Tensor  # [N], index in the batch
    start: Tensor  # [N]
    end: Tensor  # [N]
    type: Tensor  # [N], from 0
    annotated: Tensor | None = None  # [B, C], whether a sentence is annotated with a type; None if all are
    probability: Tensor | None = None  # [N], that the entity is one; None if all are certain

    @classmethod
    def from_columns(
        cls, columns: Tensor, annotated: Tensor | None = None, probability: Tensor | None = None
    ) -> Gold:
        """Return the entities in the rows of a tensor `[N, 4]`."""
        sentence, start, end, type_ = columns.unbind(dim=1)
        return cls(sentence, start, end, type_, annotated, probability)

    @classmethod
    def from_batch(cls, batch: Mapping[str, Tensor]) -> Gold:
        """Return the entities of a batch, by `gold`, `annotated` and `probability`."""
        return cls.from_columns(batch["gold"], batch.get("annotated"), batch.get("probability"))

    def draw(self) -> Gold:
        """Return certain entities: each of these is drawn with its probability."""
        if self.probability is None:
            return self
        rows = torch.rand_like(self.probability) < self.probability
        return Gold(self.sentence[rows], self.start[rows], self.end[rows], self.type[rows], self.annotated)

    def to_numpy(self) -> GoldArrays:
        """Return the entities as NumPy arrays."""
        columns = (self.sentence, self.start, self.end, self.type)
        return GoldArrays(*(column.cpu().numpy() for column in columns))

    def group_by_sentence(self, batch: int) -> Tensor:
        """Return the indices of the entities of each sentence, `[B, G]`, padded with N."""
        order = torch.argsort(self.sentence, stable=True)
        rank = compute_ranks(self.sentence[order], batch)
        most = int(rank.max()) + 1 if len(rank) else 1
        table = order.new_full((batch, most), len(order))
        table[self.sentence[order], rank] = order
        return table

    def take(self, sentences: list[int]) -> Gold:
        """Return the entities of some sentences, which are renumbered in the given order."""
        chosen = torch.tensor(sentences, device=self.sentence.device)
        match = self.sentence[:, None] == chosen  # [N, S]
        rows = match.any(dim=1)
        return Gold(
            sentence=match[rows].long().argmax(dim=1),
            start=self.start[rows],
            end=self.end[rows],
            type=self.type[rows],
            annotated=None if self.annotated is None else self.annotated[chosen],
            probability=None if self.probability is None else self.probability[rows],
        )


class Graph(NamedTuple):
    """A part of a network that prediction runs and export converts, with an example of its inputs."""

    module: nn.Module
    inputs: Mapping[str, Tensor]
    axes: Mapping[str, Sequence[str | None]]
    """Names of the axes of each input and output; None for an axis of constant size."""

    @property
    def outputs(self) -> list[str]:
        return [name for name in self.axes if name not in self.inputs]


class Network(nn.Module, ABC, Generic[S]):
    """Interface of networks: word vectors to scores, and their loss; `S` is the type of the scores."""

    has_soft_targets = False
    """Whether `loss` uses the probabilities of entities; otherwise it gets entities drawn by them."""

    reduce_count: Callable[[int | Tensor], Tensor] | None = None
    """Function that computes `mean_count` while several processes train on parts of each batch."""

    def __init__(self, settings: Any, width: int, types: Sequence[str]) -> None:
        """Create a network with the method's settings, for word vectors of this width."""
        super().__init__()
        self.settings = settings
        self.width = width
        self.types = tuple(types)

    @abstractmethod
    def score(self, words: Words, gold: Gold) -> S:
        """Return the scores that `loss` needs; some methods make their input from `gold`."""

    @abstractmethod
    def loss(self, scores: S, gold: Gold) -> dict[str, Tensor]:
        """Return the terms of the loss by name, each a scalar: means over the batch, not sums.

        Divide by `mean_count`, so that the mean is over the parts of the batch on all processes.
        """

    @abstractmethod
    def graphs(self, words: Words) -> dict[str, Graph]:
        """Return the graphs that the method's decoder runs, by name; `words` are an example of inputs."""

    def mean_count(self, count: int | Tensor) -> int | Tensor:
        """Return the divisor of a mean over this number of items in the batch; it is never 0."""
        if self.reduce_count is not None and self.training:
            return self.reduce_count(count)
        return count.clamp(min=1) if isinstance(count, Tensor) else max(1, count)


def merge_classes(logits: Tensor, annotated: Tensor | None) -> Tensor:
    """Return log probabilities `[N, C + 1, ...]` in which "no entity" includes types that are not annotated.

    Where a sentence is annotated with some types only, what is not an entity of these may be one of the
    others: class 0 gets the sum of the probabilities of "no entity" and of the other types. `annotated` is
    `[N, C]`, or None if all types are annotated.
    """
    log_p = logits.log_softmax(dim=1)
    if annotated is None:
        return log_p
    is_class = nn.functional.pad(annotated, (1, 0), value=True)  # [N, C + 1]
    is_class = is_class.view(*is_class.shape, *(1,) * (logits.ndim - 2))
    others = log_p.masked_fill(is_class, _NEVER).logsumexp(dim=1, keepdim=True)
    none = torch.logaddexp(log_p[:, :1], others)
    return torch.cat((none, log_p[:, 1:].masked_fill(~is_class[:, 1:], _NEVER)), dim=1)


def compute_ranks(sentences: Tensor, batch: int) -> Tensor:
    """Return the rank of each item in its sentence, from 0; `sentences` are the items' sentences, sorted."""
    counts = torch.bincount(sentences, minlength=batch)  # [B]
    return torch.arange(len(sentences), device=sentences.device) - (counts.cumsum(0) - counts)[sentences]


def word_axes(words: Words) -> tuple[dict[str, Tensor], dict[str, Sequence[str | None]]]:
    """Return the vectors of words and prompts (if any) as inputs of a graph, and the names of their axes."""
    inputs = {"vectors": words.vectors}
    axes: dict[str, Sequence[str | None]] = {"vectors": ("sentences", "words", None)}
    if words.prompts is not None:
        inputs["prompts"] = words.prompts
        axes["prompts"] = ("sentences", None, None)
    return inputs, axes
