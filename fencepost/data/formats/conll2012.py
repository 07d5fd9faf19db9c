"""CoNLL-2012 columns: entities are brackets, which may nest: `(PERSON*`, `*`, `*)`, `(GPE)`.

The files of the shared task have twelve columns or more, with the word in the fourth, its part of speech in
the fifth and the entities in the eleventh, between `#begin document (NAME); part N` and `#end document`. In
a file with fewer columns, the word is in the first and the brackets are in the last.
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
    Columns,
    SentenceLines,
    detect_columns,
    detect_line_columns,
    read_blocks,
    split_rows,
)
from fencepost.data.formats.format import Format, ReadOptions, WriteOptions
from fencepost.data.formats.iob import Invalid
from fencepost.data.formats.overlaps import list_brackets
from fencepost.data.output import text_writer
from fencepost.data.source import Reading, Source
from fencepost.errors import quote, shorten

FULL = 12  # columns of the shared task, without those of the predicates
NO_POS = "-"
_BRACKETS = re.compile(r"((?:\([^()*\s]+)*)\*?(\)*)")


def read(source: Source, options: ReadOptions) -> Iterator[Reading]:
    is_comment = partial(_is_comment, expected=detect_columns(source.get_head_lines()), options=options)
    return read_blocks(source, is_comment, partial(_parse_sentence, options=options), known=DOCUMENT_LINES)


def _is_comment(text: str, expected: Columns | None, options: ReadOptions) -> bool:
    """Return whether a line before a sentence is a comment, and not the word `#` with its columns."""
    if not text.startswith("#"):
        return False
    columns = detect_line_columns(text)
    tag = options.tag_column or -1
    if columns != expected or columns.count < max(abs(tag), 2):
        return True
    return not _BRACKETS.fullmatch(columns.split(text)[columns.index(tag)])


def _parse_sentence(block: SentenceLines, options: ReadOptions) -> Sentence:
    first = block.lines[0].text.rstrip(BLANK)
    columns = detect_line_columns(first)  # sentences differ: there is a column for each verb
    full = columns.count >= FULL
    word = columns.index(options.word_column or (4 if full else 1))
    tag = columns.index(options.tag_column or (11 if full else -1))
    pos_column = options.pos_column or (5 if full else None)
    if word == tag:
        raise Invalid(0, "one column cannot have both the words and the brackets")
    rows, words = split_rows(block, columns, word)
    pos = pos_column and [row[columns.index(pos_column)] for row in rows]
    return Sentence(
        words,
        _parse_brackets([row[tag] for row in rows]),
        doc=block.named_doc,
        pos=pos if pos and set(pos) != {NO_POS} else None,
    )


def _parse_brackets(cells: list[str]) -> list[Entity]:
    entities = []
    stack: list[tuple[int, str]] = []  # starts and types of open entities
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
    """Return whether all of the first lines have brackets, or an asterisk, in the column of this format."""
    contents = [text for line in lines[:DETECTION_LINES] if (text := line.rstrip(BLANK)) and text[0] != "#"]
    rows = (detect_line_columns(text).split(text) for text in contents)
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
        words = zip(sentence.words, pos, list_brackets(sentence), strict=True)
        for index, (word, tag, (entities, ends)) in enumerate(words):
            cell = "".join(f"({entity.type}" for entity in entities) + "*" + ")" * ends
            yield f"{name} 0 {index} {word} {tag} * - - - - {cell} -\n"
        yield "\n"
    yield "#end document\n" * (doc is not None)


def find_obstacle(sentence: Sentence) -> str | None:
    if not sentence.words:
        return "no words"
    if any(not word or set(word) & set(" \t\n\r") for word in sentence.words):
        return "a word that is empty or contains white space"
    if any(set(e.type) & set("()*") or re.search(r"\s", e.type) for e in sentence.entities):
        return "a type that contains a bracket, an asterisk or white space"
    if sentence.pos and any(not pos or re.search(r"\s", pos) for pos in sentence.pos):
        return "a part of speech that is empty or contains white space"
    if sentence.pos and set(sentence.pos) == {NO_POS}:
        return f"only parts of speech {NO_POS}, which means that there are none"
    if sentence.doc is not None and set(sentence.doc) & set("\n\r"):
        return "a document name that contains a line end"
    return None


CONLL2012 = Format(
    name="conll2012",
    summary="entities as brackets in a column, (PERSON* and *), which may nest",
    read=read,
    write=text_writer(encode),
    find_obstacle=find_obstacle,
    overlaps="nested",
    keeps=frozenset({"doc", "pos"}),
    suffixes=(".v4_gold_conll", ".gold_conll"),
)
