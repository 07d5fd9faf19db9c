"""UTF-16 code units, which programs in Java and JavaScript count instead of characters."""

from __future__ import annotations

from itertools import accumulate

_ONE_UNIT = "\uffff"  # the last character that takes one unit


def count_units(text: str) -> list[int] | None:
    """Return the number of units before each character and at the end; None if each character is one unit."""
    if max(text, default="") <= _ONE_UNIT:
        return None
    return list(accumulate((1 + (character > _ONE_UNIT) for character in text), initial=0))
