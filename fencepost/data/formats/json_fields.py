"""The fields of JSON objects, checked one by one: each error names the field and what is wrong."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from fencepost.errors import quote, shorten

NOT_READ = "sentence without entities that has a list of spans under another key, which is kept in meta"
"""Note on a record whose entities may be where no reader looks for them."""

DEPTH = 100
LARGEST = 10**4300  # Python writes and reads no whole number with more digits
SURROGATES = re.compile("[\ud800-\udfff]")
_SPACE = re.compile(r"\s+")
_OFFSETS = ({"start", "end"}, {"start_offset", "end_offset"})


def strings(record: dict[str, Any], key: str) -> list[str]:
    values = record.get(key)
    if not isinstance(values, list) or not {str}.issuperset(map(type, values)):
        raise ValueError(f"{key!r} is missing, or not a list of strings")
    return values


def whole_number(place: str, value: Any) -> int:
    if type(value) is not int:
        raise ValueError(f"{place} is {_shown(value)}, not a whole number")
    return value


def label(place: str, value: Any) -> str:
    if type(value) is not str or not value:
        raise ValueError(f"{place} is {_shown(value)}, not the name of a type")
    return value


def confidence(place: str, value: Any) -> float:
    if type(value) not in (int, float) or not 0 <= value <= 1:
        raise ValueError(f"{place} is {_shown(value)}, not a number between 0 and 1")
    return float(value)


def _shown(value: Any) -> str:
    return "missing" if value is None else quote(value)


def booleans(record: dict[str, Any], key: str) -> list[bool] | None:
    values = record.get(key)
    if values is None:
        return None
    if not isinstance(values, list) or not {bool}.issuperset(map(type, values)):
        raise ValueError(f"{key!r} is not a list of true and false")
    return values


def name(record: dict[str, Any], keys: Iterable[str]) -> tuple[str | None, str | None]:
    """The first of these keys that names something, and the name; None where there is none."""
    for key in keys:
        value = record.get(key)
        if type(value) in (str, int):
            return key, str(value)
    return None, None


def meta(item: dict[str, Any], known: Collection[str | None]) -> dict[str, Any]:
    """What an object holds besides what Fencepost knows; an object `meta` is taken apart."""
    rest = {key: value for key, value in item.items() if key not in known}
    inner = rest.get("meta")
    if not isinstance(inner, dict):
        return rest
    del rest["meta"]
    if rest.keys() & inner.keys():
        both = shorten(", ".join(sorted(rest.keys() & inner.keys())))
        raise ValueError(f"{both} stands in 'meta' and beside it")
    return rest | inner


def span_lists(record: Mapping[str, Any]) -> list[str]:
    """The keys under which there are lists of spans: objects with a start and an end, or triples of them."""
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
    """Whether a value is the same after it has been written as JSON and read again."""
    return why_not_json(value) is None


def why_not_json(value: Any) -> str | None:
    """Return what keeps a value from being the same after it has been written as JSON and read again."""
    level = [value]
    for _ in range(DEPTH):  # deeper ones can be read but not always written
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
                return f"{quote(item)} is not a value that can be kept"
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


def same_text(one: str, other: str) -> bool:
    """Whether two texts differ in nothing but white space."""
    return _SPACE.sub("", one) == _SPACE.sub("", other)
