"""Check the sentences that were read against a second, naive reader of the same bytes."""

from __future__ import annotations

import ast
import contextlib
import itertools
import json
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from benchmarks.fuzz.reading import Outcome
from benchmarks.fuzz.tables import check_table
from fencepost.data import FORMATS, ReadOptions, write
from fencepost.data.entity import Entity, Sentence
from fencepost.data.formats.format import Ends
from fencepost.data.formats.json_tokens import to_json
from fencepost.data.formats.overlaps import has_forbidden_overlap
from fencepost.data.formats.webanno_layers import read_header
from fencepost.data.source import BYTE_ORDER_MARK, Reading, ReadSentence, Rejection, Source

Key = tuple[int, int, str]
CHARACTER_FORMATS = ("doccano", "spacy-v2")  # which store the text but not the words


def check_outcome(outcome: Outcome) -> Iterator[str]:
    """Yield what is wrong with the sentences of an outcome."""
    for one in outcome.sentences:
        yield from _check_sentence(one.sentence)
    yield from _check_jsonl_round_trip([one.sentence for one in outcome.sentences])
    for reading in outcome.readings:
        if isinstance(reading, Rejection) and not reading.reason:
            yield "rejected without a reason"
    yield from _ORACLES[outcome.format](outcome)


def _check_sentence(sentence: Sentence) -> Iterator[str]:
    """Check that a sentence is valid and that its values have the declared types."""
    entities = [Entity(e.start, e.end, e.type, e.score, dict(e.meta)) for e in sentence.entities]
    again = replace(sentence, words=list(sentence.words), entities=entities)
    if again != sentence:
        yield "a sentence differs from a copy of itself"
    strings = [*sentence.words, *sentence.left, *sentence.right, *(sentence.pos or ())]
    strings += [entity.type for entity in entities]
    strings += [name for name in (sentence.id, sentence.doc) if name is not None]
    if not all(type(string) is str for string in strings):
        yield "a word, tag, type or name that is not a string"
    elif any("\ud800" <= character <= "\udfff" for character in "".join(strings)):
        yield "half a surrogate pair"
    if not all(type(space) is bool for space in sentence.space_after or ()):
        yield "space_after that is not true or false"
    for entity in entities:
        if type(entity.start) is not int or type(entity.end) is not int or type(entity.score) is not float:
            yield "a boundary that is not an integer, or a score that is not a number"


def _check_jsonl_round_trip(sentences: list[Sentence]) -> Iterator[str]:
    """Check that Fencepost's own format, which represents everything, returns the same sentences."""
    data = "".join(f"{to_json(sentence)}\n" for sentence in sentences).encode()
    readings = list(FORMATS["jsonl"].read(Source.from_bytes(data), ReadOptions()))
    back = [reading.sentence for reading in readings if isinstance(reading, ReadSentence)]
    if back != sentences:
        yield "not the same after a round trip through jsonl"


def check_round_trip(outcome: Outcome, folder: Path) -> Iterator[str]:
    """Check that sentences have the same words and entities after a round trip through their own format."""
    format_ = FORMATS[outcome.format]
    sentences = [one.sentence for one in outcome.sentences]
    sentences = [one for one in sentences if not has_forbidden_overlap(one.entities, format_.overlaps)]
    refused: list[int] = []
    path = folder / "round-trip"
    write(sentences, path, outcome.format, on_refused=lambda sentence, _: refused.append(id(sentence)))
    if refused and outcome.format == "jsonl":
        yield "jsonl cannot represent what was read from it"
    sentences = [sentence for sentence in sentences if id(sentence) not in refused]
    if not sentences:
        return
    either = outcome.format in ("jsonl-tokens", "jsonl-mentions")  # where a file may not show its ends
    ends: Ends | None = "exclusive" if either else None
    options = ReadOptions(ends=ends, check_text=outcome.options.check_text, keep_rejected=True)
    readings = list(format_.read(Source.from_bytes(path.read_bytes()), options))
    back = [reading.sentence for reading in readings if isinstance(reading, ReadSentence)]
    if outcome.format in CHARACTER_FORMATS:
        same = dense_sentences(back) == dense_sentences(sentences)
    else:
        same = [_content(sentence) for sentence in back] == [_content(sentence) for sentence in sentences]
    if not same:
        yield "not the same after a round trip through its own format"


