"""What a report is made of: plain data, wherever it comes from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from fencepost.analysis.epochs import Epoch
from fencepost.data.entity import Sentence
from fencepost.evaluation import Evaluation

EXAMPLES = 3
"""Of each kind of mistake, unless another number is asked for."""


@dataclass(frozen=True, slots=True)
class Speed:
    """How fast predictions were, on which engine, and the most memory that the process held."""

    engine: str
    sentences_per_second: float
    peak_memory_mb: float | None = None
    trained: bool = False  # the same process trained the model, which takes more memory


@dataclass(frozen=True, slots=True)
class Contents:
    """Everything that a report may tell; what is not known is left out of it.

    `gold` and `predicted` are the same sentences, from `data`. Without them, the scores are those of
    `evaluation`, if they were kept. `statistics` has those of each corpus by its name, as
    `Statistics.to_dict` gives them.
    """

    name: str
    version: str
    made: datetime
    settings: Mapping[str, Any] = field(default_factory=dict)
    types: Sequence[str] = ()
    epochs: Sequence[Epoch] = ()
    kept: float | None = None
    calibration: Mapping[str, Any] | None = None
    data: str | None = None
    gold: Sequence[Sentence] | None = None
    predicted: Sequence[Sentence] | None = None
    evaluation: Evaluation | None = None
    statistics: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    speed: Speed | None = None
    examples: int = EXAMPLES
