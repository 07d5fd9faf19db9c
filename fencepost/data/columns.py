"""The columns of tables, and the parts of a sentence that are in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fencepost.errors import UsageError

SPAN_KEYS = ("spans", "entities", "label", "labels")
"""The columns, or keys, of the entities of a raw text."""

COLUMN_PARTS: dict[str, tuple[str, ...]] = {
    "tokens": ("tokens", "words", "tokenized_text", "sentence"),
    "tags": ("ner_tags", "tags", "labels"),
    "spans": ("spans", "entities", "entity_mentions", "ner"),
    "text": ("text",),
    "id": ("id", "sent_id", "orig_id", "org_id"),
    "doc": ("doc", "doc_id", "doc_key"),
    "pos": ("pos", "pos_tags"),
    "left": ("left", "ltokens"),
    "right": ("right", "rtokens"),
    "space_after": ("space_after",),
    "start": ("start", "start_offset", "begin"),
    "end": ("end", "end_offset"),
    "type": ("type", "label", "entity_type"),
    "sentence": ("sentence #", "sentence_id", "sent_id", "sentence_number", "sentence_idx", "sentence"),
}
"""The parts of a sentence, and the columns in which each is looked for."""

_OTHER_NAMES = {"words": "tokens", "word": "tokens", "tag": "tags", "entities": "spans", "label": "type"}
_OPTIONAL = ("id", "doc", "pos", "left", "right", "space_after")

Parts = dict[str, str]
"""The column of each part of a sentence."""


def parse_columns(columns: str | Mapping[str, str]) -> Parts:
    """Return the columns that a user names, by part: a mapping, or `text=body,entities=labels`."""
    if isinstance(columns, str):
        pairs = [item.partition("=") for item in columns.split(",")]
        if not all(part.strip() and column.strip() for part, _, column in pairs):
            raise UsageError(f"--columns takes PART=COLUMN with commas between them, not {columns!r}")
        columns = {part.strip(): column.strip() for part, _, column in pairs}
    named = {_OTHER_NAMES.get(part, part): column for part, column in columns.items()}
    for part in named:
        if part not in COLUMN_PARTS:
            raise UsageError.unknown("column", part, COLUMN_PARTS)
    if len(named) < len(columns):
        raise UsageError(f"two columns are named for one part of a sentence: {', '.join(columns)}")
    return named


def check_named(named: Mapping[str, str], there: Sequence[str], name: str) -> None:
    """Raise `UsageError` if a column that is named is not there."""
    for part, column in named.items():
        if column not in there:
            raise UsageError(f"{name}: --columns {part}={column}, but the columns are {_list(there)}")


def find_usual(
    there: Iterable[str], parts: Mapping[str, Sequence[str]] = COLUMN_PARTS
) -> dict[str, list[str]]:
    """Return the columns of each part that have a usual name, in capital letters or not."""
    by_name: dict[str, str] = {}
    for column in there:
        by_name.setdefault(column.casefold(), column)
    return {part: [by_name[name] for name in names if name in by_name] for part, names in parts.items()}


def find_parts(
    there: Sequence[str],
    named: Mapping[str, str],
    first: Mapping[str, Any],
    features: Mapping[str, Any],
    name: str,
) -> Parts:
    """Return the column of each part of a sentence in a table with a row for each: named or usual ones.

    These are words with tags or spans, or a text with spans and perhaps the offsets of its words.
    """
    usual = find_usual(there)
    kinds = {
        column: _kind_of_tokens(first.get(column), features.get(column))
        for column in (*usual["tokens"], named.get("tokens", ""))
    }
    usual["tokens"] = [column for column in usual["tokens"] if kinds[column]]
    found = {part: columns[0] for part, columns in usual.items() if columns} | dict(named)
    has_words = "tokens" in found and kinds[found["tokens"]] == "words"
    if "tokens" in named or (has_words and "text" not in named):
        marks = {"tags", "spans"} & named.keys() or {"tags", "spans"} & found.keys()
        if len(marks) != 1:
            what = "both tags and spans are there" if marks else "neither tags nor spans are there"
            raise UsageError(
                f"{name}: {what}, in the columns {_list(there)}; say where the entities are, as "
                "--columns tags=my_tags or --columns spans=my_spans"
            )
        return {part: found[part] for part in ("tokens", *marks, *_OPTIONAL) if part in found}
    spans = named.get("spans") or next(iter(_span_columns(there)), None)
    if "text" not in found or spans is None:
        raise UsageError(
            f"{name}: no sentences are found in the columns {_list(there)}; needed are words "
            f"({_list(COLUMN_PARTS['tokens'])}) with tags ({_list(COLUMN_PARTS['tags'])}) or spans "
            f"({_list(COLUMN_PARTS['spans'])}), or text with spans; name them, as "
            "--columns tokens=my_words,tags=my_tags"
        )
    wanted = {"text", "id", "doc"} if has_words else {"text", "id", "doc", "tokens"}
    return {part: column for part, column in found.items() if part in wanted} | {"spans": spans}


def _span_columns(there: Sequence[str]) -> list[str]:
    return find_usual(there, {"spans": SPAN_KEYS})["spans"]


def _kind_of_tokens(value: Any, feature: Any) -> str | None:
    """Return whether a column with this value has words, or objects with their offsets (None: neither)."""
    if value is None:
        return None if getattr(feature, "dtype", None) in ("string", "large_string") else "words"
    if isinstance(value, Mapping):
        return "objects" if all(map(_is_list, value.values())) else None
    if not _is_list(value):
        return None
    return "objects" if any(isinstance(item, Mapping) for item in value) else "words"


def _is_list(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)


def _list(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:12])) + (" and others" if len(names) > 12 else "")
