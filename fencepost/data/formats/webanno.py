"""WebAnno TSV 3.1 to 3.3, which WebAnno and INCEpTION export: a line for each word, annotations in columns.

A sentence has its text (`#Text=`), and each word its offsets, in UTF-16 units. Annotations of several words,
and several on one word, have numbers (`PER[1]|LOC[2]`). If one continues in the next sentence, the two are
joined. Annotations of a part of a word have separate lines (`1-3.1`), and the word is split there. Entities
are the values of one feature of one layer (see `webanno_layers`); all others are skipped and counted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import count

from fencepost.data.entity import Sentence
from fencepost.data.formats import json_text
from fencepost.data.formats.conll import SENTENCE_LINES
from fencepost.data.formats.format import Format, ReadOptions, WriteOptions
from fencepost.data.formats.iob import Invalid
from fencepost.data.formats.webanno_escapes import escape_text, escape_value
from fencepost.data.formats.webanno_layers import NAMED_ENTITY, read_header
from fencepost.data.formats.webanno_sentence import ID, TEXT, TsvSentence, parse_sentence
from fencepost.data.output import text_writer
from fencepost.data.source import BYTE_ORDER_MARK, Line, Reading, ReadSentence, Rejection, Source
from fencepost.data.text import WORD_SPLIT, CharSpan, align
from fencepost.data.text.units import count_units
from fencepost.errors import DataError

_CUT = "an entity of this sentence is also in the previous or next sentence, which is invalid"


def fits(head: bytes) -> bool:
    return head.removeprefix(BYTE_ORDER_MARK).startswith(b"#FORMAT=WebAnno TSV")


def read(source: Source, options: ReadOptions) -> Iterator[Reading]:
    header, lines = read_header(source.read_lines(), source, options.spans_key)
    pending: TsvSentence | None = None  # may have to be joined with the next
    broken: Line | None = None  # the last line of the previous sentence, if that is invalid
    for rows in _group_lines(lines, source):
        if pending and len(pending.words) > SENTENCE_LINES:
            reason = f"more than {SENTENCE_LINES:,} words in sentences that are joined by entities"
            raise DataError(reason, source=source.name, line=pending.line)
        try:
            block = parse_sentence(rows, header, options, source)
            if block and broken and block.shares(broken, 0):
                raise Invalid(0, _CUT)
        except Invalid as error:
            first = next((row for row in rows if not row.text.startswith("#")), rows[-1])
            if pending and pending.shares(first, len(pending.words) - 1):
                yield Rejection(pending.line, _CUT, "\n".join(pending.texts))
            elif pending:
                yield _convert(pending, source)
            pending, broken = None, rows[-1]
            yield Rejection(rows[error.index].number, str(error), "\n".join(row.text for row in rows))
            continue
        if block is None or (pending and pending.join(block)):
            continue
        if pending:
            yield _convert(pending, source)
        pending, broken = block, None
    if pending:
        yield _convert(pending, source)


def _group_lines(lines: Iterable[Line], source: Source) -> Iterator[list[Line]]:
    """Yield the lines of each sentence, which ends at a blank line or before the `#` of the next one."""
    block: list[Line] = []
    for line in lines:
        blank = not line.text.strip()
        if block and (blank or (line.text.startswith("#") and not block[-1].text.startswith("#"))):
            yield block
            block = []
        if not blank:
            block.append(line)
        if len(block) > SENTENCE_LINES:
            reason = f"more than {SENTENCE_LINES:,} lines without a blank line between sentences"
            raise DataError(reason, source=source.name, line=line.number)
    if block:
        yield block


def _convert(block: TsvSentence, source: Source) -> Reading:
    text = "\n".join(block.texts)
    spans = [CharSpan(one.start, one.end, one.type) for one in block.annotations if one.type is not None]
    try:
        document = align(text, spans, [block.words])
    except ValueError as error:
        return Rejection(block.line, str(error), text)
    source.note(WORD_SPLIT, block.line, times=document.words_split)
    return ReadSentence(block.line, replace(document.sentences[0], id=block.id))


def encode(sentences: Iterable[Sentence], options: WriteOptions) -> Iterator[str]:  # noqa: ARG001
    yield f"#FORMAT=WebAnno TSV 3.3\n#T_SP={NAMED_ENTITY}|value\n\n"
    numbers = count(1)
    begin = 0
    for number, sentence in enumerate(sentences, start=1):
        text = sentence.text
        units = count_units(text) or range(len(text) + 1)
        yield "\n" if sentence.id is None else f"\n{ID}{escape_text(sentence.id)}\n"
        yield f"{TEXT}{escape_text(text)}\n"
        rows = zip(sentence.words, sentence.word_offsets(), _format_cells(sentence, numbers), strict=True)
        for position, (word, (start, end), cell) in enumerate(rows, start=1):
            offsets = f"{begin + units[start]}-{begin + units[end]}"
            yield f"{number}-{position}\t{offsets}\t{word}\t{cell}\t\n"
        begin += units[-1] + 1


def _format_cells(sentence: Sentence, numbers: Iterator[int]) -> list[str]:
    """Return the cell of each word: its types, numbered if they have several words or share a word."""
    counts = Counter(index for entity in sentence.entities for index in range(entity.start, entity.end))
    cells: list[list[str]] = [[] for _ in sentence.words]
    for entity in sentence.entities:
        alone = len(entity) == 1 and counts[entity.start] == 1
        value = escape_value(entity.type) + ("" if alone else f"[{next(numbers)}]")
        for index in range(entity.start, entity.end):
            cells[index].append(value)
    return ["|".join(cell) or "_" for cell in cells]


def find_obstacle(sentence: Sentence) -> str | None:
    if any(re.search(r"[\t\n\r]", word) for word in sentence.words):
        return "a word that contains a tab or a line end"
    if any("\r" in entity.type for entity in sentence.entities):
        return "a type that contains a carriage return"
    return json_text.find_text_obstacle(sentence)


WEBANNO = Format(
    name="webanno",
    summary="WebAnno TSV 3, which WebAnno and INCEpTION export",
    read=read,
    write=text_writer(encode),
    find_obstacle=find_obstacle,
    overlaps="any",
    keeps=frozenset({"id", "space_after"}),
)
