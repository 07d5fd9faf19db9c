"""JSON with words and entities by word index, in the shapes that people have.

| format           | words            | entities                                           | end of a span |
|------------------|------------------|----------------------------------------------------|---------------|
| `jsonl`          | `words`          | `entities`: `start`, `end`, `type`                 | exclusive     |
| `jsonl-tokens`   | `tokens`         | `entities`: `start`, `end`, `type`                 | either        |
| `jsonl-mentions` | `tokens`         | `entity_mentions`: `start`, `end`, `entity_type`   | either        |
| `jsonl-index`    | `sentence`       | `ner`: `index` (all its words), `type`             | -             |
| `jsonl-gliner`   | `tokenized_text` | `ner`: `[start, end, type]`                        | inclusive     |

The first is Fencepost's own. Where a shape allows either end, the content decides: a span that ends
where the sentence does is exclusive, one that ends where it starts is inclusive, and a span with its
text is what the text says. A file without any such sign is refused until the user says which it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from typing import Any

from fencepost.data.entity import Entity, Sentence
from fencepost.data.formats.format import Ends, Format, ReadOptions, WriteOptions
from fencepost.data.formats.json_fields import (
    NOT_READ,
    booleans,
    confidence,
    label,
    meta,
    name,
    same_text,
    span_lists,
    strings,
    whole_number,
)
from fencepost.data.formats.json_records import Record, encode_records, records
from fencepost.data.output import text_writer
from fencepost.data.source import Input, Reading, ReadSentence, Rejected, Source
from fencepost.errors import DataError, UsageError, quote, shorten

UNDECIDED_CHARACTERS = 1 << 24  # of the objects that are kept while the ends are undecided


@dataclass(frozen=True)
class Shape:
    """The names under which a JSON object has a sentence's parts."""

    name: str
    words: str
    entities: str
    type: str = "type"
    indices: str | None = None  # the key of a list of word indices, in place of start and end
    triples: bool = False  # entities are [start, end, type]
    ends: Ends | None = None  # None: the content decides
    left: str = "left"
    right: str = "right"
    id: tuple[str, ...] = ("id", "sent_id", "orig_id", "org_id")
    doc: tuple[str, ...] = ("doc", "doc_id", "doc_key")

    @cached_property
    def keys(self) -> set[str]:
        """The keys of an object that are known, names apart."""
        return {self.words, self.entities, self.left, self.right, "pos", "space_after"}

    @cached_property
    def item_keys(self) -> set[str]:
        """The keys of an entity that are known."""
        place = (self.indices,) if self.indices else ("start", "end")
        return {self.type, "text", "score", *place}

    def fits(self, record: dict[str, Any]) -> bool:
        """Whether an object has this shape: the words, and the entities unless it has none."""
        return isinstance(record.get(self.words), list) and self.entities in record


SHAPES = (
    Shape("jsonl", "words", "entities", ends="exclusive"),
    Shape("jsonl-mentions", "tokens", "entity_mentions", type="entity_type"),
    Shape("jsonl-tokens", "tokens", "entities", left="ltokens", right="rtokens"),
    Shape("jsonl-index", "sentence", "ner", indices="index", ends="exclusive"),
    Shape("jsonl-gliner", "tokenized_text", "ner", triples=True, ends="inclusive"),
)


@dataclass(frozen=True, slots=True)
class Span:
    """An entity as the file has it: its `end` may be inclusive."""

    start: int
    end: int
    type: str
    score: float
    text: str | None
    meta: dict[str, Any]


def read(source: Source, options: ReadOptions, *, shape: Shape) -> Iterator[Reading]:
    return convert(records(source), source, options, shape)


def convert(found: Iterator[Record], source: Input, options: ReadOptions, shape: Shape) -> Iterator[Reading]:
    """Yield the sentence of each object, or why it has none."""
    for record, ends, decided_at in _with_ends(found, source, options, shape):
        try:
            if record.problem:
                raise ValueError(record.problem)
            words, spans = _words_and_spans(record.value, shape)
            if decided_at is not None and signs(words, spans) - {ends}:
                other = "inclusive" if ends == "exclusive" else "exclusive"
                raise DataError(
                    f"an entity's end here is {other}, but {source.position(decided_at)} shows {ends} ends; "
                    "say --ends inclusive or --ends exclusive, and what does not fit will be invalid",
                    source=source.name,
                    line=record.line,
                )
            entities = [_entity(span, words, ends, options) for span in spans]
            sentence = _sentence(record.value, shape, words, entities)
        except ValueError as error:
            yield Rejected(record.line, str(error), record.raw)
        else:
            if not spans and (others := span_lists(sentence.meta)):
                source.note(NOT_READ, record.line, quote(others[0]))
            yield ReadSentence(record.line, sentence)


