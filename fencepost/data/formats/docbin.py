"""spaCy's `DocBin` (`.spacy`), the format that `spacy train` reads.

Entities are the spans of one span group (`sc`, as spaCy's span categoriser has it, unless another is
named); a file without span groups is read by its `doc.ents`. Sentences are spaCy's, and a document
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
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fencepost.data.entity import Entity, Sentence
from fencepost.data.formats.docbin_message import Message, StoredDocument, starts_map, unpack
from fencepost.data.formats.format import Format, ReadOptions, WriteOptions
from fencepost.data.formats.json_fields import is_json, strings
from fencepost.data.output import whole_file
from fencepost.data.source import Reading, ReadSentence, Rejected, Source
from fencepost.data.text.alignment import uncrossed
from fencepost.errors import DataError, FencepostError, describe_error, require_extra, shorten

if TYPE_CHECKING:
    from spacy.strings import StringStore
    from spacy.tokens import Doc
    from spacy.vocab import Vocab

SPANS_KEY = "sc"
USER_DATA = "fencepost"
_KINDS = {"id": str, "doc": str, "left": list, "right": list, "meta": dict, "entities": list}
FILE_BYTES = 1 << 28
USER_CHARACTERS = 1 << 24  # of the text that Fencepost keeps with a document
ATTRIBUTES = ("ORTH", "TAG", "ENT_IOB", "ENT_TYPE", "SENT_START", "SPACY")
NO_ENTITIES = "no entities are stored here: there are no span groups, and ENT_IOB and ENT_TYPE are missing"
NO_SENTENCES = "document without sentence boundaries read as one sentence"


def is_docbin(head: bytes) -> bool:
    """Whether a file begins as a DocBin does: compressed, and inside it a MessagePack map."""
    try:
        return starts_map(zlib.decompressobj().decompress(head[:1000], 1))
    except zlib.error:
        return False


def read(source: Source, options: ReadOptions) -> Iterator[Reading]:
    with require_extra("spacy", "reading a DocBin"):
        from spacy.strings import StringStore

    groups: set[str] = set()
    with _named_errors(source):
        message = Message(unpack(source.read_all(FILE_BYTES)))
        strings_by_hash = StringStore(message.strings())
    for number, stored in enumerate(_documents(message, source), start=1):
        groups.update(stored.groups)
        try:
            sentences = _sentences(stored, strings_by_hash, number, options, source)
        except FencepostError:
            raise
        except Exception as error:  # noqa: BLE001 - of any kind, where what is packed is broken
            yield Rejected(number, f"document {number} cannot be read: {describe_error(error)}", "")
        else:
            yield from (ReadSentence(number, sentence) for sentence in sentences)
    if options.spans_key is not None and options.spans_key not in groups:
        there = shorten(f"there are {', '.join(sorted(groups))}") if groups else "there are none"
        raise DataError(f"no span group {options.spans_key!r}; {there}", source=source.name)
    if not groups and not {"ENT_IOB", "ENT_TYPE"} <= message.attributes.keys():
        source.note(NO_ENTITIES)


@contextmanager
def _named_errors(source: Source) -> Iterator[None]:
    """Turn whatever is wrong with a file into a `DataError`."""
    try:
        yield
    except FencepostError:
        raise
    except Exception as error:
        reason = f"not a DocBin that spaCy can read: {describe_error(error)}"
        raise DataError(reason, source=source.name) from error


def _documents(message: Message, source: Source) -> Iterator[StoredDocument]:
    """Yield the documents; the file has a checksum, so a damaged one is refused as a whole."""
    with _named_errors(source):
        yield from message.documents()


def _sentences(
    stored: StoredDocument, strings_by_hash: StringStore, number: int, options: ReadOptions, source: Source
) -> list[Sentence]:
    words, pos = ([strings_by_hash[hash_] for hash_ in stored.values(name)] for name in ("ORTH", "TAG"))
    if "" in words:
        raise ValueError("a token without text")
    hashed = _spans(stored, number, options, source)
    spans = [(start, end, strings_by_hash[label]) for start, end, label in hashed]
    follows = stored.values("SENT_START")[1:]
    beginnings = [0, *(index for index, start in enumerate(follows, start=1) if start == 1)]
    if len(words) == 1 or any(follows):
        beginnings = uncrossed(beginnings, [(start, end) for start, end, _ in spans])
    else:
        source.note(NO_SENTENCES, number)
    members: list[list[Entity]] = [[] for _ in beginnings]
    for start, end, type_ in spans:
        index = bisect_right(beginnings, start) - 1
        members[index].append(Entity(start - beginnings[index], end - beginnings[index], type_))
    sentences = [
        Sentence(
            words[first:last],
            entities,
            pos=pos[first:last] if any(pos) else None,
            space_after=None if stored.spaces is None else stored.spaces[first:last],
        )
        for (first, last), entities in zip(
            itertools.pairwise([*beginnings, len(words)]), members, strict=True
        )
    ]
    return [_restore(sentences[0], _user_data(stored))] if len(sentences) == 1 else sentences


def _spans(
    stored: StoredDocument, number: int, options: ReadOptions, source: Source
) -> list[tuple[int, int, int]]:
    """Return the spans that are read, with the hashes of their labels."""
    entities = _entities(stored.values("ENT_IOB"), stored.values("ENT_TYPE"))
    key = options.spans_key
    if key is None and stored.groups:
        keys = sorted(stored.groups)
        if len(keys) > 1 and SPANS_KEY not in keys:
            reason = f"several span groups ({shorten(', '.join(keys))}); name one with --spans-key"
            raise DataError(reason, source=source.name, line=number)
        key = SPANS_KEY if SPANS_KEY in keys else keys[0]
    if key is None:
        return entities
    spans = stored.spans(key)
    if options.spans_key is None and set(entities) - set(spans):
        source.note("document with entities in doc.ents that are not in the span group that is read", number)
    return spans


def _entities(places: list[int], labels: list[int]) -> list[tuple[int, int, int]]:
    """Return what `doc.ents` would be; a place is 3 at an entity's first token and 1 at its others."""
    entities: list[tuple[int, int, int]] = []
    start: int | None = None
    for index, (place, label) in enumerate(zip([*places, 2], [*labels, 0], strict=True)):
        if place == 1 and start is None:
            raise ValueError(f"the entity of token {index} has no beginning")
        if place != 1:
            if start is not None:
                entities.append((start, index, labels[start]))
            start = index if place == 3 and label else None
    return entities


def _user_data(stored: StoredDocument) -> dict[str, Any]:
    """What `_keep` put there, if anything."""
    text = stored.user_text(USER_DATA) or "{}"
    if len(text) > USER_CHARACTERS:
        raise ValueError(f"the user data under {USER_DATA!r} have over {USER_CHARACTERS:,} characters")
    try:
        extra = json.loads(text)
    except (ValueError, RecursionError):
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
            f"the user data under {USER_DATA!r} are not what Fencepost writes: {describe_error(error)}"
        ) from error
    entities = [
        kept[entity.key].pop() if kept.get(entity.key) else entity  # in the order in which they were kept
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
