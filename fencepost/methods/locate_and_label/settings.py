"""Settings of locate and label."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from fencepost.encoder.settings import EncoderSettings
from fencepost.methods.candidates import Candidates, soft_nms
from fencepost.methods.settings import MethodSettings, PredictSettings
from fencepost.settings import WIDEST

LONGEST = 1000
"""Maximum length of seeds that settings accept, in words."""


class LocateAndLabelSettings(MethodSettings):
    """Settings of seeds and examples, of the networks, and of the losses."""

    name: Literal["locate-and-label"] = Field("locate-and-label", description="Name of the method.")
    searched: ClassVar = {
        "near": {"low": 0.5, "high": 0.9},
        "regressor_weight": {"low": 0.05, "high": 1.0, "log": True},
        "dropout": {"low": 0.1, "high": 0.6},
    }
    lengths: tuple[int, ...] = Field(tuple(range(1, 11)), description="Lengths of seed spans, in words.")
    filter: bool = Field(True, description="Whether a filter removes seeds far from entities (ablation).")
    regressor: bool = Field(True, description="Whether a regressor moves boundaries (ablation).")
    near: float = Field(0.7, ge=0, le=1, description="alpha1: IoU above which a seed is positive.")
    hit: float = Field(1.0, gt=0, le=1, description="alpha2: minimum IoU of a moved span to have a type.")
    eta: float = Field(1.0, ge=0, description="Exponent of examples' weights; 0 for no weights (ablation).")
    negatives: float = Field(20.0, ge=0, description="Number of negative seeds per positive one in training.")
    extra_negatives: int = Field(10, ge=0, description="Number of additional negative seeds per sentence.")
    sentence_vector: bool = Field(False, description="Whether a vector of the sentence is an input, too.")
    size: int = Field(256, ge=1, le=WIDEST, description="Width of the hidden layers.")
    dropout: float = Field(0.5, ge=0, lt=1, description="Dropout before filter, regressor and classifier.")
    gamma: float = Field(2.0, ge=0, description="Exponent (focusing) of the filter's focal loss.")
    classifier_gamma: float = Field(
        0.0, ge=0, description="Exponent of the classifier's focal loss; 0 for cross entropy."
    )
    filter_weight: float = Field(1.0, ge=0, description="lambda1: weight of the filter's loss.")
    regressor_weight: float = Field(0.1, ge=0, description="lambda2: weight of the regressor's loss.")
    classifier_weight: float = Field(1.0, ge=0, description="lambda3: weight of the classifier's loss.")

    @field_validator("lengths")
    @classmethod
    def _sort(cls, lengths: tuple[int, ...]) -> tuple[int, ...]:
        if not lengths or min(lengths) < 1 or max(lengths) > LONGEST:
            raise ValueError(f"should have at least one length, and only lengths from 1 to {LONGEST}")
        return tuple(sorted(set(lengths)))

    def trained_lengths(self) -> tuple[int, ...]:
        return self.lengths

    def prompts(self, types: Sequence[str]) -> int:  # noqa: ARG002
        return int(self.sentence_vector)

    def idle(self, encoder: EncoderSettings) -> Iterator[str]:  # noqa: ARG002
        defaults = LocateAndLabelSettings()
        for part, names in (("filter", ("gamma", "filter_weight")), ("regressor", ("regressor_weight",))):
            if not getattr(self, part):
                idle = (name for name in names if getattr(self, name) != getattr(defaults, name))
                yield from (f"method.{name} has no effect: method.{part} is false" for name in idle)


class LocateAndLabelPredict(PredictSettings):
    """Settings of seeds, filter and Soft-NMS; `threshold` is delta."""

    lengths: Literal["all", "trained"] = Field(
        "all", description="Lengths of seeds: all up to the longest of training, or only those of training."
    )
    filter: float = Field(
        0.5, ge=0, le=1, description="Minimum probability of the filter for a seed to pass."
    )
    confidence: Literal["both", "class"] = Field(
        "both", description="Confidence: the class's probability times the filter's, or alone (paper)."
    )
    soft_nms: bool = Field(True, description="Whether Soft-NMS lowers scores (ablation).")
    overlap: float = Field(
        0.6, gt=0, le=1, description="k: minimum IoU with a better span for Soft-NMS to lower a score."
    )
    decay: float = Field(0.9, ge=0, le=1, description="u: factor by which Soft-NMS lowers a score.")

    @model_validator(mode="after")
    def _check_soft_nms(self) -> Self:
        if self.select == "soft-nms" and not self.soft_nms:
            raise ValueError("select is soft-nms, but soft_nms is false")
        return self

    def resolve_clashes(self, candidates: Candidates) -> Candidates:
        """Apply Soft-NMS to the candidates that do not clash with better ones; with `soft-nms`, to all."""
        if self.select != "soft-nms":
            candidates = super().resolve_clashes(candidates)
        return soft_nms(candidates, self.overlap, self.decay if self.soft_nms else 1.0, 0.0)
