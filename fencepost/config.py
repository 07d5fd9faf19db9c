"""The configuration of a training run: a YAML file, and changes to it by key.

Its sections are `method`, `encoder`, `training`, `predict` and `text`. The settings in `method` and `predict`
depend on `method.name`. An error about a key or a value names the key, what is allowed, and the most similar
existing key.
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
"""Number of sentences to train on with `training.epochs: auto`, and the limits of the number of epochs."""

DEFAULT_WIDTH, _DEFAULT_RATE = 384, 1e-4
"""Width of the default encoder's vectors, and its learning rate; wider encoders need lower rates."""


class TrainingSettings(Settings):
    """Settings of training: AdamW with a learning rate for pretrained weights and another for all others."""

    epochs: Annotated[int | Literal["auto"], or_auto(Annotated[int, Field(ge=1)])] = Field(
        "auto", description="Number of epochs; auto depends on the number of training sentences."
    )
    batch_size: int = Field(16, ge=1, description="Number of sentences in a batch, on each device.")
    accumulate: int = Field(1, ge=1, description="Number of batches in a step; their gradients are averaged.")
    learning_rate: float = Field(2e-3, gt=0, description="Learning rate of newly initialised weights.")
    encoder_learning_rate: Annotated[float | Literal["auto"], or_auto(Annotated[float, Field(ge=0)])] = Field(
        "auto", description="Learning rate of pretrained weights; auto depends on the encoder's width."
    )
    schedule: Literal["linear", "cosine", "constant"] = Field(
        "linear", description="Decay of the learning rates after warm-up."
    )
    warmup: float = Field(
        0.2, ge=0, le=1, description="Share of the steps during which the learning rates rise from 0."
    )
    weight_decay: float = Field(0.01, ge=0, description="Weight decay of AdamW; biases and norms have none.")
    clip: float = Field(5.0, ge=0, description="Maximum norm of the gradient; 0 for no limit.")
    frozen_epochs: int = Field(
        0, ge=0, description="Number of epochs at the start in which pretrained weights are frozen."
    )
    frozen_rate: float = Field(
        2.0, gt=0, description="Factor for the learning rate of the other weights in the frozen epochs."
    )
    patience: int | None = Field(
        None,
        ge=1,
        description="Number of epochs without a better development F1 after which training stops; by default "
        "no limit, or a third of the epochs (at least 3) if epochs is auto.",
    )
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        "auto",
        description="Number format of the computation; auto is bfloat16 for pretrained encoders on a "
        "processor with instructions for it (AVX-512 BF16 or AMX), else float32.",
    )
    seed: int = Field(1, ge=0, le=2**32 - 1, description="Seed of everything random in training.")

    def count_epochs(self, sentences: int) -> int:
        """Return the number of epochs: the setting, or for `auto` computed from the number of sentences."""
        if self.epochs != "auto":
            return self.epochs
        return min(max(math.ceil(_SENTENCES / max(1, sentences)), _LEAST_EPOCHS), _MOST_EPOCHS)

    def compute_encoder_rate(self, width: int) -> float:
        """Return the learning rate of a pretrained encoder whose vectors have this width."""
        if self.encoder_learning_rate != "auto":
            return self.encoder_learning_rate
        return float(f"{_DEFAULT_RATE * (DEFAULT_WIDTH / width) ** 1.5:.2g}")

    def count_patience(self, epochs: int) -> int | None:
        """Return the patience of a training run of this number of epochs; None for no limit."""
        return max(3, math.ceil(epochs / 3)) if self.epochs == "auto" and not self.patience else self.patience


class Config(Settings):
    """All settings of a training run; together with the data, they determine the model."""

    method: SerializeAsAny[MethodSettings]
    encoder: EncoderSettings = Field(default_factory=EncoderSettings)
    training: TrainingSettings = Field(default_factory=TrainingSettings)
    predict: SerializeAsAny[PredictSettings]
    text: TextSettings = Field(default_factory=TextSettings)

    @classmethod
    def parse(cls, tree: Mapping[str, Any], where: str = "") -> Config:
        """Return the configuration in nested dictionaries; `where` is the source that errors mention.

        Raises `UsageError` for keys and values that are not valid.
        """
        prefix = f"{where}: " if where else ""
        tree = {key: value for key, value in tree.items() if value is not None}  # an empty YAML section
        of_method = tree.get("method", {})
        name = of_method.get("name", DEFAULT_METHOD) if isinstance(of_method, Mapping) else DEFAULT_METHOD
        if not isinstance(name, str) or name not in METHODS:
            raise UsageError(
                f"{prefix}method.name: {UsageError.unknown('method', shorten(str(name)), METHODS)}"
            )
        return validate_settings(
            _make_config_class(METHODS[name]), merge_trees(METHODS[name].defaults, tree), where=where
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
        """Return the configuration in a YAML file, with `key=value` changes and options (`flags`).

        `base` has the settings of a recipe, which are applied before the file and determine the method. Where
        several set the same key, the last one counts. Raises `UsageError` for what is not valid.
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
                cls.parse(of_file, where=str(file))  # names the file if the error is in it
            raise

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the values: the class is created for the method, and cannot be pickled by name."""
        return Config.parse, (self.model_dump(mode="json"),)


@cache
def _make_config_class(method: Method) -> type[Config]:
    """Return the class of configurations with the settings of this method."""
    return create_model(
        "Config",
        __base__=Config,
        method=(method.settings, Field(default_factory=method.settings)),
        predict=(method.predict, Field(default_factory=method.predict)),
    )


def _check_same_method(recipe: Tree, tree: Tree) -> None:
    """Raise `UsageError` for another method than that of the recipe, which has other settings."""
    of_method = tree.get("method")
    name, own = of_method.get("name") if isinstance(of_method, dict) else None, recipe["method"]["name"]
    if name not in (own, None):
        raise UsageError(
            f"method.name: {name} contradicts the recipe, which is for {own}; leave out one of them "
            "(`fencepost recipes` lists the recipes of each method)"
        )


def read_yaml(path: Path) -> Any:
    """Return the value in a YAML file; raise `DataError` if it cannot be read."""
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
        raise UsageError(
            f"{path}: a configuration should be a mapping (keys: {', '.join(Config.model_fields)})"
        )
    return {key: value for key, value in tree.items() if value is not None}  # an empty section
