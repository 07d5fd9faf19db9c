"""Options of the commands that train: the data and the settings."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from fencepost.cli.frame import Json
from fencepost.cli.groups import OptionGroup
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

    train: Annotated[str | None, Option(metavar="FILE", help="Training data: an annotated corpus.")] = None
    dev: Annotated[
        str | None, Option(metavar="FILE", help="Development data: the epoch with the best F1 on it is kept.")
    ] = None
    dev_share: Annotated[
        float | None, Option(help="Use this share of the training data, by document, as development data.")
    ] = None
    test: Annotated[
        str | None, Option(metavar="FILE", help="Test data to score the model on at the end.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class SettingsOptions(OptionGroup):
    """Options for the settings of a training run."""

    title = "Settings"

    method: Annotated[
        str | None,
        Option(help="boundary-smoothing (the default), boundary-offset, locate-and-label or diffusion."),
    ] = None
    recipe: Annotated[
        str | None,
        Option(metavar="NAME", help="Use the settings of a paper; `fencepost recipes` lists them."),
    ] = None
    config: Annotated[Path | None, Option(metavar="FILE.yaml", help="Read settings from a YAML file.")] = None
    changes: Annotated[
        list[str] | None,
        Option(
            "--set", metavar="KEY=VALUE", help="Change a setting, such as method.epsilon=0.2; repeatable."
        ),
    ] = None
    encoder: Annotated[
        str | None, Option(help="encoder.name: minilm, scratch, a folder, or a name on the Hugging Face hub.")
    ] = None
    epochs: Annotated[
        str | None, Option(metavar="NUMBER", help="training.epochs: a number, or auto (the default).")
    ] = None
    batch_size: Annotated[int | None, Option(help="training.batch_size")] = None
    seed: Annotated[int | None, Option(help="training.seed")] = None
    device: Annotated[
        DeviceName, Option(help="Device for PyTorch; auto uses the first available of cuda, mps and cpu.")
    ] = "auto"


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
        """Return all settings; `changes` are applied after those of `--set`, and `base` replaces a recipe."""
        changes = [*(self.changes or ()), *changes]
        return compose_settings(self.recipe, self.config, changes, self.option_values, resumed, base)


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


def compose_settings(
    recipe: str | None,
    config: Path | None,
    changes: Sequence[str] | None,
    option_values: Mapping[str, Mapping[str, Any]],
    resumed: Path | None = None,
    base: dict[str, Any] | None = None,
) -> Config:
    """Return all settings: of the recipe, the file, `--set` and the option values that are not None.

    Later ones take precedence. `base` replaces a recipe. Without a file, the settings of the run in the
    folder `resumed` are used.
    """
    from fencepost.experiments import recipes

    base = recipes.recipe(recipe).config if recipe is not None else base
    with require_extra("train"):
        from fencepost.config import Config
        from fencepost.training.run import RUN_FILE
    overrides = {
        part: {key: value for key, value in values.items() if value is not None}
        for part, values in option_values.items()
    }
    if resumed is not None and config is None and (resumed / RUN_FILE).is_file():
        config = resumed / RUN_FILE
    overrides = {part: values for part, values in overrides.items() if values}
    return Config.compose(config, changes or (), overrides, base=base)
