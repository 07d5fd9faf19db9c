"""GENIA's GPML: XML in which entities are nested `<cons sem="G#TYPE">` elements.

Words are `<w c="POS">` elements; in editions without them, the text of a sentence is split into words. The
type is what follows `G#`. A coordination such as `(AND G#DNA G#protein)` has all of its types on the whole
span, and a `cons` without `sem` (a part of a coordination) is not an entity.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import chain
from typing import NamedTuple
from xml.parsers import expat
from xml.sax.saxutils import escape, quoteattr

from fencepost.data.entity import Entity, Sentence
from fencepost.data.formats.format import Format, ReadOptions, WriteOptions
from fencepost.data.formats.overlaps import list_brackets
from fencepost.data.output import text_writer
from fencepost.data.source import LINE_BYTES, Reading, ReadSentence, Rejection, Source
from fencepost.data.text import WORD_SPLIT, CharSpan, Splitter, align, make_splitter
from fencepost.errors import DataError, describe_error, quote, shorten

ROOT = "set"
SENTENCE_CHARACTERS = 1 << 24
REFERENCE_CHARACTERS = 1 << 16
TAG_BYTES = 1 << 22
DEPTH = 1000
_KNOWN = {"cons", "w", "sentence"}
_TYPES = re.compile(r"G#([^\s()]+)")
_NOT_IN_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_WHITE_SPACE = {"\n": "&#10;", "\r": "&#13;", "\t": "&#9;"}  # parsers convert these to spaces


class _UnsafeFile(Exception):
    """The file has content that is refused for safety."""


@dataclass
class _Draft:
    """A sentence that is being parsed."""

    line: int
    byte: int  # offset of its start in the file
    id: str | None
    doc: str | None
    pieces: list[str] = field(default_factory=list)
    length: int = 0  # total length of the pieces
    words: list[tuple[int, int]] = field(default_factory=list)  # offsets of each <w>
    pos: list[str | None] = field(default_factory=list)
    spans: list[tuple[_Position, _Position, str]] = field(default_factory=list)  # start, end, type
    problem: str | None = None

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    @property
    def place(self) -> _Position:
        return _Position(self.length, len(self.words))


class _Position(NamedTuple):
    """A position in a sentence: the number of characters and of complete words before it."""

    character: int
    word: int


class _Handler:
    """Collects the sentences of a GPML file from expat's events."""

    def __init__(self, parser: expat.XMLParserType, source: Source) -> None:
        self.parser = parser
        self.source = source
        self.complete: list[_Draft] = []
        self.root: str | None = None  # name of the outermost element
        self.depth = 0
        self.sentences = 0
        self.sentence: _Draft | None = None
        self.open: list[tuple[_Position, dict[str, str]]] = []  # open elements in the sentence
        self.document: str | None = None
        self.reference: list[str] | None = None  # text of the open <bibliomisc>
        parser.buffer_text = True
        parser.StartElementHandler = self._handle_start
        parser.EndElementHandler = self._handle_end
        parser.CharacterDataHandler = self._handle_text
        parser.SkippedEntityHandler = self._handle_skipped
        parser.EntityDeclHandler = self._refuse_declaration

    def check_size(self, fed: int) -> None:
        """Refuse a sentence or a tag that is too long; the parser has received `fed` bytes."""
        if self.sentence and fed - self.sentence.byte > LINE_BYTES:
            raise _UnsafeFile(f"it has a sentence longer than {LINE_BYTES >> 20} MB")
        if fed - self.parser.CurrentByteIndex > TAG_BYTES:  # expat reads an open tag again with each chunk
            raise _UnsafeFile(f"it has a tag longer than {TAG_BYTES >> 20} MB")

    def take(self) -> list[_Draft]:
        """Return the sentences that are complete, and forget them."""
        drafts, self.complete = self.complete, []
        return drafts

    def _handle_start(self, name: str, attributes: dict[str, str]) -> None:
        self.root = self.root or name
        self.depth += 1
        if self.depth > DEPTH:
            raise _UnsafeFile(f"its elements are nested more than {DEPTH:,} deep")
        if name not in _KNOWN if self.sentence else name == "cons":
            where = "inside" if self.sentence else "outside"
            kind = f"element {where} a <sentence>, not read as an annotation"
            self.source.note(kind, self.parser.CurrentLineNumber, f"<{name}>")
        if self.sentence:
            if name == "sentence":
                self.sentence.problem = "a <sentence> is inside another"
            self.open.append((self.sentence.place, attributes))
        elif name == "sentence":
            self.sentences += 1
            line = self.parser.CurrentLineNumber
            self.sentence = _Draft(line, self.parser.CurrentByteIndex, attributes.get("id"), self.document)
        elif name == "article":
            self.document = None
        elif name == "bibliomisc":
            self.reference = []

    def _handle_end(self, name: str) -> None:
        self.depth -= 1
        if self.sentence and self.open:
            start, attributes = self.open.pop()
            if name == "w":
                self._add_word(start, attributes, self.sentence)
            elif name == "cons" and "sem" in attributes:
                types = _parse_types(attributes["sem"])
                if not types:
                    self.sentence.problem = f"sem={quote(attributes['sem'])} has no type"
                self.sentence.spans += [(start, self.sentence.place, type_) for type_ in types]
        elif self.sentence:
            self.complete.append(self.sentence)
            self.sentence = None
        elif name == "bibliomisc":
            reference = "".join(self.reference or ())
            self.document, self.reference = reference if reference.strip() else None, None

    def _add_word(self, start: _Position, attributes: dict[str, str], draft: _Draft) -> None:
        if start.word != len(draft.words):
            draft.problem = "a <w> is inside another"
        draft.words.append((start.character, draft.length))
        draft.pos.append(attributes.get("c"))

    def _handle_text(self, data: str) -> None:
        if self.sentence:
            self.sentence.pieces.append(data)
            self.sentence.length += len(data)
            if self.sentence.length > SENTENCE_CHARACTERS:
                raise _UnsafeFile(f"it has a sentence of more than {SENTENCE_CHARACTERS:,} characters")
        elif self.reference is not None:
            self.reference.append(data)
            if sum(map(len, self.reference)) > REFERENCE_CHARACTERS:
                raise _UnsafeFile(f"it has a <bibliomisc> of more than {REFERENCE_CHARACTERS:,} characters")

    def _handle_skipped(self, name: str, is_parameter: bool) -> None:  # noqa: ARG002 - expat's signature
        if self.sentence:
            self.sentence.problem = f"the entity &{shorten(name)}; is not defined in the file"

    def _refuse_declaration(self, name: str, *_: object) -> None:
        raise _UnsafeFile(f"it declares the entity {quote(name)}; declarations are not supported")


