"""Read JSON lines, or one array of objects, strictly and in bounded memory.

Strict means that content which programs read in different ways is an error: keys that occur twice, NaN,
numbers outside of float64, and single surrogates.
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

from fencepost.data.entity import Sentence
from fencepost.data.formats.format import Write, WriteOptions
from fencepost.data.formats.json_fields import DEPTH, SURROGATES, explain_not_json
from fencepost.data.output import text_writer
from fencepost.data.source import LINE_BYTES, Source
from fencepost.errors import DataError, describe_error, quote

# A string, a quotation mark whose string continues after the buffer, or a structural character.
_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|"|[\[\]{},]', re.DOTALL)
_BLANK = " \t\n\r"  # the only white space that JSON allows between values
_STRUCTURE = re.compile(r"[\[\]{},]")
Convert = Callable[[Any], dict[str, Any] | str]


@dataclass(frozen=True, slots=True)
class Record:
    """An object of a file; `problem` says why it is invalid."""

    line: int
    raw: str
    value: dict[str, Any]
    problem: str | None = None


def check_object(value: Any) -> dict[str, Any] | str:
    """Return the value if it is an object, otherwise a message."""
    return value if isinstance(value, dict) else f"a JSON object was expected, not {name_kind(value)}"


def read_objects(
    source: Source, convert: Convert = check_object, *, array: bool | None = None
) -> Iterator[Record]:
    """Yield the objects of a file, which has one array of them or one on each line.

    `convert` converts each value to an object, or returns a message; `array` says which of the two the file
    has, by default its first character decides.
    """
    if is_array(source) if array is None else array:
        yield from _read_array(source, convert)
        return
    for line in source.read_lines():
        if line.problem:
            yield Record(line.number, line.text, {}, line.problem)
        elif line.text.strip() == "{":
            problem = "an object has several lines; put each on one line, or all into one array"
            yield Record(line.number, line.text, {}, problem)
        elif line.text.strip():
            yield _parse_record(line.number, line.text, convert)


def is_array(source: Source) -> bool:
    return source.head.removeprefix(codecs.BOM_UTF8).lstrip()[:1] == b"["


def read_head(source: Source, count: int) -> list[dict[str, Any]]:
    """Return the first objects of a file, to detect its format, without reading the source further."""
    head = Source.from_bytes(source.head, source.name)
    try:
        values = (record.value for record in read_objects(head) if not record.problem)
        return list(islice(values, count))
    except DataError:
        return []


def _parse_record(line: int, raw: str, convert: Convert) -> Record:
    problem = None
    value: Any = {}
    try:
        if SURROGATES.search(raw):  # each represents a byte that is not UTF-8
            raise ValueError("its bytes are not UTF-8")
        value = convert(decode_json(raw))
        if isinstance(value, str):
            problem = value
        elif "\\u" in raw or raw.count("[") + raw.count("{") > DEPTH:
            problem = explain_not_json(value)
    except (ValueError, RecursionError) as error:
        problem = _describe_failure(error, raw)
    return Record(line, raw, value) if problem is None else Record(line, _make_printable(raw), {}, problem)


def _describe_failure(error: Exception, raw: str) -> str:
    if isinstance(error, RecursionError):
        return "the JSON cannot be read: nested too deeply"
    if isinstance(error, json.JSONDecodeError):
        where = raw[max(0, error.pos - 10) : error.pos + 20]
        return f"not JSON: {error.msg} at character {error.pos + 1}, near {where!r}"
    return f"the JSON cannot be read: {describe_error(error)}"


def name_kind(value: object) -> str:
    """Return the name of the JSON type of a value, for messages."""
    names = {dict: "an object", list: "an array", str: "a string", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


def _check_unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        [(twice, _)] = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"the key {quote(twice)} occurs twice in one object")
    return value


def _parse_finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:20]} is not a finite number")
    return number


_DECODER = json.JSONDecoder(
    object_pairs_hook=_check_unique, parse_float=_parse_finite, parse_constant=_parse_finite
)
decode_json = _DECODER.decode
"""Return the value of a JSON text; raises `ValueError` or `RecursionError` if it is not strictly valid."""


@dataclass
class _Array:
    """Splits the text of a large array into its elements, chunk by chunk.

    It parses only strings and brackets, so that an invalid element seldom affects others.
    """

    buffer: str = ""
    start: int = 0  # position of the current element in the buffer
    scanned: int = 0  # end of the parsed tokens in the buffer
    line: int = 1  # line of the position `start`
    depth: int = 0
    closed: bool = False  # whether the array has ended
    elements: int = 0
    arrived: list[str] = field(default_factory=list)  # chunks that are not yet in the buffer
    awaited: int = 0  # number of characters to wait for before searching again for the end of a string

    @property
    def size(self) -> int:
        """Number of characters of the current element so far."""
        return len(self.buffer) - self.start + sum(map(len, self.arrived))

    def feed(self, text: str, *, last: bool) -> Iterator[tuple[int, str]]:
        """Yield the line and the text of each element that ends in `text`."""
        self.arrived.append(text)
        if sum(map(len, self.arrived)) < self.awaited and not last:
            return
        self.buffer = "".join([self.buffer[self.start :], *self.arrived])
        self.arrived.clear()
        self.scanned, self.start = self.scanned - self.start, 0
        for match in self._scan_tokens(last=last):
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
                    yield self._locate(element)
                self._begin(match.end())
                self.closed = self.depth == 0

    def _scan_tokens(self, *, last: bool) -> Iterator[re.Match[str]]:
        """Yield the tokens up to a string that does not end in the buffer."""
        for match in _TOKEN.finditer(self.buffer, self.scanned):
            if match[0] == '"':
                self.scanned, self.awaited = match.start(), len(self.buffer) - match.start()
                break
            yield match
        else:
            self.scanned, self.awaited = len(self.buffer), 0
        if last:  # the string never ends, so quotation marks are ignored from here on
            yield from _STRUCTURE.finditer(self.buffer, self.scanned)

    def take_remainder(self) -> tuple[int, str]:
        return self._locate(self.buffer[self.start :])

    def _begin(self, position: int) -> None:
        self.line += self.buffer.count("\n", self.start, position)
        self.start = position

    def _locate(self, element: str) -> tuple[int, str]:
        before = element[: len(element) - len(element.lstrip(_BLANK))]
        return self.line + before.count("\n"), element.strip(_BLANK)


def _read_array(source: Source, convert: Convert) -> Iterator[Record]:
    array = _Array()
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    for chunk in chain(source.read_chunks(), [b""]):
        for line, raw in array.feed(decoder.decode(chunk, final=not chunk), last=not chunk):
            yield _parse_record(line, raw, convert)
        if array.size > LINE_BYTES:
            raise DataError(
                f"an element is longer than {LINE_BYTES >> 20} MB; split it",
                source=source.name,
                line=array.line,
            )
    line, raw = array.take_remainder()
    if array.depth > 0:
        yield Record(line, _make_printable(raw), {}, "the file ends before its array does")
    elif raw:
        yield Record(line, _make_printable(raw), {}, "there is text after the end of the array")


def _make_printable(raw: str) -> str:
    return raw.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def json_writer(convert: Callable[[Sentence], Any], *, array: bool = False) -> Write:
    """Return the `write` function of a format with a JSON value for each sentence.

    The values are on lines, or in one array if `array` or the options say so.
    """
    dumps = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode

    def encode(sentences: Iterable[Sentence], options: WriteOptions) -> Iterator[str]:
        values = map(dumps, map(convert, sentences))
        if not (array or options.array):
            yield from (value + "\n" for value in values)
            return
        separator = "[\n"
        for value in values:
            yield separator + value
            separator = ",\n"
        yield "\n]\n" if separator == ",\n" else "[]\n"

    return text_writer(encode)
