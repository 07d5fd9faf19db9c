"""CoNLL columns: a line for each word, with its tag in a column, and a blank line between sentences.

There may be any number of columns, separated by tabs or spaces.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from fencepost.data.entity import Sentence
from fencepost.data.formats import iob
from fencepost.data.formats.format import Format, ReadOptions, WriteOptions
from fencepost.data.formats.iob import Invalid
from fencepost.data.output import text_writer
from fencepost.data.source import Line, Reading, ReadSentence, Rejection, Source
from fencepost.errors import DataError

DOCUMENT_START = "-DOCSTART-"
DOCUMENT_LINES = ("#begin document", "#end document")  # comments of CoNLL-2012
SENTENCE_LINES = 1_000_000  # if there are more, the file has no blank lines between sentences
SENTENCE_CHARACTERS = 1 << 26
DETECTION_LINES = 2000
BLANK = " \t\r"
_SPACES = re.compile(" +")
_SEPARATORS = re.compile("[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
"""Characters that other programs read as line ends; they may occur in words but not in other columns."""
_DOCUMENT = re.compile(r"#begin document \((.*)\); part ([0-9]{1,9})")


@dataclass(frozen=True, slots=True)
class Columns:
    """The separator (tabs or spaces) and the number of columns."""

    tabs: bool
    count: int

    def split(self, text: str) -> list[str]:
        return text.split("\t") if self.tabs else _SPACES.split(text)

    def index(self, column: int) -> int:
        """Return the index of a column from its number, 1 for the first and -1 for the last."""
        if abs(column) > self.count:
            raise Invalid(0, f"there is no column {column}; there are {self.count} columns")
        return column - 1 if column > 0 else self.count + column


@dataclass
class SentenceLines:
    """Lines of one sentence, with the comments before it and its document."""

    doc: str | None = None  # number of the line -DOCSTART-
    named_doc: str | None = None  # name in the line #begin document
    lines: list[Line] = field(default_factory=list)
    comments: list[str] = field(default_factory=list)

    @property
    def raw(self) -> str:
        return "\n".join(line.text for line in self.lines)


ParseWords = Callable[[list[str]], tuple[list[str], dict[str, Any]]]


def read(
    source: Source, options: ReadOptions, *, parse_words: ParseWords = lambda words: (words, {})
) -> Iterator[Reading]:
    """Yield the sentences; `parse_words` converts the column of words to words and `meta`."""
    head = source.get_head_lines()
    columns = detect_columns(head)
    if columns is None:
        return
    try:
        word, tag, pos = _find_column_indices(columns, options)
    except Invalid as error:
        raise DataError(str(error), source=source.name) from error
    scheme = options.scheme or _detect_scheme(head, columns, tag)

    def convert(block: SentenceLines) -> Sentence:
        rows, cells = split_rows(block, columns, word)
        words, meta = parse_words(cells)
        tags = [row[tag] for row in rows]
        entities, broken = iob.to_entities(tags, scheme, strict=options.scheme is not None)
        if broken:
            source.note(iob.BROKEN_RULES.format(scheme), block.lines[broken.index].number, str(broken))
        pos_tags = None if pos is None else [row[pos] for row in rows]
        return Sentence(words, entities, doc=block.doc, pos=pos_tags, meta=meta)

    yield from read_blocks(source, partial(_is_comment, columns=columns, tag=tag), convert)


def read_blocks(
    source: Source,
    is_comment: Callable[[str], bool],
    convert: Callable[[SentenceLines], Sentence],
    known: tuple[str, ...] = (),
) -> Iterator[Reading]:
    """Yield each sentence, or why it is invalid; note comments that do not start with one of `known`."""
    for block in _group_lines(source, is_comment):
        for comment in block.comments:
            if not comment.startswith(known):
                source.note("comment line skipped")
        if not block.lines:
            continue
        try:
            sentence = convert(block)
        except Invalid as error:
            yield Rejection(block.lines[error.index].number, str(error), block.raw)
        else:
            yield ReadSentence(block.lines[0].number, sentence)


def detect_columns(lines: list[str]) -> Columns | None:
    """Return the most frequent columns of the first lines; None if there is no content."""
    contents = find_contents(lines)
    certain = [text for text in contents if not text.startswith("#")]  # no comments
    counts = Counter(map(detect_line_columns, certain or contents))
    return counts.most_common(1)[0][0] if counts else None


def find_contents(lines: list[str]) -> list[str]:
    """Return the first lines, without those that are blank or start a document."""
    stripped = (text.rstrip(BLANK) for text in lines[:DETECTION_LINES])
    return [text for text in stripped if text and _get_first_column(text) != DOCUMENT_START]


def detect_line_columns(text: str) -> Columns:
    tabs = "\t" in text
    return Columns(tabs, len(Columns(tabs, 0).split(text)))


def looks_tagged(lines: list[str]) -> bool:
    """Return whether all of the first lines have the same columns, with a tag in the last one."""
    contents = find_contents(lines)
    columns = detect_line_columns(contents[0]) if contents else Columns(tabs=False, count=0)
    return columns.count > 1 and all(
        detect_line_columns(text) == columns and iob.parse(columns.split(text)[-1]) for text in contents
    )


def may_have_tags(lines: list[str]) -> bool:
    """Return whether any column of the first lines has a tag, or the file is empty."""
    rows = [detect_line_columns(text).split(text) for text in find_contents(lines)]
    return not rows or any(iob.parse(field) for row in rows for field in row[1:])


def _group_lines(source: Source, is_comment: Callable[[str], bool]) -> Iterator[SentenceLines]:
    """Yield the lines of each sentence, which ends at a blank line or at the start or end of a document."""
    block, documents, characters = SentenceLines(), 0, 0
    for line in _split_lines(source):
        text = line.text.rstrip(BLANK)
        marks_document = _is_document_line(text)
        if not text or marks_document:
            if block.lines or block.comments:
                yield block
            documents += _get_first_column(text) == DOCUMENT_START
            block = SentenceLines(
                str(documents) if documents else None, _find_document_name(text, block.named_doc)
            )
            characters = 0
        if text.startswith(DOCUMENT_LINES) or (not block.lines and is_comment(text)):
            block.comments.append(text)
        elif text and not marks_document:
            block.lines.append(line)
        characters += len(text)
        if len(block.lines) + len(block.comments) > SENTENCE_LINES or characters > SENTENCE_CHARACTERS:
            raise DataError(
                f"more than {SENTENCE_LINES:,} lines, or {SENTENCE_CHARACTERS:,} characters, without a blank "
                "line between sentences",
                source=source.name,
                line=line.number,
            )
    if block.lines or block.comments:
        yield block


def _find_document_name(text: str, before: str | None) -> str | None:
    """Return the name of the document after a line; `before` is the name before it."""
    if match := _DOCUMENT.fullmatch(text):
        part = int(match[2])
        return f"{match[1]}#{part}" if part else match[1]
    return None if text.startswith("#end document") else before


def _split_lines(source: Source) -> Iterator[Line]:
    """Yield the lines; in a file with several kinds of line ends, they are also split at carriage returns."""
    more = 0  # additional lines so far
    for line in source.read_lines_noting_marks():
        if not more and "\r" not in line.text:
            yield line
            continue
        parts = line.text.rstrip("\r").split("\r")
        if len(parts) > 1:
            source.note("carriage return inside a line, read as a line end", line.number + more)
        for number, part in enumerate(parts, start=line.number + more):
            yield Line(number, part, line.problem)
        more += len(parts) - 1


def _is_document_line(text: str) -> bool:
    return _get_first_column(text) == DOCUMENT_START or text.startswith(DOCUMENT_LINES)


def _get_first_column(text: str) -> str:
    return text.split("\t", 1)[0].split(" ", 1)[0]


def _is_comment(text: str, columns: Columns, tag: int) -> bool:
    """Return whether a line before a sentence is a comment, and not the word `#` with its columns."""
    if not text.startswith("#"):
        return False
    fields = columns.split(text)
    return len(fields) != columns.count or iob.parse(fields[tag]) is None


def split_rows(block: SentenceLines, columns: Columns, word: int) -> tuple[list[list[str]], list[str]]:
    """Return the columns of each line, and the words, which are in column `word`; raises `Invalid`."""
    rows = [_split_row(index, line, columns, word) for index, line in enumerate(block.lines)]
    words = [row[word] for row in rows]
    if "" in words:
        raise Invalid(words.index(""), "the word is empty")
    return rows, words


def _split_row(index: int, line: Line, columns: Columns, word: int) -> list[str]:
    if line.problem:
        raise Invalid(index, line.problem)
    fields = columns.split(line.text.rstrip(BLANK))
    if len(fields) != columns.count:
        separator = "tabs" if columns.tabs else "spaces"
        problem = f"{len(fields)} columns where the file has {columns.count}, separated by {separator}"
        raise Invalid(index, problem)
    if _SEPARATORS.search(line.text):
        for number, text in enumerate(fields, start=1):
            if number != word + 1 and (match := _SEPARATORS.search(text)):
                raise Invalid(
                    index, f"U+{ord(match[0]):04X} in column {number}; lines must end in a line feed"
                )
    return fields


def _find_column_indices(columns: Columns, options: ReadOptions) -> tuple[int, int, int | None]:
    word, tag = columns.index(options.word_column or 1), columns.index(options.tag_column or -1)
    if word == tag:
        raise Invalid(
            0,
            f"column {word + 1} of {columns.count} cannot have both the words and the tags; "
            "name the columns with --word-column and --tag-column",
        )
    return word, tag, columns.index(options.pos_column) if options.pos_column else None


def _detect_scheme(lines: list[str], columns: Columns, tag: int) -> str:
    sentences: list[list[str]] = [[]]
    for text in lines:
        fields = columns.split(text.rstrip(BLANK))
        if len(fields) == columns.count:
            sentences[-1].append(fields[tag])
        else:
            sentences.append([])
    return iob.detect(sentences)


def encode(sentences: Iterable[Sentence], options: WriteOptions) -> Iterator[str]:
    doc = None
    for sentence in sentences:
        if sentence.doc != doc:
            doc = sentence.doc
            yield f"{DOCUMENT_START}\t{iob.OUTSIDE}\n\n"
        tags = iob.from_entities(len(sentence), sentence.entities, options.scheme)
        yield "".join(f"{word}\t{tag}\n" for word, tag in zip(sentence.words, tags, strict=True)) + "\n"


def find_obstacle(sentence: Sentence) -> str | None:
    if not sentence.words:
        return "no words"
    if any(not word or set(word) & set("\t\n\r") for word in sentence.words):
        return "a word that is empty or contains a tab or a line end"
    if any(map(_is_document_line, sentence.words)):
        return f"a word that starts or ends a document, such as {DOCUMENT_START}"
    if any(not _fits_column(entity.type) for entity in sentence.entities):
        return "a type that contains a tab or a line end, or ends with white space"
    return None


def _fits_column(type_: str) -> bool:
    return not set(type_) & set("\t\n\r") and type_ == type_.rstrip(BLANK) and not _SEPARATORS.search(type_)


CONLL = Format(
    name="conll",
    summary="word and tag in columns; IOB1, IOB2, BIOES, BMES",
    read=read,
    write=text_writer(encode),
    find_obstacle=find_obstacle,
    overlaps="none",
    keeps=frozenset(),  # documents have boundaries but no names
    suffixes=(".conll", ".iob", ".iob2", ".bio", ".bmes", ".bioes", ".tsv"),
)
