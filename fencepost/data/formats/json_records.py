"""JSON from files: one object a line, or one array of objects; strict, streamed, line by line.

Strict means: what other programs would read in different ways is refused. Keys that occur twice, NaN,
numbers beyond float64 and halves of surrogate pairs are all errors here.
"""

from __future__ import annotations

import codecs
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any

from fencepost.data.formats.format import WriteOptions
from fencepost.data.formats.json_fields import DEPTH, SURROGATES, why_not_json
from fencepost.data.source import LINE_BYTES, Source
from fencepost.errors import DataError, describe_error, quote

# A string, a quotation mark whose string continues beyond the buffer, or a structural character.
_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|"|[\[\]{},]', re.DOTALL)
_BLANK = " \t\n\r"  # no other white space may separate JSON's values
_STRUCTURE = re.compile(r"[\[\]{},]")
Convert = Callable[[Any], dict[str, Any] | str]


@dataclass(frozen=True, slots=True)
class Record:
    """One object of a file; `problem` is set when it is none."""

    line: int
    raw: str
    value: dict[str, Any]
    problem: str | None = None


def as_object(value: Any) -> dict[str, Any] | str:
    """Return the value, or what is wrong with it if it is no object."""
    return value if isinstance(value, dict) else f"a JSON object was expected, not {kind_of(value)}"


def records(source: Source, convert: Convert = as_object, *, array: bool | None = None) -> Iterator[Record]:
    """Yield the objects of a file, which has one array of them or one on each line.

    `convert` makes an object of each value, or returns what is wrong with it; `array` says which of the two
    the file has, where its first character does not.
    """
    if is_array(source) if array is None else array:
        yield from _array_records(source, convert)
        return
    for line in source.lines():
        if line.problem:
            yield Record(line.number, line.text, {}, line.problem)
        elif line.text.strip() == "{":
            problem = "an object over several lines; put each on a line of its own, or all into one array"
            yield Record(line.number, line.text, {}, problem)
        elif line.text.strip():
            yield _record(line.number, line.text, convert)


def is_array(source: Source) -> bool:
    return source.head.removeprefix(codecs.BOM_UTF8).lstrip()[:1] == b"["


def head_objects(source: Source, count: int) -> list[dict[str, Any]]:
    """Return the first objects of a file, for detection; the source is not read any further."""
    head = Source.from_bytes(source.head, source.name)
    try:
        found = (record.value for record in records(head) if not record.problem)
        return list(islice(found, count))
    except DataError:
        return []


def _record(line: int, raw: str, convert: Convert) -> Record:
    problem = None
    value: Any = {}
    try:
        if SURROGATES.search(raw):  # each stands for a byte that is not UTF-8
            raise ValueError("its bytes are not UTF-8")
        value = convert(decode_json(raw))
        if isinstance(value, str):
            problem = value
        elif "\\u" in raw or raw.count("[") + raw.count("{") > DEPTH:
            problem = why_not_json(value)
    except (ValueError, RecursionError) as error:
        problem = _why_not_json(error, raw)
    return Record(line, raw, value) if problem is None else Record(line, _printable(raw), {}, problem)


def _why_not_json(error: Exception, raw: str) -> str:
    if isinstance(error, RecursionError):
        return "not JSON that can be read: nested too deeply"
    if isinstance(error, json.JSONDecodeError):
        where = raw[max(0, error.pos - 10) : error.pos + 20]
        return f"not JSON: {error.msg} at character {error.pos + 1}, near {where!r}"
    return f"not JSON that can be read: {describe_error(error)}"


def kind_of(value: object) -> str:
    """Return the words for a value's type in JSON, as part of a message."""
    names = {dict: "an object", list: "an array", str: "a string", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        [(twice, _)] = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"the key {quote(twice)} stands twice in one object")
    return value


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:20]} is not a number that can be kept")
    return number


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_float=_finite, parse_constant=_finite)
decode_json = _DECODER.decode
"""Return the value of a JSON text; raises `ValueError` or `RecursionError` for what is not strictly JSON."""


