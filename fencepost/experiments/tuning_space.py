"""Search space of `fencepost tune`: a range or a list of values for each key of the configuration.

As YAML, `training.learning_rate: {low: 1e-4, high: 1e-2, log: true}` or `method.epsilon: [0, 0.1, 0.2]`; on
the command line, `training.learning_rate=1e-4..1e-2:log` or `method.epsilon=0,0.1,0.2`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from pathlib import Path
from typing import Any

import yaml

from fencepost.config import Config, read_yaml
from fencepost.errors import UsageError
from fencepost.experiments.cells import split_unquoted
from fencepost.settings import Tree, merge_trees, parse_yaml

Number = int | float
DIGITS = 4
"""Significant digits of a drawn number: more are hard to read and make no difference."""

COMMON: dict[str, Any] = {
    "training.learning_rate": {"low": 1e-4, "high": 1e-2, "log": True},
    "training.encoder_learning_rate": {"low": 1e-5, "high": 2e-4, "log": True},
    "training.batch_size": [8, 16, 32],
    "encoder.lstm.dropout": {"low": 0.1, "high": 0.6},
}
"""Default space of all methods, to which each method adds its own settings."""

REFUSED = {
    "training.seed": "the best seed is chance; --seed sets the seed of all trials",
    "method.name": "methods differ in their settings; use fencepost sweep --grid method.name=...",
}

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_RANGE = re.compile(rf"({_NUMBER})\.\.({_NUMBER})(?::(log|{_NUMBER}))?")
_NOTATION = (
    "write a range as LOW..HIGH, LOW..HIGH:log or LOW..HIGH:STEP, and values as A,B,C; for example "
    "training.learning_rate=1e-4..1e-2:log or method.epsilon=0,0.1,0.2"
)


@dataclass(frozen=True, slots=True)
class Range:
    """Numbers from `low` to `high` inclusive, on a logarithmic scale with `log`, in steps with `step`.

    They are integers if the setting is an integer.
    """

    low: Number
    high: Number
    log: bool = False
    step: Number | None = None

    def contains(self, value: Any) -> bool:
        """Return whether the search can draw this value."""
        if not _is_number(value) or not self.low <= value <= self.high:
            return False
        return self.step is None or _divides(self.step, value - self.low)

    def encode(self, value: Any) -> Any:
        """Return the value in the form that Optuna stores."""
        return value

    def decode(self, sample: Any) -> Number:
        """Return a drawn number, rounded, as a setting."""
        if isinstance(self.low, int):
            return int(sample)
        if self.step is not None:
            return float(f"{sample:.10g}")
        places = DIGITS - 1 - math.floor(math.log10(sample if self.log else self.high - self.low))
        return min(max(round(float(sample), places), self.low), self.high)

    def to_tree(self) -> Tree:
        """Return the range as in a YAML file."""
        log, step = {"log": True} if self.log else {}, {} if self.step is None else {"step": self.step}
        return {"low": self.low, "high": self.high, **log, **step}


@dataclass(frozen=True, slots=True)
class Choices:
    """Unordered values of any kind."""

    values: tuple[Any, ...]

    def contains(self, value: Any) -> bool:
        return any(_is_same(value, one) for one in self.values)

    def encode(self, value: Any) -> str:
        """Return the value as JSON, because Optuna stores only strings and numbers."""
        return json.dumps(value)

    def decode(self, sample: str) -> Any:
        """Return a drawn value as a setting."""
        return json.loads(sample)

    def to_tree(self) -> list[Any]:
        """Return the values as in a YAML file."""
        return list(self.values)


Domain = Range | Choices
Space = dict[str, Domain]
"""Domains by key of the configuration."""


def read_space(path: Path) -> Tree:
    """Return the unchecked search space in a YAML file; raise `DataError` if it cannot be read."""
    tree = read_yaml(path)
    if not isinstance(tree, dict) or not tree or not all(isinstance(key, str) for key in tree):
        raise UsageError(
            f"{path}: a search space maps keys to ranges or lists, for example "
            "training.learning_rate: {low: 1e-4, high: 1e-2, log: true}"
        )
    return dict(tree)


def parse_searches(options: Iterable[str]) -> Tree:
    """Return the unchecked search space in options `KEY=LOW..HIGH:log` and `KEY=A,B,C`."""
    tree: Tree = {}
    for text in options:
        key, _, values = text.partition("=")
        try:
            if not all(key.split(".")) or not values.strip():
                raise UsageError(_NOTATION)
            if key in tree:
                raise UsageError(f"{key} is given twice; give it once")
            tree[key] = _parse(values.strip())
        except UsageError as error:
            raise UsageError(f"--search {text}: {error}") from None
    return tree


def _parse(text: str) -> Tree | list[Any]:
    match = _RANGE.fullmatch(text)
    if match:
        low, high, more = match.groups()
        spread: Tree = {} if more is None else {"log": True} if more == "log" else {"step": more}
        return {"low": low, "high": high, **spread}
    try:
        values = [parse_yaml(value) for value in split_unquoted(text, ",")]
    except yaml.YAMLError:
        raise UsageError(f"a value is not valid YAML; {_NOTATION}") from None
    if len(values) == 1:
        raise UsageError(f"one value is nothing to search; {_NOTATION}")
    return values


def make_default_space(config: Config) -> Tree:
    """Return the default space: the common settings and those of the method."""
    tree = dict(COMMON)
    if config.encoder.name == "scratch":
        del tree["training.encoder_learning_rate"]  # there are no pretrained weights
    if not config.encoder.lstm.size:
        del tree["encoder.lstm.dropout"]
    return tree | {f"method.{key}": domain for key, domain in config.method.searched.items()}


def parse_space(tree: Mapping[str, Any], config: Config, where: str = "") -> Space:
    """Return the space; raise `UsageError` if the configuration does not accept a value or limit.

    Error messages start with `where`.
    """
    if not tree:
        raise UsageError(f"{where}nothing to search: each setting of the space has a given value")
    try:
        return {key: _parse_domain(key, domain, config) for key, domain in tree.items()}
    except UsageError as error:
        raise UsageError(f"{where}{error}") from None


def dump_space(space: Mapping[str, Domain]) -> Tree:
    """Return the space as in a YAML file."""
    return {key: domain.to_tree() for key, domain in space.items()}


def dump_space_yaml(space: Mapping[str, Domain]) -> str:
    """Return the space as YAML, with one line per key."""
    return "".join(
        f"{key}: {yaml.safe_dump(domain.to_tree(), default_flow_style=True, sort_keys=False, width=1000)}"
        for key, domain in space.items()
    )


def change_config(config: Config, values: Mapping[str, Any]) -> Config:
    """Return the settings with these values, by key."""
    tree = config.model_dump(mode="json")
    for key, value in values.items():
        change: Any = value
        for part in reversed(key.split(".")):
            change = {part: change}
        tree = merge_trees(tree, change)
    return Config.parse(tree)


def get_value(config: Config, key: str) -> Any:
    """Return the value of a setting."""
    return reduce(lambda tree, part: tree[part], key.split("."), config.model_dump(mode="json"))


def _parse_domain(key: str, domain: Any, config: Config) -> Domain:
    if key in REFUSED:
        raise UsageError(f"{key} cannot be searched: {REFUSED[key]}")
    if not all(key.split(".")):
        raise UsageError(f"{key!r}: not a key; write keys in full, as training.learning_rate")
    try:
        if isinstance(domain, list):
            return _parse_choices([_validate(key, value, config) for value in domain])
        if isinstance(domain, Mapping) and {"low", "high"} <= domain.keys() <= {"low", "high", "log", "step"}:
            return _parse_range(key, domain, config)
        raise ValueError(
            "give a range, as {low: 0.1, high: 0.5}, optionally with log: true or a step, or a list of "
            f"values, not {domain!r}; write keys in full, as training.learning_rate"
        )
    except ValueError as error:
        raise UsageError(f"{key}: {error}") from None


def _parse_choices(values: Sequence[Any]) -> Choices:
    for number, value in enumerate(values):
        if any(_is_same(value, other) for other in values[:number]):
            raise ValueError(f"the value {value!r} is given twice")
    if len(values) < 2:
        raise ValueError("a list needs at least two values; to set one value, use --set")
    return Choices(tuple(values))


def _parse_range(key: str, tree: Mapping[str, Any], config: Config) -> Range:
    low, high = (_validate(key, _parse_number(tree[name]), config) for name in ("low", "high"))
    log, step = tree.get("log", False), tree.get("step")
    if not _is_number(low) or not _is_number(high):
        raise ValueError("this setting is not a number; give a list of values instead of a range")
    if not isinstance(log, bool):
        raise ValueError(f"log must be true or false, not {log!r}")
    if not low < high:
        raise ValueError(f"low must be below high, but {low} is not below {high}")
    if log and step is not None:
        raise ValueError("log and step cannot be combined; leave out one of them")
    if log and low <= 0:
        raise ValueError(f"with log, low must be above 0, not {low}")
    if step is not None:
        step = _parse_step(step, low, high)
    if isinstance(low, int) or step is not None:  # fails if the setting must be a multiple of something else
        _validate(key, low + (step or 1), config)
    return Range(low, high, log, step)


def _parse_step(value: Any, low: Number, high: Number) -> Number:
    step: Number = _parse_number(value)
    if not _is_number(step) or not step > 0:
        raise ValueError(f"step must be a number above 0, not {value!r}")
    if isinstance(low, int):
        if int(step) != step:
            raise ValueError(f"step must be an integer, as the setting is, not {value!r}")
        step = int(step)
    if not _divides(step, high - low):
        raise ValueError(
            f"high - low must be a multiple of step, but {high} - {low} is not a multiple of {step}"
        )
    return step


def _parse_number(value: Any) -> Any:
    """Return the number in a string: YAML reads 1e-4 as a string, because it has no decimal point."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _divides(step: Number, distance: Number) -> bool:
    return Decimal(f"{distance:.10g}") % Decimal(f"{step:.10g}") == 0


def _is_same(one: Any, other: Any) -> bool:
    """Return whether two values are equal; true and 1 are not."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def _validate(key: str, value: Any, config: Config) -> Any:
    """Return the value as the configuration stores it; raise `UsageError` if it is not valid."""
    return get_value(change_config(config, {key: value}), key)