def _content(sentence: Sentence) -> tuple[Sequence[str], list[Key]]:
    return sentence.words, sorted(entity.key for entity in sentence.entities)


# JSON: words key, entities key, type key, and how an entity's words are given.
JSON_SHAPES = {
    "jsonl": ("words", "entities", "type", ("exclusive",)),
    "jsonl-mentions": ("tokens", "entity_mentions", "entity_type", ("exclusive", "inclusive")),
    "jsonl-tokens": ("tokens", "entities", "type", ("exclusive", "inclusive")),
    "jsonl-index": ("sentence", "ner", "type", ("index",)),
    "jsonl-gliner": ("tokenized_text", "ner", "type", ("triple",)),
}


def _check_json(outcome: Outcome) -> Iterator[str]:
    """Compare every object that was read with the result of `json.loads`."""
    yield from _check_array(outcome)
    pairs = _pair_objects(outcome)
    if pairs is None:
        yield "not one reading for each object of the file"
        return
    words_key, entities_key, type_key, ends = JSON_SHAPES[outcome.format]
    if outcome.options.ends and len(ends) > 1:
        ends = (outcome.options.ends,)
    for sentence, record in pairs:
        if list(sentence.words) != record[words_key]:
            yield "other words than in the JSON"
        ours = _json_spans(sentence)
        items = record[entities_key]
        ends = tuple(end for end in ends if sorted(_json_span(item, type_key, end) for item in items) == ours)
        if not ends:
            yield "other entities than in the JSON"
            return
        yield from _check_json_parts(sentence, record, outcome.format)


def _json_span(item: Any, type_key: str, ends: str) -> tuple[int, int, str, float]:
    if ends == "triple":
        return item[0], item[1] + 1, item[2], 1.0
    if ends == "index":
        return min(item["index"]), max(item["index"]) + 1, item[type_key], item.get("score", 1.0)
    return item["start"], item["end"] + (ends == "inclusive"), item[type_key], item.get("score", 1.0)


def _check_json_parts(sentence: Sentence, record: dict[str, Any], name: str) -> Iterator[str]:
    sides = ("ltokens", "rtokens") if name == "jsonl-tokens" else ("left", "right")
    if [*sentence.left, "|", *sentence.right] != [*record.get(sides[0], ()), "|", *record.get(sides[1], ())]:
        yield "another context than in the JSON"
    for key, ours in (("pos", sentence.pos), ("space_after", sentence.space_after)):
        if (None if ours is None else list(ours)) != record.get(key):
            yield f"other {key} than in the JSON"
    names = {str(record[key]) for key in record if type(record[key]) in (str, int)}
    if any(one is not None and one not in names for one in (sentence.id, sentence.doc)):
        yield "a name that is not in the JSON"
    known = {*JSON_SHAPES[name][:2], *sides, "pos", "space_after", "meta", *sentence.meta}
    if any(key not in known and str(record[key]) not in (sentence.id, sentence.doc) for key in record):
        yield "a key of the JSON was lost"


def _pair_objects(outcome: Outcome) -> list[tuple[Sentence, dict[str, Any]]] | None:
    """Return the sentences with their objects; None if objects and readings do not correspond."""
    if _is_array(outcome):
        try:
            objects = [*enumerate(json.loads(outcome.parts[0].decode("utf-8-sig")))]
        except (ValueError, RecursionError):
            return [(one.sentence, _find_object(outcome, one)) for one in outcome.sentences]
        places = range(len(outcome.readings))
    else:
        objects = [(number, line) for number, line in enumerate(outcome.lines, start=1) if line.strip()]
        places = [reading.line for reading in outcome.readings]  # type: ignore[assignment]
    numbers = [number for number, _ in objects]
    if list(places) != numbers[: len(places)] or (outcome.complete and len(places) < len(numbers)):
        return None
    return [
        (reading.sentence, json.loads(value) if isinstance(value, str) else value)
        for reading, (_, value) in zip(outcome.readings, objects, strict=False)
        if isinstance(reading, ReadSentence)
    ]


def _is_array(outcome: Outcome) -> bool:
    return outcome.parts[0].removeprefix(BYTE_ORDER_MARK).lstrip()[:1] == b"["


