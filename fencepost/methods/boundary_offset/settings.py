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
    """How far offsets reach, and what the network is made of."""

    name: Literal["boundary-offset"] = "boundary-offset"
    searched: ClassVar = {"max_offset": {"low": 1, "high": 3}, "dropout": {"low": 0.1, "high": 0.5}}
    max_offset: int = Field(
        2, ge=0, le=FARTHEST, description="S: the largest offset, in words; 0 is none (ablation)."
    )
    offsets: Literal["both", "start", "end"] = Field("both", description="Which boundary may be off.")
    type_inputs: Literal["prompts", "embedding"] = Field(
        "prompts", description="Types read with the sentence, or each a plain vector (ablation)."
    )
    prompt_start: Literal["random", "name"] = Field(
        "random", description="What a type's prompt is before training: random, or the type's name, embedded."
    )
    size: int = Field(
        150, ge=1, le=WIDEST, description="Width of the biaffine layer's views of types and spans."
    )
    dropout: float = Field(0.2, ge=0, lt=1)
    region_size: int = Field(
        20,
        ge=0,
        le=WIDEST,
        description="Width of the embedding that tells the triangles of the grid apart; 0 is none.",
    )
    distance_size: int = Field(
        0,
        ge=0,
        le=WIDEST,
        description="Width of the embedding of the distance from start to last word; 0 is none.",
    )
    condition_types: bool = Field(
        False, description="Add the authors' second score: type vectors normalised on condition of the span."
    )
    convolutions: int = Field(2, ge=0, le=3, description="3D convolutions, with dilation 1, 2, 3; 0 is none.")
    label_smoothing: float = Field(0.0, ge=0, lt=1, description="The authors' program has 0.01.")
    mean_over: Literal["sentences", "cells", "batch"] = Field(
        "sentences",
        description="Of what the loss is the mean: the sums of sentences, the means over each one's cells, "
        "or all cells of a batch.",
    )

    def idle(self, encoder: EncoderSettings) -> Iterator[str]:
        if self.prompt_start == "name" and self.type_inputs != "prompts":
            yield f"method.prompt_start has no effect: types are no prompts, but {self.type_inputs}"
        elif self.prompt_start == "name" and encoder.name == "scratch":
            yield "method.prompt_start has no effect: scratch does not know what names mean"
        if self.offsets != "both" and not self.max_offset:
            yield "method.offsets has no effect: method.max_offset is 0"

    def prompts(self, types: Sequence[str]) -> int:
        return len(types) if self.type_inputs == "prompts" else 0

    def prompt_names(self, types: Sequence[str]) -> Sequence[str]:
        return [spell_out(type_) for type_ in types] if self.prompt_start == "name" else ()


class BoundaryOffsetPredict(PredictSettings):
    """How predicted offsets become entities."""

    overlapping: ClassVar[str] = "keep-all"

    mode: Literal["centre", "all", "rules"] = Field(
        "rules", description="Entities are the centres, all spans pointed at, or those that pass the rules."
    )
    votes: int | None = Field(
        None,
        ge=1,
        description="Rules: number of start offsets, or end offsets, that must point at a span that is no "
        "centre; by default more than half of those that there may be, that is max_offset + 1.",
    )
    nearest: bool = Field(
        True, description="Rules: an offset within reach of a centre must point at the nearest one."
    )
    order: bool = Field(
        True, description="Rules: between an offset and where it points, offsets must count down."
    )


def spell_out(type_: str) -> str:
    """Return a type's name as words: `cell_line` and `CellLine` are "cell line"."""
    words = re.sub(r"[\W_]+|(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", type_)
    return words.strip().lower()
