"""The message in a spaCy `DocBin`, parsed within bounds on memory.

spaCy unpacks a file whole and makes Python objects of whatever is in it, so that a few kilobytes can take
gigabytes. Here, all sizes are checked before anything of that size is made, and documents come one by one.
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
"""How much larger than the file its content may be, unless it is small; in real files it is about 10."""

DOCUMENT_TOKENS = 1_000_000
_STRINGS_PER_TOKEN = 20  # spaCy keeps nine strings of a token, and those of spans
_SPARE = 1000  # documents without tokens, and strings that belong to none
_NAME_BYTES = 1000
_SPAN = struct.Struct(">QQQllll")  # id, knowledge base id, label, start, end, and both in characters

# The first bytes of MessagePack values, with the size of the header that they begin.
_MAP = {*range(0x80, 0x90), 0xDE, 0xDF}
_TEXT = dict.fromkeys(range(0xA0, 0xC0), 1) | {0xD9: 2, 0xDA: 3, 0xDB: 5}
_BYTES = {0xC4: 2, 0xC5: 3, 0xC6: 5}
_NIL = 0xC0


def starts_map(head: bytes) -> bool:
    """Whether a MessagePack message that begins so is a map."""
    return bool(head) and head[0] in _MAP


def unpack(packed: bytes) -> bytes:
    """Return what a file of a `DocBin` has compressed.

    Raises `ValueError` if it is too large, cut off, or followed by something else.
    """
    limit = min(max(SMALL_BYTES, RATIO * len(packed)), UNPACKED_BYTES)
    stream = zlib.decompressobj()
    try:
        data = stream.decompress(packed, limit)
    except zlib.error:
        raise ValueError("it is not compressed as a DocBin is") from None
    if stream.unconsumed_tail:
        raise ValueError(f"{len(packed):,} bytes unpack to more than {limit:,}; split the corpus")
    if not stream.eof:
        raise ValueError("it is cut off")
    if stream.unused_data:
        raise ValueError(f"{len(stream.unused_data):,} bytes follow its end; were several files joined?")
    return data


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A document as it is stored; a span group is a MessagePack array of packed spans."""

    attributes: dict[str, int]
    tokens: NDArray[Any]
    spaces: list[bool] | None
    groups: dict[str, memoryview]
    user_data: memoryview

    def values(self, attribute: str) -> list[int]:
        """Return the value of an attribute for each token, 0 where it is not stored."""
        if attribute not in self.attributes:
            return [0] * len(self.tokens)
        values: list[int] = self.tokens[:, self.attributes[attribute]].tolist()
        return values

    def spans(self, group: str) -> list[tuple[int, int, int]]:
        """Return start, end and the hash of the label of each span of a group."""
        found = []
        for span in _array(self.groups.get(group, memoryview(b"\x90"))):
            _, _, label, start, end, _, _ = _SPAN.unpack(_payload(span, _BYTES))
            if not 0 <= start < end <= len(self.tokens):
                raise ValueError(f"the span [{start}, {end}) is empty or outside the document")
            found.append((start, end, label))
        return found

    def user_text(self, key: str) -> str | None:
        """Return the text that is kept in the user data under a key; None if there is none."""
        if key.encode() not in self.user_data.tobytes():
            return None
        value = _entries(self.user_data).get(key)
        return None if value is None or value[0] not in _TEXT else _text(value)