def _check_array(outcome: Outcome) -> Iterator[str]:
    """Check that an array that is not valid JSON was not read without an error."""
    if not _is_array(outcome) or not outcome.complete or len(outcome.sentences) < len(outcome.readings):
        return
    try:  # between the objects, the reader allows white space that JSON does not
        json.loads(_SPACE.sub(" ", outcome.parts[0].decode("utf-8-sig")))
    except (ValueError, RecursionError):
        yield "a broken array was read without an error"


def _find_object(outcome: Outcome, one: ReadSentence) -> dict[str, Any]:
    """Return the object on the line of a sentence that is most similar to it, in an invalid array."""
    words_key, entities_key, type_key, ends = JSON_SHAPES[outcome.format]
    text = "\n".join(outcome.lines[one.line - 1 :])
    best: dict[str, Any] = {words_key: None, entities_key: []}
    for match in re.finditer("{", text[: len(outcome.lines[one.line - 1])]):
        with contextlib.suppress(ValueError, RecursionError):
            value, _ = json.JSONDecoder().raw_decode(text, match.start())
            if value.get(words_key) == list(one.sentence.words):
                best = value
                with contextlib.suppress(TypeError, LookupError):  # entities that the reader rejects
                    spans = [
                        sorted(_json_span(item, type_key, end) for item in value[entities_key])
                        for end in ends
                    ]
                    if _json_spans(one.sentence) in spans:
                        return best
    return best


def _json_spans(sentence: Sentence) -> list[tuple[int, int, str, float]]:
    return sorted((entity.start, entity.end, entity.type, entity.score) for entity in sentence.entities)


Dense = tuple[str, list[Key]]  # a text without white space, and the entities in its characters


def dense_sentences(sentences: Sequence[Sentence]) -> Dense:
    text, keys = "", []
    for sentence in sentences:
        edges = [len(text)]
        for word in sentence.words:
            text += _SPACE.sub("", word)
            edges.append(len(text))
        keys += [(edges[e.start], edges[e.end], e.type) for e in sentence.entities]
    return text, sorted(keys)


def dense_text(text: str, spans: Sequence[Key]) -> Dense:
    before = [0, *itertools.accumulate(not character.isspace() for character in text)]
    return _SPACE.sub("", text), sorted((before[start], before[end], type_) for start, end, type_ in spans)


_SPACE = re.compile(r"\s+")


def _check_json_text(outcome: Outcome) -> Iterator[str]:
    yield from _check_array(outcome)
    if _is_array(outcome):
        if outcome.complete and len(outcome.sentences) == len(outcome.readings):
            with contextlib.suppress(ValueError):  # `_check_array` reports it
                objects = json.loads(outcome.parts[0].decode("utf-8-sig"))
                yield from _check_text(objects, outcome.sentences, outcome.options)
        return
    by_line: dict[int, list[Reading]] = {}
    for reading in outcome.readings:
        by_line.setdefault(reading.line, []).append(reading)
    last = max(by_line, default=0)
    for number, line in enumerate(outcome.lines, start=1):
        readings = by_line.pop(number, [])
        sentences = [reading for reading in readings if isinstance(reading, ReadSentence)]
        if len(sentences) < len(readings):
            if len(readings) > 1:
                yield "a line is both read and rejected"
        elif line.strip() and (outcome.complete or number < last):
            yield from _check_text([json.loads(line)], sentences, outcome.options)
    if by_line:
        yield "a reading of a line that does not exist"


def _check_text(objects: list[Any], sentences: list[ReadSentence], options: ReadOptions) -> Iterator[str]:
    text, spans = "", []
    for record in objects:
        offset = len(text)
        text += record["text"]
        spans += [(offset + start, offset + end, type_) for start, end, type_ in _char_spans(record, options)]
    if dense_text(text, spans) != dense_sentences([one.sentence for one in sentences]):
        yield "other text or entities than in the JSON"


def _char_spans(record: dict[str, Any], options: ReadOptions) -> Iterator[Key]:
    lists = [
        record[key] for key in ("spans", "entities", "label", "labels") if isinstance(record.get(key), list)
    ]
    for item in lists[0] if lists else ():
        if isinstance(item, list):
            item = {"start": item[0], "end": item[1], "label": item[2]}
        start = item["start"] if "start" in item else item["start_offset"]
        end = item["end"] if "end" in item else item["end_offset"]
        types = [item[key] for key in ("label", "type", "entity_type") if key in item][:1]
        for type_ in item["labels"] if isinstance(item.get("labels"), list) else types:
            yield start, end + (options.ends == "inclusive"), type_


