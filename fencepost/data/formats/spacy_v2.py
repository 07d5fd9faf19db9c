"""Training data of spaCy 2: pairs of a text and its annotations, `["text", {"entities": [[0, 5, "ORG"]]}]`.

A JSON file has one array of pairs, or one pair on each line. A Python file, as in spaCy's examples, has one
list of pairs, with or without a name (`TRAIN_DATA = [...]`); it is parsed but never run, so it must contain
only literals. Of the annotations, only `entities` are read; others are counted.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from fencepost.data.entity import Sentence
from fencepost.data.formats import json_text
from fencepost.data.formats.format import Format, ReadOptions
from fencepost.data.formats.json_fields import explain_not_json
from fencepost.data.formats.json_records import Record, json_writer, name_kind, read_objects
from fencepost.data.source import BYTE_ORDER_MARK, Reading, Source
from fencepost.errors import DataError, describe_error, quote

PYTHON_BYTES = 1 << 22  # maximum for a Python file, whose syntax tree takes a hundred times as much memory
_OTHERS = "annotation of a text other than its entities, skipped"
_LIST = rb"(?:\s*#[^\n]*+\n)*\s*(?:[A-Za-z_]\w*\s*(?::[^=\n]{0,100})?=\s*)?(?:[\[(]\s*[\[(]|\[)\s*"
_STRING = rb"""(?:[uU]?(?:"(?:[^"\\]|\\.)*+"|'(?:[^'\\]|\\.)*+')\s*)++"""
_KEY = rb"""["'](?:entities|cats|links|words|tags|heads|deps|morphs|sents|sent_starts)["']\s*:"""
_PAIR = re.compile(_LIST + _STRING + rb",\s*\{\s*" + _KEY, re.DOTALL)
_PYTHON = re.compile(rb'(?!\s*\[\s*(?:\[\s*)?["\]])' + _LIST)  # a list that does not start as in JSON
_ARRAY = re.compile(rb"\s*\[\s*[\[\]]")


def fits(head: bytes) -> bool:
    """Return whether a file starts with a text and its annotations, in JSON or Python."""
    return _PAIR.match(head.removeprefix(BYTE_ORDER_MARK)) is not None


def read(source: Source, options: ReadOptions) -> Iterator[Reading]:
    head = source.head.removeprefix(BYTE_ORDER_MARK)
    if _PYTHON.match(head):
        pairs = _read_python(source)
    else:
        pairs = read_objects(source, _check_pair, array=_ARRAY.match(head) is not None)
    return json_text.convert(_flatten(pairs, source), source, options)


def _check_pair(value: Any) -> dict[str, Any] | str:
    """Return a pair as an object with text and annotations; a message if it is not a pair."""
    if not isinstance(value, list | tuple):
        return f'a pair ["text", {{"entities": [...]}}] was expected, not {name_kind(value)}'
    if len(value) != 2 or not isinstance(value[0], str) or not isinstance(value[1], dict):
        return 'not a pair of a text and its annotations: ["text", {"entities": [...]}]'
    return {"text": value[0], "annotations": value[1]}


def _read_python(source: Source) -> Iterator[Record]:
    """Yield the pairs of a list in Python, which is parsed but not run."""
    try:
        with warnings.catch_warnings():  # about unknown escapes in strings
            warnings.simplefilter("ignore")
            body = ast.parse(source.read_all(PYTHON_BYTES).decode("utf-8")).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        reason = f"neither JSON nor a list in Python: {getattr(error, 'msg', '') or describe_error(error)}"
        raise DataError(reason, source=source.name, line=getattr(error, "lineno", None)) from error
    value = getattr(body[0], "value", None) if len(body) == 1 else None
    if not isinstance(value, ast.List | ast.Tuple):
        reason = "not a single list of pairs in Python, such as [('text', {'entities': [(0, 5, 'ORG')]})]"
        raise DataError(reason, source=source.name, line=body[1].lineno if len(body) > 1 else None)
    for node in value.elts:
        yield _parse_python_pair(node)


def _parse_python_pair(node: ast.expr) -> Record:
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, RecursionError, MemoryError):
        problem = "only strings, numbers, lists, tuples and dicts are allowed; Python is not run here"
        return Record(node.lineno, "", {}, problem)
    pair = _check_pair(value)
    if isinstance(pair, str):
        return Record(node.lineno, repr(value), {}, pair)
    return Record(node.lineno, repr(value), pair, explain_not_json(value))


def _flatten(pairs: Iterator[Record], source: Source) -> Iterator[Record]:
    """Yield each pair as an object with text and entities."""
    for record in pairs:
        if record.problem:
            yield record
            continue
        annotations = record.value["annotations"]
        value = {"text": record.value["text"]}
        if "entities" in annotations:
            value["entities"] = _convert_tuples(annotations["entities"])
        for key in annotations.keys() - {"entities"}:
            source.note(_OTHERS, record.line, quote(key))
        yield replace(record, value=value)


def _convert_tuples(entities: Any) -> Any:
    """Return the entities with tuples converted to lists."""
    if not isinstance(entities, list | tuple):
        return entities
    return [list(item) if isinstance(item, tuple) else item for item in entities]


def _make_pair(sentence: Sentence) -> list[Any]:
    return [sentence.text, {"entities": json_text.list_span_triples(sentence)}]


SPACY_V2 = Format(
    name="spacy-v2",
    summary="training data of spaCy 2: pairs of a text and its entities by character offset",
    read=read,
    write=json_writer(_make_pair),
    find_obstacle=json_text.find_text_obstacle,
    overlaps="any",
    keeps=frozenset({"space_after"}),
)
