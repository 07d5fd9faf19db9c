"""The options of the commands that train: settings, and the configuration that they make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fencepost.cli.models import training_installed

if TYPE_CHECKING:
    from fencepost.config import Config

SETTINGS = "Settings"


def option(name: str, text: str, panel: str, **more: Any) -> Any:
    """An option in one of the panels of a command's help."""
    return typer.Option(name, help=text, rich_help_panel=panel, **more)


MethodName = Annotated[
    str | None,
    option(
        "--method",
        "boundary-smoothing (the default), boundary-offset, locate-and-label or diffusion.",
        SETTINGS,
    ),
]
RecipeName = Annotated[
    str | None,
    option(
        "--recipe",
        "Begin with a paper's settings, as boundary-smoothing/conll2003; `fencepost recipes` lists them.",
        SETTINGS,
        metavar="NAME",
    ),
]
ConfigFile = Annotated[
    Path | None, option("--config", "All settings in a YAML file.", SETTINGS, metavar="FILE.yaml")
]
Set = Annotated[
    list[str] | None,
    option("--set", "Change one setting, as method.epsilon=0.2; repeatable.", SETTINGS, metavar="KEY=VALUE"),
]
EncoderName = Annotated[
    str | None,
    option("--encoder", "encoder.name: minilm, scratch, a folder, or a name on the hub.", SETTINGS),
]
Epochs = Annotated[int | None, option("--epochs", "training.epochs", SETTINGS)]
BatchSize = Annotated[int | None, option("--batch-size", "training.batch_size", SETTINGS)]


def settings_of(
    recipe: str | None,
    config: Path | None,
    changes: Sequence[str] | None,
    flags: Mapping[str, Mapping[str, Any]],
    resumed: Path | None = None,
) -> Config:
    """All settings: of the recipe, then the file, then `--set`, then the flags that are not None.

    Those of the run that is resumed are its own.
    """
    from fencepost.experiments import recipes

    base = recipes.recipe(recipe).config if recipe is not None else None
    with training_installed():
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
