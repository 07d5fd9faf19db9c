"""doccano's JSON lines: raw text with entities by character offset, for import into a project.

It is read like any raw text with offsets (`jsonl-text`). In the output, each sentence is an example with
`label`, a list of `[start, end, type]`. doccano does not store words, so readers split the text again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from fencepost.data.entity import Sentence
from fencepost.data.formats import json_text
from fencepost.data.formats.format import Format, WriteOptions
from fencepost.data.formats.json_records import encode_records
from fencepost.data.output import text_writer


def encode(sentences: Iterable[Sentence], options: WriteOptions) -> Iterator[str]:
    return encode_records(map(_make_example, sentences), options)


def _make_example(sentence: Sentence) -> dict[str, Any]:
    parts = {
        "id": sentence.id,
        "doc": sentence.doc,
        "text": sentence.text,
        "label": json_text.list_span_triples(sentence),
        "meta": dict(sentence.meta) or None,
    }
    return {key: value for key, value in parts.items() if value is not None}


DOCCANO = Format(
    name="doccano",
    summary="raw text with labels by character offset, as doccano imports it",
    read=json_text.read,
    write=text_writer(encode),
    find_obstacle=json_text.find_text_obstacle,
    overlaps="any",
    keeps=frozenset({"id", "doc", "space_after", "meta"}),
)
