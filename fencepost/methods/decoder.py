"""Decoders: the part of a method that turns the outputs of its graphs into candidates, in NumPy.

An engine runs the graphs (`Network.graphs`): PyTorch modules, or ONNX graphs in onnxruntime. Loops and
decisions do not belong into a graph; they are in the decoder, which is the same for both engines.
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
"""Functions that run the graphs, by name; they take named arrays and return arrays."""

S = TypeVar("S")


class GraphMismatch(Exception):
    """A graph is missing, or does not return what its method needs."""


@dataclass(frozen=True, slots=True)
class WordArrays:
    """The encoder's vectors of the words of a batch."""

    vectors: FloatArray  # [B, T, d]
    lengths: IntArray  # [B]
    prompts: FloatArray | None = None  # [B, P, d]

    def inputs(self) -> dict[str, npt.NDArray[Any]]:
        """Return the vectors of words and prompts by the names of the graphs' inputs."""
        named: dict[str, npt.NDArray[Any]] = {"vectors": self.vectors}
        return named if self.prompts is None else named | {"prompts": self.prompts}

    def take(self, sentences: Sequence[int]) -> WordArrays:
        """Return the vectors of some of the sentences, padded to the longest of them."""
        lengths = self.lengths[sentences]
        prompts = None if self.prompts is None else self.prompts[sentences]
        return WordArrays(self.vectors[sentences, : lengths.max()], lengths, prompts)


class Decoder(ABC, Generic[S]):
    """Interface of decoders: word vectors to candidates; `S` is the type of the scores between."""

    def __init__(self, settings: MethodSettings, types: Sequence[str]) -> None:
        self.settings: Any = settings
        self.types = tuple(types)

    @abstractmethod
    def score(self, words: WordArrays, graphs: Graphs, predict: Any) -> S:
        """Run the graphs on a batch and return their results, for `candidates` and reports."""

    @abstractmethod
    def candidates(self, scores: S, predict: Any) -> Candidates:
        """Return the candidates of a batch: word `t` of sentence `b` is at position `b * T + t`."""


@dataclass(frozen=True, slots=True)
class GoldArrays:
    """The gold entities of a batch whose types the model knows, each once, as columns; half-open.

    `probability` has the probability that an entity is one; None if all are certain.
    """

    sentence: IntArray  # [N]
    start: IntArray  # [N]
    end: IntArray  # [N]
    type: IntArray  # [N], index into the model's types
    probability: FloatArray | None = None  # [N]

    @classmethod
    def from_sentences(cls, sentences: Sequence[Sentence], types: Sequence[str]) -> GoldArrays:
        """Return the entities of sentences that have one of these types."""
        numbers = {type_: number for number, type_ in enumerate(types)}
        rows = {
            (index, entity.start, entity.end, numbers[entity.type]): (
                entity.score if sentence.has_soft_entities else 1.0
            )
            for index, sentence in enumerate(sentences)
            for entity in sentence.entities
            if entity.type in numbers
        }
        is_soft = any(sentence.has_soft_entities for sentence in sentences)
        probability = np.array([*rows.values()], dtype=np.float32) if is_soft else None
        sentence, start, end, type_ = np.array([*rows], dtype=np.int64).reshape(-1, 4).T
        return cls(sentence, start, end, type_, probability)


Row = Score | Mapping[str, int | float]
"""A row of a table: scores, or numbers by the names of the columns."""


class Report(ABC):
    """Interface of reports: tables about the steps of a method, computed batch by batch in prediction."""

    def __init__(self, decoder: Any, predict: PredictSettings) -> None:
        self.decoder, self.predict = decoder, predict

    @abstractmethod
    def add(self, sentences: Sequence[Sentence], scores: Any, gold: GoldArrays) -> None:
        """Add a batch; `sentences` have all entities, and `gold` those whose types the model knows."""

    @abstractmethod
    def tables(self) -> dict[str, dict[str, Row]]:
        """Return the tables by title; a table has its rows by name."""


def run_graph(
    graphs: Graphs,
    name: str,
    inputs: Mapping[str, npt.NDArray[Any]],
    *expected: tuple[Literal["i", "f"], tuple[int, ...]],
) -> list[npt.NDArray[Any]]:
    """Run a graph and return its outputs.

    `expected` has the kind of numbers (`i` for integers, `f` for floats) and the shape of each output. Raises
    `GraphMismatch` if the outputs differ from it, or if the model does not have the graph.
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
    """Return which cells of a grid of start and last word are spans of the sentences: `[B, T, T]`."""
    place = np.arange(length)
    return (place[:, None] <= place) & (place < lengths[:, None, None])


def sigmoid(logits: FloatArray) -> FloatArray:
    """Return the logistic function of logits, without overflow for very low ones."""
    result: FloatArray = np.exp(-np.logaddexp(np.float32(0), -logits))
    return result


def softmax(logits: FloatArray) -> FloatArray:
    """Return the softmax along the last axis."""
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    result: FloatArray = powers / powers.sum(axis=-1, keepdims=True)
    return result
