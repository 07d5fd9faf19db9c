"""What `fencepost tune` searches: for each key of the configuration, a range or a list of values.

As YAML, `training.learning_rate: {low: 1e-4, high: 1e-2, log: true}` or `method.epsilon: [0, 0.1, 0.2]`; on
the command line, `training.learning_rate=1e-4..1e-2:log` or `method.epsilon=0,0.1,0.2`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import yaml

from fencepost.config import Config
from fencepost.data.files import SETTINGS_BYTES, read_text
from fencepost.errors import DataError, UsageError, describe_error
from fencepost.experiments.cells import split
from fencepost.settings import Tree, merged, parsed

Number = int | float
DIGITS = 4
"""So many digits of a number that is drawn are used: more would be hard to read, and tell nothing."""

COMMON: dict[str, Any] = {
    "training.learning_rate": {"low": 1e-4, "high": 1e-2, "log": True},
    "training.encoder_learning_rate": {"low": 1e-5, "high": 2e-4, "log": True},
    "training.batch_size": [8, 16, 32],
    "encoder.lstm.dropout": {"low": 0.1, "high": 0.6},
}
"""What is searched with any method, unless a space is given."""

REFUSED = {
    "training.seed": "the best seed is luck, not a setting; --seed is that of all trials",
    "method.name": "each has other settings; compare them with fencepost sweep --grid method.name=...",
}

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_RANGE = re.compile(rf"({_NUMBER})\.\.({_NUMBER})(?::(log|{_NUMBER}))?")
_NOTATION = (
    "write a range as LOW..HIGH, LOW..HIGH:log or LOW..HIGH:STEP, and values as A,B,C; for example "
    "training.learning_rate=1e-4..1e-2:log or method.epsilon=0,0.1,0.2"
)


@dataclass(frozen=True, slots=True)
class Range:
    """Numbers from `low` to `high`, both included; drawn by their logarithms, or in steps, if wanted.

    They are whole if the setting is.
    """

    low: Number
    high: Number
    log: bool = False
    step: Number | None = None

    @property
    def is_whole(self) -> bool:
        return isinstance(self.low, int)

    def has(self, value: Any) -> bool:
        """Whether the search could come to this value."""
        if not isinstance(value, int | float) or isinstance(value, bool):
            return False
        if not self.low <= value <= self.high:
            return False
        return self.step is None or _divides(self.step, value - self.low)

    def value(self, drawn: Any) -> Number:
        """The number that was drawn, as it is used."""
        if self.is_whole:
            return int(drawn)
        if self.step is not None:
            return float(f"{drawn:.10g}")
        places = DIGITS - 1 - math.floor(math.log10(drawn if self.log else self.high - self.low))
        return min(max(round(float(drawn), places), self.low), self.high)

    def tree(self) -> Tree:
        """As in a file."""
        log, step = {"log": True} if self.log else {}, {} if self.step is None else {"step": self.step}
        return {"low": self.low, "high": self.high, **log, **step}


@dataclass(frozen=True, slots=True)
class Choices:
    """Values of any kind; the search knows no order among them."""

    values: tuple[Any, ...]

    def has(self, value: Any) -> bool:
        return any(_same(value, one) for one in self.values)

    def tree(self) -> list[Any]:
        """As in a file."""
        return list(self.values)


Domain = Range | Choices
Space = dict[str, Domain]
"""By key of the configuration."""


def read_space(path: Path) -> Tree:
    """Return the search space in a YAML file, not checked yet; raises `DataError` if it cannot be read."""
    try:
        tree = parsed(read_text(path, limit=SETTINGS_BYTES))
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        reason = getattr(error, "problem", None) or describe_error(error)
        raise DataError(
            f"this is not valid YAML: {reason}", source=str(path), line=mark.line + 1 if mark else None
        ) from None
    if not isinstance(tree, dict) or not tree or not all(isinstance(key, str) for key in tree):
        raise UsageError(
            f"{path}: a search space has keys, each with a range or a list, for example "
            "training.learning_rate: {low: 1e-4, high: 1e-2, log: true}"
        )
    return tree


def searched(options: Iterable[str]) -> Tree:
    """The same from `KEY=LOW..HIGH:log` and `KEY=A,B,C`."""
    tree: Tree = {}
    for text in options:
        key, equals, listed = text.partition("=")
        if not equals or not all(key.split(".")) or not listed.strip():
            raise UsageError(f"--search {text}: {_NOTATION}")
        if key in tree:
            raise UsageError(f"--search {text}: {key} is there already; give it once")
        tree[key] = _domain(listed.strip(), text)
    return tree


def _domain(listed: str, text: str) -> Tree | list[Any]:
    found = _RANGE.fullmatch(listed)
    if found:
        low, high, more = found.groups()
        spread: Tree = {} if more is None else {"log": True} if more == "log" else {"step": more}
        return {"low": low, "high": high, **spread}
    try:
        values = [parsed(value) for value in split(listed, ",")]
    except yaml.YAMLError:
        raise UsageError(f"--search {text}: a value is not valid YAML; {_NOTATION}") from None
    if len(values) == 1:
        raise UsageError(f"--search {text}: this is one value, and nothing to search; {_NOTATION}")
    return values


def default_space(config: Config) -> Tree:
    """What is searched unless something is given: what all trainings have, and what the method declares."""
    tree = dict(COMMON)
    if config.encoder.name == "scratch":
        del tree["training.encoder_learning_rate"]  # there are no pretrained weights
    if not config.encoder.lstm.size:
        del tree["encoder.lstm.dropout"]
    return tree | {f"method.{key}": domain for key, domain in config.method.searched.items()}


def space_of(tree: Mapping[str, Any], config: Config, where: str = "") -> Space:
    """The space, if all it may lead to are settings; each is tried with all others as they are.

    `where` is what errors begin with.
    """
    if not tree:
        raise UsageError(f"{where}there is nothing to search: each setting of the space is given")
    return {key: _checked(key, domain, config, where) for key, domain in tree.items()}


def space_tree(space: Mapping[str, Domain]) -> Tree:
    """As a file has it."""
    return {key: domain.tree() for key, domain in space.items()}


def space_yaml(space: Mapping[str, Domain]) -> str:
    """A line for each key."""
    return "".join(
        f"{key}: {yaml.safe_dump(domain.tree(), default_flow_style=True, sort_keys=False, width=1000)}"
        for key, domain in space.items()
    )


def tree_of(values: Mapping[str, Any]) -> Tree:
    """`{"a.b": 1}` as `{"a": {"b": 1}}`."""
    tree: Tree = {}
    for key, value in values.items():
        inner: Any = value
        for part in reversed(key.split(".")):
            inner = {part: inner}
        tree = merged(tree, inner)
    return tree


def changed(config: Config, values: Mapping[str, Any]) -> Config:
    """The settings with other values, by key."""
    return Config.parse(merged(config.model_dump(mode="json"), tree_of(values)))


def value_at(config: Config, key: str) -> Any:
    """What a setting is."""
    value: Any = config.model_dump(mode="json")
    for part in key.split("."):
        value = value[part]
    return value


def _checked(key: str, domain: Any, config: Config, where: str) -> Domain:
    if key in REFUSED:
        raise UsageError(f"{where}{key}: it cannot be searched: {REFUSED[key]}")
    if not all(key.split(".")):
        raise UsageError(f"{where}{key!r}: this is no key; write it as training.learning_rate")
    if isinstance(domain, list):
        return _choices(key, domain, config, where)
    if isinstance(domain, Mapping) and {"low", "high"} <= domain.keys() <= {"low", "high", "log", "step"}:
        return _range(key, domain, config, where)
    raise UsageError(
        f"{where}{key}: give a range, as {{low: 0.1, high: 0.5}}, with log: true or a step if wanted, or a "
        f"list of values, not {domain!r}; keys are written in full, as training.learning_rate"
    )


def _choices(key: str, values: Sequence[Any], config: Config, where: str) -> Choices:
    valid = [_tried(key, value, config, where) for value in values]
    for number, value in enumerate(valid):
        if any(_same(value, other) for other in valid[:number]):
            raise UsageError(f"{where}{key}: the value {value!r} is there twice")
    if len(valid) < 2:
        raise UsageError(f"{where}{key}: a list needs two values; to give a setting one, use --set")
    return Choices(tuple(valid))


def _range(key: str, tree: Mapping[str, Any], config: Config, where: str) -> Range:
    low, high = (_number(key, name, tree[name], config, where) for name in ("low", "high"))
    log, step = tree.get("log", False), tree.get("step")
    if not isinstance(log, bool):
        raise UsageError(f"{where}{key}: log is true or false, not {log!r}")
    if not low < high:
        raise UsageError(f"{where}{key}: low must be below high, but {low} is not below {high}")
    if log and step is not None:
        raise UsageError(f"{where}{key}: log and step contradict each other; leave out one of them")
    if log and low <= 0:
        raise UsageError(f"{where}{key}: with log, low must be above 0, not {low}")
    if step is not None:
        step = _step(key, step, low, high, where)
    if isinstance(low, int) or step is not None:  # what a setting must be a multiple of shows here
        _tried(key, low + (step or 1), config, where)
    return Range(low, high, log, step)


def _number(key: str, name: str, value: Any, config: Config, where: str) -> Number:
    """An end of a range, as the setting has it. YAML takes 1e-4 for text: a float would have a point."""
    valid = _tried(key, _float(value), config, where)
    if not isinstance(valid, int | float) or isinstance(valid, bool):
        raise UsageError(f"{where}{key}: this setting is no number; list its values instead of {name}")
    return valid


def _step(key: str, value: Any, low: Number, high: Number, where: str) -> Number:
    step = _float(value)
    if not isinstance(step, int | float) or isinstance(step, bool) or not step > 0:
        raise UsageError(f"{where}{key}: step must be a number above 0, not {value!r}")
    if isinstance(low, int):
        if int(step) != step:
            raise UsageError(f"{where}{key}: step must be a whole number, as the setting is, not {value!r}")
        step = int(step)
    number: Number = step
    if not _divides(step, high - low):
        raise UsageError(f"{where}{key}: steps of {step} do not lead from {low} to {high}")
    return number


def _float(value: Any) -> Any:
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return value


def _divides(step: Number, distance: Number) -> bool:
    return Decimal(f"{distance:.10g}") % Decimal(f"{step:.10g}") == 0


def _same(one: Any, other: Any) -> bool:
    """Equal, and not as true equals 1."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def _tried(key: str, value: Any, config: Config, where: str) -> Any:
    """The value as the configuration takes it; whatever is wrong is told."""
    try:
        return value_at(changed(config, {key: value}), key)
    except UsageError as error:
        raise UsageError(f"{where}{error}") from None
