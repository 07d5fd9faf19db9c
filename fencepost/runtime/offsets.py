"""Conversion of offsets to other units than characters, for programs in other languages.

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

_EXTRA_UNITS = {"utf-16": (0x10000,), "bytes": (0x80, 0x800, 0x10000)}
"""Code points from which each character takes one more unit."""


def convert_offsets(text: str, spans: Iterable[Span], unit: OffsetUnit) -> list[Span]:
    """Return the entities of a text with offsets in UTF-16 units (`utf-16`) or in bytes of UTF-8 (`bytes`).

    The offsets of `spans` are in characters. A lone surrogate counts as one UTF-16 unit, or as three bytes.
    """
    if unit not in get_args(OffsetUnit):
        raise UsageError.unknown("unit", unit, get_args(OffsetUnit))
    if unit == "characters" or text.isascii():
        return list(spans)
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    extra = sum((points >= first).astype(np.int64) for first in _EXTRA_UNITS[unit])
    offsets = np.arange(len(text) + 1) + np.concatenate(([0], np.cumsum(extra)))  # [characters + 1]
    return [replace(span, start=int(offsets[span.start]), end=int(offsets[span.end])) for span in spans]
