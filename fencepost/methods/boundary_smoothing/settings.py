"""Settings of boundary smoothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal, Self

from pydantic import Field

from fencepost.data.entity import Sentence
from fencepost.methods.settings import MethodSettings
from fencepost.settings import WIDEST


class BoundarySmoothingSettings(MethodSettings):
    """Settings of the smoothing of the targets, and sizes of the biaffine layer."""

    name: Literal["boundary-smoothing"] = Field("boundary-smoothing", description="Name of the method.")
    searched: ClassVar = {
        "epsilon": {"low": 0.0, "high": 0.3},
        "smoothing_size": [1, 2],
        "dropout": {"low": 0.1, "high": 0.5},
    }
    epsilon: float = Field(
        0.1, ge=0, lt=1, description="Part of an entity's probability that the spans around it get."
    )
    smoothing_size: int = Field(
        1, ge=1, le=100, description="D: maximum distance of these spans from the entity, in words."
    )
    label_smoothing: float = Field(
        0.0, ge=0, lt=1, description="Part of an entity's probability that is spread over types (ablation)."
    )
    size: int = Field(150, ge=1, le=WIDEST, description="Width of the start and end views of a word.")
    dropout: float = Field(0.2, ge=0, lt=1, description="Dropout of the start and end views.")
    width_size: int = Field(
        25, ge=0, le=WIDEST, description="Width of the embedding of a span's length; 0 for none."
    )
    widest: int | None = Field(
        None,
        ge=1,
        le=WIDEST,
        description="Number of words from which spans share an embedding of their length; by default one "
        "more than the longest training entity has.",
    )
    inside: bool = Field(
        False, description="Whether every word of a span adds to its score, not only the first and the last."
    )

    def fit_to(self, sentences: Sequence[Sentence]) -> Self:
        """Return these settings with an embedding for each length of training entities."""
        if self.widest is not None:
            return self
        longest = max(len(entity) for sentence in sentences for entity in sentence.entities)
        return self.model_copy(update={"widest": min(longest + 1, WIDEST)})
