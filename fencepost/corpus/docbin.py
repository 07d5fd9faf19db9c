"""spaCy's `DocBin` (`.spacy`), the format that `spacy train` reads.

Entities are the spans of one span group (`sc`, as spaCy's span categoriser has it, unless told
otherwise); a file without span groups is read by its `doc.ents`. Sentences are spaCy's, and a document
without sentence boundaries is one sentence. Written, each sentence is a document of its own, with its
entities in `sc` and, where they do not overlap, in `doc.ents`; what spaCy has no place for is kept as JSON
in the documents' user data.
"""

from __future__ import annotations

import itertools
import json
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fencepost.corpus.format import Format, ReadOptions, WriteOptions
from fencepost.corpus.json_fields import is_json, strings
from fencepost.corpus.output import whole_file
from fencepost.corpus.source import Found, Reading, Rejected, Source
from fencepost.entity import Entity, Sentence
from fencepost.errors import DataError
from fencepost.text.alignment import uncrossed

if TYPE_CHECKING:
    from spacy.tokens import Doc, Span
    from spacy.vocab import Vocab

SPANS_KEY = "sc"
USER_DATA = "fencepost"
_KINDS = {"id": str, "doc": str, "left": list, "right": list, "meta": dict, "entities": list}
FILE_BYTES = 1 << 28
UNPACKED_BYTES = 1 << 31
# What is read of a document. Without the columns of a parse, no broken tree can do any harm.
ATTRIBUTES = ("ORTH", "TAG", "ENT_IOB", "ENT_TYPE", "SENT_START", "SPACY")
NO_SENTENCES = "document without sentence boundaries read as one sentence"


def is_docbin(head: bytes) -> bool:
    """Whether a file begins as a DocBin does: compressed, and inside it a MessagePack map."""
    try:
        first = zlib.decompressobj().decompress(head[:1000], 1)
    except zlib.error:
        return False
    return first[:1] in {bytes([byte]) for byte in (*range(0x80, 0x90), 0xDE)}


class _ManyGroups(Exception):
    """A document has several span groups, and nobody has said which one to read."""


def read(source: Source, options: ReadOptions) -> Iterator[Reading]:
    from spacy.vocab import Vocab

    groups: set[str] = set()
    for number, doc in enumerate(_documents(source, Vocab()), start=1):
        try:
            groups.update(doc.spans)
            sentences = _sentences(doc, number, options, source)
        except _ManyGroups as error:
            raise DataError(str(error), source=source.name, line=number) from error
        except Exception as error:  # noqa: BLE001 - spaCy promises nothing about how it fails
            yield Rejected(number, f"document {number} cannot be read: {error}", "")
        else:
            yield from (Found(number, sentence) for sentence in sentences)
    if options.spans_key is not None and options.spans_key not in groups:
        there = f"there are {', '.join(sorted(groups))}" if groups else "there are none"
        raise DataError(f"no span group {options.spans_key!r}; {there}", source=source.name)


def _documents(source: Source, vocab: Vocab) -> Iterator[Doc]:
    """The file's documents, with nothing but the attributes that are read here.

    The file has a checksum, so a damaged one is found out as a whole.
    """
    from spacy.attrs import IDS
    from spacy.tokens import DocBin

    data = source.read_all(FILE_BYTES)
    try:
        unpacking = zlib.decompressobj()
        unpacking.decompress(data, UNPACKED_BYTES)
        if not unpacking.eof:
            raise ValueError("it is cut off, or too large")
        documents = DocBin().from_bytes(data)
        read_ids = {IDS[name] for name in ATTRIBUTES}
        columns = [index for index, id_ in enumerate(documents.attrs) if id_ in read_ids]
        documents.attrs = [documents.attrs[index] for index in columns]
        documents.tokens = [tokens[:, columns] for tokens in documents.tokens]
        yield from documents.get_docs(vocab)
    except Exception as error:
        raise DataError(f"not a DocBin that spaCy can read: {error!r}", source=source.name) from error


def _sentences(doc: Doc, number: int, options: ReadOptions, source: Source) -> list[Sentence]:
    spans = _spans(doc, options)
    beginnings = [0]
    if _has_sentences(doc):
        beginnings = uncrossed([sent.start for sent in doc.sents], [(start, end) for start, end, _ in spans])
    else:
        source.note(NO_SENTENCES, number)
    members: list[list[Entity]] = [[] for _ in beginnings]
    for start, end, type_ in spans:
        index = bisect_right(beginnings, start) - 1
        members[index].append(Entity(start - beginnings[index], end - beginnings[index], type_))
    sentence = partial(_sentence, doc, tagged=doc.has_annotation("TAG"))
    sentences = list(map(sentence, beginnings, [*beginnings[1:], len(doc)], members))
    return [_restore(sentences[0], _user_data(doc))] if len(sentences) == 1 else sentences


