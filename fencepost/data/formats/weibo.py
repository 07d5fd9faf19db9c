"""CoNLL columns whose words are Chinese characters with their position in the word (`科0`, `技1`)."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from fencepost.data.entity import Sentence
from fencepost.data.formats import conll
from fencepost.data.formats.conll import detect_columns, find_contents
from fencepost.data.formats.format import Format, WriteOptions
from fencepost.data.formats.iob import Invalid
from fencepost.data.output import text_writer
from fencepost.errors import quote

MANY_WORDS = 20  # if all of them end with digits, these are positions
_POSITION = re.compile(r"(.+?)(0|[1-9][0-9]{0,8})", re.DOTALL)


def _parse_words(words: list[str]) -> tuple[list[str], dict[str, Any]]:
    characters, positions = [], []
    for index, word in enumerate(words):
        match = _POSITION.fullmatch(word)
        if match is None:
            raise Invalid(index, f"{quote(word)} is not a character with its position after it")
        characters.append(match[1])
        positions.append(int(match[2]))
    return characters, {"positions": positions}


def has_positions(lines: list[str]) -> bool:
    """Return whether the words are characters with their position in the word, which counts from 0."""
    columns = detect_columns(lines)
    if columns is None or columns.count < 2:
        return False
    rows = map(columns.split, find_contents(lines))
    words = [row[0] for row in rows if len(row) == columns.count]
    matches = [match for match in map(_POSITION.fullmatch, words) if match]
    positions = [int(match[2]) for match in matches]
    if len(matches) < len(words) or positions[0] != 0:
        return False
    chinese = all(len(match[1]) == 1 for match in matches) and not all(map(str.isascii, words))
    steps = sum(now in (0, before + 1) for before, now in itertools.pairwise(positions))
    return (chinese or len(words) >= MANY_WORDS) and steps >= 0.95 * (len(words) - 1)


def encode(sentences: Iterable[Sentence], options: WriteOptions) -> Iterator[str]:
    return conll.encode(map(_add_positions, sentences), options)


def _add_positions(sentence: Sentence) -> Sentence:
    positions = sentence.meta.get("positions") or [0] * len(sentence)
    words = [f"{word}{position}" for word, position in zip(sentence.words, positions, strict=True)]
    return replace(sentence, words=words)


def find_obstacle(sentence: Sentence) -> str | None:
    positions = sentence.meta.get("positions")
    if positions is not None and not _are_positions(positions, len(sentence)):
        return "positions that are not one integer for each character"
    for word, position in zip(sentence.words, positions or [0] * len(sentence), strict=True):
        match = _POSITION.fullmatch(f"{word}{position}")
        if match is None or match[1] != word:
            return "a word that cannot be separated from the position after it"
    return conll.find_obstacle(sentence)


def _are_positions(positions: object, length: int) -> bool:
    return (
        isinstance(positions, list | tuple)
        and len(positions) == length
        and all(type(position) is int and 0 <= position < 10**9 for position in positions)
    )


WEIBO = Format(
    name="weibo",
    summary="as conll, with Chinese characters and their position in the word (科0)",
    read=partial(conll.read, parse_words=_parse_words),
    write=text_writer(encode),
    find_obstacle=find_obstacle,
    overlaps="none",
    keeps=frozenset({"positions"}),
)
