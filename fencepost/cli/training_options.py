"""The options of the commands that train: their data, and the settings of a training."""

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


@dataclass(frozen=True, kw_only=True)
class DataOptions(OptionGroup):
    """The corpora of a training."""

    title = "Data"

    train: Annotated[str | None, Option(metavar="FILE", help="The corpus to learn from.")] = None
    dev: Annotated[
        str | None, Option(metavar="FILE", help="Development data: the epoch with the best F1 on it is kept.")
    ] = None
    dev_share: Annotated[
        float | None, Option(help="Instead: hold out this share of the training data, by document.")
    ] = None
    test: Annotated[str | None, Option(metavar="FILE", help="Data to score the model on at the end.")] = None


@dataclass(frozen=True, kw_only=True)
class SettingsOptions(OptionGroup):
    """The settings of a training."""

    title = "Settings"

    method: Annotated[
        str | None,
        Option(help="boundary-smoothing (the default), boundary-offset, locate-and-label or diffusion."),
    ] = None
    recipe: Annotated[
        str | None,
        Option(metavar="NAME", help="Start from the settings of a paper, which `fencepost recipes` lists."),
    ] = None
    config: Annotated[Path | None, Option(metavar="FILE.yaml", help="All settings in a YAML file.")] = None
    changes: Annotated[
        list[str] | None,
        Option("--set", metavar="KEY=VALUE", help="Change one setting, as method.epsilon=0.2; repeatable."),
    ] = None
    encoder: Annotated[
        str | None, Option(help="encoder.name: minilm, scratch, a folder, or a name on the hub.")
    ] = None
    epochs: Annotated[
        str | None, Option(metavar="NUMBER", help="training.epochs: a number, or auto (the default).")
    ] = None
    batch_size: Annotated[int | None, Option(help="training.batch_size")] = None
    seed: Annotated[int | None, Option(help="training.seed")] = None
    device: Annotated[
        DeviceName, Option(help="Where PyTorch computes; auto is the first present of cuda, mps and cpu.")
    ] = "auto"


@dataclass(frozen=True, kw_only=True)
class ConfiguredOptions(SettingsOptions, ReadingOptions):
    """The settings of a training, and how to read its data."""

    @property
    def flags(self) -> dict[str, dict[str, Any]]:
        """The settings that have options of their own; None is not given."""
        return {
            "method": {"name": self.method},
            "encoder": {"name": self.encoder},
            "training": {"epochs": self.epochs, "batch_size": self.batch_size, "seed": self.seed},
            "text": {"language": self.language, "lines": self.lines},
        }

    @property
    def flagged(self) -> set[str]:
        """The keys of the settings that are given with options of their own."""
        parts = self.flags.items()
        return {f"{part}.{key}" for part, values in parts for key, one in values.items() if one is not None}

    def settings(
        self,
        changes: Sequence[str] = (),
        resumed: Path | None = None,
        base: dict[str, Any] | None = None,
    ) -> Config:
        """Return all settings, with these changes after those of `--set`; `base` stands in for a recipe."""
        changes = [*(self.changes or ()), *changes]
        return settings_of(self.recipe, self.config, changes, self.flags, resumed, base)


@dataclass(frozen=True, kw_only=True)
class TrainingOptions(DataOptions, ConfiguredOptions):
    """All that the commands that train have in common."""

    json: Json = None

    def check_sources(self, out: Path | None, content: str) -> Path:
        """Return the folder for the output; raises `UsageError` if options are missing or contradictory."""
        if self.train is None or out is None:
            raise UsageError(f"give the training data with --train and the folder for {content} with --out")
        if self.dev is not None and self.dev_share is not None:
            raise UsageError("--dev and --dev-share contradict each other; give one of them")
        sources = [self.train, self.dev, self.test]
        if sources.count("-") > 1:
            raise UsageError("standard input can be read once, but it is named twice")
        if "-" in sources and os.environ.get("WORLD_SIZE", "1") != "1":
            raise UsageError("standard input can be read once, but each process reads the data; give files")
        return out

    def read_data(
        self, config: Config
    ) -> tuple[list[Sentence], list[Sentence] | None, list[Sentence] | None]:
        """Return the training, development and test data."""
        from fencepost.training import hold_out

        text = {"language": config.text.language, "lines": config.text.lines}
        learnt = self.read(self.train or "", text)
        dev = None if self.dev is None else self.read(self.dev, text)
        if self.dev_share is not None:
            learnt, dev = hold_out(learnt, self.dev_share, config.training.seed)
        return learnt, dev, None if self.test is None else self.read(self.test, text)


def settings_of(
    recipe: str | None,
    config: Path | None,
    changes: Sequence[str] | None,
    flags: Mapping[str, Mapping[str, Any]],
    resumed: Path | None = None,
    base: dict[str, Any] | None = None,
) -> Config:
    """Return all settings: of the recipe, then the file, then `--set`, then the flags that are not None.

    `base` stands in for a recipe. The run in the folder `resumed` has its own settings in place of a file's.
    """
    from fencepost.experiments import recipes

    base = recipes.recipe(recipe).config if recipe is not None else base
    with require_extra("train"):
        from fencepost.config import Config
        from fencepost.training.run import RUN_FILE
    given = {
        part: {key: value for key, value in values.items() if value is not None}
        for part, values in flags.items()
    }
    if resumed is not None and config is None and (resumed / RUN_FILE).is_file():
        config = resumed / RUN_FILE
    return Config.compose(
        config, changes or (), {part: values for part, values in given.items() if values}, base=base
    )