def _check_task(outcome: Outcome) -> Iterator[str]:
    yield from _check_array(outcome)
    if not outcome.complete or len(outcome.sentences) < len(outcome.readings):
        return
    whole = outcome.parts[0].decode("utf-8-sig")
    lines = [whole] if _is_array(outcome) else [line for line in outcome.lines if line.strip()]
    try:
        tasks = [json.loads(line) for line in lines]
    except ValueError:  # `_check_array` reports it
        return
    tasks = tasks[0] if _is_array(outcome) else tasks
    objects = []
    for task in tasks:
        finished = [one for one in task.get("annotations") or [] if not one.get("was_cancelled")]
        chosen = sorted(finished, key=lambda one: not one.get("ground_truth"))[:1]
        if not chosen and outcome.options.keep_rejected:
            chosen = (task.get("predictions") or [])[:1]
        if chosen or outcome.options.keep_rejected:
            results = (chosen[0].get("result") or []) if chosen else []
            data = task["data"]
            text = data.get("text", next(one for one in data.values() if isinstance(one, str)))
            spans = [one["value"] for one in results if one.get("type") == "labels"]
            if any(one.get("text", "") not in text[one["start"] : one["end"]] for one in spans):
                return  # its offsets are UTF-16 units, or its spaces differ
            objects.append({"text": text, "spans": spans})
    yield from _check_text(objects, outcome.sentences, outcome.options)


def _check_pair(outcome: Outcome) -> Iterator[str]:
    """Compare spaCy's pairs with the result of `json.loads` or `ast.literal_eval` for the whole file."""
    if not outcome.complete or not outcome.sentences or len(outcome.sentences) < len(outcome.readings):
        return
    whole = outcome.parts[0].decode("utf-8-sig")
    lines = [line for line in outcome.lines if line.strip()]
    pairs = None
    for text in (f"[{','.join(lines)}]", whole, re.sub(r"\s", " ", whole)):  # the last for odd white space
        with contextlib.suppress(ValueError, RecursionError):
            pairs = pairs or json.loads(text)
    if pairs is None:
        node: Any = ast.parse(whole).body[0]
        pairs = ast.literal_eval(node.value)
    if len(pairs) == 1 and isinstance(pairs[0][0], list):  # an array on one line
        pairs = pairs[0]
    objects = [
        {"text": text, "entities": [[*one] if isinstance(one, tuple) else one for one in spans]}
        for text, spans in ((text, others.get("entities") or ()) for text, others in pairs)
    ]
    yield from _check_text(objects, outcome.sentences, outcome.options)


def _check_webanno(outcome: Outcome) -> Iterator[str]:
    """Compare words and entities with the third column and the column of the entities, by their offsets."""
    rows = [line.split("\t") for line in outcome.lines if line.strip() and not line.startswith("#")]
    if (
        not outcome.complete
        or len(outcome.sentences) < len(outcome.readings)
        or not outcome.options.check_text  # the words may differ from the text
        or any("\\" in row[2] for row in rows)  # an escape, or the word itself
    ):
        return
    source = Source.from_bytes(outcome.parts[0])
    header, _ = read_header(source.read_lines(), source, outcome.options.spans_key)
    text, word, begin, number = "", "", 0, 0
    spans: list[list[Any]] = []  # type, last word, first character, character after the last
    latest: dict[Any, list[Any]] = {}  # by value and number
    for row in rows:
        start, end = (int(offset) for offset in row[1].split("-"))
        if "." not in row[0]:
            text, word, begin, number = text + word, row[2], start, number + 1
        first, last = (len(text) + len(_take_units(word, offset - begin)) for offset in (start, end))
        for value in re.findall(r"(?:\\.|[^|\\])+", row[header.column]) if header.entities else ():
            label = re.sub(r"^((?:\\.|[^\\])*?)\[[0-9]+\]$", r"\1", value)
            before = latest.get(value) if label != value else None
            if label in "_*" or start == end:
                continue
            if before is None or before[1] < number - 1:
                latest[value] = [_unescape(label), number, first, last]
                spans.append(latest[value])
            else:
                before[1:] = number, min(first, before[2]), max(last, before[3])
    keys = [(first, last, type_) for type_, _, first, last in spans]
    if dense_text(text + word, keys) != dense_sentences([one.sentence for one in outcome.sentences]):
        yield "other words or entities than in the columns"


