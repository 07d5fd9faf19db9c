"""The tables, read from `tables.yaml`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import yaml

from benchmarks.claims.runs import SHARE, Variant

OURS = {
    "f1": {"F1": ("", "f1")},
    "scores": {name: ("", name.lower()) for name in ("precision", "recall", "F1", "support")},
    "lengths": {
        **{length: (f" length {length}", "f1") for length in ("1-4", "5-9", "10+")},
        "all": ("", "f1"),
    },
}
"""Our columns: for each title, what is appended to the scores of a row, and which of them it is."""


@dataclass(frozen=True)
class Row:
    """Row of a table, the scores of the models of a variant.

    `scores` is `all`; `all length 3`, `5-9` or `10+` for entities of these numbers of words; `steps=1` for
    all with this setting of prediction; `offsets decoding all` for this line of the report `offsets`.
    """

    title: str
    figures: tuple[Any, ...]
    variant: Variant
    scores: str = "all"


@dataclass(frozen=True)
class Table:
    """Table of a paper, as `tables.yaml` describes it; with `group` 0, rows are compared with the first."""

    title: str
    paper: str
    setting: str
    reading: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    ours: str = "f1"
    group: int = 0
    steps: str | None = None

    def list_scores(self, row: Row) -> list[tuple[str, str]]:
        """Return for each of our columns the name of the scores, and which of them it is."""
        return [(row.scores + suffix, score) for suffix, score in OURS[self.ours].values()]

    def find_first(self, row: Row) -> Row:
        """Return the row that a row is compared with, which may be itself."""
        index = self.rows.index(row)
        return self.rows[index - index % self.group if self.group else 0]


def _read_table(table: dict[str, Any]) -> Table:
    rows = tuple(_read_row(row, table) for row in table["rows"])
    values = {field.name: table[field.name] for field in fields(Table) if field.name in table}
    return Table(**{**values, "columns": tuple(table["columns"]), "rows": rows})


def _read_row(row: list[Any], table: dict[str, Any]) -> Row:
    (title, *figures), rest = row[: 1 + len(table["columns"])], row[1 + len(table["columns"]) :]
    settings, *scores = rest or [""]
    changes = [*table.get("settings", "").split(), *settings.split()]
    shares = [float(one.removeprefix("share=")) for one in changes if one.startswith("share=")]
    others = tuple(one for one in changes if not one.startswith("share="))
    return Row(title, tuple(figures), Variant(table["method"], others, *(shares or [SHARE])), *scores)


TABLES = {
    name: _read_table(table)
    for name, table in yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")).items()
}


def list_variants(tables: Iterable[Table]) -> dict[Variant, set[str]]:
    """Return the variants of the tables, each with the names of the scores that its rows need."""
    variants: dict[Variant, set[str]] = {}
    for table in tables:
        for row in table.rows:
            variants.setdefault(row.variant, set()).update(name for name, _ in table.list_scores(row))
    return variants
