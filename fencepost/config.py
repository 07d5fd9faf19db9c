"""One typed configuration for all that `fencepost train` does: a YAML file, and changes to it by key.

Its four parts are `method`, `encoder`, `training` and `predict`. What the method and `predict` may
hold depends on `method.name`. A key or value that is wrong is refused with its name, what it may be,
and the nearest name that exists.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, Self, cast

import yaml
from pydantic import BaseModel, Field, SerializeAsAny, ValidationError, create_model

from fencepost.encoder import EncoderSettings, Settings
from fencepost.errors import UsageError
from fencepost.methods import METHODS, MethodSettings, PredictSettings

DEFAULT_METHOD = "boundary-smoothing"
Tree = dict[str, Any]


class TrainingSettings(Settings):
    """How the weights are learnt: AdamW with a rate for the pretrained weights and one for the rest."""

    epochs: int = Field(12, ge=1)
    batch_size: int = Field(16, ge=1, description="Sentences in a step, on each device.")
    accumulate: int = Field(1, ge=1, description="Batches whose mean gradient makes a step.")
    learning_rate: float = Field(1e-3, gt=0, description="Of the weights that start from nothing.")
    encoder_learning_rate: float = Field(5e-5, ge=0, description="Of the pretrained weights.")
    schedule: Literal["linear", "cosine", "constant"] = Field(
        "linear", description="The decay after warm-up."
    )
    warmup: float = Field(0.2, ge=0, le=1, description="The share of the steps in which the rates rise.")
    weight_decay: float = Field(0.01, ge=0, description="Not on biases and norms.")
    clip: float = Field(5.0, ge=0, description="The largest norm of the gradient; 0 is no limit.")
    frozen_epochs: int = Field(
        0, ge=0, description="In so many epochs at the beginning, pretrained weights do not learn."
    )
    frozen_rate: float = Field(
        2.0, gt=0, description="What the learning rate of the others is multiplied with meanwhile."
    )
    patience: int | None = Field(
        None, ge=1, description="Stop after so many epochs without a better development F1; never unless set."
    )
    precision: Literal["float32", "bfloat16"] = Field(
        "float32", description="bfloat16 needs hardware for it."
    )
    seed: int = Field(1, ge=0, le=2**32 - 1)


class Config(Settings):
    """Everything that makes a training run what it is, apart from the data."""

    method: SerializeAsAny[MethodSettings]
    encoder: EncoderSettings = Field(default_factory=EncoderSettings)
    training: TrainingSettings = Field(default_factory=TrainingSettings)
    predict: SerializeAsAny[PredictSettings]

    @classmethod
    def parse(cls, tree: Mapping[str, Any], where: str = "") -> Config:
        """From nested dictionaries; `where` is what an error calls them."""
        prefix = f"{where}: " if where else ""
        tree = {key: value for key, value in tree.items() if value is not None}  # all its keys left out
        of_method = tree.get("method", {})
        name = of_method.get("name", DEFAULT_METHOD) if isinstance(of_method, Mapping) else DEFAULT_METHOD
        if not isinstance(name, str) or name not in METHODS:
            raise UsageError(f"{prefix}method.name: {UsageError.unknown('method', str(name), METHODS)}")
        model = _config_of(name)
        try:
            return model.model_validate(merged(METHODS[name].defaults, tree))
        except ValidationError as error:
            problems = [prefix + _told(problem, model) for problem in error.errors()]
            raise UsageError("\n".join(problems)) from None

    @classmethod
    def compose(
        cls, file: Path | None = None, changes: Sequence[str] = (), flags: Tree | None = None
    ) -> Config:
        """From a YAML file, then `key=value` changes, then what was given as flags: the later one counts."""
        of_file = tree = _read_yaml(file) if file else {}
        for change in changes:
            tree = merged(tree, _change(change))
        try:
            return cls.parse(merged(tree, flags or {}))
        except UsageError:
            cls.parse(of_file, where=str(file))  # so that the file is blamed for what is wrong in it
            raise

    def changed(self, changes: Sequence[str]) -> Self:
        """With `predict.key=value` changes: the only part that can change after training."""
        tree = self.model_dump(mode="json")
        for change in changes:
            if not change.startswith("predict."):
                raise UsageError(
                    f"--set {change}: the model is trained; only predict.* can change now, "
                    f"that is {', '.join(f'predict.{key}' for key in type(self.predict).model_fields)}"
                )
            tree = merged(tree, _change(change))
        config = Config.parse(tree)
        if config.predict.select == "auto" != self.predict.select:
            raise UsageError(
                f"predict.select: auto is for training; this model was trained for {self.predict.select}"
            )
        return cast("Self", config)

    def to_yaml(self) -> str:
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


def merged(base: Mapping[str, Any], change: Mapping[str, Any]) -> Tree:
    """`base` with the values of `change`, key by key in nested dictionaries."""
    result = dict(base)
    for key, value in change.items():
        old = result.get(key)
        both = isinstance(old, Mapping) and isinstance(value, Mapping)
        result[key] = merged(old, value) if both else value  # type: ignore[arg-type]
    return result


@cache
def _config_of(method: str) -> type[Config]:
    """The config whose method and prediction are those of this method."""
    class_ = METHODS[method]
    return create_model(
        "Config",
        __base__=Config,
        method=(class_.Settings, Field(default_factory=class_.Settings)),
        predict=(class_.Predict, Field(default_factory=class_.Predict)),
    )


def _change(text: str) -> Tree:
    """`a.b=1` as `{"a": {"b": 1}}`; the value is YAML."""
    key, equals, value = text.partition("=")
    if not equals or not all(key.split(".")):
        raise UsageError(f"--set {text}: write it as KEY=VALUE, for example training.epochs=20")
    try:
        tree = _parsed(value)
    except yaml.YAMLError:
        raise UsageError(f"--set {text}: the value is not valid YAML") from None
    for part in reversed(key.split(".")):
        tree = {part: tree}
    return cast("Tree", tree)


def _parsed(text: str) -> Any:
    """YAML, without tags that make objects of Python; whatever is wrong in it is a `YAMLError`."""
    try:
        return yaml.safe_load(text)
    except (ValueError, KeyError, AttributeError, RecursionError) as error:
        # what PyYAML lets through for a value that is none of its type, as the date 2024-13-45
        raise yaml.YAMLError(str(error)) from error


def _read_yaml(path: Path) -> Tree:
    try:
        tree = _parsed(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: the configuration cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{path}:{mark.line + 1}" if mark else str(path)
        raise UsageError(f"{place}: this is not valid YAML: {getattr(error, 'problem', error)}") from None
    if tree is None:
        return {}
    if not isinstance(tree, dict) or not all(isinstance(key, str) for key in tree):
        raise UsageError(f"{path}: a configuration has keys: {', '.join(Config.model_fields)}")
    return tree


def _told(problem: Any, model: type[BaseModel]) -> str:
    """A problem that pydantic found, in words: the key, what is wrong with it, what it may be."""
    *path, last = [str(part) for part in problem["loc"]]
    key = ".".join((*path, last))
    if problem["type"] == "extra_forbidden":
        names = list(_at(model, path).model_fields)
        near = difflib.get_close_matches(last, names, n=1)
        hint = f"did you mean {'.'.join((*path, near[0]))}? " if near else ""
        within = f"{'.'.join(path)} has" if path else "there are"
        return f"{key}: there is no such key; {hint}{within} {', '.join(names)}"
    if problem["type"] == "model_type":
        names = list(_at(model, (*path, last)).model_fields)
        return f"{key}: must have keys, which may be {', '.join(names)}, not be {problem['input']!r}"
    if problem["type"] == "tuple_type":
        return f"{key}: should be a list, as [1, 2, 3], not {problem['input']!r}"
    message = problem["msg"].removeprefix("Value error, ").removeprefix("Input ")
    about_several_keys = problem["type"] == "value_error" and isinstance(problem["input"], Mapping)
    if about_several_keys:  # which the message names
        return f"{key}: {message}"
    return f"{key}: {message}, not {problem['input']!r}"


def _at(model: type[BaseModel], path: Sequence[str]) -> type[BaseModel]:
    """The part of the config that this path leads to."""
    for name in path:
        annotation = model.model_fields[name].annotation
        model = cast("type[BaseModel]", annotation)
    return model
