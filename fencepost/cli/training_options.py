"""Options of the commands that train: the data and the settings."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fencepost.cli.frame import Json
from fencepost.cli.groups import OptionGroup, option
from fencepost.cli.models import DeviceName
from fencepost.cli.options import ReadingOptions
from fencepost.errors import UsageError, require_extra

if TYPE_CHECKING:
    from fencepost.config import Config
    from fencepost.data.entity import Sentence

    Parts = tuple[list[Sentence], list[Sentence] | None, list[Sentence] | None]
    """Training, development and test data."""


@dataclass(frozen=True, kw_only=True)
class DataOptions(OptionGroup):
    """Options for the training, development and test data."""

    title = "Data"

    train: str | None = option(None, "Training data: an annotated corpus.", metavar="FILE")
    dev: str | None = option(
        None, "Development data: the epoch with the best F1 on it is kept.", metavar="FILE"
    )
    dev_share: float | None = option(
        None, "Use this share of the training data, by document, as development data."
    )
    test: str | None = option(None, "Test data to score the model on at the end.", metavar="FILE")


@dataclass(frozen=True, kw_only=True)
class SettingsOptions(OptionGroup):
    """Options for the settings of a training run."""

    title = "Settings"

    method: str | None = option(
        None, "boundary-smoothing (the default), boundary-offset, locate-and-label or diffusion."
    )
    recipe: str | None = option(
        None, "Use the settings of a paper; `fencepost recipes` lists them.", metavar="NAME"
    )
    config: Path | None = option(None, "Read settings from a YAML file.", metavar="FILE.yaml")
    changes: list[str] | None = option(
        None, "Change a setting, such as method.epsilon=0.2; repeatable.", "--set", metavar="KEY=VALUE"
    )
    encoder: str | None = option(
        None, "Encoder (encoder.name): minilm, scratch, a folder, or a name on the Hugging Face Hub."
    )
    epochs: str | None = option(
        None, "Number of epochs (training.epochs), or auto, the default.", metavar="NUMBER"
    )
    batch_size: int | None = option(None, "Number of sentences in a batch (training.batch_size).")
    seed: int | None = option(None, "Random seed (training.seed).")
    device: DeviceName = option(
        "auto", "Device for PyTorch; auto uses the first available of cuda, mps and cpu."
    )


@dataclass(frozen=True, kw_only=True)
class ConfiguredOptions(SettingsOptions, ReadingOptions):
    """Options for the settings of a training run and for reading its data."""

    @property
    def option_values(self) -> dict[str, dict[str, Any]]:
        """Values of the settings that have their own option; None if it is not given."""
        return {
            "method": {"name": self.method},
            "encoder": {"name": self.encoder},
            "training": {"epochs": self.epochs, "batch_size": self.batch_size, "seed": self.seed},
            "text": {"language": self.language, "lines": self.lines},
        }

    @property
    def option_keys(self) -> set[str]:
        """Keys of the settings that are given with their own option."""
        parts = self.option_values.items()
        return {f"{part}.{key}" for part, values in parts for key, one in values.items() if one is not None}

    def settings(
        self, changes: Sequence[str] = (), resumed: Path | None = None, base: dict[str, Any] | None = None
    ) -> Config:
        """Return all settings; `changes` are applied after those of `--set`, and `base` replaces a recipe.

        Without a file, the settings of the run in the folder `resumed` are used.
        """
        from fencepost.experiments import recipes

        if self.recipe is not None:
            base = recipes.recipe(self.recipe).config
        with require_extra("train"):
            from fencepost.experiments.learning import compose_settings
        changes = [*(self.changes or ()), *changes]
        return compose_settings(self.config, base, self.option_values, resumed, changes)


@dataclass(frozen=True, kw_only=True)
class TrainingOptions(DataOptions, ConfiguredOptions):
    """Options that all commands that train share."""

    json: Json = None

    def check_sources(self, out: Path | None, content: str) -> Path:
        """Return the output folder; raise `UsageError` if options are missing or contradictory."""
        if self.train is None or out is None:
            raise UsageError(f"give the training data with --train and the folder for {content} with --out")
        if self.dev is not None and self.dev_share is not None:
            raise UsageError("--dev and --dev-share cannot be used together; give one of them")
        sources = [self.train, self.dev, self.test]
        if sources.count("-") > 1:
            raise UsageError("standard input can be read only once, but - is given twice")
        if "-" in sources and os.environ.get("WORLD_SIZE", "1") != "1":
            raise UsageError(
                "standard input can be read only once, but each process reads the data; give files"
            )
        return out

    def read_data(self, config: Config) -> Parts:
        """Return the training, development and test data."""
        from fencepost.training import hold_out

        text = {"language": config.text.language, "lines": config.text.lines}
        train = self.read(self.train or "", text)
        dev = None if self.dev is None else self.read(self.dev, text)
        if self.dev_share is not None:
            train, dev = hold_out(train, self.dev_share, config.training.seed)
        return train, dev, None if self.test is None else self.read(self.test, text)
