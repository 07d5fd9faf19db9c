"""Parse one sentence of a WebAnno TSV file: words and annotations as characters of its text."""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass, field, replace

from fencepost.data.formats.format import ReadOptions
from fencepost.data.formats.iob import Invalid
from fencepost.data.formats.webanno_escapes import escape_value, unescape
from fencepost.data.formats.webanno_layers import Header
from fencepost.data.source import Line, Source
from fencepost.data.text.units import count_units
from fencepost.errors import quote

TEXT, ID = "#Text=", "#Sentence.id="
_POSITION = re.compile(r"[0-9]{1,9}-[0-9]{1,9}(\.[0-9]{1,9})?")
_OFFSETS = re.compile(r"([0-9]{1,15})-([0-9]{1,15})")
_STACKED = re.compile(r"(?:^|\|)((?:\\.|[^|\\])*)")
_VALUE = re.compile(r"((?:\\.|[^\\])*?)(?:\[([0-9]+)\])?")
_NO_VALUE = "annotation without a value, and so without a type, skipped"
_EMPTY = "annotation of no characters, skipped"
_OTHERS = {
    "SP": "word with an annotation of another layer, which is skipped",
    "CH": "word with a coreference chain, which is skipped",
    "RL": "word with a relation, which is skipped",
}


@dataclass(frozen=True, slots=True)
class Annotation:
    """An annotation with its characters, and its first and last word; `type` is None without a value."""

    type: str | None
    start: int
    end: int
    first: int
    last: int

    def runs_on(self, other: Annotation, words: int) -> bool:
        """Return whether `other` continues this annotation in the next sentence, after `words` words."""
        return (self.last, other.first) == (words - 1, 0) and self.type == other.type is not None

    def shift(self, characters: int, words: int) -> Annotation:
        """Return the annotation with this number of characters and words before it."""
        start, end = self.start + characters, self.end + characters
        return Annotation(self.type, start, end, self.first + words, self.last + words)


@dataclass(slots=True)
class TsvSentence:
    """One sentence, or several that annotations join."""

    line: int
    id: str | None
    texts: list[str]
    length: int  # total length of the texts, with line ends between them
    words: list[tuple[int, int]] = field(default_factory=list)
    annotations: list[Annotation] = field(default_factory=list)
    # annotations of the last sentence: number to index in `annotations`
    numbers: dict[str, int] = field(default_factory=dict)

    def shares(self, row: Line, word: int) -> bool:
        """Return whether an entity that starts or ends with this word also occurs in a line elsewhere."""
        ends = ((number, self.annotations[index]) for number, index in self.numbers.items())
        return any(
            f"{escape_value(one.type)}[{number}]" in row.text
            for number, one in ends
            if one.type is not None and word in (one.first, one.last)
        )

    def join(self, other: TsvSentence) -> bool:
        """Add the next sentence if an annotation continues in it; return whether one does."""
        words, characters = len(self.words), self.length + 1
        runs = {
            index: self.numbers[number]
            for number, index in other.numbers.items()
            if number in self.numbers
            and self.annotations[self.numbers[number]].runs_on(other.annotations[index], words)
        }
        if not runs:
            return False
        indices = {}
        for index, one in enumerate(other.annotations):
            shifted = one.shift(characters, words)
            indices[index] = runs.get(index, len(self.annotations))
            if index in runs:
                earlier = self.annotations[runs[index]]
                self.annotations[runs[index]] = replace(earlier, end=shifted.end, last=shifted.last)
            else:
                self.annotations.append(shifted)
        self.numbers = {number: indices[index] for number, index in other.numbers.items()}
        self.words += [(start + characters, end + characters) for start, end in other.words]
        self.texts += other.texts
        self.length += 1 + other.length
        return True


def parse_sentence(
    rows: list[Line], header: Header, options: ReadOptions, source: Source
) -> TsvSentence | None:
    """Return a sentence; None if there are only comments. Raises `Invalid` with the index of a line."""
    for index, row in enumerate(rows):
        if row.problem:
            raise Invalid(index, row.problem)
    first = next((index for index, row in enumerate(rows) if not row.text.startswith("#")), len(rows))
    comments = [row.text for row in rows[:first]]
    java = header.version == "3.1"
    texts = [unescape(one.removeprefix(TEXT), java=java) for one in comments if one.startswith(TEXT)]
    ids = [unescape(one.removeprefix(ID), java=java) for one in comments if one.startswith(ID)]
    others = len(comments) - len(texts) - len(ids)
    source.note("comment line skipped", rows[0].number, times=others)
    text = "\n".join(texts)
    if first == len(rows):
        if text.strip():
            raise Invalid(0, "there are no words after the text")
        return None
    if not texts:
        raise Invalid(0, f"there is no line {TEXT} before the words")
    block = TsvSentence(rows[first].number, ids[-1] if ids else None, [text], len(text))
    places = _OffsetMap(text)
    for index, row in enumerate(rows[first:], start=first):
        try:
            _add_row(row, block, places, header, options, source)
        except ValueError as error:
            raise Invalid(index, str(error)) from error
    if rest := text[block.words[-1][1] :].strip():
        raise Invalid(len(rows) - 1, f"{quote(rest)} at the end of the text is not part of a word")
    return block


