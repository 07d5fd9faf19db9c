"""Cells of tables: lists in text form, numbers, and missing values."""

from __future__ import annotations

import ast
import io
import math
import tokenize
from typing import Any

from fencepost.data.formats.json_records import decode_json
from fencepost.errors import describe_error, quote

_LONGEST = 1 << 22  # characters of a list in Python's notation
_ERRORS = (ValueError, SyntaxError, MemoryError, RecursionError, tokenize.TokenError)


def is_missing(value: Any) -> bool:
    """Return whether a cell is empty: None, an empty string, or a missing value of pandas."""
    if isinstance(value, str):
        return not value
    is_nan = isinstance(value, float) and math.isnan(value)
    return value is None or is_nan or type(value).__name__ in ("NAType", "NaTType")


def is_list_text(value: Any) -> bool:
    """Return whether a cell is a string that starts like a list or an object."""
    return isinstance(value, str) and value.lstrip()[:1] in ("[", "{", "(")


def parse_list(text: str, *, split: bool) -> Any:
    """Parse a list in JSON, in Python's notation or, with `split`, words separated by white space.

    Raises `ValueError` for any other text.
    """
    if not is_list_text(text):
        if split:
            return text.split()
        raise ValueError(f"{quote(text)} is not a list")
    try:
        return decode_json(text)
    except (ValueError, RecursionError) as error:
        reason = describe_error(error)
    try:
        if len(text) <= _LONGEST and not _has_adjacent_strings(text):
            return ast.literal_eval(text.strip())
    except _ERRORS:
        pass
    if split and not text.lstrip().startswith(("[[", "[{", "['", '["', "{", "('")):
        return text.split()  # the first word is a bracket
    raise ValueError(f"{quote(text)} is neither JSON ({reason}) nor a list in Python's notation")


def _has_adjacent_strings(text: str) -> bool:
    """Return whether two strings have no comma between them, as NumPy prints lists; Python joins these."""
    previous = None
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == previous == tokenize.STRING:
            return True
        if token.type != tokenize.NL:
            previous = token.type
    return False


def parse_offset(name: str, value: Any) -> int:
    """Return an offset as an integer; spreadsheets and pandas may have made it a float or a string."""
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)  # it may be too large for a float
    try:
        number = float(value) if isinstance(value, str | float) else math.nan
    except ValueError:
        number = math.nan
    if not number.is_integer():
        raise ValueError(f"{name!r} is {quote(value)}, not an integer")
    return int(number)
