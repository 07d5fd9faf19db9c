"""JSON with words, and entities by word index, in several shapes.

| format           | words            | entities                                           | end of a span |
|------------------|------------------|----------------------------------------------------|---------------|
| `jsonl`          | `words`          | `entities`: `start`, `end`, `type`                 | exclusive     |
| `jsonl-tokens`   | `tokens`         | `entities`: `start`, `end`, `type`                 | either        |
| `jsonl-mentions` | `tokens`         | `entity_mentions`: `start`, `end`, `entity_type`   | either        |
| `jsonl-index`    | `sentence`       | `ner`: `index` (all its words), `type`             | -             |
| `jsonl-gliner`   | `tokenized_text` | `ner`: `[start, end, type]`                        | inclusive     |

The first is Fencepost's own. Where ends may be either, the content decides: a span whose end is the number of
words has an exclusive end, one whose end equals its start an inclusive end, and a span with its `text` has
the end that the text shows. If no span shows it, the file is refused unless the user gives the option.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from typing import Any

from fencepost.data.entity import Entity, Sentence
from fencepost.data.formats.format import Ends, Format, ReadOptions
from fencepost.data.formats.json_fields import (
    NOT_READ,
    check_booleans,
    check_confidence,
    check_integer,
    check_strings,
    check_type,
    collect_meta,
    find_name,
    find_span_lists,
    is_same_text,
    remove_none,
)
from fencepost.data.formats.json_records import Record, json_writer, read_objects
from fencepost.data.source import Input, Reading, ReadSentence, Rejection, Source
from fencepost.errors import DataError, UsageError, quote, shorten

UNDECIDED_CHARACTERS = 1 << 24  # maximum size of the objects that are read before the ends are known


@dataclass(frozen=True)
class Shape:
    """Keys of the parts of a sentence in a JSON object."""

    name: str
    words: str
    entities: str
    type: str = "type"
    indices: str | None = None  # key of a list of word indices, instead of start and end
    triples: bool = False  # entities are [start, end, type]
    ends: Ends | None = None  # None: the content decides
    left: str = "left"
    right: str = "right"
    id: tuple[str, ...] = ("id", "sent_id", "orig_id", "org_id")
    doc: tuple[str, ...] = ("doc", "doc_id", "doc_key")

    @cached_property
    def keys(self) -> set[str]:
        """Known keys of an object, except those of its names."""
        return {self.words, self.entities, self.left, self.right, "pos", "space_after"}

    @cached_property
    def item_keys(self) -> set[str]:
        """Known keys of an entity."""
        place = (self.indices,) if self.indices else ("start", "end")
        return {self.type, "text", "score", *place}

    def fits(self, record: dict[str, Any]) -> bool:
        """Return whether an object has the words and entities of this shape."""
        return isinstance(record.get(self.words), list) and self.entities in record


SHAPES = (
    Shape("jsonl", "words", "entities", ends="exclusive"),
    Shape("jsonl-mentions", "tokens", "entity_mentions", type="entity_type"),
    Shape("jsonl-tokens", "tokens", "entities", left="ltokens", right="rtokens"),
    Shape("jsonl-index", "sentence", "ner", indices="index", ends="exclusive"),
    Shape("jsonl-gliner", "tokenized_text", "ner", triples=True, ends="inclusive"),
)


@dataclass(frozen=True, slots=True)
class SpanItem:
    """An entity as in the file, where its `end` may be inclusive."""

    start: int
    end: int
    type: str
    score: float
    text: str | None
    meta: dict[str, Any]


def read(source: Source, options: ReadOptions, *, shape: Shape) -> Iterator[Reading]:
    return convert(read_objects(source), source, options, shape)


def convert(
    records: Iterator[Record], source: Input, options: ReadOptions, shape: Shape
) -> Iterator[Reading]:
    """Yield the sentence of each object, or why it is invalid."""
    for record, ends, decided_at in _decide_ends(records, source, options, shape):
        try:
            if record.problem:
                raise ValueError(record.problem)
            words, spans = _parse_words_and_spans(record.value, shape)
            if decided_at is not None and find_end_signs(words, spans) - {ends}:
                other = "inclusive" if ends == "exclusive" else "exclusive"
                raise DataError(
                    f"the end of an entity is {other} here, but {ends} in "
                    f"{source.describe_position(decided_at)}; use --ends inclusive or --ends exclusive, "
                    "which makes sentences with other ends invalid",
                    source=source.name,
                    line=record.line,
                )
            entities = [_make_entity(span, words, ends, options) for span in spans]
            sentence = _make_sentence(record.value, shape, words, entities)
        except ValueError as error:
            yield Rejection(record.line, str(error), record.raw)
        else:
            if not spans and (others := find_span_lists(sentence.meta)):
                source.note(NOT_READ, record.line, quote(others[0]))
            yield ReadSentence(record.line, sentence)


def _decide_ends(
    records: Iterator[Record], source: Input, options: ReadOptions, shape: Shape
) -> Iterator[tuple[Record, Ends, int | None]]:
    """Yield the objects with their kind of ends, and the line that shows it if the content decides.

    From the first span on, objects are buffered until one shows whether ends are inclusive.
    """
    if options.ends and shape.ends and (shape.indices or options.ends != shape.ends):
        what = "lists every word of an entity" if shape.indices else f"has {shape.ends} ends by definition"
        raise UsageError(f"{source.name}: {shape.name} {what}, so --ends {options.ends} cannot be used")
    known = shape.ends or options.ends
    if known:
        yield from ((record, known, None) for record in records)
        return
    buffer: list[Record] = []
    characters = 0
    for record in records:
        try:
            words, spans = _parse_words_and_spans(record.value, shape)
        except ValueError:  # `convert` reports it
            words, spans = [], []
        if not (spans or buffer):
            yield record, "exclusive", None
            continue
        buffer.append(record)
        characters += len(record.raw)
        for ends in sorted(find_end_signs(words, spans)):
            yield from ((each, ends, record.line) for each in chain(buffer, records))
            return
        if characters > UNDECIDED_CHARACTERS:
            break
    if buffer:
        raise DataError(
            "nothing shows whether the end of an entity is its last word or the word after it; "
            "use --ends inclusive or --ends exclusive",
            source=source.name,
        )


def find_end_signs(words: list[str], spans: list[SpanItem]) -> set[Ends]:
    """Return the kinds of ends that the spans of a sentence show: none, one, or both."""
    signs: set[Ends] = set()
    for span in spans:
        if sign := _find_sign_in_text(words, span):
            signs.add(sign)
        elif 0 <= span.start == span.end < len(words):
            signs.add("inclusive")
        elif 0 <= span.start < span.end == len(words):
            signs.add("exclusive")
    return signs


def _find_sign_in_text(words: list[str], span: SpanItem) -> Ends | None:
    if span.text is None or not 0 <= span.start <= span.end:
        return None
    phrases = [" ".join(words[span.start : end]) for end in (span.end, span.end + 1)]
    exclusive, inclusive = (phrase == span.text for phrase in phrases)
    if exclusive == inclusive:
        exclusive, inclusive = (is_same_text(phrase, span.text) for phrase in phrases)
    if exclusive == inclusive:
        return None
    return "exclusive" if exclusive else "inclusive"


def _parse_words_and_spans(record: dict[str, Any], shape: Shape) -> tuple[list[str], list[SpanItem]]:
    """Return the words and spans of an object; raises `ValueError` if they are invalid."""
    words = check_strings(record, shape.words)
    items = record.get(shape.entities)
    if not isinstance(items, list):
        raise ValueError(f"{shape.entities!r} is missing, or not a list")
    spans = []
    for index, item in enumerate(items):
        try:
            spans.append(_parse_span(item, shape))
        except ValueError as error:
            raise ValueError(f"{shape.entities}[{index}]{error}") from error
    return words, spans


def _parse_span(item: Any, shape: Shape) -> SpanItem:
    """Return the span of an item; messages of errors start after the name of the item."""
    if shape.triples:
        if not isinstance(item, list) or len(item) != 3:
            raise ValueError(" does not have the form [start, end, type]")
        item = dict(zip(("start", "end", shape.type), item, strict=True))
    if not isinstance(item, dict):
        raise ValueError(" is not an object")
    if shape.indices is not None:
        start, end = _parse_indices(shape.indices, item.get(shape.indices))
    else:
        start = check_integer(".start", item.get("start"))
        end = check_integer(".end", item.get("end"))
    text = item.get("text")
    if text is not None and type(text) is not str:
        raise ValueError(".text is not a string")
    type_ = check_type(".type", item.get(shape.type))
    score = check_confidence(".score", item.get("score", 1.0))
    return SpanItem(start, end, type_, score, text, collect_meta(item, shape.item_keys))


def _parse_indices(key: str, indices: Any) -> tuple[int, int]:
    """Return the span of an entity from the indices of all its words."""
    place = f".{key}"
    if not isinstance(indices, list) or not indices:
        raise ValueError(f"{place} is not a list of word indices")
    numbers = [check_integer(place, index) for index in indices]
    start, end = numbers[0], numbers[-1] + 1
    if end - start != len(numbers) or numbers != list(range(start, end)):
        raise ValueError(
            f"{place} is {str(numbers)[:60]}: the entity is discontinuous, which is not supported; "
            "remove it, or annotate the whole span"
        )
    return start, end


def _make_entity(span: SpanItem, words: list[str], ends: Ends, options: ReadOptions) -> Entity:
    """Return the entity of a span; its text is checked, and kept in `meta` if its spaces differ."""
    entity = Entity(span.start, span.end + (ends == "inclusive"), span.type, span.score, span.meta)
    if span.text is None:
        return entity
    phrase = " ".join(words[entity.start : entity.end])
    if span.text == phrase:
        return entity
    if options.check_text and not is_same_text(span.text, phrase):
        raise ValueError(
            f"the text of {shorten(entity.type)} [{entity.start}, {entity.end}) is {quote(span.text)}, but "
            f"these words are {quote(phrase)}; correct it, or use --ends if all ends are of the other kind, "
            "or --no-check-text if the texts differ intentionally"
        )
    return replace(entity, meta={**span.meta, "text": span.text})


def _make_sentence(
    record: dict[str, Any], shape: Shape, words: list[str], entities: list[Entity]
) -> Sentence:
    id_key, id_ = find_name(record, shape.id)
    doc_key, doc = find_name(record, shape.doc)
    return Sentence(
        words,
        entities,
        id=id_,
        doc=doc,
        left=check_strings(record, shape.left) if shape.left in record else (),
        right=check_strings(record, shape.right) if shape.right in record else (),
        pos=check_strings(record, "pos") if record.get("pos") is not None else None,
        space_after=check_booleans(record, "space_after"),
        meta=collect_meta(record, {*shape.keys, id_key, doc_key}),
    )


def to_json(sentence: Sentence) -> str:
    """Return a sentence as a line of `jsonl`; its text if it cannot be represented in JSON."""
    try:
        return json.dumps(to_record(sentence), ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return sentence.text


def to_record(sentence: Sentence, shape: Shape = SHAPES[0]) -> dict[str, Any]:
    """Return the object of a sentence in a shape, by default that of `jsonl`."""
    return remove_none(
        {
            "id": sentence.id,
            "doc": sentence.doc,
            shape.words: sentence.words,
            shape.entities: [_encode_entity(sentence, entity, shape) for entity in sentence.entities],
            shape.left: sentence.left or None,
            shape.right: sentence.right or None,
            "pos": sentence.pos,
            "space_after": sentence.space_after,
            "meta": dict(sentence.meta) or None,
        }
    )


def _encode_entity(sentence: Sentence, entity: Entity, shape: Shape) -> Any:
    if shape.triples:
        return [entity.start, entity.end - 1, entity.type]
    item: dict[str, Any] = {"start": entity.start, "end": entity.end}
    if shape.indices:
        item = {shape.indices: list(range(entity.start, entity.end))}
    item[shape.type] = entity.type
    if shape.ends is None:  # the text shows that the end is exclusive
        item["text"] = sentence.phrase(entity)
    if entity.score != 1.0:
        item["score"] = entity.score
    if entity.meta:
        item["meta"] = dict(entity.meta)
    return item


def _make_format(shape: Shape, summary: str, suffixes: tuple[str, ...] = ()) -> Format:
    parts = {"id", "doc", "left", "right", "pos", "space_after", "meta"}
    return Format(
        name=shape.name,
        summary=summary,
        read=partial(read, shape=shape),
        write=json_writer(partial(to_record, shape=shape)),
        find_obstacle=lambda _: None,
        overlaps="any",
        keeps=frozenset(parts if shape.triples else parts | {"score", "entity meta"}),
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
    _make_format(shape, _SUMMARIES[shape.name], (".jsonl", ".json") if shape.name == "jsonl" else ())
    for shape in SHAPES
)
