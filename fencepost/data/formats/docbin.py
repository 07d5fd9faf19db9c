"""spaCy's `DocBin` (`.spacy`), the format that `spacy train` reads.

Entities are the spans of one span group (by default `sc`, that of spaCy's span categoriser) or, in a file
without span groups, `doc.ents`. Sentences are those of spaCy; a document without sentence boundaries is one
sentence. In the output, each sentence is a document, with its entities in `sc` and, if they do not overlap,
in `doc.ents`; parts of a sentence that spaCy cannot represent are stored as JSON in the user data.
"""

from __future__ import annotations

import itertools
import json
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fencepost.data.entity import Entity, Sentence
from fencepost.data.formats.docbin_message import Message, StoredDocument, starts_map, unpack
from fencepost.data.formats.format import Format, ReadOptions, WriteOptions
from fencepost.data.formats.json_fields import check_strings, is_json
from fencepost.data.output import whole_file
from fencepost.data.source import Reading, ReadSentence, Rejection, Source
from fencepost.data.text.alignment import find_uncrossed
from fencepost.errors import DataError, FencepostError, describe_error, require_extra, shorten

if TYPE_CHECKING:
    from spacy.strings import StringStore
    from spacy.tokens import Doc
    from spacy.vocab import Vocab

SPANS_KEY = "sc"
USER_DATA = "fencepost"
_KINDS = {"id": str, "doc": str, "left": list, "right": list, "meta": dict, "entities": list}
FILE_BYTES = 1 << 28
USER_CHARACTERS = 1 << 24  # maximum length of the JSON in the user data of a document
ATTRIBUTES = ("ORTH", "TAG", "ENT_IOB", "ENT_TYPE", "SENT_START", "SPACY")
NO_ENTITIES = "the file has no entities: there are no span groups, and ENT_IOB and ENT_TYPE are missing"
NO_SENTENCES = "document without sentence boundaries read as one sentence"


def is_docbin(head: bytes) -> bool:
    """Return whether a file starts like a DocBin, which is a compressed MessagePack map."""
    try:
        return starts_map(zlib.decompressobj().decompress(head[:1000], 1))
    except zlib.error:
        return False


def read(source: Source, options: ReadOptions) -> Iterator[Reading]:
    with require_extra("spacy", "reading a DocBin"):
        from spacy.strings import StringStore

    groups: set[str] = set()
    with _raise_data_errors(source):
        message = Message(unpack(source.read_all(FILE_BYTES)))
        strings_by_hash = StringStore(message.read_strings())
    for number, stored in enumerate(_read_documents(message, source), start=1):
        groups.update(stored.groups)
        try:
            sentences = _convert_document(stored, strings_by_hash, number, options, source)
        except FencepostError:
            raise
        except Exception as error:  # noqa: BLE001 - damaged data may raise anything
            yield Rejection(number, f"document {number} cannot be read: {describe_error(error)}", "")
        else:
            yield from (ReadSentence(number, sentence) for sentence in sentences)
    if options.spans_key is not None and options.spans_key not in groups:
        known = shorten(f"there are {', '.join(sorted(groups))}") if groups else "there are none"
        raise DataError(f"there is no span group {options.spans_key!r}; {known}", source=source.name)
    if not groups and not {"ENT_IOB", "ENT_TYPE"} <= message.attributes.keys():
        source.note(NO_ENTITIES)


@contextmanager
def _raise_data_errors(source: Source) -> Iterator[None]:
    """Convert any error of the block to a `DataError`."""
    try:
        yield
    except FencepostError:
        raise
    except Exception as error:
        reason = f"the DocBin cannot be read: {describe_error(error)}"
        raise DataError(reason, source=source.name) from error


def _read_documents(message: Message, source: Source) -> Iterator[StoredDocument]:
    """Yield the documents; raises `DataError` if the file is damaged."""
    with _raise_data_errors(source):
        yield from message.read_documents()


def _convert_document(
    stored: StoredDocument, strings_by_hash: StringStore, number: int, options: ReadOptions, source: Source
) -> list[Sentence]:
    words, pos = ([strings_by_hash[hash_] for hash_ in stored.values(name)] for name in ("ORTH", "TAG"))
    if "" in words:
        raise ValueError("a token without text")
    hashed = _choose_spans(stored, number, options, source)
    spans = [(start, end, strings_by_hash[label]) for start, end, label in hashed]
    marks = stored.values("SENT_START")[1:]
    starts = [0, *(index for index, mark in enumerate(marks, start=1) if mark == 1)]
    if len(words) == 1 or any(marks):
        starts = find_uncrossed(starts, [(start, end) for start, end, _ in spans])
    else:
        source.note(NO_SENTENCES, number)
    members: list[list[Entity]] = [[] for _ in starts]
    for start, end, type_ in spans:
        index = bisect_right(starts, start) - 1
        members[index].append(Entity(start - starts[index], end - starts[index], type_))
    sentences = [
        Sentence(
            words[first:last],
            entities,
            pos=pos[first:last] if any(pos) else None,
            space_after=None if stored.spaces is None else stored.spaces[first:last],
        )
        for (first, last), entities in zip(itertools.pairwise([*starts, len(words)]), members, strict=True)
    ]
    return [_restore(sentences[0], _read_user_data(stored))] if len(sentences) == 1 else sentences


