"""What is left of a method where there is no PyTorch: its exported graphs, and what goes on around them.

A decoder calls the graphs of its method (`Method.graphs`) and makes candidates of what they say; loops and
decisions, which do not belong into a graph, are here, in NumPy. The settings of prediction are here too, for
both worlds use them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import ConfigDict, Field

from fencepost.data.entity import Sentence
from fencepost.errors import UsageError, quote
from fencepost.methods import candidates as decoding
from fencepost.methods.candidates import Candidates
from fencepost.settings import Settings, merged, validated

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float32]
Graphs = Mapping[str, Callable[..., list[npt.NDArray[Any]]]]
"""By name, what runs a graph: named arrays in, arrays out."""


class TrainedSettings(Settings):
    """Those settings of a method's training that its decoder reads; all others are ignored."""

    model_config = ConfigDict(extra="ignore")


class PredictSettings(Settings):
    """What may be changed after training; methods add their own."""

    overlapping: ClassVar[str] = "nested"
    """What `auto` is where training entities overlap."""

    select: Literal["auto", "flat", "nested", "keep-all", "soft-nms"] = Field(
        "auto", description="Which candidates are kept; auto is flat where no training entities overlap."
    )
    batch_size: int = Field(32, ge=1, le=65_536, description="Sentences that are predicted together.")

    def fitted(self, sentences: Sequence[Sentence]) -> Self:
        """With `auto` replaced by what the training data asks for."""
        if self.select != "auto":
            return self
        overlapping = any(
            left.end > right.start and left.key != right.key  # a repetition is no overlap
            for sentence in sentences
            for left, right in zip(sentence.entities, sentence.entities[1:], strict=False)
        )
        return self.model_copy(update={"select": self.overlapping if overlapping else "flat"})

    def at_least(self, confidence: float) -> Self | None:  # noqa: ARG002 - for those who can
        """The same, for entities of at least this confidence; None if that is settled or no setting of it.

        After each epoch it is set to what is best on the development data.
        """
        return None

    def changed(self, settings: Mapping[str, Any]) -> Self:
        """With other values, by key."""
        if settings.get("select") == "auto" != self.select:
            raise UsageError(
                f"predict.select: auto is for training; this model was trained for {self.select}"
            )
        return validated(type(self), merged(self.model_dump(mode="json"), settings), key="predict")

    def selected(self, candidates: Candidates) -> Candidates:
        """Those candidates that are entities."""
        return decoding.select(candidates, self.select)


@dataclass(frozen=True, slots=True)
class WordArrays:
    """What the encoder's graph makes of a batch."""

    vectors: FloatArray  # [B, T, d]
    lengths: IntArray  # [B]
    prompts: FloatArray | None = None  # [B, P, d]

    def inputs(self) -> dict[str, npt.NDArray[Any]]:
        """The vectors, with those of the prompts, as graphs name them."""
        named: dict[str, npt.NDArray[Any]] = {"vectors": self.vectors}
        return named if self.prompts is None else named | {"prompts": self.prompts}

    def take(self, sentences: Sequence[int]) -> WordArrays:
        """Some of the sentences, as long as the longest of them."""
        lengths = self.lengths[sentences]
        prompts = None if self.prompts is None else self.prompts[sentences]
        return WordArrays(self.vectors[sentences, : lengths.max()], lengths, prompts)


class Decoder(ABC):
    """Word vectors to candidates, by a method's graphs; `method` holds the settings of its training."""

    Predict: ClassVar[type[PredictSettings]] = PredictSettings
    Trained: ClassVar[type[TrainedSettings] | None] = None
    """What `method` is checked with; without it, all settings are taken as they are saved."""

    def __init__(self, method: Mapping[str, Any], types: Sequence[str]) -> None:
        self.method: Any = (
            validated(self.Trained, method, key="method") if self.Trained else SimpleNamespace(**method)
        )
        self.types = tuple(types)

    @abstractmethod
    def candidates(self, words: WordArrays, graphs: Graphs, predict: Any) -> Candidates:
        """Spans of the whole batch: word `t` of sentence `b` is at position `b * T + t`."""


class GraphMismatch(Exception):
    """A graph does not give what its method needs."""


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
