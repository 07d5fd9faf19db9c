"""JSON with raw text and entities by character offset, as annotation tools export it.

An object has `text` and a list under `spans` (Prodigy), `entities` (doccano, spaCy), `label` or `labels`
(doccano, Label Studio). A span is `[start, end, type]`, or an object with `start` or `start_offset`, `end`
or `end_offset`, and `label`, `type` or `labels` (several on one span). Ends are half-open in all of these
tools. A text with `tokens` (Prodigy) is one sentence with those words; any other is split into sentences
and words. A record that an annotator has rejected or ignored (Prodigy's `answer`) is no gold data; it is
skipped and counted unless the options keep it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from fencepost.data.columns import SPAN_KEYS
from fencepost.data.entity import Sentence
from fencepost.data.formats.format import Format, ReadOptions, WriteOptions
from fencepost.data.formats.json_fields import (
    NOT_READ,
    confidence,
    label,
    meta,
    name,
    same_text,
    span_lists,
    whole_number,
)
from fencepost.data.formats.json_records import Record, encode_records, records
from fencepost.data.output import text_writer
from fencepost.data.source import Input, Reading, ReadSentence, Rejected, Source
from fencepost.data.text import WORD_SPLIT, CharSpan, Splitter, align, make_splitter, split_document
from fencepost.errors import quote

NOT_ACCEPTED = ("reject", "ignore")
"""Values of Prodigy's `answer` for records that are no gold data."""

NO_SPANS = f"text without a list under {', '.join(SPAN_KEYS)}, read as one without entities"
_STARTS, _ENDS = ("start", "start_offset"), ("end", "end_offset")
_TYPES = ("label", "type", "entity_type")
_TOKEN_PLACES = ("token_start", "token_end")  # of Prodigy, which say the same as the characters


def fits(record: dict[str, Any]) -> bool:
    return isinstance(record.get("text"), str) and _span_key(record) is not None


def _span_key(record: dict[str, Any]) -> str | None:
    """The first key with a list of spans, or else the first with a list; None where there is none."""
    lists = [key for key in SPAN_KEYS if isinstance(record.get(key), list)]
    filled = span_lists({key: record[key] for key in lists})
    return next(iter(filled or lists), None)


def read(source: Source, options: ReadOptions) -> Iterator[Reading]:
    return convert(records(source), source, options)


def convert(found: Iterator[Record], source: Input, options: ReadOptions) -> Iterator[Reading]:
    """Yield the sentences of each object, or why it has none."""
    splitter = make_splitter(options.language, lines=options.lines, pretokenized=options.pretokenized)
    for record in found:
        try:
            if record.problem:
                raise ValueError(record.problem)
            if not options.keep_rejected and (answer := record.value.get("answer")) in NOT_ACCEPTED:
                source.note(f"record with answer {answer!r} skipped; --keep-rejected reads it", record.line)
                continue
            sentences = _sentences(record.value, record.line, options, splitter, source)
        except ValueError as error:
            yield Rejected(record.line, str(error), record.raw)
        else:
            yield from (ReadSentence(record.line, sentence) for sentence in sentences)


def _sentences(
    record: dict[str, Any], line: int, options: ReadOptions, splitter: Splitter, source: Input
) -> list[Sentence]:
    text = record.get("text")
    if not isinstance(text, str):
        raise ValueError("'text' is missing, or not a string")
    for listed in ("spans", "entities"):
        if not isinstance(record.get(listed), list | None):
            raise ValueError(f"{listed!r} is not a list")
    key = _span_key(record)
    spans = [
        span
        for index, item in enumerate(record[key] if key else ())
        for span in _spans(f"{key}[{index}]", item, text, options)
    ]
    id_key, id_ = name(record, ("id",))
    doc_key, doc = name(record, ("doc", "doc_id"))
    extra = meta(record, {"text", "tokens", key, id_key, doc_key})
    if "tokens" in record:
        sentence, split = _tokenized(text, spans, record["tokens"])
        sentences = [replace(sentence, id=id_, doc=doc, meta=extra)]
    else:
        document = split_document(text, spans, splitter, id_ or doc, doc or id_)
        sentences = [replace(sentence, meta=extra) for sentence in document.sentences]
        split = document.words_split
    if key is None:
        source.note(NO_SPANS, line)
    if others := span_lists(extra):
        kind = "list of spans beside the one that is read, kept in meta" if spans else NOT_READ
        source.note(kind, line, quote(others[0]))
    source.note(WORD_SPLIT, line, times=split)
    return sentences


