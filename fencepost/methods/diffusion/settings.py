"""Settings of diffusion."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from fencepost.encoder.settings import EncoderSettings
from fencepost.methods.settings import MethodSettings, PredictSettings
from fencepost.settings import MOST_LAYERS, WIDEST

_MOST_TIMES, _MOST_SPANS = 10_000, 4096
"""Maximum number of steps, which determines time and memory, and of spans, whose square determines memory."""


class DiffusionSettings(MethodSettings):
    """Settings of the noise, of the network that removes it, and of the loss."""

    name: Literal["diffusion"] = Field("diffusion", description="Name of the method.")
    searched: ClassVar = {
        "distance": {"low": 0.0, "high": 4.0},
        "boundary_weight": {"low": 0.5, "high": 2.0, "log": True},
        "dropout": {"low": 0.0, "high": 0.3},
    }
    spans: int = Field(
        60,
        ge=1,
        le=_MOST_SPANS,
        description="K: number of noisy spans of each sentence in training; more if it has more entities.",
    )
    draws: int = Field(
        1, ge=1, le=1000, description="Number of sets of noisy spans of a sentence, each at its own time."
    )
    times: int = Field(
        1000, ge=2, le=_MOST_TIMES, description="T: number of diffusion steps from entities to noise."
    )
    schedule: Literal["cosine", "linear"] = Field("cosine", description="Schedule of the noise.")
    scale: float = Field(
        1.0, gt=0, le=1000, description="lambda: boundaries are scaled to numbers from -lambda to lambda."
    )
    coordinates: Literal["left-width", "left-right"] = Field(
        "left-width", description="The two numbers that represent a span."
    )
    expansion: Literal["repeat", "random"] = Field(
        "repeat", description="Spans that fill up the K noisy ones: the entities repeated, or random spans."
    )
    targets: Literal["repeat", "pad"] = Field(
        "repeat",
        description="Entities that spans are matched to: repeated, or each once and other spans to none.",
    )
    distance: float = Field(
        2.0,
        ge=0,
        description="Cost in matching of a distance between noisy span and entity as long as the sentence (0 "
        "in the paper).",
    )
    pooling: Literal["mean", "first+last"] = Field(
        "mean", description="Vector of a span: the mean of its words, or its first and last word."
    )
    positions: bool = Field(
        True, description="Whether the network reads the positions of spans and words (not in the paper)."
    )
    proposal_codes: bool = Field(
        False, description="Whether the network reads the index of each span (only in the authors' program)."
    )
    verifier: bool = Field(
        True,
        description="Whether types and confidences come from a classifier of the denoised spans (not in the "
        "paper).",
    )
    self_attention: bool = Field(True, description="Whether spans attend to each other (ablation).")
    cross_attention: bool = Field(True, description="Whether spans attend to the words (ablation).")
    size: int = Field(128, ge=2, le=WIDEST, multiple_of=2, description="Width of a span's vector.")
    layers: int = Field(2, ge=0, le=MOST_LAYERS, description="Number of layers of the span encoder.")
    heads: int = Field(4, ge=1, le=WIDEST, description="Number of attention heads.")
    feed_forward: int = Field(256, ge=1, le=WIDEST, description="Width of the feed-forward layers.")
    pointer_size: int = Field(64, ge=1, le=WIDEST, description="Width of the layer inside the pointers.")
    dropout: float = Field(0.1, ge=0, lt=1, description="Dropout of span encoder, classifier and verifier.")
    none_weight: float = Field(1.0, ge=0, description="Weight of the type loss of unmatched spans.")
    boundary_weight: float = Field(1.0, ge=0, description="Weight of the boundary loss.")

    @model_validator(mode="after")
    def _check_heads(self) -> Self:
        if self.size % self.heads:
            raise ValueError(
                f"size should be a multiple of heads, but {self.size} is not one of {self.heads}"
            )
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
    """Settings of denoising."""

    steps: int = Field(
        4, ge=1, le=_MOST_TIMES, description="gamma: number of denoising steps; at most method.times."
    )
    spans: int = Field(
        60, ge=1, le=_MOST_SPANS, description="K: number of noisy spans; may differ from method.spans."
    )
    eta: float = Field(0.0, ge=0, le=1, description="New noise in each step: 0 for DDIM, 1 for DDPM.")
    seed: int = Field(0, ge=0, description="Seed of the noise.")
