"""Prodigy's JSON lines: raw text with its tokens, and spans by character and by token.

It is read like any raw text with offsets (`jsonl-text`). In the output, each token says whether white space
follows (`ws`), and each span has its first and last token (`token_start`, `token_end`), which recipes need.
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
    return encode_records(map(_make_task, sentences), options)


def _make_task(sentence: Sentence) -> dict[str, Any]:
    task = json_text.to_record(sentence)
    last = len(sentence) - 1
    for token in task["tokens"]:
        token.setdefault("ws", token["id"] < last)
    for span, entity in zip(task["spans"], sentence.entities, strict=True):
        span |= {"token_start": entity.start, "token_end": entity.end - 1}
    return task


PRODIGY = Format(
    name="prodigy",
    summary="raw text with tokens and spans, as Prodigy imports it",
    read=json_text.read,
    write=text_writer(encode),
    find_obstacle=json_text.find_obstacle,
    overlaps="any",
    keeps=json_text.JSONL_TEXT.keeps,
)
