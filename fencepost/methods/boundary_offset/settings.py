"""Settings of boundary offset prediction."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

from pydantic import Field

from fencepost.encoder.settings import EncoderSettings
from fencepost.methods.settings import MethodSettings, PredictSettings
from fencepost.settings import WIDEST

FARTHEST = 1000
"""The largest offset that settings accept."""


class BoundaryOffsetSettings(MethodSettings):
    """Settings of the offset labels and of the network."""

    name: Literal["boundary-offset"] = Field("boundary-offset", description="Name of the method.")
    searched: ClassVar = {"max_offset": {"low": 1, "high": 3}, "dropout": {"low": 0.1, "high": 0.5}}
    max_offset: int = Field(
        2, ge=0, le=FARTHEST, description="S: maximum offset, in words; 0 for none (ablation)."
    )
    offsets: Literal["both", "start", "end"] = Field(
        "both", description="Boundaries that have offset labels."
    )
    type_inputs: Literal["prompts", "embedding"] = Field(
        "prompts", description="Types as prompts that the encoder reads, or as plain vectors (ablation)."
    )
    prompt_start: Literal["random", "name"] = Field(
        "random", description="Initial value of a type's prompt: random, or the embedding of the type's name."
    )
    size: int = Field(
        150, ge=1, le=WIDEST, description="Width of the biaffine layer's views of types and spans."
    )
    dropout: float = Field(0.2, ge=0, lt=1, description="Dropout of the views of types and spans.")
    region_size: int = Field(
        20, ge=0, le=WIDEST, description="Width of the embedding of the triangle of the grid; 0 for none."
    )
    distance_size: int = Field(
        0,
        ge=0,
        le=WIDEST,
        description="Width of the embedding of the distance from start to last word; 0 for none.",
    )
    condition_types: bool = Field(
        False,
        description="Whether to add the authors' second score: type vectors normalised conditionally on the "
        "span.",
    )
    convolutions: int = Field(
        2, ge=0, le=3, description="Number of 3D convolutions, with dilation 1, 2, 3; 0 for none."
    )
    label_smoothing: float = Field(
        0.0, ge=0, lt=1, description="Label smoothing of the loss (0.01 in the authors' program)."
    )
    mean_over: Literal["sentences", "cells", "batch"] = Field(
        "sentences",
        description="Values that the loss averages: the sums of the sentences, the means over each "
        "sentence's cells, or all cells of a batch.",
    )

    def idle(self, encoder: EncoderSettings) -> Iterator[str]:
        if self.prompt_start == "name" and self.type_inputs != "prompts":
            yield f"method.prompt_start has no effect: method.type_inputs is {self.type_inputs}"
        elif self.prompt_start == "name" and encoder.name == "scratch":
            yield "method.prompt_start has no effect: the encoder scratch has no embeddings of names"
        if self.offsets != "both" and not self.max_offset:
            yield "method.offsets has no effect: method.max_offset is 0"

    def prompts(self, types: Sequence[str]) -> int:
        return len(types) if self.type_inputs == "prompts" else 0

    def prompt_names(self, types: Sequence[str]) -> Sequence[str]:
        return [spell_out(type_) for type_ in types] if self.prompt_start == "name" else ()


class BoundaryOffsetPredict(PredictSettings):
    """Settings of the step from predicted offsets to entities."""

    overlapping: ClassVar[str] = "keep-all"

    mode: Literal["centre", "all", "rules"] = Field(
        "rules",
        description="Spans that are entities: centres, all spans pointed at, or those that pass the rules.",
    )
    votes: int | None = Field(
        None,
        ge=1,
        description="Rules: minimum number of start offsets, or of end offsets, that point at a span that is "
        "not a centre; by default max_offset + 1, more than half of the possible ones.",
    )
    nearest: bool = Field(
        True, description="Rules: whether an offset within reach of a centre must point at the nearest one."
    )
    order: bool = Field(
        True, description="Rules: whether offsets must count down between an offset and its target."
    )


def spell_out(type_: str) -> str:
    """Return a type's name as words: `cell_line` and `CellLine` are "cell line"."""
    words = re.sub(r"[\W_]+|(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", type_)
    return words.strip().lower()
