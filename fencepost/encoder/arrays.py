"""Input arrays of encoders: the numbers of words, letters, shapes, tags and sub-words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from fencepost.data.entity import Sentence
from fencepost.encoder.subwords import Subwords
from fencepost.encoder.windows import fit_context

Arrays = dict[str, npt.NDArray[Any]]
"""Input arrays of a batch, by name."""

Vocabulary = dict[str, list[str]]
"""Names that a model knows, in order, by kind: words, characters, shapes, parts of speech."""

PAD, UNKNOWN, NAMED = 0, 1, 2
"""The first two rows of every embedding, and the row of the first name of a vocabulary."""

LONGEST = 64
"""Maximum number of characters of a word that are read."""

_LONGEST_SHAPE = 8
"""Maximum number of characters of a word's shape."""

AXES: Mapping[str, tuple[str, ...]] = {
    "lengths": ("sentences",),
    "ids": ("sentences", "pieces"),
    "piece_counts": ("sentences",),
    "piece_words": ("sentences", "pieces"),
    "piece_places": ("sentences", "own_pieces"),
    "words": ("sentences", "words"),
    "letters": ("forms", "letters"),
    "letter_counts": ("forms",),
    "letters_of": ("sentences", "words"),
    "shapes": ("sentences", "words"),
    "pos": ("sentences", "words"),
    "vectors": ("sentences", "words"),
}
"""Names of the axes of each array that an exported encoder reads; pieces are sub-words."""

BLOCK_AXES: Mapping[str, tuple[str, ...]] = {
    "ids": ("blocks", "pieces"),
    "piece_counts": ("blocks",),
    "piece_words": ("sentences", "own_pieces"),
}
"""The axes that differ if sentences are read in blocks."""


def number_names(names: Sequence[str]) -> dict[str, int]:
    return {name: number for number, name in enumerate(names, start=NAMED)}


def pad_rows(rows: Iterable[Iterable[int]], fill: int = PAD) -> npt.NDArray[np.int64]:
    """Return rows of numbers as an array `[B, T]`, padded with `fill`."""
    lists = [list(row) for row in rows]
    padded = np.full((len(lists), max(map(len, lists))), fill, dtype=np.int64)
    for row, numbers in zip(padded, lists, strict=True):
        row[: len(numbers)] = numbers
    return padded


def number_words(sentences: Sequence[Sentence], numbers: Mapping[str, int]) -> Arrays:
    """Return the number of each word, `[B, T]`."""
    return {"words": pad_rows([numbers.get(word, UNKNOWN) for word in s.words] for s in sentences)}


def number_letters(sentences: Sequence[Sentence], numbers: Mapping[str, int]) -> Arrays:
    """Return the letters of every different word, `[W, L]`, and each word's index among these, `[B, T]`."""
    words = dict.fromkeys(word[:LONGEST] for sentence in sentences for word in sentence.words)
    indices = {word: index for index, word in enumerate(words)}
    rows = [[numbers.get(letter, UNKNOWN) for letter in word] or [UNKNOWN] for word in words]
    return {
        "letters": pad_rows(rows),
        "letter_counts": np.array([len(row) for row in rows], dtype=np.int64),
        "letters_of": pad_rows([indices[word[:LONGEST]] for word in s.words] for s in sentences),
    }


def number_shapes(sentences: Sequence[Sentence], numbers: Mapping[str, int]) -> Arrays:
    """Return the number of each word's shape, `[B, T]`."""
    return {
        "shapes": pad_rows([numbers.get(get_shape(word), UNKNOWN) for word in s.words] for s in sentences)
    }


@lru_cache(maxsize=65_536)
def get_shape(word: str) -> str:
    """Return the shape of a word: `Xxx` for Paris, `XX` for IBM, `X.X.` for U.S., `XX-d` for IL-2.

    `X` is an upper-case letter, `x` a lower-case letter, `d` a digit, `c` a letter without case, and other
    characters are kept. Runs of more than two are shortened to two, and the shape to 8 characters.
    """
    shape = ""
    for letter in word[:LONGEST]:
        if letter.isupper():
            letter = "X"
        elif letter.islower():
            letter = "x"
        elif letter.isdigit():
            letter = "d"
        elif letter.isalpha():
            letter = "c"
        if not shape.endswith(2 * letter):
            shape += letter
    return shape[:_LONGEST_SHAPE]