def _take_units(word: str, units: int) -> str:
    """Return the first UTF-16 units of a word."""
    return word.encode("utf-16-le")[: 2 * units].decode("utf-16-le", "ignore")


def _unescape(value: str) -> str:
    letters = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "b": "\b"}
    return re.sub(r"\\(.)", lambda match: letters.get(match[1], match[1]), value)


def _check_column(
    outcome: Outcome, columns: Callable[[Sequence[str], Sentence, ReadOptions], bool]
) -> Iterator[str]:
    """Compare every sentence with its lines, split naively, and check that no line is missing."""
    lines = [line.rstrip(" \t\r") for line in outcome.lines]
    for one in outcome.sentences:
        first, end = one.line - 1, one.line - 1 + len(one.sentence)
        block = lines[first:end]
        if len(block) < len(one.sentence) or "" in block:
            yield "more words than lines"
        elif not columns(block, one.sentence, outcome.options):
            yield "other words or entities than in the columns"
        if not all(_separates(line) for line in (lines[first - 1 : first] or [""]) + lines[end : end + 1]):
            yield "a sentence that is truncated"
    if outcome.complete and outcome.readings:
        rejected = [one.raw.count("\n") + 1 for one in outcome.readings if isinstance(one, Rejection)]
        covered = sum(rejected) + sum(len(one.sentence) for one in outcome.sentences)
        minimum = sum(not _separates(line) for line in lines)
        if not minimum <= covered <= sum(map(bool, lines)):
            yield "a line was lost or read twice"


def _separates(line: str) -> bool:
    return not line or line.startswith(("#", "-DOCSTART-"))


def _splits(block: Sequence[str]) -> Iterator[list[list[str]]]:
    """Yield the fields of the lines, separated by tabs and separated by spaces."""
    for separator in ("\t", " +"):
        yield [re.split(separator, line) for line in block]


def _column(fields: list[str], number: int) -> str | None:
    index = number - 1 if number > 0 else len(fields) + number
    return fields[index] if 0 <= index < len(fields) else None


def _conll_agrees(block: Sequence[str], sentence: Sentence, options: ReadOptions) -> bool:
    return any(
        [_column(row, options.word_column or 1) for row in rows] == _add_positions(sentence)
        and _naive_entities([_column(row, options.tag_column or -1) or "" for row in rows])
        == sorted(entity.key for entity in sentence.entities)
        for rows in _splits(block)
    )


def _add_positions(sentence: Sentence) -> list[str]:
    positions = sentence.meta.get("positions")
    if positions is None:
        return list(sentence.words)
    return [f"{word}{position}" for word, position in zip(sentence.words, positions, strict=True)]


def _naive_entities(tags: list[str]) -> list[Key]:
    """Return the entities that the scorer of the shared tasks finds."""
    keys: list[Key] = []
    for index, tag in enumerate(tags):
        if tag == "O":
            continue
        before = tags[index - 1] if index else "O"
        if tag[0] in "IMEL" and before[0] in "BIM" and before[2:] == tag[2:]:
            keys[-1] = (keys[-1][0], index + 1, tag[2:])
        else:
            keys.append((index, index + 1, tag[2:]))
    return sorted(keys)


def _brackets_agree(block: Sequence[str], sentence: Sentence, options: ReadOptions) -> bool:
    for rows in _splits(block):
        full = len(rows[0]) >= 12
        words = [_column(row, options.word_column or (4 if full else 1)) for row in rows]
        cells = [_column(row, options.tag_column or (11 if full else -1)) or "" for row in rows]
        if words == list(sentence.words) and _naive_brackets(cells) == sorted(
            e.key for e in sentence.entities
        ):
            return True
    return False


def _naive_brackets(cells: list[str]) -> list[Key]:
    keys: list[Key] = []
    stack: list[tuple[int, str]] = []
    for index, cell in enumerate(cells):
        for piece in re.findall(r"\([^()*]*|\)", cell):
            if piece == ")":
                start, type_ = stack.pop() if stack else (0, "unbalanced")
                keys.append((start, index + 1, type_))
            else:
                stack.append((index, piece[1:]))
    return sorted(keys)


