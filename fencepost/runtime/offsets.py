"""Offsets of entities in other units than characters, for programs that count otherwise.

Python counts characters (Unicode code points), JavaScript and Java UTF-16 units, Go and Rust bytes of UTF-8.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from fencepost.errors import UsageError

if TYPE_CHECKING:
    from fencepost.runtime.document import Span

OffsetUnit = Literal["characters", "utf-16", "bytes"]

_MORE = {"utf-16": (0x10000,), "bytes": (0x80, 0x800, 0x10000)}
"""The characters from which on one takes one unit more."""


def convert_offsets(text: str, spans: Iterable[Span], unit: OffsetUnit) -> list[Span]:
    """Return the entities of a text with offsets by UTF-16 unit (`utf-16`) or by byte of UTF-8 (`bytes`).

    The offsets of `spans` are those of characters. Half a surrogate pair is one UTF-16 unit, or three bytes.
    """
    if unit not in get_args(OffsetUnit):
        raise UsageError.unknown("unit", unit, get_args(OffsetUnit))
    if unit == "characters" or text.isascii():
        return list(spans)
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    more = sum((points >= first).astype(np.int64) for first in _MORE[unit])
    before = np.arange(len(text) + 1) + np.concatenate(([0], np.cumsum(more)))  # [characters + 1]
    return [replace(one, start=int(before[one.start]), end=int(before[one.end])) for one in spans]
