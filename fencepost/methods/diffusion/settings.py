"""Settings of diffusion."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from fencepost.encoder.settings import EncoderSettings
from fencepost.methods.settings import MethodSettings, PredictSettings
from fencepost.settings import MOST_LAYERS, WIDEST

_MOST_TIMES, _MOST_SPANS = 10_000, 4096
"""Time and memory grow with the number of steps, and memory with the square of the number of spans."""


class DiffusionSettings(MethodSettings):
    """The noise, the network that removes it, and the loss."""

    name: Literal["diffusion"] = "diffusion"
    searched: ClassVar = {
        "distance": {"low": 0.0, "high": 4.0},
        "boundary_weight": {"low": 0.5, "high": 2.0, "log": True},
        "dropout": {"low": 0.0, "high": 0.3},
    }
    spans: int = Field(
        60, ge=1, le=_MOST_SPANS, description="K: noisy spans of each sentence; more if it has more entities."
    )
    draws: int = Field(1, ge=1, le=1000, description="Sets of such spans, each at its own time.")
    times: int = Field(1000, ge=2, le=_MOST_TIMES, description="T: steps from entities to noise.")
    schedule: Literal["cosine", "linear"] = Field("cosine", description="How the noise grows.")
    scale: float = Field(1.0, gt=0, le=1000, description="lambda: boundaries are from -lambda to lambda.")
    coordinates: Literal["left-width", "left-right"] = Field(
        "left-width", description="Which two numbers a span is."
    )
    expansion: Literal["repeat", "random"] = Field(
        "repeat", description="What is noised besides the entities: these again, or random spans."
    )
    targets: Literal["repeat", "pad"] = Field(
        "repeat",
        description="Spans are matched to the entities repeated, or one to each and the rest to none.",
    )
    distance: float = Field(
        2.0,
        ge=0,
        description="What it costs in matching if a noisy span is as far from an entity as the sentence is "
        "long (0 in the paper).",
    )
    pooling: Literal["mean", "first+last"] = Field(
        "mean", description="A span's vector from its words: their mean, or the first and the last one."
    )
    positions: bool = Field(
        True, description="Whether the network sees the positions of spans and words (not in the paper)."
    )
    proposal_codes: bool = Field(
        False, description="Whether it sees the number of each of the K spans (only in the authors' program)."
    )
    verifier: bool = Field(
        True,
        description="Whether types and confidences come from a classifier that sees both ends of each "
        "denoised span (not in the paper).",
    )
    self_attention: bool = Field(True, description="Between the spans (ablation).")
    cross_attention: bool = Field(True, description="From the spans to the words (ablation).")
    size: int = Field(128, ge=2, le=WIDEST, multiple_of=2, description="Width of a span's vector.")
    layers: int = Field(2, ge=0, le=MOST_LAYERS, description="Of the span encoder.")
    heads: int = Field(4, ge=1, le=WIDEST, description="Of attention.")
    feed_forward: int = Field(256, ge=1, le=WIDEST, description="Width of the feed-forward layers.")
    pointer_size: int = Field(64, ge=1, le=WIDEST, description="Width of the layer inside the pointers.")
    dropout: float = Field(0.1, ge=0, lt=1, description="In the span encoder and the classifier.")
    none_weight: float = Field(1.0, ge=0, description="Of the type loss of spans without an entity.")
    boundary_weight: float = Field(1.0, ge=0, description="Of the boundary loss.")

    @model_validator(mode="after")
    def _check_heads(self) -> Self:
        if self.size % self.heads:
            raise ValueError(f"size should be a multiple of heads, but {self.size} is none of {self.heads}")
        return self

    def idle(self, encoder: EncoderSettings) -> Iterator[str]:  # noqa: ARG002
        defaults = DiffusionSettings()
        names = ["heads", "proposal_codes"]
        if not self.layers:
            why = "method.layers is 0"
            names += ["self_attention", "cross_attention", "feed_forward"]
        elif not (self.self_attention or self.cross_attention):
            why = "there is no attention"
        else:
            return
        for name in names:
            if getattr(self, name) != getattr(defaults, name):
                yield f"method.{name} has no effect: {why}"


class DiffusionPredict(PredictSettings):
    """How noise becomes entities, and which of these are returned."""

    steps: int = Field(4, ge=1, le=_MOST_TIMES, description="gamma: denoising steps; at most method.times.")
    spans: int = Field(60, ge=1, le=_MOST_SPANS, description="K: noisy spans, whatever method.spans.")
    eta: float = Field(0.0, ge=0, le=1, description="New noise in each step: 0 is DDIM, 1 is DDPM.")
    seed: int = Field(0, ge=0, description="Of the noise.")