class _OffsetMap:
    """Converts the offsets of a file to characters of a sentence, which starts with its first word."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.units = count_units(text)
        self.begin: int | None = None

    def convert_offsets(self, offsets: str) -> tuple[int, int]:
        match = _OFFSETS.fullmatch(offsets)
        if match is None:
            raise ValueError(f"{quote(offsets)} is not a pair of offsets such as 0-4")
        if self.begin is None:
            self.begin = int(match[1])
        start, end = (self._find_index(int(offset) - self.begin) for offset in match.groups())
        if not 0 <= start <= end <= len(self.text):
            raise ValueError(f"the offsets {offsets} are out of order or outside the text of the sentence")
        return start, end

    def _find_index(self, unit: int) -> int:
        if self.units is None or not 0 <= unit <= self.units[-1]:
            return unit
        index = bisect_left(self.units, unit)
        if self.units[index] != unit:
            raise ValueError(f"an offset is inside {quote(self.text[index - 1])}; use UTF-16 units")
        return index


def _add_row(
    row: Line, block: TsvSentence, places: _OffsetMap, header: Header, options: ReadOptions, source: Source
) -> None:
    """Add a word with its annotations, or the annotations of a part of the last word."""
    fields = _split_fields(row.text, header.width)
    position = _POSITION.fullmatch(fields[0])
    if position is None:
        raise ValueError(f"{quote(fields[0])} is not the position of a word, such as 1-1")
    start, end = places.convert_offsets(fields[1])
    word = places.text[start:end]
    if options.check_text and word != fields[2] and word != unescape(fields[2]):
        raise ValueError(
            f"the word is {quote(fields[2])}, but the text has {quote(word)} at its offsets; "
            "use --no-check-text to read that instead"
        )
    if position[1] is None:
        _add_word(start, end, block, places.text)
    elif not block.words or not block.words[-1][0] <= start <= end <= block.words[-1][1]:
        raise ValueError(f"{fields[0]} is a part of a word, but not of the previous word")
    for layer in header.layers:
        if layer is not header.entities and fields[layer.column] != "_":
            source.note(_OTHERS[layer.kind], row.number, layer.name)
    cell = fields[header.column] if header.entities is not None else "_"
    if cell != "_":
        values = _STACKED.findall(cell)
        if "|".join(values) != cell:
            raise ValueError(f"{quote(cell)} ends in a single backslash")
        for value in values:
            _annotate(value, start, end, block, row.number, source)


def _split_fields(text: str, width: int) -> list[str]:
    fields = text.split("\t")
    if len(fields) > width and not fields[-1]:  # lines end with a tab
        fields.pop()
    if len(fields) != width:
        raise ValueError(f"{len(fields)} columns, separated by tabs, but the header declares {width}")
    return fields


def _add_word(start: int, end: int, block: TsvSentence, text: str) -> None:
    before = block.words[-1][1] if block.words else 0
    if start == end or start < before:
        raise ValueError("the word is empty, or starts before the end of the previous one")
    if between := text[before:start].strip():
        raise ValueError(f"{quote(between)} before this word is not part of a word")
    block.words.append((start, end))


def _annotate(value: str, start: int, end: int, block: TsvSentence, line: int, source: Source) -> None:
    """Add an annotation of the last word or a part of it, or extend that of the previous word."""
    match = _VALUE.fullmatch(value)
    if match is None or not match[1]:
        raise ValueError(f"{quote(value)} is not a value, with or without a number, such as PER or PER[1]")
    type_, number = None if match[1] == "*" else unescape(match[1]), match[2]
    word = len(block.words) - 1
    if start == end:
        source.note(_EMPTY, line)
        return
    if number in block.numbers:
        index = block.numbers[number]
        earlier = block.annotations[index]
        if earlier.type != type_:
            raise ValueError(f"{quote(value)}, but annotation [{number}] was {quote(earlier.type)} before")
        if word > earlier.last + 1:
            raise ValueError(f"{quote(value)} is not on the previous word; an entity must be continuous")
        first, last = min(start, earlier.start), max(end, earlier.end)
        block.annotations[index] = Annotation(type_, first, last, earlier.first, word)
        return
    source.note(_NO_VALUE, line, times=type_ is None)
    if number is not None:
        block.numbers[number] = len(block.annotations)
    block.annotations.append(Annotation(type_, start, end, word, word))
