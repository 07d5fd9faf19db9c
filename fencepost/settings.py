"""What all settings have in common: how they are written, changed by key, and refused in words."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

from pydantic import BaseModel, ConfigDict, PlainValidator, TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError

from fencepost.errors import UsageError, describe_error, quote, shorten

if TYPE_CHECKING:
    import yaml

WIDEST, MOST_LAYERS = 65_536, 200
"""The largest sizes that settings accept: far beyond any real network, and no danger to compute with."""

_MOST_VALUES, _LONGEST_VALUE = 100_000, 10_000
"""Of a YAML text: its values, with those of aliases counted wherever they stand, and their characters."""

_MOST_PROBLEMS = 10
"""Problems of one file that a message lists."""

Tree = dict[str, Any]
S = TypeVar("S", bound="Settings")


def or_auto(type_: Any) -> PlainValidator:
    """Return a validator of values of a type, or `auto`, whose errors say both."""
    adapter: TypeAdapter[Any] = TypeAdapter(type_)

    def validate(value: Any) -> Any:
        if value == "auto":
            return value
        try:
            return adapter.validate_python(value)
        except ValidationError as error:
            reason = error.errors()[0]["msg"].removeprefix("Input ")
            raise PydanticCustomError("or_auto", "{reason}, or be auto", {"reason": reason}) from None

    return PlainValidator(validate)


class Settings(BaseModel):
    """A part of the configuration: immutable, and unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False)


def validate_settings(model: type[S], tree: Mapping[str, Any], *, where: str = "", key: str = "") -> S:
    """Return the settings in the tree; raise `UsageError` with the key, below `key`, of what is wrong."""
    try:
        return model.model_validate(tree)
    except ValidationError as error:
        prefix, outer = f"{where}: " if where else "", [key] if key else []
        problems = error.errors()[:_MOST_PROBLEMS]
        messages = (prefix + _describe_problem(problem, model, outer) for problem in problems)
        raise UsageError("\n".join(messages)) from None


def merge_trees(base: Mapping[str, Any], change: Mapping[str, Any]) -> Tree:
    """`base` with the values of `change`, key by key in nested dictionaries."""
    result = dict(base)
    for key, value in change.items():
        old = result.get(key)
        both = isinstance(old, Mapping) and isinstance(value, Mapping)
        result[key] = merge_trees(old, value) if both else value  # type: ignore[arg-type]
    return result


def parse_change(text: str) -> Tree:
    """`a.b=1` as `{"a": {"b": 1}}`; the value is YAML."""
    key, equals, value = text.partition("=")
    if not equals or not all(key.split(".")):
        raise UsageError(f"--set {shorten(text)}: write it as KEY=VALUE, for example training.epochs=20")
    from yaml import YAMLError

    try:
        tree = parse_yaml(value)
    except YAMLError:
        raise UsageError(f"--set {shorten(text)}: the value is not valid YAML") from None
    for part in reversed(key.split(".")):
        tree = {part: tree}
    return cast("Tree", tree)


def parse_yaml(text: str) -> Any:
    """Return the value of a YAML text; tags that make objects of Python are refused.

    Raises `YAMLError` for whatever is wrong in it. A text whose aliases stand for more values than any
    settings have, or that is nested too deeply, is refused before it is expanded.
    """
    import yaml  # which takes a while, and a model is loaded without it

    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        if _count_values(node, {}) > _MOST_VALUES:
            raise yaml.YAMLError(
                f"too large: it has more than {_MOST_VALUES:,} values, one of more than {_LONGEST_VALUE:,} "
                "characters, or an alias within itself"
            )
        return loader.construct_document(node)
    except (ValueError, KeyError, AttributeError, RecursionError) as error:
        # what PyYAML lets through for a value that is none of its type, as the date 2024-13-45
        raise yaml.YAMLError(describe_error(error)) from None
    finally:
        loader.dispose()


def _count_values(node: yaml.Node, counted: dict[int, float]) -> float:
    """Return how many values a node has with all aliases written out: infinity for a cycle or a long text."""
    if isinstance(node.value, str):
        return 1 if len(node.value) <= _LONGEST_VALUE else math.inf
    if id(node) not in counted:
        counted[id(node)] = math.inf  # while its own values are counted
        inner = [one for pair in node.value for one in (pair if isinstance(pair, tuple) else (pair,))]
        counted[id(node)] = 1 + sum(_count_values(one, counted) for one in inner)
    return counted[id(node)]


def _describe_problem(problem: Any, model: type[BaseModel], outer: Sequence[str]) -> str:
    """Return the key of a problem that pydantic found, below `outer`, what is wrong, and what it may be."""
    *path, last = [shorten(str(part)) for part in problem["loc"]] or [""]
    whole = [*outer, *path]
    key = ".".join(filter(None, (*whole, last)))
    if problem["type"] == "extra_forbidden":
        names = list(_at(model, path).model_fields)
        near = difflib.get_close_matches(last, names, n=1)
        hint = f"did you mean {'.'.join((*whole, near[0]))}? " if near else ""
        within = f"{'.'.join(whole)} has" if whole else "there are"
        return f"{key}: there is no such key; {hint}{within} {', '.join(names)}"
    if problem["type"] == "model_type":
        names = list(_at(model, [*path, last] if problem["loc"] else []).model_fields)
        return f"{key}: must have keys, which may be {', '.join(names)}, not be {quote(problem['input'])}"
    if problem["type"] == "tuple_type":
        return f"{key}: should be a list, as [1, 2, 3], not {quote(problem['input'])}"
    message = problem["msg"].removeprefix("Value error, ").removeprefix("Input ")
    about_several_keys = problem["type"] == "value_error" and isinstance(problem["input"], Mapping)
    if about_several_keys:  # which the message names
        return f"{key}: {message}"
    return f"{key}: {message}, not {quote(problem['input'])}"


def _at(model: type[BaseModel], path: Sequence[str]) -> type[BaseModel]:
    """The part of the config that this path leads to."""
    for name in path:
        annotation = model.model_fields[name].annotation
        model = cast("type[BaseModel]", annotation)
    return model
