"""One typed configuration for all that `fencepost train` does: a YAML file, and changes to it by key.

Its parts are `method`, `encoder`, `training`, `predict` and `text`. What the method and `predict` may
hold depends on `method.name`. A key or value that is wrong is refused with its name, what it may be,
and the nearest name that exists.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, SerializeAsAny, create_model

from fencepost.data.files import SETTINGS_BYTES, read_text
from fencepost.encoder.settings import EncoderSettings, TextSettings
from fencepost.errors import DataError, UsageError, describe_error, shorten
from fencepost.methods.registry import METHODS, Method
from fencepost.methods.settings import MethodSettings, PredictSettings
from fencepost.settings import (
    Settings,
    Tree,
    merge_trees,
    or_auto,
    parse_change,
    parse_yaml,
    validate_settings,
)

DEFAULT_METHOD = "boundary-smoothing"

_SENTENCES, _LEAST_EPOCHS, _MOST_EPOCHS = 24_000, 6, 60
"""What `training.epochs: auto` is: epochs that read this many sentences, between these numbers of epochs."""

USUAL_WIDTH, _USUAL_RATE = 384, 1e-4
"""The width of the default encoder's vectors, and its learning rate; wider encoders need lower ones."""


class TrainingSettings(Settings):
    """How the weights are learnt: AdamW with a rate for the pretrained weights and one for the rest."""

    epochs: Annotated[int | Literal["auto"], or_auto(Annotated[int, Field(ge=1)])] = Field(
        "auto", description="Number of epochs; auto depends on the number of training sentences."
    )
    batch_size: int = Field(16, ge=1, description="Sentences in a step, on each device.")
    accumulate: int = Field(1, ge=1, description="Batches whose mean gradient makes a step.")
    learning_rate: float = Field(2e-3, gt=0, description="Learning rate of newly initialised weights.")
    encoder_learning_rate: Annotated[float | Literal["auto"], or_auto(Annotated[float, Field(ge=0)])] = Field(
        "auto", description="Learning rate of pretrained weights; auto depends on the encoder's width."
    )
    schedule: Literal["linear", "cosine", "constant"] = Field(
        "linear", description="The decay after warm-up."
    )
    warmup: float = Field(0.2, ge=0, le=1, description="The share of the steps in which the rates rise.")
    weight_decay: float = Field(0.01, ge=0, description="Not on biases and norms.")
    clip: float = Field(5.0, ge=0, description="The largest norm of the gradient; 0 is no limit.")
    frozen_epochs: int = Field(
        0, ge=0, description="Number of epochs, from the first, in which pretrained weights are frozen."
    )
    frozen_rate: float = Field(
        2.0, gt=0, description="Factor of the learning rate of the other weights in these epochs."
    )
    patience: int | None = Field(
        None,
        ge=1,
        description="Stop after this many epochs without a better development F1. Unset: never, or after a "
        "third of the epochs (at least 3) if their number is auto.",
    )
    precision: Literal["float32", "bfloat16"] = Field(
        "float32", description="bfloat16 needs hardware for it."
    )
    seed: int = Field(1, ge=0, le=2**32 - 1)

    def count_epochs(self, sentences: int) -> int:
        """Return the number of epochs: as set, or by the number of training sentences."""
        if self.epochs != "auto":
            return self.epochs
        return min(max(math.ceil(_SENTENCES / max(1, sentences)), _LEAST_EPOCHS), _MOST_EPOCHS)

    def encoder_rate(self, width: int) -> float:
        """Return the learning rate of a pretrained encoder with vectors of this width."""
        if self.encoder_learning_rate != "auto":
            return self.encoder_learning_rate
        return float(f"{_USUAL_RATE * (USUAL_WIDTH / width) ** 1.5:.2g}")

    def count_patience(self, epochs: int) -> int | None:
        """Return after how many epochs without a better F1, of this number of epochs, the training stops."""
        return max(3, math.ceil(epochs / 3)) if self.epochs == "auto" and not self.patience else self.patience