def number_tags(sentences: Sequence[Sentence], numbers: Mapping[str, int]) -> Arrays:
    """Return the number of each word's part of speech, which may be unknown, `[B, T]`."""
    of_sentences = (sentence.pos or ("",) * len(sentence) for sentence in sentences)
    return {
        "pos": pad_rows([numbers.get(tag, UNKNOWN) for tag in of_sentence] for of_sentence in of_sentences)
    }


def number_forms(sentences: Sequence[Sentence], numbers: Mapping[str, int]) -> Arrays:
    """Return the number of each word as it is written, or else in lower case, `[B, T]`."""
    return {
        "vectors": pad_rows(
            [numbers.get(word) or numbers.get(word.lower(), UNKNOWN) for word in s.words] for s in sentences
        )
    }


def number_subwords(
    sentences: Sequence[Sentence], subwords: Subwords, room: int, *, context: bool, first_only: bool
) -> Arrays:
    """Return the sub-words of sentences that fit into the encoder's window, `[B, S]`.

    `piece_words` has the index of each sub-word's word; it is -1 for special tokens, for context around the
    sentence and, with `first_only`, for all sub-words of a word but its first.
    """
    ids, owners = [], []
    for sentence in sentences:
        pieces = [of_word[:room] for of_word in subwords(sentence.words)]
        left: list[int] = []
        right: list[int] = []
        spare = room - sum(map(len, pieces))
        if context and spare > 0:
            near_left, near_right = sentence.left[-spare:], sentence.right[:spare]
            left, right = fit_context(subwords(near_left), subwords(near_right), spare)
        before, after = [*subwords.first, *left], [*right, *subwords.last]
        ids.append([*before, *chain.from_iterable(pieces), *after])
        owners.append([-1] * len(before) + _number_owners(pieces, first_only) + [-1] * len(after))
    return {
        "ids": pad_rows(ids, subwords.pad),
        "piece_counts": np.array([len(row) for row in ids], dtype=np.int64),
        "piece_words": pad_rows(owners, -1),
    }


def number_blocks(
    sentences: Sequence[Sentence], subwords: Subwords, room: int, *, first_only: bool
) -> Arrays:
    """Return the sub-words of the blocks of sentences, `[R, S]`, in which each block occurs once.

    `piece_places` has the index of each sub-word of a sentence among those of all blocks, `r * S + s`, and
    `piece_words` the index of its word, as in `number_subwords`. A block that does not fit into the window,
    as the tokenizer of another model may make it, is left out: its sentences are read by themselves.
    """
    rows: dict[tuple[str, ...], tuple[int, npt.NDArray[np.int64]]] = {}
    ids: list[list[int]] = []
    owners, places = [], []
    for sentence in sentences:
        pieces = [of_word[:room] for of_word in subwords(sentence.words)]
        first, words = len(sentence.left), (*sentence.left, *sentence.words, *sentence.right)
        if words not in rows:
            of_block = [of_word[:room] for of_word in subwords(words)]
            if sum(map(len, of_block)) > room:
                first, words, of_block = 0, tuple(sentence.words), pieces
            starts = np.cumsum([len(subwords.first), *map(len, of_block)])
            rows[words] = len(ids), starts
            ids.append([*subwords.first, *chain.from_iterable(of_block), *subwords.last])
        row, starts = rows[words]
        owners.append(_number_owners(pieces, first_only))
        places.append((row, starts[first], starts[first + len(pieces)]))
    padded = pad_rows(ids, subwords.pad)
    width = padded.shape[1]
    return {
        "ids": padded,
        "piece_counts": np.array([len(row) for row in ids], dtype=np.int64),
        "piece_words": pad_rows(owners, -1),
        "piece_places": pad_rows(range(row * width + start, row * width + end) for row, start, end in places),
    }


def _number_owners(pieces: Sequence[Sequence[int]], first_only: bool) -> list[int]:
    """Return the index of each sub-word's word; -1 for those that are not its first, with `first_only`."""
    return [
        -1 if first_only and number else word
        for word, of_word in enumerate(pieces)
        for number in range(len(of_word))
    ]
