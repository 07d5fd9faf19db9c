"""What a method does in prediction, in NumPy: it drives named graphs and turns their numbers into candidates.

An engine runs the graphs (`Network.graphs`): PyTorch modules, or ONNX graphs in onnxruntime. Loops, stages
and decisions, which do not belong into a graph, are in the decoder, which is the same for both engines.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from fencepost.data.entity import Sentence
from fencepost.errors import quote
from fencepost.evaluation import Score
from fencepost.methods.candidates import Candidates
from fencepost.methods.settings import MethodSettings, PredictSettings

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float32]
Graphs = Mapping[str, Callable[..., list[npt.NDArray[Any]]]]
"""By name, what runs a graph: named arrays in, arrays out."""

S = TypeVar("S")


class GraphMismatch(Exception):
    """A graph does not return what its method needs."""


@dataclass(frozen=True, slots=True)
class WordArrays:
    """What the encoder makes of a batch of sentences."""

    vectors: FloatArray  # [B, T, d]
    lengths: IntArray  # [B]
    prompts: FloatArray | None = None  # [B, P, d]

    def inputs(self) -> dict[str, npt.NDArray[Any]]:
        """Return the vectors, with those of the prompts, as graphs name them."""
        named: dict[str, npt.NDArray[Any]] = {"vectors": self.vectors}
        return named if self.prompts is None else named | {"prompts": self.prompts}

    def take(self, sentences: Sequence[int]) -> WordArrays:
        """Return some of the sentences, padded to the longest of them."""
        lengths = self.lengths[sentences]
        prompts = None if self.prompts is None else self.prompts[sentences]
        return WordArrays(self.vectors[sentences, : lengths.max()], lengths, prompts)


class Decoder(ABC, Generic[S]):
    """Word vectors to candidates, by a method's graphs; `S` is what the method scores."""

    def __init__(self, settings: MethodSettings, types: Sequence[str]) -> None:
        self.settings: Any = settings
        self.types = tuple(types)

    @abstractmethod
    def score(self, words: WordArrays, graphs: Graphs, predict: Any) -> S:
        """Run the graphs on a batch and return what they say, as reports and `candidates` need it."""

    @abstractmethod
    def candidates(self, scores: S, predict: Any) -> Candidates:
        """Return spans of the whole batch: word `t` of sentence `b` is at position `b * T + t`."""


@dataclass(frozen=True, slots=True)
class GoldArrays:
    """The true entities of a batch whose types the model knows, each once, as columns; half-open."""

    sentence: IntArray  # [N]
    start: IntArray  # [N]
    end: IntArray  # [N]
    type: IntArray  # [N], index into the model's types

    @classmethod
    def of(cls, sentences: Sequence[Sentence], types: Sequence[str]) -> GoldArrays:
        """Collect the entities of sentences."""
        numbers = {type_: number for number, type_ in enumerate(types)}
        rows = [
            (index, start, end, numbers[type_])
            for index, sentence in enumerate(sentences)
            for start, end, type_ in dict.fromkeys(entity.key for entity in sentence.entities)
            if type_ in numbers
        ]
        return cls(*np.array(rows, dtype=np.int64).reshape(-1, 4).T)


Row = Score | Mapping[str, int | float]
"""Of a table: scores, or named numbers, which are the same in each of its rows."""


class Report(ABC):
    """Tables about a method's own steps, collected batch by batch while a corpus is predicted."""

    def __init__(self, decoder: Any, predict: PredictSettings) -> None:
        self.decoder, self.predict = decoder, predict

    @abstractmethod
    def add(self, sentences: Sequence[Sentence], scores: Any, gold: GoldArrays) -> None:
        """Add a batch; `gold` has the entities whose types the model knows, `sentences` have all."""

    @abstractmethod
    def tables(self) -> dict[str, dict[str, Row]]:
        """Return the rows of each table by name, by the table's title."""


def run_graph(
    graphs: Graphs,
    name: str,
    inputs: Mapping[str, npt.NDArray[Any]],
    *expected: tuple[Literal["i", "f"], tuple[int, ...]],
) -> list[npt.NDArray[Any]]:
    """Run a graph and return its outputs, which must be as `expected`.

    For each output that is the kind of its numbers (`i` for integers, `f` for floats) and its shape. Raises
    `GraphMismatch` for other outputs, and for a graph that the model does not have.
    """
    if name not in graphs:
        raise GraphMismatch(f"the graph {name} is missing")
    outputs = graphs[name](**inputs)
    has = [(output.dtype.kind, output.shape) for output in outputs]
    if has != list(expected):
        raise GraphMismatch(
            f"the outputs of the graph {name} are {quote(has)}, but must be {quote(expected)}"
        )
    return outputs


def is_span(lengths: IntArray, length: int) -> npt.NDArray[np.bool_]:
    """Return which cells of the grids of start and last word are spans of their sentences: `[B, T, T]`."""
    place = np.arange(length)
    return (place[:, None] <= place) & (place < lengths[:, None, None])


def sigmoid(logits: FloatArray) -> FloatArray:
    """Return the logistic function of logits; however low they are, without overflow."""
    result: FloatArray = np.exp(-np.logaddexp(np.float32(0), -logits))
    return result


def softmax(logits: FloatArray) -> FloatArray:
    """Return the softmax along the last axis."""
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    result: FloatArray = powers / powers.sum(axis=-1, keepdims=True)
    return result
