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
"""The longest seed that settings accept, in words."""


class LocateAndLabelSettings(MethodSettings):
    """Which spans are seeds, what counts as near an entity, and the weights of the losses."""

    name: Literal["locate-and-label"] = "locate-and-label"
    searched: ClassVar = {
        "near": {"low": 0.5, "high": 0.9},
        "regressor_weight": {"low": 0.05, "high": 1.0, "log": True},
        "dropout": {"low": 0.1, "high": 0.6},
    }
    lengths: tuple[int, ...] = Field(tuple(range(1, 11)), description="The lengths of seed spans, in words.")
    filter: bool = Field(True, description="Whether seeds far from any entity are dropped (ablation).")
    regressor: bool = Field(True, description="Whether boundaries are moved (ablation).")
    near: float = Field(0.7, ge=0, le=1, description="alpha1: a seed with a higher IoU is positive.")
    hit: float = Field(1.0, gt=0, le=1, description="alpha2: from this IoU on, a moved span has a type.")
    eta: float = Field(1.0, ge=0, description="Exponent of examples' weights; 0 is no weights (ablation).")
    negatives: float = Field(20.0, ge=0, description="Negative seeds for each positive one, in training.")
    extra_negatives: int = Field(10, ge=0, description="Negative seeds of each sentence besides those.")
    sentence_vector: bool = Field(False, description="Whether a vector of the sentence is an input, too.")
    size: int = Field(256, ge=1, le=WIDEST, description="Width of the hidden layers.")
    dropout: float = Field(0.5, ge=0, lt=1, description="Before filter, regressor and classifier.")
    gamma: float = Field(2.0, ge=0, description="Focus of the filter's loss on what it gets wrong.")
    classifier_gamma: float = Field(0.0, ge=0, description="The same for the classifier; 0 is cross entropy.")
    filter_weight: float = Field(1.0, ge=0, description="lambda1: of the filter's loss.")
    regressor_weight: float = Field(0.1, ge=0, description="lambda2: of the regressor's loss.")
    classifier_weight: float = Field(1.0, ge=0, description="lambda3: of the classifier's loss.")

    @field_validator("lengths")
    @classmethod
    def _sort(cls, lengths: tuple[int, ...]) -> tuple[int, ...]:
        if not lengths or min(lengths) < 1 or max(lengths) > LONGEST:
            raise ValueError(f"should have at least one length, and none below 1 or above {LONGEST}")
        return tuple(sorted(set(lengths)))

    def trained_lengths(self) -> tuple[int, ...]:
        return self.lengths

    def prompts(self, types: Sequence[str]) -> int:  # noqa: ARG002
        return int(self.sentence_vector)

    def idle(self, encoder: EncoderSettings) -> Iterator[str]:  # noqa: ARG002
        defaults = LocateAndLabelSettings()
        for part, names in (("filter", ("gamma", "filter_weight")), ("regressor", ("regressor_weight",))):
            if not getattr(self, part):
                given = (name for name in names if getattr(self, name) != getattr(defaults, name))
                yield from (f"method.{name} has no effect: method.{part} is false" for name in given)


class LocateAndLabelPredict(PredictSettings):
    """Which spans pass the filter, and Soft-NMS; `threshold` is delta."""

    lengths: Literal["all", "trained"] = Field(
        "all", description="Seeds: of all lengths up to the longest, or of those in training alone."
    )
    filter: float = Field(0.5, ge=0, le=1, description="The filter lets spans with this probability pass.")
    confidence: Literal["both", "class"] = Field(
        "both", description="The probability of a class times the filter's, or alone (paper)."
    )
    soft_nms: bool = Field(True, description="Whether overlapping lowers scores (ablation).")
    overlap: float = Field(0.6, gt=0, le=1, description="k: the IoU with a better span from which it does.")
    decay: float = Field(0.9, ge=0, le=1, description="u: what the score is multiplied with.")

    @model_validator(mode="after")
    def _check_soft_nms(self) -> Self:
        if self.select == "soft-nms" and not self.soft_nms:
            raise ValueError("select is soft-nms, but soft_nms is false")
        return self

    def resolve_clashes(self, candidates: Candidates) -> Candidates:
        """Apply Soft-NMS to the better ones of those that clash; with `soft-nms`, to all."""
        if self.select != "soft-nms":
            candidates = super().resolve_clashes(candidates)
        return soft_nms(candidates, self.overlap, self.decay if self.soft_nms else 1.0, 0.0)
