"""JSON with raw text, and entities by character offset, as annotation tools export it.

An object has `text` and a list under `spans` (Prodigy), `entities` (doccano, spaCy), `label` or `labels`
(doccano, Label Studio). A span is `[start, end, type]`, or an object with `start` or `start_offset`, `end`
or `end_offset`, and `label`, `type` or `labels` (several on one span). Spans are half-open in all of these
tools. A text with `tokens` (Prodigy) is one sentence with these words; any other text is split into sentences
and words. A record that an annotator has rejected or ignored (Prodigy's `answer`) is not gold data; it is
skipped and counted unless the options keep it.

The formats `doccano` and `prodigy` are read in the same way. doccano does not store words, so readers split
the text again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from fencepost.data.columns import SPAN_KEYS
from fencepost.data.entity import Sentence
from fencepost.data.formats.format import Format, ReadOptions
from fencepost.data.formats.json_fields import (
    NOT_READ,
    check_confidence,
    check_integer,
    check_type,
    collect_meta,
    find_name,
    find_span_lists,
    is_same_text,
    remove_none,
)
from fencepost.data.formats.json_records import Record, json_writer, read_objects
from fencepost.data.source import Input, Reading, ReadSentence, Rejection, Source
from fencepost.data.text import WORD_SPLIT, CharSpan, Splitter, align, make_splitter, split_document
from fencepost.errors import quote

NOT_ACCEPTED = ("reject", "ignore")
"""Values of Prodigy's `answer` for records that are not gold data."""

NO_SPANS = f"text without a list under {', '.join(SPAN_KEYS)}, read as one without entities"
_STARTS, _ENDS = ("start", "start_offset"), ("end", "end_offset")
_TYPES = ("label", "type", "entity_type")
_TOKEN_INDICES = ("token_start", "token_end")  # keys of Prodigy, which are redundant


def fits(record: dict[str, Any]) -> bool:
    return isinstance(record.get("text"), str) and _find_span_key(record) is not None


def _find_span_key(record: dict[str, Any]) -> str | None:
    """Return the first key with a list of spans, or else with any list; None if there is none."""
    lists = [key for key in SPAN_KEYS if isinstance(record.get(key), list)]
    filled = find_span_lists({key: record[key] for key in lists})
    return next(iter(filled or lists), None)


def read(source: Source, options: ReadOptions) -> Iterator[Reading]:
    return convert(read_objects(source), source, options)


def convert(records: Iterator[Record], source: Input, options: ReadOptions) -> Iterator[Reading]:
    """Yield the sentences of each object, or why it is invalid."""
    splitter = make_splitter(options.language, lines=options.lines, pretokenized=options.pretokenized)
    for record in records:
        try:
            if record.problem:
                raise ValueError(record.problem)
            if not options.keep_rejected and (answer := record.value.get("answer")) in NOT_ACCEPTED:
                source.note(
                    f"record with answer {answer!r} skipped; use --keep-rejected to read it", record.line
                )
                continue
            sentences = _parse_record(record.value, record.line, options, splitter, source)
        except ValueError as error:
            yield Rejection(record.line, str(error), record.raw)
        else:
            yield from (ReadSentence(record.line, sentence) for sentence in sentences)


def _parse_record(
    record: dict[str, Any], line: int, options: ReadOptions, splitter: Splitter, source: Input
) -> list[Sentence]:
    text = record.get("text")
    if not isinstance(text, str):
        raise ValueError("'text' is missing, or not a string")
    for key in ("spans", "entities"):
        if not isinstance(record.get(key), list | None):
            raise ValueError(f"{key!r} is not a list")
    span_key = _find_span_key(record)
    spans = [
        span
        for index, item in enumerate(record[span_key] if span_key else ())
        for span in _parse_spans(f"{span_key}[{index}]", item, text, options)
    ]
    id_key, id_ = find_name(record, ("id",))
    doc_key, doc = find_name(record, ("doc", "doc_id"))
    extra = collect_meta(record, {"text", "tokens", span_key, id_key, doc_key})
    if "tokens" in record:
        sentence, split = _use_tokens(text, spans, record["tokens"])
        sentences = [replace(sentence, id=id_, doc=doc, meta=extra)]
    else:
        document = split_document(text, spans, splitter, id_ or doc, doc or id_)
        of_text = None if len(document.sentences) == 1 else f"line-{line}"  # several are each other's context
        sentences = [replace(one, doc=one.doc or of_text, meta=extra) for one in document.sentences]
        split = document.words_split
    if span_key is None:
        source.note(NO_SPANS, line)
    if others := find_span_lists(extra):
        kind = "list of spans beside the one that is read, kept in meta" if spans else NOT_READ
        source.note(kind, line, quote(others[0]))
    source.note(WORD_SPLIT, line, times=split)
    return sentences


def _parse_spans(place: str, item: Any, text: str, options: ReadOptions) -> Iterator[CharSpan]:
    if isinstance(item, list) and len(item) == 3:
        item = dict(zip(("start", "end", "label"), item, strict=True))
    if not isinstance(item, dict):
        raise ValueError(f"{place} is neither an object nor [start, end, type]")
    start_key, end_key, type_key = (
        next((key for key in keys if key in item), keys[0]) for keys in (_STARTS, _ENDS, _TYPES)
    )
    start = check_integer(f"{place}.{start_key}", item.get(start_key))
    end = check_integer(f"{place}.{end_key}", item.get(end_key)) + (options.ends == "inclusive")
    phrase = item.get("text")
    if options.check_text and isinstance(phrase, str) and not is_same_text(phrase, text[start:end]):
        raise ValueError(
            f"{place} has the text {quote(phrase)}, but its characters are {quote(text[start:end])}; "
            "correct it, or use --ends inclusive if all ends are inclusive, "
            "or --no-check-text if the texts differ intentionally"
        )
    types = item["labels"] if isinstance(item.get("labels"), list) else [item.get(type_key)]
    score = check_confidence(f"{place}.score", item.get("score", 1.0))
    extra = collect_meta(item, {start_key, end_key, type_key, "labels", "text", "score", *_TOKEN_INDICES})
    if not types:
        raise ValueError(f"{place}.labels is empty")
    for type_ in types:
        yield CharSpan(start, end, check_type(f"{place}.{type_key}", type_), score, extra)


