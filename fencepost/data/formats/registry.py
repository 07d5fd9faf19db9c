"""Registry of all formats by name, and detection of the format of a file from its content."""

from __future__ import annotations

from pathlib import Path

from fencepost.data.formats import (
    conll,
    conll2012,
    json_text,
    json_tokens,
    label_studio,
    spacy_v2,
    tables,
    webanno,
    weibo,
)
from fencepost.data.formats.brat import BRAT
from fencepost.data.formats.docbin import SPACY, is_docbin
from fencepost.data.formats.format import Format
from fencepost.data.formats.gpml import GPML
from fencepost.data.formats.json_records import read_head
from fencepost.data.formats.parquet import is_parquet
from fencepost.data.source import BYTE_ORDER_MARK, Source, is_workbook
from fencepost.errors import DataError, UsageError, quote

FORMATS: dict[str, Format] = {
    format_.name: format_
    for format_ in (
        *json_tokens.FORMATS,
        json_text.JSONL_TEXT,
        json_text.DOCCANO,
        json_text.PRODIGY,
        label_studio.LABEL_STUDIO,
        spacy_v2.SPACY_V2,
        conll.CONLL,
        weibo.WEIBO,
        conll2012.CONLL2012,
        webanno.WEBANNO,
        GPML,
        BRAT,
        SPACY,
        tables.CSV,
        tables.XLSX,
        tables.PARQUET,
    )
}


def format_by_name(name: str) -> Format:
    if name in FORMATS:
        return FORMATS[name]
    raise UsageError.unknown("format", name, FORMATS)


def format_by_suffix(path: Path) -> Format:
    """Return the format in which a file with this name is written; raises `UsageError` if it has none."""
    for format_ in FORMATS.values():
        if path.name.lower().endswith(format_.suffixes):
            return format_
    raise UsageError(
        f"{path}: the file name shows no known format; give it with --to, or format= in Python "
        f"({', '.join(FORMATS)})"
    )


def detect_format(source: Source) -> Format:
    """Return the format of a file by its content (of BRAT, by its name); raises `DataError` if none fits."""
    path = source.path
    if path is not None and (path.is_dir() or path.suffix == ".ann"):
        return BRAT
    head = source.head.removeprefix(BYTE_ORDER_MARK).lstrip()
    if path is not None and path.suffix == ".txt" and path.with_suffix(".ann").is_file():
        return BRAT
    if marked := detect_beginning(source):
        return marked
    if tables.has_header(source) or (_is_csv(path) and not conll.looks_tagged(source.get_head_lines())):
        return tables.CSV
    if not head.startswith((b"<", b"{", b"[")) or _has_columns(source):
        return _detect_columns(source)
    return GPML if head.startswith(b"<") else _detect_json(source)


def detect_beginning(source: Source) -> Format | None:
    """Return the format of a file that its first bytes determine; None if they do not."""
    if is_docbin(source.head):
        return SPACY
    if webanno.fits(source.head):
        return webanno.WEBANNO
    return spacy_v2.SPACY_V2 if spacy_v2.fits(source.head) else _detect_binary_table(source)


def detect_table(source: Source) -> Format:
    """Return the format of a file whose columns or keys the user names."""
    if binary := _detect_binary_table(source):
        return binary
    head = source.head.removeprefix(BYTE_ORDER_MARK).lstrip()
    return tables.JSON_KEYS if head.startswith((b"{", b"[")) and not _is_csv(source.path) else tables.CSV


def _detect_binary_table(source: Source) -> Format | None:
    if is_parquet(source.head):
        return tables.PARQUET
    return tables.XLSX if is_workbook(source.head) else None


def _is_csv(path: Path | None) -> bool:
    return path is not None and path.suffix.lower() == ".csv"


def _detect_json(source: Source) -> Format:
    objects = read_head(source, 100)
    for record in objects:
        for shape in json_tokens.SHAPES:
            if shape.fits(record):
                return FORMATS[shape.name]
        if json_text.fits(record):
            return json_text.JSONL_TEXT
        if label_studio.fits(record):
            return label_studio.LABEL_STUDIO
    if not objects:
        return FORMATS["jsonl"]  # its reader reports what is wrong
    keys = ", ".join(quote(key) for key in list(objects[0])[:12])
    raise DataError(
        f"unknown JSON format: the first object has the keys {keys}; known are "
        "words/entities, tokens/entities, tokens/entity_mentions, sentence/ner, tokenized_text/ner, "
        "text/spans (or text/entities, text/label) and data/annotations (Label Studio); name other keys "
        "with --columns, as --columns text=body,entities=marks",
        source=source.name,
        line=1,
    )


def _has_columns(source: Source) -> bool:
    """Return whether a file that starts like JSON or XML has columns, with a bracket as its first word."""
    lines = source.get_head_lines()
    return conll.looks_tagged(lines) or conll2012.looks_bracketed(lines)


def _detect_columns(source: Source) -> Format:
    lines = source.get_head_lines()
    if conll2012.looks_bracketed(lines):
        return conll2012.CONLL2012
    if weibo.has_positions(lines):
        return weibo.WEIBO
    if b"\x00" in source.head or not conll.may_have_tags(lines):
        raise DataError(
            "unknown format: neither JSON nor XML, and no line has a tag such as O or B-PER in a column "
            "(columns are separated by tabs or spaces); unpack it if it is compressed, or name its format "
            f"with --format ({', '.join(FORMATS)})",
            source=source.name,
        )
    return conll.CONLL
