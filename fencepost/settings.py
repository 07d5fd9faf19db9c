"""Base class of all settings, and functions that parse, merge and validate them."""

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
"""Maximum width and number of layers that settings accept: larger than any real network, but computable."""

_MOST_VALUES, _LONGEST_VALUE = 100_000, 10_000
"""Maximum number of values in a YAML text, with all aliases expanded, and of characters in a value."""

_MOST_PROBLEMS = 10
"""Maximum number of problems that one message lists."""

Tree = dict[str, Any]
S = TypeVar("S", bound="Settings")


def or_auto(type_: Any) -> PlainValidator:
    """Return a validator that accepts values of a type, or `auto`, and mentions both in its errors."""
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
    """A section of the configuration: immutable, and without unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False)

    def to_yaml(self) -> str:
        from yaml import safe_dump

        return safe_dump(self.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


def validate_settings(model: type[S], tree: Mapping[str, Any], *, where: str = "", key: str = "") -> S:
    """Return the settings in a tree; raise `UsageError` with the full key of each invalid setting.

    `key` is the key of the tree itself in the configuration, and `where` is the file that it comes from.
    """
    try:
        return model.model_validate(tree)
    except ValidationError as error:
        prefix, outer = f"{where}: " if where else "", [key] if key else []
        problems = error.errors()[:_MOST_PROBLEMS]
        messages = (prefix + _describe_problem(problem, model, outer) for problem in problems)
        raise UsageError("\n".join(messages)) from None


def merge_trees(base: Mapping[str, Any], change: Mapping[str, Any]) -> Tree:
    """Return `base` with the values of `change`; nested dictionaries are merged key by key."""
    result = dict(base)
    for key, value in change.items():
        old = result.get(key)
        both = isinstance(old, Mapping) and isinstance(value, Mapping)
        result[key] = merge_trees(old, value) if both else value  # type: ignore[arg-type]
    return result


def flatten_tree(tree: Mapping[str, Any], prefix: str = "") -> Tree:
    """Return the values of nested dictionaries by their full keys, as in `--set`."""
    flat: Tree = {}
    for key, value in tree.items():
        whole = f"{prefix}{key}"
        flat |= flatten_tree(value, f"{whole}.") if isinstance(value, Mapping) else {whole: value}
    return flat


def parse_change(text: str) -> Tree:
    """Return the tree of a `--set` argument: `a.b=1` is `{"a": {"b": 1}}`; the value is YAML."""
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
    """Return the value of a YAML text; tags that create Python objects are not allowed.

    Raises `YAMLError` if the text is invalid, nested too deeply, or has too many values; aliases are counted
    before they are expanded.
    """
    import yaml  # slow to import, and not needed to load a model

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
        # PyYAML does not catch these for invalid values, such as the date 2024-13-45
        raise yaml.YAMLError(describe_error(error)) from None
    finally:
        loader.dispose()


def _count_values(node: yaml.Node, counted: dict[int, float]) -> float:
    """Return the number of values in a node, aliases expanded; infinity for a cycle or a long string."""
    if isinstance(node.value, str):
        return 1 if len(node.value) <= _LONGEST_VALUE else math.inf
    if id(node) not in counted:
        counted[id(node)] = math.inf  # so that a cycle is infinite
        children = [one for pair in node.value for one in (pair if isinstance(pair, tuple) else (pair,))]
        counted[id(node)] = 1 + sum(_count_values(child, counted) for child in children)
    return counted[id(node)]


def _describe_problem(problem: Any, model: type[BaseModel], outer: Sequence[str]) -> str:
    """Return a message for a problem reported by pydantic: its key, below `outer`, and what is expected."""
    *path, last = [shorten(str(part)) for part in problem["loc"]] or [""]
    whole = [*outer, *path]
    key = ".".join(filter(None, (*whole, last)))
    if problem["type"] == "extra_forbidden":
        names = list(_find_section(model, path).model_fields)
        near = difflib.get_close_matches(last, names, n=1)
        hint = f"did you mean {'.'.join((*whole, near[0]))}? " if near else ""
        within = f"{'.'.join(whole)} has" if whole else "there are"
        return f"{key}: there is no such key; {hint}{within} {', '.join(names)}"
    if problem["type"] == "model_type":
        names = list(_find_section(model, [*path, last] if problem["loc"] else []).model_fields)
        return f"{key}: should be a mapping (keys: {', '.join(names)}), not {quote(problem['input'])}"
    if problem["type"] == "tuple_type":
        return f"{key}: should be a list, such as [1, 2, 3], not {quote(problem['input'])}"
    message = problem["msg"].removeprefix("Value error, ").removeprefix("Input ")
    about_several_keys = problem["type"] == "value_error" and isinstance(problem["input"], Mapping)
    if about_several_keys:  # the message names them
        return f"{key}: {message}"
    return f"{key}: {message}, not {quote(problem['input'])}"


def _find_section(model: type[BaseModel], path: Sequence[str]) -> type[BaseModel]:
    """Return the class of the settings at a path of keys."""
    for name in path:
        model = cast("type[BaseModel]", model.model_fields[name].annotation)
    return model