def _use_tokens(text: str, spans: Sequence[CharSpan], tokens: Any) -> tuple[Sentence, int]:
    """Return a sentence with the words of the file, and how often one of them had to be split."""
    if not isinstance(tokens, list) or not all(isinstance(token, dict) for token in tokens):
        raise ValueError("'tokens' is not a list of objects")
    offsets, position = [], 0
    for index, token in enumerate(tokens):
        start = check_integer(f"tokens[{index}].start", token.get("start"))
        end = check_integer(f"tokens[{index}].end", token.get("end"))
        if not position <= start < end <= len(text):
            raise ValueError(f"tokens[{index}] is empty, out of order or outside the text")
        if text[position:start].strip():
            raise ValueError(
                f"{quote(text[position:start].strip())} before tokens[{index}] is not in a token"
            )
        if token.get("text", text[start:end]) != text[start:end]:
            raise ValueError(f"tokens[{index}].text differs from the text at its offsets")
        offsets.append((start, end))
        position = end
    if text[position:].strip():
        raise ValueError(f"{quote(text[position:].strip())} at the end is not in a token")
    document = align(text, spans, [offsets] if offsets else [])
    sentence = document.sentences[0] if document.sentences else Sentence(())
    spaces = [token.get("ws") for token in tokens]
    if not document.words_split and all(type(space) is bool for space in spaces) and spaces:
        sentence = replace(sentence, space_after=spaces)
    return sentence, document.words_split


def to_record(sentence: Sentence) -> dict[str, Any]:
    """Return the object of a sentence, with its words as tokens of Prodigy."""
    spaces: Sequence[bool | None] = sentence.space_after or [None] * len(sentence)
    words = zip(sentence.words, sentence.word_offsets(), spaces, strict=True)
    tokens = [
        remove_none({"id": index, "text": word, "start": start, "end": end, "ws": space})
        for index, (word, (start, end), space) in enumerate(words)
    ]
    spans = [
        remove_none(
            {
                **dict(zip(("start", "end", "label"), triple, strict=True)),
                "score": None if entity.score == 1.0 else entity.score,
                "meta": dict(entity.meta) or None,
            }
        )
        for triple, entity in zip(list_span_triples(sentence), sentence.entities, strict=True)
    ]
    return _make_example(sentence, tokens=tokens, spans=spans)


def _to_doccano(sentence: Sentence) -> dict[str, Any]:
    """Return the object of a sentence, with `[start, end, type]` under `label`."""
    return _make_example(sentence, label=list_span_triples(sentence))


def _make_example(sentence: Sentence, **annotations: list[Any]) -> dict[str, Any]:
    names = {"id": sentence.id, "doc": sentence.doc}
    meta = dict(sentence.meta) or None
    return remove_none({**names, "text": sentence.text, **annotations, "meta": meta})


def _to_prodigy(sentence: Sentence) -> dict[str, Any]:
    """Return the object of a sentence as Prodigy's recipes need it.

    Each token says whether white space follows (`ws`), and each span has its first and last token.
    """
    task = to_record(sentence)
    last = len(sentence) - 1
    for token in task["tokens"]:
        token.setdefault("ws", token["id"] < last)
    for span, entity in zip(task["spans"], sentence.entities, strict=True):
        span |= {"token_start": entity.start, "token_end": entity.end - 1}
    return task


def list_span_triples(sentence: Sentence) -> list[list[int | str]]:
    """Return the entities as `[start, end, type]`, in characters of the text of the sentence."""
    offsets = sentence.word_offsets()
    return [[offsets[one.start][0], offsets[one.end - 1][1], one.type] for one in sentence.entities]


def find_obstacle(sentence: Sentence) -> str | None:
    if any(not word or word != word.strip() for word in sentence.words):
        return "a word that is empty or has white space at its start or end"
    return None


def find_text_obstacle(sentence: Sentence) -> str | None:
    """Return what a format that stores only the text cannot represent; None if there is nothing."""
    return find_obstacle(sentence) if sentence.words else "no words"


JSONL_TEXT = Format(
    name="jsonl-text",
    summary="raw text with character offsets, as annotation tools export it",
    read=read,
    write=json_writer(to_record),
    find_obstacle=find_obstacle,
    overlaps="any",
    keeps=frozenset({"id", "doc", "space_after", "score", "meta", "entity meta"}),
)
DOCCANO = replace(
    JSONL_TEXT,
    name="doccano",
    summary="raw text with labels by character offset, as doccano imports it",
    write=json_writer(_to_doccano),
    find_obstacle=find_text_obstacle,
    keeps=frozenset({"id", "doc", "space_after", "meta"}),
)
PRODIGY = replace(
    JSONL_TEXT,
    name="prodigy",
    summary="raw text with tokens and spans, as Prodigy imports it",
    write=json_writer(_to_prodigy),
)
