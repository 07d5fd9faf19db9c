"""Reader of the weights in the file of a graph that does not need the package onnx.

Such a file is a protocol buffer: a sequence of fields, each with a number and a value. These fields are read:
`ModelProto.graph` (7), `GraphProto.initializer` (5), and `data_type` (2), `name` (8) and `raw_data` (9) of a
`TensorProto`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

_GRAPH, _INITIALIZER, _DATA_TYPE, _NAME, _RAW_DATA = 7, 5, 2, 8, 9
_FLOAT = 1
_MAX_FIELDS = 1_000_000
"""Maximum number of fields of a message; a graph has a field for each of its operations."""


def find_not_finite(path: Path) -> str | None:
    """Return the name of a weight that contains NaN or infinity; None if all are finite.

    onnxruntime accepts such weights, and some of its operations turn NaN into numbers. A single infinity is
    allowed: a constant that replaces padding before a maximum. Raises `ValueError` for other kinds of files.
    """
    content = np.memmap(path, dtype=np.uint8, mode="r").data
    for graph in _read_messages(content, _GRAPH):
        for tensor in _read_messages(graph, _INITIALIZER):
            fields = dict(_read_fields(tensor))
            raw, name = fields.get(_RAW_DATA), fields.get(_NAME, b"?")
            if fields.get(_DATA_TYPE) != _FLOAT or isinstance(raw, int | None) or len(raw) % 4:
                continue
            numbers = np.frombuffer(raw, dtype="<f4")
            if not np.isfinite(numbers).all() and not (numbers.size == 1 and np.isinf(numbers[0])):
                return str(name) if isinstance(name, int) else bytes(name).decode("utf-8", "replace")
    return None


def _read_messages(message: memoryview, number: int) -> Iterator[memoryview]:
    """Yield the values of all fields with this number that are messages themselves."""
    for field, value in _read_fields(message):
        if field == number and not isinstance(value, int):
            yield value


def _read_fields(message: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Yield the number and the value of each field: an integer, or the bytes of any other type."""
    position = count = 0
    while position < len(message):
        key, position = _read_varint(message, position)
        number, kind = key >> 3, key & 7
        value: int | memoryview
        if kind == 0:
            value, position = _read_varint(message, position)
        else:
            size = {1: 8, 5: 4}.get(kind, len(message))
            if kind == 2:
                size, position = _read_varint(message, position)
            value = message[position : position + size]
            position += size
        count += 1
        if position > len(message) or count > _MAX_FIELDS:
            raise ValueError("this is not a protocol buffer of a graph")
        yield number, value


def _read_varint(message: memoryview, position: int) -> tuple[int, int]:
    """Return the number at this position, with seven bits in each byte, and the position after it."""
    result = 0
    for index, byte in enumerate(message[position : position + 10]):
        result |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return result, position + index + 1
    raise ValueError("this is not a protocol buffer of a graph")
