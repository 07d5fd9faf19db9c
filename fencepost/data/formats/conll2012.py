"""CoNLL-2012 columns: entities as brackets, which may nest: `(PERSON*`, `*`, `*)`, `(GPE)`.

The shared task's files have twelve columns or more, the word in the fourth, its part of speech in the
fifth and the names in the eleventh, between `#begin document (NAME); part N` and `#end document`. A
file with fewer columns is read with the word in the first and the brackets in the last.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import partial

from fencepost.data.entity import Entity, Sentence
from fencepost.data.formats.conll import (
    BLANK,
    DETECTION_LINES,
    DOCUMENT_LINES,
    DOCUMENT_START,
    Block,
    Columns,
    columns_of,
    detect_columns,
    read_blocks,
    split_rows,
)
from fencepost.data.formats.format import Format, ReadOptions, WriteOptions
from fencepost.data.formats.iob import Invalid
from fencepost.data.output import text_writer
from fencepost.data.source import Reading, Source
from fencepost.errors import quote, shorten

FULL = 12  # columns of the shared task's files, without those of the predicates
NO_POS = "-"
_BRACKETS = re.compile(r"((?:\([^()*\s]+)*)\*?(\)*)")


def read(source: Source, options: ReadOptions) -> Iterator[Reading]:
    usual = detect_columns(source.head_lines())
    is_comment = partial(_is_comment, usual=usual, options=options)
    return read_blocks(source, is_comment, partial(_sentence, options=options), known=DOCUMENT_LINES)


def _is_comment(text: str, usual: Columns | None, options: ReadOptions) -> bool:
    """Whether a line before a sentence is a comment and not the word `#` with its columns."""
    if not text.startswith("#"):
        return False
    columns = columns_of(text)
    tag = options.tag_column or -1
    if columns != usual or columns.count < max(abs(tag), 2):
        return True
    return not _BRACKETS.fullmatch(columns.split(text)[columns.index(tag)])


def _sentence(block: Block, options: ReadOptions) -> Sentence:
    first = block.lines[0].text.rstrip(BLANK)
    columns = columns_of(first)  # verbs give a sentence more columns
    full = columns.count >= FULL
    word = columns.index(options.word_column or (4 if full else 1))
    tag = columns.index(options.tag_column or (11 if full else -1))
    pos_column = options.pos_column or (5 if full else None)
    if word == tag:
        raise Invalid(0, "one column, but the words and the brackets need one each")
    rows, words = split_rows(block, columns, word)
    pos = pos_column and [row[columns.index(pos_column)] for row in rows]
    return Sentence(
        words,
        _entities([row[tag] for row in rows]),
        doc=block.named_doc,
        pos=pos if pos and set(pos) != {NO_POS} else None,
    )


def _entities(cells: list[str]) -> list[Entity]:
    entities = []
    stack: list[tuple[int, str]] = []  # what is open: where it began, and its type
    for index, cell in enumerate(cells):
        match = _BRACKETS.fullmatch(cell)
        if match is None or not cell:
            raise Invalid(index, f"{quote(cell)} is not of the form (TYPE*, *, *) or (TYPE)")
        stack.extend((index, type_) for type_ in match[1].split("(")[1:])
        for _ in match[2]:
            if not stack:
                raise Invalid(index, f"{quote(cell)} closes a bracket that was never opened")
            start, type_ = stack.pop()
            entities.append(Entity(start, index + 1, type_))
    if stack:
        start, type_ = stack[-1]
        raise Invalid(start, f"the bracket ({shorten(type_)} is never closed")
    return entities


def looks_bracketed(lines: list[str]) -> bool:
    """Whether a file has brackets, or their asterisk, everywhere where this format has them."""
    contents = [text for line in lines[:DETECTION_LINES] if (text := line.rstrip(BLANK)) and text[0] != "#"]
    rows = (columns_of(text).split(text) for text in contents)  # no more of them than are needed
    return bool(contents) and all(
        len(row) > 1 and _BRACKETS.fullmatch(row[10] if len(row) >= FULL else row[-1]) for row in rows
    )


def encode(sentences: Iterable[Sentence], options: WriteOptions) -> Iterator[str]:  # noqa: ARG001
    doc = None
    for sentence in sentences:
        if sentence.doc != doc:
            yield "#end document\n" * (doc is not None)
            doc = sentence.doc
            yield f"#begin document ({doc}); part 000\n" * (doc is not None)
        name = re.sub(r"[^\w./:-]", "_", doc or "-")
        name = "-" if name == DOCUMENT_START else name or "-"
        pos = sentence.pos or [NO_POS] * len(sentence)
        cells = _cells(sentence)
        for index, (word, tag, cell) in enumerate(zip(sentence.words, pos, cells, strict=True)):
            yield f"{name} 0 {index} {word} {tag} * - - - - {cell} -\n"
        yield "\n"
    yield "#end document\n" * (doc is not None)


def _cells(sentence: Sentence) -> list[str]:
    opens = [""] * len(sentence)
    closes = [0] * len(sentence)
    # Outer entities open first; of two on one span the order does not matter.
    for entity in sorted(sentence.entities, key=lambda entity: (entity.start, -entity.end)):
        opens[entity.start] += f"({entity.type}"
        closes[entity.end - 1] += 1
    return [f"{o}*{')' * c}" for o, c in zip(opens, closes, strict=True)]


def obstacle(sentence: Sentence) -> str | None:
    if not sentence.words:
        return "no words"
    if any(not word or set(word) & set(" \t\n\r") for word in sentence.words):
        return "a word that is empty or holds white space"
    if any(set(e.type) & set("()*") or re.search(r"\s", e.type) for e in sentence.entities):
        return "a type that holds a bracket, an asterisk or white space"
    if sentence.pos and any(not pos or re.search(r"\s", pos) for pos in sentence.pos):
        return "a part of speech that is empty or holds white space"
    if sentence.pos and set(sentence.pos) == {NO_POS}:
        return f"no part of speech but {NO_POS}, which stands for none"
    if sentence.doc is not None and set(sentence.doc) & set("\n\r"):
        return "a document name that holds a line end"
    return None


CONLL2012 = Format(
    name="conll2012",
    summary="entities as brackets in a column, (PERSON* and *), which may nest",
    read=read,
    write=text_writer(encode),
    obstacle=obstacle,
    overlaps="nested",
    keeps=frozenset({"doc", "pos"}),
    suffixes=(".v4_gold_conll", ".gold_conll"),
)