def _choose_spans(
    stored: StoredDocument, number: int, options: ReadOptions, source: Source
) -> list[tuple[int, int, int]]:
    """Return the spans that are read, with the hashes of their labels."""
    entities = _decode_entities(stored.values("ENT_IOB"), stored.values("ENT_TYPE"))
    key = options.spans_key
    if key is None and stored.groups:
        keys = sorted(stored.groups)
        if len(keys) > 1 and SPANS_KEY not in keys:
            reason = f"several span groups ({shorten(', '.join(keys))}); name one with --spans-key"
            raise DataError(reason, source=source.name, line=number)
        key = SPANS_KEY if SPANS_KEY in keys else keys[0]
    if key is None:
        return entities
    spans = stored.get_spans(key)
    if options.spans_key is None and set(entities) - set(spans):
        source.note("document with entities in doc.ents that are not in its span group, skipped", number)
    return spans


def _decode_entities(places: list[int], labels: list[int]) -> list[tuple[int, int, int]]:
    """Return the spans of `doc.ents`; a place is 3 at the first token of an entity and 1 at the others."""
    entities: list[tuple[int, int, int]] = []
    start: int | None = None
    for index, (place, label) in enumerate(zip([*places, 2], [*labels, 0], strict=True)):
        if place == 1 and start is None:
            raise ValueError(f"the entity of token {index} has no start")
        if place != 1:
            if start is not None:
                entities.append((start, index, labels[start]))
            start = index if place == 3 and label else None
    return entities


def _read_user_data(stored: StoredDocument) -> dict[str, Any]:
    """Return the parts of a sentence that `_encode_user_data` has stored, if there are any."""
    text = stored.get_user_text(USER_DATA) or "{}"
    if len(text) > USER_CHARACTERS:
        raise ValueError(f"the user data under {USER_DATA!r} have more than {USER_CHARACTERS:,} characters")
    try:
        extra = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(extra, dict):
        return {}
    if not is_json(extra):
        raise ValueError(f"the user data under {USER_DATA!r} have values that JSON cannot represent")
    return {key: extra[key] for key, kind in _KINDS.items() if isinstance(extra.get(key), kind)}


def _encode_user_data(sentence: Sentence) -> str:
    """Return the parts of a sentence that spaCy cannot represent, as JSON."""
    entities = [[*entity.key, entity.score, dict(entity.meta)] for entity in sentence.entities]
    has_more = any(entity.score != 1.0 or entity.meta for entity in sentence.entities)
    extra = {
        "id": sentence.id,
        "doc": sentence.doc,
        "left": sentence.left,
        "right": sentence.right,
        "meta": dict(sentence.meta),
        "entities": entities if has_more else None,
    }
    parts = {key: value for key, value in extra.items() if value or value == ""}
    return json.dumps(parts, ensure_ascii=False)


def _restore(sentence: Sentence, extra: dict[str, Any]) -> Sentence:
    """Return the sentence with the parts of `_read_user_data`; entities that were changed since stay so."""
    stored: dict[tuple[int, int, str], list[Entity]] = {}
    try:
        for start, end, type_, score, meta in reversed(extra.pop("entities", [])):
            entity = Entity(start, end, type_, score, dict(meta))
            stored.setdefault(entity.key, []).append(entity)
        for key in extra.keys() & {"left", "right"}:
            check_strings(extra, key)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"the user data under {USER_DATA!r} are not those that Fencepost writes: {describe_error(error)}"
        ) from error
    entities = [
        stored[entity.key].pop() if stored.get(entity.key) else entity  # in the original order
        for entity in sentence.entities
    ]
    return replace(sentence, entities=entities, **extra)


def write(sentences: Iterable[Sentence], path: Path | None, options: WriteOptions) -> None:  # noqa: ARG001
    with require_extra("spacy", "writing a DocBin"):
        from spacy.tokens import DocBin
        from spacy.vocab import Vocab

    vocab = Vocab()
    documents = DocBin(attrs=ATTRIBUTES, store_user_data=True)
    for sentence in sentences:
        documents.add(_make_doc(sentence, vocab))
    with whole_file(path) as stream:
        stream.write(documents.to_bytes())


def _make_doc(sentence: Sentence, vocab: Vocab) -> Doc:
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
    doc.user_data[USER_DATA] = _encode_user_data(sentence)
    return doc


def find_obstacle(sentence: Sentence) -> str | None:
    if not sentence.words or "" in sentence.words:
        return "no words, or an empty word"
    if sentence.pos and "" in sentence.pos:
        return "an empty part of speech"
    return None


SPACY = Format(
    name="spacy",
    summary="spaCy's DocBin, with the entities as spans",
    read=read,
    write=write,
    find_obstacle=find_obstacle,
    overlaps="any",
    keeps=frozenset({"id", "doc", "left", "right", "pos", "space_after", "score", "meta", "entity meta"}),
    suffixes=(".spacy",),
)
