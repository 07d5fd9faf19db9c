"""Settings of boundary smoothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal, Self

from pydantic import Field

from fencepost.data.entity import Sentence
from fencepost.methods.settings import MethodSettings
from fencepost.settings import WIDEST


class BoundarySmoothingSettings(MethodSettings):
    """How much the targets are smoothed, and the sizes of the biaffine layer."""

    name: Literal["boundary-smoothing"] = "boundary-smoothing"
    searched: ClassVar = {
        "epsilon": {"low": 0.0, "high": 0.3},
        "smoothing_size": [1, 2],
        "dropout": {"low": 0.1, "high": 0.5},
    }
    epsilon: float = Field(
        0.1, ge=0, lt=1, description="The probability that neighbouring spans share; 0 is none."
    )
    smoothing_size: int = Field(
        1, ge=1, le=100, description="D: how far away, in words, the farthest of them are."
    )
    label_smoothing: float = Field(
        0.0, ge=0, lt=1, description="The part of an entity's probability that all types share (ablation)."
    )
    size: int = Field(150, ge=1, le=WIDEST, description="Width of the start and end views of a word.")
    dropout: float = Field(0.2, ge=0, lt=1)
    width_size: int = Field(
        25, ge=0, le=WIDEST, description="Width of the embedding of a span's length; 0 is none."
    )
    widest: int | None = Field(
        None,
        ge=1,
        le=WIDEST,
        description="Spans of this many words or more share an embedding; unless set, those that are longer "
        "than all training entities.",
    )

    def fitted(self, sentences: Sequence[Sentence]) -> Self:
        """Give each length up to that of the longest entity an embedding of its own."""
        if self.widest is not None:
            return self
        longest = max(len(entity) for sentence in sentences for entity in sentence.entities)
        return self.model_copy(update={"widest": min(longest + 1, WIDEST)})
