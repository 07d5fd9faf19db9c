"""What a method is: four verbs, from word vectors to entities.

`score` makes of word vectors whatever the method scores; `loss` compares that with the gold entities;
`candidates` reduces it, on the device, to a handful of spans; `select` decides among those, in NumPy.
A method is one file with one subclass of `Method`, and one line in `fencepost.methods.METHODS`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar

import torch
from torch import Tensor, nn

from fencepost.data.entity import Sentence
from fencepost.encoder.encoder import Words
from fencepost.encoder.settings import EncoderSettings
from fencepost.evaluation import Score
from fencepost.methods.candidates import Candidates
from fencepost.methods.decoder import PredictSettings
from fencepost.settings import Settings

S = TypeVar("S")


class MethodSettings(Settings):
    """What a method is trained with; subclasses fix `name` and add their own."""

    name: str
    searched: ClassVar[Mapping[str, Any]] = {}
    """What `fencepost tune` searches unless told otherwise: by key, `low` and `high`, or a list of values."""

    def fitted(self, sentences: Sequence[Sentence]) -> Self:  # noqa: ARG002 - for those who need it
        """With what depends on the training data filled in, so that the saved settings say it all."""
        return self

    def trained_lengths(self) -> Sequence[int] | None:
        """The lengths, in words, of the spans that training goes through; None is all."""
        return None

    def idle(self, encoder: EncoderSettings) -> Iterator[str]:  # noqa: ARG002
        """Settings that were given and can have no effect with the others or this encoder, and why."""
        yield from ()


@dataclass(frozen=True, slots=True)
class Gold:
    """The true entities of a batch, as columns; spans are half-open."""

    sentence: Tensor  # [N], which of the batch
    start: Tensor  # [N]
    end: Tensor  # [N]
    type: Tensor  # [N], from 0

    @classmethod
    def of(cls, columns: Tensor) -> Gold:
        """From a tensor `[N, 4]`."""
        return cls(*columns.unbind(dim=1))

    def by_sentence(self, batch: int) -> Tensor:
        """`[B, G]`: which entities each sentence has, in their order; behind the last one, their number N."""
        order = torch.argsort(self.sentence, stable=True)
        rank = ranks(self.sentence[order], batch)
        most = int(rank.max()) + 1 if len(rank) else 1
        table = order.new_full((batch, most), len(order))
        table[self.sentence[order], rank] = order
        return table

    def take(self, sentences: list[int]) -> Gold:
        """The entities of some sentences, which are numbered anew in this order."""
        chosen = torch.tensor(sentences, device=self.sentence.device)
        match = self.sentence[:, None] == chosen  # [N, S]
        kept = match.any(dim=1)
        return Gold(match[kept].long().argmax(dim=1), self.start[kept], self.end[kept], self.type[kept])


Row = Score | Mapping[str, int | float]
"""Of a table: scores, or named numbers, which are the same in each of its rows."""


class Report(ABC):
    """What a method tells about its own steps, gathered batch by batch while a corpus is predicted."""

    @abstractmethod
    def add(self, sentences: Sequence[Sentence], scores: Any, gold: Gold) -> None:
        """A batch; `gold` has the entities whose types the model knows, `sentences` have all."""

    @abstractmethod
    def tables(self) -> dict[str, dict[str, Row]]:
        """By title, the rows of each table by name."""


class Graph(NamedTuple):
    """A part of a network that is exported, with an example of what it gets."""

    module: nn.Module
    inputs: Mapping[str, Tensor]
    axes: Mapping[str, Sequence[str | None]]
    """Of each input and output, the names of its axes; None for one that never changes its size."""

    @property
    def outputs(self) -> list[str]:
        return [name for name in self.axes if name not in self.inputs]


class Method(nn.Module, ABC, Generic[S]):
    """Word vectors to entities; `S` is whatever the method scores."""

    Settings: ClassVar[type[MethodSettings]]
    Predict: ClassVar[type[PredictSettings]] = PredictSettings
    defaults: ClassVar[Mapping[str, Any]] = {}
    """Where the paper's encoder or training differs from our defaults: a part of a config."""
    reports: ClassVar[Mapping[str, Callable[[Any], Report]]] = {}
    """By the name of the option of `fencepost evaluate` that asks for it, what makes one for a method."""
    learns_from_gold: ClassVar[bool] = False
    """Whether `score` makes its input from gold (by adding noise, say): then it cannot judge itself by it."""

    across: Callable[[int | Tensor], Tensor] | None = None
    """Set where several processes have a share of each batch: what `counted` says then, in training."""

    predict: PredictSettings

    def __init__(
        self,
        settings: MethodSettings,  # noqa: ARG002 - for those who have some of their own
        predict: PredictSettings,
        width: int,  # noqa: ARG002
        types: Sequence[str],
    ) -> None:
        """`width` is that of the word vectors."""
        super().__init__()
        self.predict = predict
        self.types = tuple(types)

    @classmethod
    def prompts(cls, settings: MethodSettings, types: Sequence[str]) -> int:  # noqa: ARG003
        """How many prompt vectors the encoder shall put before each sentence."""
        return 0

    @classmethod
    def prompt_names(cls, settings: MethodSettings, types: Sequence[str]) -> Sequence[str]:  # noqa: ARG003
        """Words as whose embeddings the prompts start, one for each; with none, they start at random."""
        return ()

    @abstractmethod
    def score(self, words: Words, gold: Gold | None = None) -> S:
        """With gold, what `loss` needs; without, what `candidates` needs: often the same."""

    @abstractmethod
    def loss(self, scores: S, gold: Gold) -> dict[str, Tensor]:
        """Named terms, each one number, that add up to the loss: a mean over the batch, not a sum.

        What a mean divides by is `counted`, so that it is one over the shares of all processes.
        """

    @abstractmethod
    def candidates(self, scores: S) -> Candidates:
        """Spans of the whole batch: word `t` of sentence `b` is at position `b * T + t`."""

    def graphs(self, words: Words) -> dict[str, Graph]:  # noqa: ARG002 - for those who have some
        """What its decoder (in `fencepost.decoders`) calls, by name; `words` are an example.

        A method without graphs cannot be exported.
        """
        return {}

    def counted(self, count: int | Tensor) -> int | Tensor:
        """What a mean over so many things of the batch divides by: never 0."""
        if self.across is not None and self.training:
            return self.across(count)
        return count.clamp(min=1) if isinstance(count, Tensor) else max(1, count)

    def select(self, candidates: Candidates) -> Candidates:
        """Those that are entities."""
        return self.predict.selected(candidates)


def ranks(sentences: Tensor, batch: int) -> Tensor:
    """Of things in the order of their sentences: which of its sentence each one is, from 0."""
    counts = torch.bincount(sentences, minlength=batch)  # [B]
    return torch.arange(len(sentences), device=sentences.device) - (counts.cumsum(0) - counts)[sentences]


def as_candidates(
    sentence: Tensor, start: Tensor, end: Tensor, type_: Tensor, score: Tensor, length: int
) -> Candidates:
    """Columns on the device, `[N]` each, to candidates of a batch padded to `length` words."""
    spans = torch.stack((sentence * length + start, sentence * length + end, type_)).cpu().numpy()
    return Candidates(spans[0], spans[1], spans[2], score.detach().cpu().double().clamp(0, 1).numpy())
