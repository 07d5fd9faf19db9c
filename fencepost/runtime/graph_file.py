"""The weights in the file of a graph, read without the package onnx, which prediction does not need.

Such a file is a protocol buffer: a sequence of fields, each with a number and a value. What counts here are
`ModelProto.graph` (7), `GraphProto.initializer` (5), and of a `TensorProto` its `data_type` (2), `name` (8)
and `raw_data` (9).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

_GRAPH, _INITIALIZER, _DATA_TYPE, _NAME, _RAW_DATA = 7, 5, 2, 8, 9
_FLOAT = 1
_MOST_FIELDS = 1_000_000
"""Of one message; a graph has a field for each of its operations."""


def find_not_finite(path: Path) -> str | None:
    """Return the name of a weight in which there is NaN or infinity, or None if all are finite numbers.

    onnxruntime does not refuse such weights, and some of its operations make numbers out of NaN. An infinity
    by itself is no weight but a constant: what padding is replaced by before a maximum is taken. Raises
    `ValueError` for a file that is not a protocol buffer.
    """
    content = np.memmap(path, dtype=np.uint8, mode="r").data
    for graph in _messages(content, _GRAPH):
        for tensor in _messages(graph, _INITIALIZER):
            fields = dict(_fields(tensor))
            raw, name = fields.get(_RAW_DATA), fields.get(_NAME, b"?")
            if fields.get(_DATA_TYPE) != _FLOAT or isinstance(raw, int | None) or len(raw) % 4:
                continue
            numbers = np.frombuffer(raw, dtype="<f4")
            if not np.isfinite(numbers).all() and not (numbers.size == 1 and np.isinf(numbers[0])):
                return str(name) if isinstance(name, int) else bytes(name).decode("utf-8", "replace")
    return None


def _messages(message: memoryview, number: int) -> Iterator[memoryview]:
    """Yield the messages inside another one that have this number."""
    for found, value in _fields(message):
        if found == number and not isinstance(value, int):
            yield value


def _fields(message: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Yield number and value of each field: an integer, or the bytes of anything else."""
    at = count = 0
    while at < len(message):
        key, at = _varint(message, at)
        number, kind = key >> 3, key & 7
        value: int | memoryview
        if kind == 0:
            value, at = _varint(message, at)
        else:
            size, at = _varint(message, at) if kind == 2 else ({1: 8, 5: 4}.get(kind, len(message)), at)
            value = message[at : at + size]
            at += size
        count += 1
        if at > len(message) or count > _MOST_FIELDS:
            raise ValueError("this is not a protocol buffer of a graph")
        yield number, value


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    """Return the number at this place, which has seven bits in each byte, and the place after it."""
    result = 0
    for index, byte in enumerate(message[at : at + 10]):
        result |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return result, at + index + 1
    raise ValueError("this is not a protocol buffer of a graph")