def _sentence(doc: Doc, first: int, last: int, entities: list[Entity], *, tagged: bool) -> Sentence:
    words = doc[first:last]
    return Sentence(
        [token.text for token in words],
        entities,
        pos=[token.tag_ for token in words] if tagged else None,
        space_after=None if doc.has_unknown_spaces else [bool(token.whitespace_) for token in words],
    )


def _has_sentences(doc: Doc) -> bool:
    return len(doc) > 0 and doc.has_annotation("SENT_START")


def _spans(doc: Doc, options: ReadOptions) -> list[tuple[int, int, str]]:
    key = options.spans_key
    if key is None and doc.spans:
        keys = sorted(doc.spans)
        if len(keys) > 1 and SPANS_KEY not in keys:
            raise _ManyGroups(f"several span groups ({', '.join(keys)}); name one with --spans-key")
        key = SPANS_KEY if SPANS_KEY in keys else keys[0]
    spans: Iterable[Span] = doc.ents if key is None else doc.spans.get(key, ())
    return [(span.start, span.end, span.label_) for span in spans]


def _user_data(doc: Doc) -> dict[str, Any]:
    """What `_keep` put there, if anything."""
    try:
        extra = json.loads(doc.user_data.get(USER_DATA, "{}"))
    except (TypeError, ValueError, RecursionError):
        return {}
    if not isinstance(extra, dict):
        return {}
    if not is_json(extra):
        raise ValueError(f"the user data under {USER_DATA!r} hold what no file can")
    return {key: extra[key] for key, kind in _KINDS.items() if isinstance(extra.get(key), kind)}


def _keep(sentence: Sentence) -> str:
    """The parts of a sentence for which spaCy has no place, as JSON."""
    extra = {
        "id": sentence.id,
        "doc": sentence.doc,
        "left": sentence.left,
        "right": sentence.right,
        "meta": dict(sentence.meta),
        "entities": [
            [entity.start, entity.end, entity.type, entity.score, dict(entity.meta)]
            for entity in sentence.entities
        ],
    }
    if all(entity.score == 1.0 and not entity.meta for entity in sentence.entities):
        del extra["entities"]
    kept = {key: value for key, value in extra.items() if value or value == ""}
    return json.dumps(kept, ensure_ascii=False)


def _restore(sentence: Sentence, extra: dict[str, Any]) -> Sentence:
    """The inverse of `_keep`; entities that have changed since keep what spaCy says of them."""
    kept: dict[tuple[int, int, str], list[Entity]] = {}
    try:
        for start, end, type_, score, meta in reversed(extra.pop("entities", [])):
            entity = Entity(start, end, type_, score, dict(meta))
            kept.setdefault(entity.key, []).append(entity)
        for key in extra.keys() & {"left", "right"}:
            strings(extra, key)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"the user data under {USER_DATA!r} are not what Fencepost writes: {error}"
        ) from error
    entities = [
        kept[entity.key].pop() if kept.get(entity.key) else entity  # in the order in which they were kept
        for entity in sentence.entities
    ]
    return replace(sentence, entities=entities, **extra)


def write(sentences: Iterable[Sentence], path: Path | None, options: WriteOptions) -> None:  # noqa: ARG001
    from spacy.tokens import DocBin
    from spacy.vocab import Vocab

    vocab = Vocab()
    documents = DocBin(attrs=ATTRIBUTES, store_user_data=True)
    for sentence in sentences:
        documents.add(_doc(sentence, vocab))
    with whole_file(path) as stream:
        stream.write(documents.to_bytes())


def _doc(sentence: Sentence, vocab: Vocab) -> Doc:
    from spacy.tokens import Doc, Span

    doc = Doc(
        vocab,
        words=list(sentence.words),
        spaces=None if sentence.space_after is None else list(sentence.space_after),
        tags=None if sentence.pos is None else list(sentence.pos),
        sent_starts=[index == 0 for index in range(len(sentence))],
    )
    spans = [Span(doc, entity.start, entity.end, label=entity.type) for entity in sentence.entities]
    doc.spans[SPANS_KEY] = spans
    if all(one.end <= two.start for one, two in itertools.pairwise(spans)):
        doc.set_ents(spans)
    doc.user_data[USER_DATA] = _keep(sentence)
    return doc


def obstacle(sentence: Sentence) -> str | None:
    if not sentence.words or "" in sentence.words:
        return "no words, or an empty one"
    if sentence.pos and "" in sentence.pos:
        return "an empty part of speech"
    return None


SPACY = Format(
    name="spacy",
    summary="spaCy's DocBin, with the entities as spans",
    read=read,
    write=write,
    obstacle=obstacle,
    overlaps="any",
    keeps=frozenset({"id", "doc", "left", "right", "pos", "space_after", "score", "meta", "entity meta"}),
    suffixes=(".spacy",),
)