def _spans(place: str, item: Any, text: str, options: ReadOptions) -> Iterator[CharSpan]:
    if isinstance(item, list) and len(item) == 3:
        item = dict(zip(("start", "end", "label"), item, strict=True))
    if not isinstance(item, dict):
        raise ValueError(f"{place} is neither an object nor [start, end, type]")
    start_key, end_key, type_key = (
        next((key for key in keys if key in item), keys[0]) for keys in (_STARTS, _ENDS, _TYPES)
    )
    start = whole_number(f"{place}.{start_key}", item.get(start_key))
    end = whole_number(f"{place}.{end_key}", item.get(end_key)) + (options.ends == "inclusive")
    phrase = item.get("text")
    if options.check_text and isinstance(phrase, str) and not same_text(phrase, text[start:end]):
        raise ValueError(
            f"{place} has the text {quote(phrase)}, but its characters are {quote(text[start:end])}; "
            "correct it, or say --ends inclusive if all ends are the last character's, "
            "or --no-check-text if texts are spelled differently on purpose"
        )
    types = item["labels"] if isinstance(item.get("labels"), list) else [item.get(type_key)]
    score = confidence(f"{place}.score", item.get("score", 1.0))
    extra = meta(item, {start_key, end_key, type_key, "labels", "text", "score", *_TOKEN_PLACES})
    if not types:
        raise ValueError(f"{place}.labels is empty")
    for type_ in types:
        yield CharSpan(start, end, label(f"{place}.{type_key}", type_), score, extra)


def _tokenized(text: str, spans: Sequence[CharSpan], tokens: Any) -> tuple[Sentence, int]:
    """The sentence whose words the file gives, and how many of them had to be cut."""
    if not isinstance(tokens, list) or not all(isinstance(token, dict) for token in tokens):
        raise ValueError("'tokens' is not a list of objects")
    offsets, position = [], 0
    for index, token in enumerate(tokens):
        start = whole_number(f"tokens[{index}].start", token.get("start"))
        end = whole_number(f"tokens[{index}].end", token.get("end"))
        if not position <= start < end <= len(text):
            raise ValueError(f"tokens[{index}] is empty, out of order or outside the text")
        if text[position:start].strip():
            raise ValueError(f"{quote(text[position:start].strip())} before tokens[{index}] is in no token")
        if token.get("text", text[start:end]) != text[start:end]:
            raise ValueError(f"tokens[{index}].text is not what the text has there")
        offsets.append((start, end))
        position = end
    if text[position:].strip():
        raise ValueError(f"{quote(text[position:].strip())} at the end is in no token")
    document = align(text, spans, [offsets] if offsets else [])
    sentence = document.sentences[0] if document.sentences else Sentence(())
    spaces = [token.get("ws") for token in tokens]
    if not document.words_split and all(type(space) is bool for space in spaces) and spaces:
        sentence = replace(sentence, space_after=spaces)
    return sentence, document.words_split


def encode(sentences: Iterable[Sentence], options: WriteOptions) -> Iterator[str]:
    return encode_records(map(to_record, sentences), options)


def to_record(sentence: Sentence) -> dict[str, Any]:
    """Return the object of a sentence, with its words as Prodigy has them."""
    offsets = sentence.word_offsets()
    tokens: list[dict[str, Any]] = [
        {"id": index, "text": word, "start": start, "end": end}
        for index, (word, (start, end)) in enumerate(zip(sentence.words, offsets, strict=True))
    ]
    for token, space in zip(tokens, sentence.space_after or (), strict=False):
        token["ws"] = space
    spans = []
    for entity in sentence.entities:
        span: dict[str, Any] = {
            "start": offsets[entity.start][0],
            "end": offsets[entity.end - 1][1],
            "label": entity.type,
        }
        if entity.score != 1.0:
            span["score"] = entity.score
        if entity.meta:
            span["meta"] = dict(entity.meta)
        spans.append(span)
    parts = {
        "id": sentence.id,
        "doc": sentence.doc,
        "text": sentence.text,
        "tokens": tokens,
        "spans": spans,
        "meta": dict(sentence.meta) or None,
    }
    return {key: value for key, value in parts.items() if value is not None}


def span_triples(sentence: Sentence) -> list[list[int | str]]:
    """Return the entities as `[start, end, type]` in the characters of the sentence's text."""
    offsets = sentence.word_offsets()
    return [[offsets[one.start][0], offsets[one.end - 1][1], one.type] for one in sentence.entities]


def obstacle(sentence: Sentence) -> str | None:
    if any(not word or word != word.strip() for word in sentence.words):
        return "a word that is empty or has white space at its edge"
    return None


def text_obstacle(sentence: Sentence) -> str | None:
    """As `obstacle`, for formats that keep the text alone: without words there is none."""
    return obstacle(sentence) if sentence.words else "no words"


JSONL_TEXT = Format(
    name="jsonl-text",
    summary="raw text with character offsets, as annotation tools export it",
    read=read,
    write=text_writer(encode),
    obstacle=obstacle,
    overlaps="any",
    keeps=frozenset({"id", "doc", "space_after", "score", "meta", "entity meta"}),
)