def _parse_types(sem: str) -> list[str]:
    """Return the type, or the different types of a coordination."""
    if sem.startswith("("):
        return list(dict.fromkeys(_TYPES.findall(sem)))
    return [sem.removeprefix("G#")] if sem != "G#" else []


def read(source: Source, options: ReadOptions) -> Iterator[Reading]:
    parser = expat.ParserCreate()
    handler = _Handler(parser, source)
    splitter = cache(
        partial(make_splitter, options.language, lines=options.lines, pretokenized=options.pretokenized)
    )
    problem = None
    fed = 0
    for chunk in chain(source.read_chunks(), [b""]):
        try:
            parser.Parse(chunk, not chunk)
            fed += len(chunk)
            handler.check_size(fed)
        except expat.ExpatError as error:
            problem = f"not XML: {expat.ErrorString(error.code)}; the rest of the file cannot be read"
        except (_UnsafeFile, ValueError, LookupError) as error:
            problem = f"the file cannot be read: {describe_error(error)}"
        yield from (_convert(draft, splitter, source) for draft in handler.take())
        if problem:
            yield Rejection(parser.ErrorLineNumber, problem, "")
            return
    if not handler.sentences and handler.root != ROOT:
        raise DataError("XML without a <sentence>: not GPML", source=source.name)


