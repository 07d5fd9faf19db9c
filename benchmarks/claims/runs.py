"""The runs that claims are judged by: GENIA, MiniLM, three seeds, the same development and test data."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.common import code_version, corpora, machine, say

if TYPE_CHECKING:
    from fencepost.data.entity import Sentence
    from fencepost.experiments.sweep import Data, Sweep
    from fencepost.methods.model import Model
    from fencepost.runtime.recogniser import Recogniser

SEEDS = 3
SHARE = 0.5
"""Of the training part: with all of it the runs would take twice as long. Each seed draws its own half."""

SETTINGS = {
    "boundary-smoothing": [
        "training.epochs=8",
        "training.learning_rate=2e-3",
        "training.encoder_learning_rate=1e-4",
        "encoder.freeze_embeddings=false",
    ],
    "boundary-offset": ["training.epochs=8"],
    "locate-and-label": ["training.epochs=8"],
    "diffusion": ["training.epochs=16"],
}
"""What differs from the defaults in all runs of a method, which read each sentence by itself."""

COMMIT = "commit"
"""File in the folder of a run: the version of the code that completed it."""


@dataclass(frozen=True)
class Variant:
    """A method with changes, on a share of the training data."""

    method: str
    changes: tuple[str, ...] = ()
    share: float = SHARE

    @property
    def settings(self) -> list[str]:
        """All settings that differ from the defaults."""
        return ["encoder.block=0", *SETTINGS[self.method], *self.changes]


@dataclass(frozen=True)
class FinishedRun:
    """One of a variant's runs, with what it left."""

    seed: int
    folder: Path

    @cached_property
    def metrics(self) -> dict[str, Any]:
        return dict(json.loads((self.folder / "metrics.json").read_text(encoding="utf-8")))

    @property
    def test(self) -> dict[str, Any]:
        return dict(self.metrics["test"])

    @property
    def commit(self) -> str:
        """Version of the code, which runs from before it was recorded do not have."""
        path = self.folder / COMMIT
        return path.read_text(encoding="utf-8") if path.is_file() else "unknown"

    @property
    def dev_losses(self) -> list[float]:
        return [record["dev_loss"] for record in self.metrics["epochs"]]

    def model(self) -> Model:
        from fencepost.runtime.pytorch import load_model

        return load_model(self.folder)

    def recogniser(self) -> Recogniser:
        from fencepost.runtime.loading import load

        return load(self.folder, engine="pytorch")


class Runs:
    """Makes and finds runs below a folder."""

    def __init__(self, folder: Path, seeds: int = SEEDS) -> None:
        self.folder, self.seeds = folder, seeds

    def finished(self, variant: Variant) -> dict[int, FinishedRun]:
        """By seed."""
        sweep = self._sweep(variant)
        return {run.seed: FinishedRun(run.seed, run.folder) for run in sweep.find_runs("complete")}

    def train(self, variant: Variant, seeds: Collection[int] | None = None, jobs: int = 1) -> None:
        """Train the runs of a variant that are not finished; with `seeds`, only those."""
        sweep = self._sweep(variant)
        sweep.runs = [run for run in sweep.runs if seeds is None or run.seed in seeds]
        for ended in sweep.run(jobs):
            if not ended.failure:
                (ended.task.folder / COMMIT).write_text(code_version(), encoding="utf-8")
            say(f"{variant.method} {ended.task.label}: {ended.failure.message if ended.failure else 'done'}")

    def _sweep(self, variant: Variant) -> Sweep:
        from fencepost.config import Config
        from fencepost.experiments.sweep import GridCell, Sweep

        changes = [f"method.name={variant.method}", *variant.settings]
        cell = GridCell(variant.changes, variant.share)
        config = Config.compose(changes=changes, flags={"training": {"seed": 1}})
        return Sweep(self.folder / variant.method, {cell: config}, self.seeds, data())


def made_with() -> dict[str, Any]:
    """Return the versions and settings that all runs share."""
    import torch

    from fencepost import __version__

    parts = data()
    return {
        "corpus": "GENIA",
        "encoder": "minilm",
        "sentences": {
            "train": len(parts.train),
            "half": round(SHARE * len(parts.train)),
            "dev": len(parts.dev or ()),
            "test": len(parts.test or ()),
        },
        "fencepost": __version__,
        "torch": torch.__version__,
        **machine(),
    }


@cache
def data() -> Data:
    """Return the data; a fixed tenth of the training documents is the development data."""
    from fencepost.data import read
    from fencepost.experiments.sweep import Data
    from fencepost.training import hold_out

    folder = corpora()
    assert folder is not None
    rest, dev = hold_out(list(read(folder / "genia" / "train.jsonl")), 0.1, seed=1)
    return Data(rest, dev, list(read(folder / "genia" / "test.jsonl")))


def test_sentences() -> list[Sentence]:
    return list(data().test or ())