def _with_ends(
    found: Iterator[Record], source: Input, options: ReadOptions, shape: Shape
) -> Iterator[tuple[Record, Ends, int | None]]:
    """Yield the objects with what their ends are, and the line that shows it if the content decides.

    From the first span on, objects are held back until one shows whether ends are inclusive.
    """
    if options.ends and shape.ends and (shape.indices or options.ends != shape.ends):
        what = "lists every word of an entity" if shape.indices else f"has {shape.ends} ends by definition"
        raise UsageError(f"{source.name}: {shape.name} {what}, so --ends {options.ends} is wrong here")
    known = shape.ends or options.ends
    if known:
        yield from ((record, known, None) for record in found)
        return
    held: list[Record] = []
    characters = 0
    for record in found:
        try:
            words, spans = _words_and_spans(record.value, shape)
        except ValueError:  # it is reported when its turn comes
            words, spans = [], []
        if not (spans or held):
            yield record, "exclusive", None
            continue
        held.append(record)
        characters += len(record.raw)
        for ends in sorted(signs(words, spans)):
            yield from ((each, ends, record.line) for each in chain(held, found))
            return
        if characters > UNDECIDED_CHARACTERS:
            break
    if held:
        raise DataError(
            "nothing here shows whether an entity's end is its last word or the word after it; "
            "say --ends inclusive or --ends exclusive",
            source=source.name,
        )


def signs(words: list[str], spans: list[Span]) -> set[Ends]:
    """Return what the spans of a sentence show about their ends: nothing, one of the two, or both."""
    shown: set[Ends] = set()
    for span in spans:
        by_text = _sign_of_text(words, span)
        if by_text:
            shown.add(by_text)
        elif 0 <= span.start == span.end < len(words):
            shown.add("inclusive")
        elif 0 <= span.start < span.end == len(words):
            shown.add("exclusive")
    return shown


def _sign_of_text(words: list[str], span: Span) -> Ends | None:
    if span.text is None or not 0 <= span.start <= span.end:
        return None
    phrases = [" ".join(words[span.start : end]) for end in (span.end, span.end + 1)]
    exclusive, inclusive = (phrase == span.text for phrase in phrases)
    if exclusive == inclusive:
        exclusive, inclusive = (same_text(phrase, span.text) for phrase in phrases)
    if exclusive == inclusive:
        return None
    return "exclusive" if exclusive else "inclusive"


def _words_and_spans(record: dict[str, Any], shape: Shape) -> tuple[list[str], list[Span]]:
    """Return the required parts of an object; raises `ValueError` for one that is not valid."""
    words = strings(record, shape.words)
    items = record.get(shape.entities)
    if not isinstance(items, list):
        raise ValueError(f"{shape.entities!r} is missing, or not a list")
    spans = []
    for index, item in enumerate(items):
        try:
            spans.append(_span(item, shape))
        except ValueError as error:
            raise ValueError(f"{shape.entities}[{index}]{error}") from error
    return words, spans


def _span(item: Any, shape: Shape) -> Span:
    """Return the span of one item; an error message continues the name of the item."""
    if shape.triples:
        if not isinstance(item, list) or len(item) != 3:
            raise ValueError(" is not of the form [start, end, type]")
        item = dict(zip(("start", "end", shape.type), item, strict=True))
    if not isinstance(item, dict):
        raise ValueError(" is not an object")
    if shape.indices is not None:
        start, end = _contiguous(shape.indices, item.get(shape.indices))
    else:
        start = whole_number(".start", item.get("start"))
        end = whole_number(".end", item.get("end"))
    text = item.get("text")
    if text is not None and type(text) is not str:
        raise ValueError(".text is not a string")
    type_ = label(".type", item.get(shape.type))
    score = confidence(".score", item.get("score", 1.0))
    return Span(start, end, type_, score, text, meta(item, shape.item_keys))


def _contiguous(key: str, indices: Any) -> tuple[int, int]:
    """Return the span of a list of all the indices of an entity's words."""
    place = f".{key}"
    if not isinstance(indices, list) or not indices:
        raise ValueError(f"{place} is not a list of word indices")
    numbers = [whole_number(place, index) for index in indices]
    start, end = numbers[0], numbers[-1] + 1
    if end - start != len(numbers) or numbers != list(range(start, end)):
        raise ValueError(
            f"{place} is {str(numbers)[:60]}: an entity with a gap. Discontinuous entities cannot be kept; "
            "leave it out, or annotate the whole stretch"
        )
    return start, end


