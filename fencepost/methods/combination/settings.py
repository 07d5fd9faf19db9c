"""Settings of a combination: its members, and how their probabilities are joined."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, Self

from pydantic import Field, model_validator

from fencepost.methods.settings import MethodSettings

FLOOR = 0.02
"""Lowest probability of the members' candidates; a member that does not propose a span counts as this."""

MOST_MEMBERS = 12
"""Maximum number of members."""

_FLOOR_LOGIT = math.log(FLOOR / (1 - FLOOR))


class CombinationSettings(MethodSettings):
    """The logit of a candidate is `bias`, plus `slope * logit + offset` for each member that proposes it."""

    name: Literal["combination"] = Field("combination", description="Name of the method.")
    members: tuple[str, ...] = Field(
        (), max_length=MOST_MEMBERS, description="Names of the members, in the order of their folders."
    )
    slopes: tuple[float, ...] = Field((), description="Weight of each member's logit.")
    offsets: tuple[float, ...] = Field((), description="Weight of each member's vote.")
    bias: float = Field(_FLOOR_LOGIT, description="Logit of a candidate that no member proposes.")

    @model_validator(mode="after")
    def _check_lengths(self) -> Self:
        if not len(self.members) == len(self.slopes) == len(self.offsets):
            raise ValueError("members, slopes and offsets must have one value for each member")
        return self

    @classmethod
    def from_members(cls, names: Sequence[str]) -> Self:
        """Return the settings of members of equal weight: the mean of their logits."""
        count = len(names)
        return cls(
            members=tuple(names), slopes=(1 / count,) * count, offsets=(-_FLOOR_LOGIT / count,) * count
        )