def _convert(draft: _Draft, splitter: Callable[[], Splitter], source: Source) -> Reading:
    try:
        if draft.problem:
            raise ValueError(draft.problem)
        has_words = draft.words or not draft.text.strip()
        sentence = _read_words(draft) if has_words else _split_text(draft, splitter(), source)
    except ValueError as error:
        return Rejection(draft.line, str(error), draft.text)
    return ReadSentence(draft.line, replace(sentence, id=draft.id, doc=draft.doc))


def _read_words(draft: _Draft) -> Sentence:
    text = draft.text
    position = 0
    for start, end in (*draft.words, (len(text), len(text))):
        if text[position:start].strip():
            raise ValueError(f"{quote(text[position:start].strip())} is outside the <w> elements")
        position = end
    entities = [Entity(start.word, end.word, type_) for start, end, type_ in draft.spans]
    pos = [pos or "" for pos in draft.pos] if any(p is not None for p in draft.pos) else None
    return Sentence([text[start:end] for start, end in draft.words], entities, pos=pos)


def _split_text(draft: _Draft, splitter: Splitter, source: Source) -> Sentence:
    spans = [CharSpan(start.character, end.character, type_) for start, end, type_ in draft.spans]
    words = [word for words in splitter.split(draft.text) for word in words]
    document = align(draft.text, spans, [words])
    source.note(WORD_SPLIT, draft.line, times=document.words_split)
    return document.sentences[0]


def encode(sentences: Iterable[Sentence], options: WriteOptions) -> Iterator[str]:  # noqa: ARG001
    yield f'<?xml version="1.0" encoding="UTF-8"?>\n<{ROOT}>\n'
    document: tuple[str | None] | None = None  # document of the open article; None before the first
    for sentence in sentences:
        if document != (sentence.doc,):
            yield "</article>\n" * (document is not None)
            document = (sentence.doc,)
            yield "<article>\n"
            if sentence.doc is not None:
                reference = escape(sentence.doc, _WHITE_SPACE)
                yield f"<articleinfo><bibliomisc>{reference}</bibliomisc></articleinfo>\n"
        yield _format_element(sentence) + "\n"
    yield "</article>\n" * (document is not None)
    yield f"</{ROOT}>\n"


def _format_element(sentence: Sentence) -> str:
    words = []
    tags: Sequence[str | None] = sentence.pos or [None] * len(sentence)
    for word, pos, (entities, ends) in zip(sentence.words, tags, list_brackets(sentence), strict=True):
        opens = "".join(f"<cons{_format_attribute('sem', 'G#' + entity.type)}>" for entity in entities)
        element = f"<w{_format_attribute('c', pos)}>{escape(word, _WHITE_SPACE)}</w>"
        words.append(opens + element + "</cons>" * ends)
    return f"<sentence{_format_attribute('id', sentence.id)}>{' '.join(words)}</sentence>"


def _format_attribute(name: str, value: str | None) -> str:
    return "" if value is None else f" {name}={quoteattr(value, _WHITE_SPACE)}"


def find_obstacle(sentence: Sentence) -> str | None:
    names = (sentence.id or "", sentence.doc or "", *(sentence.pos or ()))
    types = [entity.type for entity in sentence.entities]
    if any(_NOT_IN_XML.search(text) for text in (*sentence.words, *types, *names)):
        return "a control character, which XML cannot represent"
    if sentence.doc is not None and not sentence.doc.strip():
        return "a document with a blank name"
    return None


GPML = Format(
    name="gpml",
    summary="GENIA's XML: nested <cons sem=...> elements",
    read=read,
    write=text_writer(encode),
    find_obstacle=find_obstacle,
    overlaps="nested",
    keeps=frozenset({"id", "doc", "pos"}),
    suffixes=(".xml", ".gpml"),
)
