"""doccano's JSON lines: raw text with entities by character offset, for import into a project.

Read as any raw text with offsets (`jsonl-text`). Written, each sentence is an example with `label`, a list of
`[start, end, type]`; doccano has no place for words, so that the text is split again where it is read.
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
    return encode_records(map(_example, sentences), options)


def _example(sentence: Sentence) -> dict[str, Any]:
    parts = {
        "id": sentence.id,
        "doc": sentence.doc,
        "text": sentence.text,
        "label": json_text.span_triples(sentence),
        "meta": dict(sentence.meta) or None,
    }
    return {key: value for key, value in parts.items() if value is not None}


DOCCANO = Format(
    name="doccano",
    summary="raw text with labels by character offset, as doccano imports it",
    read=json_text.read,
    write=text_writer(encode),
    obstacle=json_text.text_obstacle,
    overlaps="any",
    keeps=frozenset({"id", "doc", "space_after", "meta"}),
)