@dataclass
class _Array:
    """Cuts the text of one big array into its elements, piece by piece as the text arrives.

    Only strings and brackets are looked at, so that a broken element seldom spoils another.
    """

    buffer: str = ""
    start: int = 0  # in the buffer: where the current element begins
    scanned: int = 0  # in the buffer: up to where the tokens have been looked at
    line: int = 1  # of the position `start`
    depth: int = 0
    closed: bool = False  # whether the array has had its end
    elements: int = 0
    arrived: list[str] = field(default_factory=list)  # what is not yet in the buffer
    awaited: int = 0  # how much must arrive before it is worth looking again for the end of a string

    @property
    def size(self) -> int:
        """How much there is of the current element."""
        return len(self.buffer) - self.start + sum(map(len, self.arrived))

    def feed(self, text: str, *, last: bool) -> Iterator[tuple[int, str]]:
        """Each element that ends in `text`, as its line and its own text."""
        self.arrived.append(text)
        if sum(map(len, self.arrived)) < self.awaited and not last:
            return
        self.buffer = "".join([self.buffer[self.start :], *self.arrived])
        self.arrived.clear()
        self.scanned, self.start = self.scanned - self.start, 0
        for match in self._tokens(last=last):
            if self.closed:
                break
            token = match[0]
            if token in ("[", "{"):
                self.depth += 1
                if self.depth == 1:
                    self._begin(match.end())
            elif token in ("]", "}"):
                self.depth = max(self.depth - 1, 0 if token == "]" else 1)
            if (self.depth == 1 and token == ",") or (self.depth == 0 and token == "]"):
                element = self.buffer[self.start : match.start()]
                if element.strip(_BLANK) or token == "," or self.elements:
                    self.elements += 1
                    yield self._place(element)
                self._begin(match.end())
                self.closed = self.depth == 0

    def _tokens(self, *, last: bool) -> Iterator[re.Match[str]]:
        """The tokens up to a string whose end is still to come; it is waited for, unless it never comes."""
        for match in _TOKEN.finditer(self.buffer, self.scanned):
            if match[0] == '"':
                self.scanned, self.awaited = match.start(), len(self.buffer) - match.start()
                break
            yield match
        else:
            self.scanned, self.awaited = len(self.buffer), 0
        if last:  # no quotation mark after this one has an end, so none need be tried
            yield from _STRUCTURE.finditer(self.buffer, self.scanned)

    def remainder(self) -> tuple[int, str]:
        return self._place(self.buffer[self.start :])

    def _begin(self, position: int) -> None:
        self.line += self.buffer.count("\n", self.start, position)
        self.start = position

    def _place(self, element: str) -> tuple[int, str]:
        before = element[: len(element) - len(element.lstrip(_BLANK))]
        return self.line + before.count("\n"), element.strip(_BLANK)


def _array_records(source: Source, convert: Convert) -> Iterator[Record]:
    array = _Array()
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    for chunk in chain(source.chunks(), [b""]):
        for line, raw in array.feed(decoder.decode(chunk, final=not chunk), last=not chunk):
            yield _record(line, raw, convert)
        if array.size > LINE_BYTES:
            raise DataError(
                f"an element of over {LINE_BYTES >> 20} MB is too long for one; break it up",
                source=source.name,
                line=array.line,
            )
    line, raw = array.remainder()
    if array.depth > 0:
        yield Record(line, _printable(raw), {}, "the file ends before its array does")
    elif raw:
        yield Record(line, _printable(raw), {}, "something follows the end of the array")


def _printable(raw: str) -> str:
    return raw.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def encode_records(values: Iterable[Any], options: WriteOptions) -> Iterator[str]:
    """The values as JSON, a line each; in an array if the options say so."""
    dumps = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
    if not options.array:
        for value in values:
            yield dumps(value) + "\n"
        return
    separator = "[\n"
    for value in values:
        yield separator + dumps(value)
        separator = ",\n"
    yield "\n]\n" if separator == ",\n" else "[]\n"