def _check_gpml(outcome: Outcome) -> Iterator[str]:
    """Compare every sentence with the elements that ElementTree reads, up to the first error."""
    for reading, element in zip(outcome.readings, _elements(outcome.parts[0]), strict=False):
        if not isinstance(reading, ReadSentence):
            continue
        sentence = reading.sentence
        words: list[str] = []
        if _element_dense(element, words) != dense_sentences([sentence]):
            yield "other text or entities than in the XML"
        elif words and words != list(sentence.words):
            yield "other words than in the XML"
        if sentence.id != element.get("id"):
            yield "another id than in the XML"


def _elements(data: bytes) -> Iterator[ET.Element]:
    """Yield the outermost <sentence> elements, up to the first error."""
    parser: Any = ET.XMLPullParser(("start", "end"))
    depth = 0
    with contextlib.suppress(ET.ParseError, ValueError, LookupError):
        parser.feed(data.removeprefix(BYTE_ORDER_MARK))
    with contextlib.suppress(ET.ParseError, ValueError, LookupError):
        for event, element in parser.read_events():
            if element.tag == "sentence":
                depth += 1 if event == "start" else -1
                if event == "end" and depth == 0:
                    yield element


def _element_dense(element: ET.Element, words: list[str]) -> Dense:
    text = ""
    keys: list[Key] = []

    def walk(node: ET.Element) -> None:
        nonlocal text
        start = len(text)
        text += _SPACE.sub("", node.text or "")
        for child in node:
            walk(child)
            text += _SPACE.sub("", child.tail or "")
        if node is not element and node.tag == "w":
            words.append("".join(node.itertext()))
        if node is not element and node.tag == "cons" and "sem" in node.attrib:
            sem = node.attrib["sem"]
            types = set(re.findall(r"G#([^\s()]+)", sem)) if sem[:1] == "(" else {sem.removeprefix("G#")}
            keys.extend((start, len(text), type_) for type_ in types)

    walk(element)
    return text, sorted(keys)


def _check_brat(outcome: Outcome) -> Iterator[str]:
    if not outcome.complete or any(
        "whole document" in one.reason for one in outcome.readings if isinstance(one, Rejection)
    ):
        return
    text = outcome.parts[1].decode("utf-8", "replace")
    spans: list[Key] = []
    for line in outcome.lines:
        fields = line.split("\t")
        if line.startswith("T"):
            type_, _, offsets = fields[1].partition(" ")
            if ";" not in offsets:
                start, end = map(int, offsets.split(" "))
                spans.append((start, end, type_))
    expected_text, expected = dense_text(text, spans)
    pieces = [
        one.raw if isinstance(one, Rejection) else "".join(one.sentence.words) for one in outcome.readings
    ]
    if _SPACE.sub("", "".join(pieces)) != expected_text:
        yield "a part of the text was lost or read twice"
    # A rejected sentence counts as one word, so that the offsets after it do not change.
    sentences = [
        Sentence([one.raw]) if isinstance(one, Rejection) else one.sentence for one in outcome.readings
    ]
    ours = dense_sentences(sentences)[1]
    if Counter(ours) - Counter(expected):
        yield "entities that are not in the annotations"
    if len(outcome.sentences) == len(outcome.readings) and len(ours) < len(expected):
        yield "an entity was lost"


def _check_docbin(outcome: Outcome) -> Iterator[str]:
    """Check that every word and type is a string of the file, or one that spaCy always has."""
    if not outcome.sentences:
        return
    from spacy.strings import StringStore

    always = StringStore()
    payload = zlib.decompressobj().decompress(outcome.parts[0])
    for one in outcome.sentences:
        sentence = one.sentence
        for text in (*sentence.words, *(entity.type for entity in sentence.entities)):
            if text.encode("utf-8", "surrogatepass") not in payload and text not in always:
                yield "a word or type that is not in the file"


_ORACLES: dict[str, Callable[[Outcome], Iterator[str]]] = {
    **dict.fromkeys(JSON_SHAPES, _check_json),
    "jsonl-text": _check_json_text,
    "doccano": _check_json_text,
    "prodigy": _check_json_text,
    "label-studio": _check_task,
    "csv": lambda outcome: check_table(outcome, _check_text, _naive_entities),
    "spacy-v2": _check_pair,
    "webanno": _check_webanno,
    "conll": partial(_check_column, columns=_conll_agrees),
    "weibo": partial(_check_column, columns=_conll_agrees),
    "conll2012": partial(_check_column, columns=_brackets_agree),
    "gpml": _check_gpml,
    "brat": _check_brat,
    "spacy": _check_docbin,
}
