"""Parse the message in a spaCy `DocBin` in bounded memory.

spaCy unpacks the whole file and creates Python objects for all of its content, so that a few kilobytes can
take gigabytes. Here, all sizes are checked before memory is allocated, and documents are read one by one.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

UNPACKED_BYTES = 1 << 31
SMALL_BYTES = 1 << 26
RATIO = 100
"""Maximum ratio of the size of the content to that of the file, unless it is small; about 10 is normal."""

DOCUMENT_TOKENS = 1_000_000
_STRINGS_PER_TOKEN = 20  # spaCy stores nine strings of a token, and those of spans
_SPARE = 1000  # additional documents without tokens, and strings
_NAME_BYTES = 1000
_SPAN = struct.Struct(">QQQllll")  # id, knowledge base id, label, start and end in tokens and in characters

# The first bytes of MessagePack values, with the size of their header.
_MAP = {*range(0x80, 0x90), 0xDE, 0xDF}
_TEXT = dict.fromkeys(range(0xA0, 0xC0), 1) | {0xD9: 2, 0xDA: 3, 0xDB: 5}
_BYTES = {0xC4: 2, 0xC5: 3, 0xC6: 5}
_NIL = 0xC0


def starts_map(head: bytes) -> bool:
    """Return whether a MessagePack message that starts with these bytes is a map."""
    return bool(head) and head[0] in _MAP


def unpack(packed: bytes) -> bytes:
    """Return the decompressed content of a `DocBin` file.

    Raises `ValueError` if it is too large, truncated, or followed by other data.
    """
    limit = min(max(SMALL_BYTES, RATIO * len(packed)), UNPACKED_BYTES)
    stream = zlib.decompressobj()
    try:
        data = stream.decompress(packed, limit)
    except zlib.error:
        raise ValueError("it is not compressed like a DocBin") from None
    if stream.unconsumed_tail:
        raise ValueError(f"{len(packed):,} bytes unpack to more than {limit:,}; split the corpus")
    if not stream.eof:
        raise ValueError("it is truncated")
    if stream.unused_data:
        raise ValueError(f"there are {len(stream.unused_data):,} bytes after its end; were files joined?")
    return data


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A document as stored in the file; a span group is a MessagePack array of packed spans."""

    attributes: dict[str, int]
    tokens: NDArray[Any]
    spaces: list[bool] | None
    groups: dict[str, memoryview]
    user_data: memoryview

    def values(self, attribute: str) -> list[int]:
        """Return the value of an attribute for each token; zeros if it is not stored."""
        if attribute not in self.attributes:
            return [0] * len(self.tokens)
        values: list[int] = self.tokens[:, self.attributes[attribute]].tolist()
        return values

    def get_spans(self, group: str) -> list[tuple[int, int, int]]:
        """Return start, end and label hash of each span of a group."""
        spans = []
        for span in _read_array(self.groups.get(group, memoryview(b"\x90"))):
            _, _, label, start, end, _, _ = _SPAN.unpack(_get_payload(span, _BYTES))
            if not 0 <= start < end <= len(self.tokens):
                raise ValueError(f"the span [{start}, {end}) is empty or outside the document")
            spans.append((start, end, label))
        return spans

    def get_user_text(self, key: str) -> str | None:
        """Return the text under a key of the user data; None if there is none."""
        if key.encode() not in self.user_data.tobytes():
            return None
        value = _read_map(self.user_data).get(key)
        return None if value is None or value[0] not in _TEXT else _decode(value)


