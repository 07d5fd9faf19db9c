"""Checks of the fields of JSON objects; a `ValueError` names the field and what is wrong with it."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from fencepost.errors import quote, shorten

NOT_READ = "sentence without entities that has a list of spans under another key, which is kept in meta"
"""Note on a record whose entities may be under an unknown key."""

DEPTH = 100  # maximum depth of nested values
LARGEST = 10**4300  # Python does not read or write larger integers
SURROGATES = re.compile("[\ud800-\udfff]")
_SPACE = re.compile(r"\s+")
_OFFSETS = ({"start", "end"}, {"start_offset", "end_offset"})


def check_strings(record: dict[str, Any], key: str) -> list[str]:
    values = record.get(key)
    if not isinstance(values, list) or not {str}.issuperset(map(type, values)):
        raise ValueError(f"{key!r} is missing, or not a list of strings")
    return values


def check_integer(place: str, value: Any) -> int:
    if type(value) is not int:
        raise ValueError(f"{place} is {_describe(value)}, not an integer")
    return value


def check_type(place: str, value: Any) -> str:
    if type(value) is not str or not value:
        raise ValueError(f"{place} is {_describe(value)}, not the name of a type")
    return value


def check_confidence(place: str, value: Any) -> float:
    if type(value) not in (int, float) or not 0 <= value <= 1:
        raise ValueError(f"{place} is {_describe(value)}, not a number between 0 and 1")
    return float(value)


def _describe(value: Any) -> str:
    return "missing" if value is None else quote(value)


def check_booleans(record: dict[str, Any], key: str) -> list[bool] | None:
    values = record.get(key)
    if not isinstance(values, list | None) or not {bool}.issuperset(map(type, values or ())):
        raise ValueError(f"{key!r} is not a list of true and false")
    return values


def find_name(record: dict[str, Any], keys: Iterable[str]) -> tuple[str | None, str | None]:
    """Return the first of these keys whose value is a name, and the name; None if there is none."""
    for key in keys:
        value = record.get(key)
        if type(value) in (str, int):
            return key, str(value)
    return None, None


def collect_meta(item: dict[str, Any], known: Collection[str | None]) -> dict[str, Any]:
    """Return the values of an object that are not under `known` keys, merged with those in its `meta`."""
    rest = {key: value for key, value in item.items() if key not in known}
    inner = rest.get("meta")
    if not isinstance(inner, dict):
        return rest
    del rest["meta"]
    if rest.keys() & inner.keys():
        both = shorten(", ".join(sorted(rest.keys() & inner.keys())))
        raise ValueError(f"{both} occurs both in 'meta' and outside of it")
    return rest | inner


def remove_none(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object without its values that are None."""
    return {key: value for key, value in item.items() if value is not None}


def find_span_lists(record: Mapping[str, Any]) -> list[str]:
    """Return the keys of lists of spans, which are objects with start and end, or `[start, end, type]`."""
    return [
        key
        for key, value in record.items()
        if isinstance(value, list) and value and all(map(_is_span, value))
    ]


def _is_span(item: Any) -> bool:
    if isinstance(item, dict):
        return any(keys <= item.keys() for keys in _OFFSETS)
    return isinstance(item, list) and [type(part) for part in item] == [int, int, str]


def is_json(value: Any) -> bool:
    """Return whether writing a value as JSON and reading it returns the same value."""
    return explain_not_json(value) is None


def explain_not_json(value: Any) -> str | None:
    """Return why writing a value as JSON and reading it returns another value; None if it does not."""
    level = [value]
    for _ in range(DEPTH):  # deeper values can be read but not always written
        children: list[Any] = []
        texts: list[str] = []
        for item in level:
            if type(item) is str:
                texts.append(item)
            elif type(item) is dict:
                children += [*item.keys(), *item.values()]
                if not all(type(key) is str for key in item):
                    return "a key that is not a string"
            elif type(item) in (list, tuple):
                children += item
            elif not _is_plain(item):
                return f"{quote(item)} is not a valid value in JSON"
        if SURROGATES.search("".join(texts)):
            return r"half a character: one of \ud800 to \udfff without its other half"
        if not children:
            return None
        level = children
    return f"nested more than {DEPTH} deep"


def _is_plain(value: Any) -> bool:
    if type(value) is float:
        return math.isfinite(value)
    return value is None or type(value) is bool or (type(value) is int and abs(value) < LARGEST)


def is_same_text(one: str, other: str) -> bool:
    """Return whether two texts are equal except for white space."""
    return _SPACE.sub("", one) == _SPACE.sub("", other)
