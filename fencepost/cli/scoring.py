"""Running a model over a corpus: what it finds, on which engine, how fast and with how much memory."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fencepost.cli.models import saved_config

if TYPE_CHECKING:
    from fencepost.data.entity import Sentence
    from fencepost.runtime.recogniser import Recogniser


@dataclass(frozen=True)
class ModelRun:
    """What a model found in a corpus, and how."""

    predicted: list[Sentence]
    engine: str
    settings: dict[str, Any]
    seconds: float

    @property
    def sentences_per_second(self) -> float:
        return len(self.predicted) / self.seconds if self.predicted else 0.0


def run_model(recogniser: Recogniser, folder: str | Path, sentences: Sequence[Sentence]) -> ModelRun:
    """Find the entities of all sentences with the model that was loaded from the folder."""
    start = time.perf_counter()
    predicted = list(recogniser.predict(sentences))
    seconds = time.perf_counter() - start
    settings = {**saved_config(Path(folder)), "predict": recogniser.settings}
    return ModelRun(predicted, recogniser.engine, settings, seconds)


def peak_memory_mb() -> float | None:
    """Return the most memory that this process has held so far; None where the system does not tell."""
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024 if sys.platform != "darwin" else 1024**2)