def _entity(span: Span, words: list[str], ends: Ends, options: ReadOptions) -> Entity:
    """Return the entity of a span; its text is checked, and kept where it is spelled differently."""
    entity = Entity(span.start, span.end + (ends == "inclusive"), span.type, span.score, span.meta)
    if span.text is None:
        return entity
    phrase = " ".join(words[entity.start : entity.end])
    if span.text == phrase:
        return entity
    if options.check_text and not same_text(span.text, phrase):
        raise ValueError(
            f"the text of {shorten(entity.type)} [{entity.start}, {entity.end}) is {quote(span.text)}, but "
            f"those words are {quote(phrase)}; correct it, or say --ends if all ends are meant otherwise, "
            "or --no-check-text if texts are spelled differently on purpose"
        )
    return replace(entity, meta={**span.meta, "text": span.text})


def _sentence(record: dict[str, Any], shape: Shape, words: list[str], entities: list[Entity]) -> Sentence:
    id_key, id_ = name(record, shape.id)
    doc_key, doc = name(record, shape.doc)
    return Sentence(
        words,
        entities,
        id=id_,
        doc=doc,
        left=strings(record, shape.left) if shape.left in record else (),
        right=strings(record, shape.right) if shape.right in record else (),
        pos=strings(record, "pos") if record.get("pos") is not None else None,
        space_after=booleans(record, "space_after"),
        meta=meta(record, {*shape.keys, id_key, doc_key}),
    )


def encode(sentences: Iterable[Sentence], options: WriteOptions, *, shape: Shape) -> Iterator[str]:
    return encode_records((to_record(sentence, shape) for sentence in sentences), options)


def as_json(sentence: Sentence) -> str:
    """A sentence as one line of `jsonl`; one that has no JSON as its text."""
    try:
        return json.dumps(to_record(sentence), ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return sentence.text


def to_record(sentence: Sentence, shape: Shape = SHAPES[0]) -> dict[str, Any]:
    """Return the object of a sentence, by default as `jsonl` has it."""
    parts: dict[str, Any] = {
        "id": sentence.id,
        "doc": sentence.doc,
        shape.words: sentence.words,
        shape.entities: [_item(sentence, entity, shape) for entity in sentence.entities],
        shape.left: sentence.left or None,
        shape.right: sentence.right or None,
        "pos": sentence.pos,
        "space_after": sentence.space_after,
        "meta": dict(sentence.meta) or None,
    }
    return {key: value for key, value in parts.items() if value is not None}


def _item(sentence: Sentence, entity: Entity, shape: Shape) -> Any:
    if shape.triples:
        return [entity.start, entity.end - 1, entity.type]
    item: dict[str, Any] = {"start": entity.start, "end": entity.end}
    if shape.indices:
        item = {shape.indices: list(range(entity.start, entity.end))}
    item[shape.type] = entity.type
    if shape.ends is None:  # the text shows every reader that the end is exclusive
        item["text"] = sentence.phrase(entity)
    if entity.score != 1.0:
        item["score"] = entity.score
    if entity.meta:
        item["meta"] = dict(entity.meta)
    return item


def _format(shape: Shape, summary: str, suffixes: tuple[str, ...] = ()) -> Format:
    kept = {"id", "doc", "left", "right", "pos", "space_after", "meta"}
    return Format(
        name=shape.name,
        summary=summary,
        read=partial(read, shape=shape),
        write=text_writer(partial(encode, shape=shape)),
        obstacle=lambda _: None,
        overlaps="any",
        keeps=frozenset(kept if shape.triples else kept | {"score", "entity meta"}),
        suffixes=suffixes,
    )


_SUMMARIES = {
    "jsonl": "Fencepost's own: words, entities with half-open start and end",
    "jsonl-tokens": "tokens, entities with start, end, type; ends by content or --ends",
    "jsonl-mentions": "tokens, entity_mentions with start, end, entity_type; ends as above",
    "jsonl-index": "sentence, ner with the index of every word",
    "jsonl-gliner": "tokenized_text, ner as [start, end, type] with inclusive ends",
}
FORMATS = tuple(
    _format(shape, _SUMMARIES[shape.name], (".jsonl", ".json") if shape.name == "jsonl" else ())
    for shape in SHAPES
)