class Config(Settings):
    """Everything that makes a training run what it is, apart from the data."""

    method: SerializeAsAny[MethodSettings]
    encoder: EncoderSettings = Field(default_factory=EncoderSettings)
    training: TrainingSettings = Field(default_factory=TrainingSettings)
    predict: SerializeAsAny[PredictSettings]
    text: TextSettings = Field(default_factory=TextSettings)

    @classmethod
    def parse(cls, tree: Mapping[str, Any], where: str = "") -> Config:
        """From nested dictionaries; `where` is what an error calls them."""
        prefix = f"{where}: " if where else ""
        tree = {key: value for key, value in tree.items() if value is not None}  # all its keys left out
        of_method = tree.get("method", {})
        name = of_method.get("name", DEFAULT_METHOD) if isinstance(of_method, Mapping) else DEFAULT_METHOD
        if not isinstance(name, str) or name not in METHODS:
            raise UsageError(
                f"{prefix}method.name: {UsageError.unknown('method', shorten(str(name)), METHODS)}"
            )
        return validate_settings(
            _config_of(METHODS[name]), merge_trees(METHODS[name].defaults, tree), where=where
        )

    @classmethod
    def compose(
        cls,
        file: Path | None = None,
        changes: Sequence[str] = (),
        flags: Tree | None = None,
        *,
        base: Tree | None = None,
    ) -> Config:
        """From a YAML file, then `key=value` changes, then what was given as flags: the later one counts.

        `base` are the settings of a recipe, which stand before all of them; its method cannot change.
        """
        of_file = tree = merge_trees(base or {}, _read_tree(file) if file else {})
        for change in changes:
            tree = merge_trees(tree, parse_change(change))
        tree = merge_trees(tree, flags or {})
        if base is not None:
            _check_same_method(base, tree)
        try:
            return cls.parse(tree)
        except UsageError:
            if file is not None:
                cls.parse(of_file, where=str(file))  # so that the file is blamed for what is wrong in it
            raise

    def to_yaml(self) -> str:
        from yaml import safe_dump

        return safe_dump(self.model_dump(mode="json"), sort_keys=False, allow_unicode=True)

    def __reduce__(self) -> tuple[Any, ...]:
        """For other processes: the class is made for the method, and cannot be pickled by name."""
        return Config.parse, (self.model_dump(mode="json"),)


@cache
def _config_of(method: Method) -> type[Config]:
    """The config whose method and prediction are those of this method."""
    return create_model(
        "Config",
        __base__=Config,
        method=(method.settings, Field(default_factory=method.settings)),
        predict=(method.predict, Field(default_factory=method.predict)),
    )


def _check_same_method(recipe: Tree, tree: Tree) -> None:
    """Refuses another method than the recipe's, whose keys it would not know."""
    of_method = tree.get("method")
    name, own = of_method.get("name") if isinstance(of_method, dict) else None, recipe["method"]["name"]
    if name not in (own, None):
        raise UsageError(
            f"method.name: {name} contradicts the recipe, which is for {own}; leave one of them out "
            "(fencepost recipes lists those of each method)"
        )


def read_yaml(path: Path) -> Any:
    """Return the value in a YAML file; raises `DataError` if it cannot be read."""
    from yaml import YAMLError

    text = read_text(path, limit=SETTINGS_BYTES)
    try:
        return parse_yaml(text)
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        reason = shorten(getattr(error, "problem", None) or describe_error(error))
        raise DataError(
            f"this is not valid YAML: {reason}", source=str(path), line=mark.line + 1 if mark else None
        ) from None


def _read_tree(path: Path) -> Tree:
    tree = read_yaml(path)
    if tree is None:
        return {}
    if not isinstance(tree, dict) or not all(isinstance(key, str) for key in tree):
        raise UsageError(f"{path}: a configuration has keys: {', '.join(Config.model_fields)}")
    return {key: value for key, value in tree.items() if value is not None}  # of a part that is left empty
