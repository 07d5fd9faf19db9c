"""Columns of tables, and the parts of a sentence that they contain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fencepost.errors import UsageError

SPAN_KEYS = ("spans", "entities", "label", "labels")
"""Columns, or keys, that may contain the entities of a raw text."""

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
"""Parts of a sentence, and the known names of the columns of each."""

_OTHER_NAMES = {"words": "tokens", "word": "tokens", "tag": "tags", "entities": "spans", "label": "type"}
_OPTIONAL = ("id", "doc", "pos", "left", "right", "space_after")

Parts = dict[str, str]
"""Column of each part of a sentence."""


def parse_columns(columns: str | Mapping[str, str]) -> Parts:
    """Return the columns that a user names, by part, from a mapping or `text=body,entities=labels`."""
    if isinstance(columns, str):
        pairs = [item.partition("=") for item in columns.split(",")]
        if not all(part.strip() and column.strip() for part, _, column in pairs):
            raise UsageError(f"--columns takes PART=COLUMN, separated by commas, not {columns!r}")
        columns = {part.strip(): column.strip() for part, _, column in pairs}
    named = {_OTHER_NAMES.get(part, part): column for part, column in columns.items()}
    for part in named:
        if part not in COLUMN_PARTS:
            raise UsageError.unknown("column", part, COLUMN_PARTS)
    if len(named) < len(columns):
        raise UsageError(f"--columns names two columns for one part of a sentence: {', '.join(columns)}")
    return named


def check_columns(named: Mapping[str, str], columns: Sequence[str], name: str) -> None:
    """Raise `UsageError` if a column that the user names does not exist."""
    for part, column in named.items():
        if column not in columns:
            raise UsageError(f"{name}: --columns {part}={column}, but the columns are {_join_names(columns)}")


def find_known(
    columns: Iterable[str], parts: Mapping[str, Sequence[str]] = COLUMN_PARTS
) -> dict[str, list[str]]:
    """Return the columns of each part that have a known name; case does not matter."""
    by_name: dict[str, str] = {}
    for column in columns:
        by_name.setdefault(column.casefold(), column)
    return {part: [by_name[name] for name in names if name in by_name] for part, names in parts.items()}


def find_parts(
    columns: Sequence[str],
    named: Mapping[str, str],
    first: Mapping[str, Any],
    features: Mapping[str, Any],
    name: str,
) -> Parts:
    """Return the column of each part of a sentence, in a table with a row for each sentence.

    The columns are those that the user names or that have known names: words with tags or spans, or a text
    with spans and possibly the offsets of its words. Raises `UsageError` if there are no such columns.
    """
    known = find_known(columns)
    kinds = {
        column: _classify_tokens(first.get(column), features.get(column))
        for column in (*known["tokens"], named.get("tokens", ""))
    }
    known["tokens"] = [column for column in known["tokens"] if kinds[column]]
    parts = {part: candidates[0] for part, candidates in known.items() if candidates} | dict(named)
    has_words = "tokens" in parts and kinds[parts["tokens"]] == "words"
    if "tokens" in named or (has_words and "text" not in named):
        marks = {"tags", "spans"} & named.keys() or {"tags", "spans"} & parts.keys()
        if len(marks) != 1:
            what = "both tags and spans" if marks else "neither tags nor spans"
            raise UsageError(
                f"{name}: there are {what} in the columns {_join_names(columns)}; name the column of the "
                "entities, as --columns tags=my_tags or --columns spans=my_spans"
            )
        return {part: parts[part] for part in ("tokens", *marks, *_OPTIONAL) if part in parts}
    spans = named.get("spans") or next(iter(find_known(columns, {"spans": SPAN_KEYS})["spans"]), None)
    if "text" not in parts or spans is None:
        tokens, tags, entities = (_join_names(COLUMN_PARTS[part]) for part in ("tokens", "tags", "spans"))
        raise UsageError(
            f"{name}: there are no sentences in the columns {_join_names(columns)}; needed are words "
            f"({tokens}) with tags ({tags}) or spans ({entities}), or text with spans; name them, as "
            "--columns tokens=my_words,tags=my_tags"
        )
    keys = {"text", "id", "doc"} if has_words else {"text", "id", "doc", "tokens"}
    return {part: column for part, column in parts.items() if part in keys} | {"spans": spans}


def _classify_tokens(value: Any, feature: Any) -> str | None:
    """Return whether a column with this value has `words` or `objects` with offsets; None if neither."""
    if value is None:
        return None if getattr(feature, "dtype", None) in ("string", "large_string") else "words"
    if isinstance(value, Mapping):
        return "objects" if all(map(_is_list, value.values())) else None
    if not _is_list(value):
        return None
    return "objects" if any(isinstance(item, Mapping) for item in value) else "words"


def _is_list(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)


def _join_names(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:12])) + (" and others" if len(names) > 12 else "")
