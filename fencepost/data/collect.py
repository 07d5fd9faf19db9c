"""Sentences from what a Python program has: a file, sentences, a data frame or rows of a data set."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from fencepost.data.entity import Sentence
from fencepost.data.formats.format import ReadOptions
from fencepost.data.reader import Reader
from fencepost.data.rows import Rows, use_python_names
from fencepost.data.source import Note
from fencepost.errors import UsageError

Data = str | Path | Iterable[Sentence] | Iterable[Mapping[str, Any]]
"""A file or `sample:train`; sentences; a data frame; or rows, as a `datasets.Dataset` has them."""


def collect_sentences(
    data: Data, name: str, columns: Mapping[str, str] | None = None, options: ReadOptions | None = None
) -> tuple[list[Sentence], list[Note]]:
    """Return all sentences, and notes on the reading; `name` is how errors name the data."""
    if isinstance(data, str | Path):
        options = options or ReadOptions()
        with Reader(
            data, options=options if columns is None else replace(options, columns=columns)
        ) as reader:
            sentences = list(reader)
        return sentences, [replace(note, kind=use_python_names(note.kind)) for note in reader.notes]
    if isinstance(data, Mapping) or not isinstance(data, Iterable):
        raise UsageError(
            f"{name} must be a file, sentences, or the rows of a data set, not {type(data).__name__}"
            + (": give one of its splits" if isinstance(data, Mapping) else "")
        )
    stream: Iterator[Any] = iter(data)
    is_table = hasattr(data, "features") or hasattr(data, "columns")
    first = None if is_table else next(stream, None)
    if is_table or isinstance(first, Mapping):
        of_table: Any = data if is_table else chain([first], stream)
        rows = Rows(of_table, columns, options, name=name)
        return list(rows), rows.notes
    sentences = [] if first is None else [first, *stream]
    for index, one in enumerate(sentences):
        if not isinstance(one, Sentence):
            raise UsageError(
                f"{name}: number {index} has the type {type(one).__name__}; sentences must be "
                "fencepost.Sentence, and rows of a data set must be dictionaries"
            )
    return sentences, []