class Message:
    """The parts of a message; raises `ValueError` or `KeyError` for one that spaCy would not have written."""

    def __init__(self, data: bytes) -> None:
        import numpy as np
        from spacy.attrs import IDS

        self._parts = _entries(memoryview(data))
        numbers = self._attribute_numbers()
        names = {number: name for name, number in IDS.items()}
        self.attributes = {names[number]: i for i, number in enumerate(numbers) if number in names}
        self._lengths = np.frombuffer(_payload(self._parts["lengths"], _BYTES), dtype="int32")
        self._spaces = np.frombuffer(_payload(self._parts["spaces"], _BYTES), dtype=bool)
        tokens = np.frombuffer(_payload(self._parts["tokens"], _BYTES), dtype="uint64")
        self._tokens = tokens.reshape(-1, len(numbers))
        self._check_lengths()
        if "ORTH" not in self.attributes:
            raise ValueError("its tokens have no text")

    def _attribute_numbers(self) -> list[int]:
        part = self._parts["attrs"]
        numbers = _unpacker(part).unpack() if len(part) <= _NAME_BYTES else None
        if not isinstance(numbers, list) or not numbers or not all(type(number) is int for number in numbers):
            raise ValueError("its attributes are not a short list of numbers")
        return numbers

    def _check_lengths(self) -> None:
        tokens = len(self._tokens)
        if len(self._lengths) and (self._lengths.min() < 0 or self._lengths.max() > DOCUMENT_TOKENS):
            raise ValueError(f"a document has over {DOCUMENT_TOKENS:,} tokens, or less than none")
        if not int(self._lengths.sum(dtype="int64")) == tokens == len(self._spaces):
            raise ValueError("the lengths of its documents do not fit its tokens")
        if len(self._lengths) > tokens + _SPARE:
            raise ValueError(f"{len(self._lengths):,} documents share {tokens:,} tokens")

    def strings(self) -> Iterator[str]:
        """All strings of which the tokens and spans have hashes."""
        most = _STRINGS_PER_TOKEN * len(self._tokens) + _SPARE
        return map(_text, _array(self._parts["strings"], most=most))

    def documents(self) -> Iterator[StoredDocument]:
        """The documents one by one, with nothing kept of those before."""
        parts = (self._of_documents(name) for name in ("flags", "span_groups", "user_data"))
        position = 0
        for length, flags, groups, user_data in zip(self._lengths.tolist(), *parts, strict=True):
            end = position + length
            unknown_spaces = _is_true(flags, "has_unknown_spaces")
            yield StoredDocument(
                self.attributes,
                self._tokens[position:end],
                None if unknown_spaces else self._spaces[position:end].tolist(),
                _groups(_optional_bytes(groups)),
                _optional_bytes(user_data),
            )
            position = end

    def _of_documents(self, name: str) -> Iterator[memoryview | None]:
        """What is kept of each document under a name, if anything is."""
        count = len(self._lengths)
        if name not in self._parts:
            return iter([None] * count)
        return _array(self._parts[name], least=count, most=count)


def _unpacker(view: memoryview) -> Any:
    # That of `srsly.msgpack` looks for plugins each time, which takes longer than most documents do.
    from srsly.msgpack._unpacker import Unpacker  # type: ignore[import-untyped]

    return Unpacker(io.BytesIO(view), raw=False, max_buffer_size=max(len(view), _NAME_BYTES))


def _skipped(unpacker: Any, view: memoryview) -> memoryview:
    """The bytes of the next value, of which nothing is made."""
    start = unpacker.tell()
    unpacker.skip()
    return view[start : unpacker.tell()]


def _array(view: memoryview, *, least: int = 0, most: int | None = None) -> Iterator[memoryview]:
    unpacker = _unpacker(view)
    count = unpacker.read_array_header()
    if count < least or (most is not None and count > most):
        raise ValueError(f"a list has {count:,} values where {least or most:,} were expected")
    return (_skipped(unpacker, view) for _ in range(count))


def _map(view: memoryview) -> Iterator[tuple[memoryview, memoryview]]:
    unpacker = _unpacker(view)
    return ((_skipped(unpacker, view), _skipped(unpacker, view)) for _ in range(unpacker.read_map_header()))


def _entries(view: memoryview) -> dict[str, memoryview]:
    """The values of a map whose keys are short texts."""
    return {_text(key): value for key, value in _map(view) if len(key) <= _NAME_BYTES and key[0] in _TEXT}


def _text(view: memoryview) -> str:
    return str(_payload(view, _TEXT), "utf-8")


def _payload(view: memoryview, kinds: dict[int, int]) -> memoryview:
    """The content of a text, or of bytes."""
    if view[0] not in kinds:
        raise ValueError(f"a value is not {'text' if kinds is _TEXT else 'bytes'}")
    return view[kinds[view[0]] :]


def _optional_bytes(view: memoryview | None) -> memoryview:
    return memoryview(b"") if view is None or view[0] == _NIL else _payload(view, _BYTES)


def _is_true(flags: memoryview | None, name: str) -> bool:
    value = None if flags is None else _entries(flags).get(name)
    return value is not None and value.tobytes() == b"\xc3"


def _groups(packed: memoryview) -> dict[str, memoryview]:
    """The spans of each group by its name; older files have a list of groups in place of a map to names."""
    if not packed:
        return {}
    if packed[0] not in _MAP:
        fields = [_entries(_payload(group, _BYTES)) for group in _array(packed)]
        return {_text(group["name"]): group["spans"] for group in fields}
    return {
        _text(name): _entries(_payload(group, _BYTES))["spans"]
        for group, names in _map(packed)
        for name in _array(names)
    }
