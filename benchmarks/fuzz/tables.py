"""Compare the sentences that were read from CSV with a second, naive reader."""

from __future__ import annotations

import ast
import contextlib
import csv
import io
import json
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from benchmarks.fuzz.reading import Outcome
from fencepost.data import ReadOptions
from fencepost.data.entity import Sentence
from fencepost.data.source import ReadSentence

Row = dict[str, str]
Key = tuple[int, int, str]
CheckText = Callable[[list[Any], list[ReadSentence], ReadOptions], Iterator[str]]
_LAYOUTS = (
    *({"words", "entities"}, {"Sentence #", "Word", "Tag"}, {"text", "entities"}),
    {"text", "start", "end", "label"},
)


def check_table(
    outcome: Outcome, check_text: CheckText, find_chunks: Callable[[list[str]], list[Key]]
) -> Iterator[str]:
    """Yield what is wrong with the sentences of a table that was read without an error."""
    if not outcome.complete or len(outcome.sentences) < len(outcome.readings) or not outcome.sentences:
        return
    rows = _read_rows(outcome.parts[0])
    if rows is None:
        return
    sentences = [one.sentence for one in outcome.sentences]
    if "words" in rows[0]:
        expected = [(_parse_items(row["words"]), _parse_keys(row["entities"])) for row in rows]
        if [_get_content(sentence) for sentence in sentences] != expected:
            yield "other words or entities than in the table"
    elif "Word" in rows[0]:
        words = [row["Word"] for row in rows if row["Word"]]
        if [word for sentence in sentences for word in sentence.words] != words:
            yield "other words than in the table"
        tags = iter([row["Tag"] or "O" for row in rows if row["Word"]])
        for sentence in sentences:
            if _get_content(sentence)[1] != find_chunks(list(islice(tags, len(sentence)))):
                yield "other entities than in the table"
    elif "text" in rows[0]:
        yield from check_text(list(_join_rows(rows)), outcome.sentences, outcome.options)


def _read_rows(data: bytes) -> list[Row] | None:
    """Return the rows of a table with the columns of a seed; None for other columns."""
    text = data.decode("utf-8-sig", "replace")
    for delimiter in ",;\t":
        with contextlib.suppress(csv.Error):
            rows = list(csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True))
            columns = set(rows[0]) if rows else set()
            if any(layout <= columns for layout in _LAYOUTS):
                return rows
    return None


def _parse_keys(cell: str) -> list[Key]:
    return sorted((item["start"], item["end"], item["type"]) for item in _parse_items(cell))


def _get_content(sentence: Sentence) -> tuple[list[str], list[Key]]:
    return list(sentence.words), sorted(entity.key for entity in sentence.entities)


def _join_rows(rows: list[Row]) -> Iterator[dict[str, Any]]:
    if "entities" in rows[0]:
        for row in rows:
            yield {"text": row["text"], "spans": _parse_items(row["entities"])}
        return
    last: dict[str, Any] | None = None
    for row in rows:
        if last is None or (row.get("id"), row["text"]) != (last["id"], last["text"]):
            if last is not None:
                yield last
            last = {"id": row.get("id"), "text": row["text"], "spans": []}
        if row["start"]:
            last["spans"].append([int(float(row["start"])), int(float(row["end"])), row["label"]])
    if last is not None:
        yield last


def _parse_items(cell: str) -> list[Any]:
    try:
        return list(json.loads(cell or "[]"))
    except ValueError:
        return [list(item) if isinstance(item, tuple) else item for item in ast.literal_eval(cell)]