class Message:
    """A message; raises `ValueError` or `KeyError` if it is not valid."""

    def __init__(self, data: bytes) -> None:
        import numpy as np
        from spacy.attrs import IDS

        self._parts = _read_map(memoryview(data))
        numbers = self._read_attribute_numbers()
        names = {number: name for name, number in IDS.items()}
        self.attributes = {names[number]: i for i, number in enumerate(numbers) if number in names}
        self._lengths = np.frombuffer(_get_payload(self._parts["lengths"], _BYTES), dtype="int32")
        self._spaces = np.frombuffer(_get_payload(self._parts["spaces"], _BYTES), dtype=bool)
        tokens = np.frombuffer(_get_payload(self._parts["tokens"], _BYTES), dtype="uint64")
        self._tokens = tokens.reshape(-1, len(numbers))
        self._check_lengths()
        if "ORTH" not in self.attributes:
            raise ValueError("its tokens have no text")

    def _read_attribute_numbers(self) -> list[int]:
        part = self._parts["attrs"]
        numbers = _make_unpacker(part).unpack() if len(part) <= _NAME_BYTES else None
        if not isinstance(numbers, list) or not numbers or not all(type(number) is int for number in numbers):
            raise ValueError("its attributes are not a short list of numbers")
        return numbers

    def _check_lengths(self) -> None:
        tokens = len(self._tokens)
        if len(self._lengths) and (self._lengths.min() < 0 or self._lengths.max() > DOCUMENT_TOKENS):
            raise ValueError(f"a document has more than {DOCUMENT_TOKENS:,} tokens, or a negative number")
        if not int(self._lengths.sum(dtype="int64")) == tokens == len(self._spaces):
            raise ValueError("the lengths of its documents do not match the number of tokens")
        if len(self._lengths) > tokens + _SPARE:
            raise ValueError(f"it has {len(self._lengths):,} documents but only {tokens:,} tokens")

    def read_strings(self) -> Iterator[str]:
        """Return an iterator over the strings whose hashes the tokens and spans have."""
        most = _STRINGS_PER_TOKEN * len(self._tokens) + _SPARE
        return map(_decode, _read_array(self._parts["strings"], most=most))

    def read_documents(self) -> Iterator[StoredDocument]:
        """Yield the documents."""
        parts = (self._iterate_part(name) for name in ("flags", "span_groups", "user_data"))
        position = 0
        for length, flags, groups, user_data in zip(self._lengths.tolist(), *parts, strict=True):
            end = position + length
            unknown_spaces = _is_true(flags, "has_unknown_spaces")
            yield StoredDocument(
                self.attributes,
                self._tokens[position:end],
                None if unknown_spaces else self._spaces[position:end].tolist(),
                _read_groups(_get_optional_bytes(groups)),
                _get_optional_bytes(user_data),
            )
            position = end

    def _iterate_part(self, name: str) -> Iterator[memoryview | None]:
        """Return an iterator over the values of a part, one for each document; None where it is missing."""
        count = len(self._lengths)
        if name not in self._parts:
            return iter([None] * count)
        return _read_array(self._parts[name], least=count, most=count)


def _make_unpacker(view: memoryview) -> Any:
    # `srsly.msgpack.Unpacker` searches for plugins each time, which takes longer than reading most documents.
    from srsly.msgpack._unpacker import Unpacker  # type: ignore[import-untyped]

    return Unpacker(io.BytesIO(view), raw=False, max_buffer_size=max(len(view), _NAME_BYTES))


def _take(unpacker: Any, view: memoryview) -> memoryview:
    """Return the bytes of the next value without decoding it."""
    start = unpacker.tell()
    unpacker.skip()
    return view[start : unpacker.tell()]


def _read_array(view: memoryview, *, least: int = 0, most: int | None = None) -> Iterator[memoryview]:
    unpacker = _make_unpacker(view)
    count = unpacker.read_array_header()
    if count < least or (most is not None and count > most):
        raise ValueError(f"a list has {count:,} values where {least or most:,} were expected")
    return (_take(unpacker, view) for _ in range(count))


def _read_items(view: memoryview) -> Iterator[tuple[memoryview, memoryview]]:
    unpacker = _make_unpacker(view)
    return ((_take(unpacker, view), _take(unpacker, view)) for _ in range(unpacker.read_map_header()))


def _read_map(view: memoryview) -> dict[str, memoryview]:
    """Return the values of a map by those keys that are short texts."""
    return {
        _decode(key): value for key, value in _read_items(view) if len(key) <= _NAME_BYTES and key[0] in _TEXT
    }


def _decode(view: memoryview) -> str:
    return str(_get_payload(view, _TEXT), "utf-8")


def _get_payload(view: memoryview, kinds: dict[int, int]) -> memoryview:
    """Return the content of a text or of bytes; raises `ValueError` for other values."""
    if view[0] not in kinds:
        raise ValueError(f"a value is not {'text' if kinds is _TEXT else 'bytes'}")
    return view[kinds[view[0]] :]


def _get_optional_bytes(view: memoryview | None) -> memoryview:
    return memoryview(b"") if view is None or view[0] == _NIL else _get_payload(view, _BYTES)


def _is_true(flags: memoryview | None, name: str) -> bool:
    value = None if flags is None else _read_map(flags).get(name)
    return value is not None and value.tobytes() == b"\xc3"


def _read_groups(packed: memoryview) -> dict[str, memoryview]:
    """Return the spans of each group by name; older files have a list of groups instead of a map to names."""
    if not packed:
        return {}
    if packed[0] not in _MAP:
        fields = [_read_map(_get_payload(group, _BYTES)) for group in _read_array(packed)]
        return {_decode(group["name"]): group["spans"] for group in fields}
    return {
        _decode(name): _read_map(_get_payload(group, _BYTES))["spans"]
        for group, names in _read_items(packed)
        for name in _read_array(names)
    }
