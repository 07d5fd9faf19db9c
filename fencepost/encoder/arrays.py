"""Words, letters, tags and pieces by their numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from fencepost.data.entity import Sentence
from fencepost.encoder.subwords import Subwords
from fencepost.encoder.windows import context_that_fits

Arrays = dict[str, npt.NDArray[Any]]
"""What is read of a batch, under the names that encoders know."""

Vocabulary = dict[str, list[str]]
"""What a model knows by name, in order: words, characters, parts of speech."""

PAD, UNKNOWN, NAMED = 0, 1, 2
"""The first two rows of every embedding; the names of a vocabulary come after them, from `NAMED` on."""

LONGEST = 64
"""Characters of a word that are looked at."""

_LONGEST_SHAPE = 8
"""Characters of a word's shape."""

AXES: Mapping[str, tuple[str, ...]] = {
    "lengths": ("sentences",),
    "ids": ("sentences", "pieces"),
    "piece_counts": ("sentences",),
    "piece_words": ("sentences", "pieces"),
    "words": ("sentences", "words"),
    "letters": ("forms", "letters"),
    "letter_counts": ("forms",),
    "letters_of": ("sentences", "words"),
    "shapes": ("sentences", "words"),
    "pos": ("sentences", "words"),
    "vectors": ("sentences", "words"),
}
"""Of each array that an exported encoder reads, what its axes are."""


def numbered(names: Sequence[str]) -> dict[str, int]:
    return {name: number for number, name in enumerate(names, start=NAMED)}


def grid(rows: Iterable[Iterable[int]], fill: int = PAD) -> npt.NDArray[np.int64]:
    """Numbers of words as a rectangle `[B, T]`, filled up."""
    lists = [list(row) for row in rows]
    rectangle = np.full((len(lists), max(map(len, lists))), fill, dtype=np.int64)
    for row, numbers in zip(rectangle, lists, strict=True):
        row[: len(numbers)] = numbers
    return rectangle


def word_numbers(sentences: Sequence[Sentence], numbers: Mapping[str, int]) -> Arrays:
    """Of each word its number; `[B, T]`."""
    return {"words": grid([numbers.get(word, UNKNOWN) for word in s.words] for s in sentences)}


def letters(sentences: Sequence[Sentence], numbers: Mapping[str, int]) -> Arrays:
    """Every different word once: `[W, L]`; and which of them stands where: `[B, T]`."""
    words = dict.fromkeys(word[:LONGEST] for sentence in sentences for word in sentence.words)
    place = {word: index for index, word in enumerate(words)}
    spelt = [[numbers.get(letter, UNKNOWN) for letter in word] or [UNKNOWN] for word in words]
    return {
        "letters": grid(spelt),
        "letter_counts": np.array([len(word) for word in spelt], dtype=np.int64),
        "letters_of": grid([place[word[:LONGEST]] for word in s.words] for s in sentences),
    }


def shapes(sentences: Sequence[Sentence], numbers: Mapping[str, int]) -> Arrays:
    """Return the number of each word's shape; `[B, T]`."""
    return {"shapes": grid([numbers.get(word_shape(word), UNKNOWN) for word in s.words] for s in sentences)}


@lru_cache(maxsize=65_536)
def word_shape(word: str) -> str:
    """Return how a word is written: `Xxx` for Paris, `XX` for IBM, `X.X.` for U.S., `XX-d` for IL-2.

    `X` is an upper-case letter, `x` a lower-case letter, `d` a digit, `c` a letter without case, and other
    characters stand for themselves. Runs of more than two are cut to two, and the shape to 8 characters.
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


def tags(sentences: Sequence[Sentence], numbers: Mapping[str, int]) -> Arrays:
    """Of each word its part of speech, which may be unknown; `[B, T]`."""
    of_sentences = (sentence.pos or ("",) * len(sentence) for sentence in sentences)
    return {"pos": grid([numbers.get(tag, UNKNOWN) for tag in of_sentence] for of_sentence in of_sentences)}


def forms(sentences: Sequence[Sentence], numbers: Mapping[str, int]) -> Arrays:
    """Of each word its number as it is spelt, else in lower case; `[B, T]`."""
    return {
        "vectors": grid(
            [numbers.get(word) or numbers.get(word.lower(), UNKNOWN) for word in s.words] for s in sentences
        )
    }


def rectangle(
    sentences: Sequence[Sentence], subwords: Subwords, room: int, *, context: bool, first_only: bool
) -> Arrays:
    """The pieces of sentences that fit into the encoder's window, one row each: `[B, S]`.

    `piece_words` says which word a piece belongs to; it is -1 for special tokens, for what is around the
    sentence and, with `first_only`, for all pieces of a word but its first.
    """
    ids, owners = [], []
    for sentence in sentences:
        pieces = [of_word[:room] for of_word in subwords(sentence.words)]
        left: list[int] = []
        right: list[int] = []
        spare = room - sum(map(len, pieces))
        if context and spare > 0:
            near_left, near_right = sentence.left[-spare:], sentence.right[:spare]
            left, right = context_that_fits(subwords(near_left), subwords(near_right), spare)
        before, after = [*subwords.first, *left], [*right, *subwords.last]
        ids.append([*before, *chain.from_iterable(pieces), *after])
        owner = [
            -1 if first_only and number else word
            for word, of_word in enumerate(pieces)
            for number in range(len(of_word))
        ]
        owners.append([-1] * len(before) + owner + [-1] * len(after))
    return {
        "ids": grid(ids, subwords.pad),
        "piece_counts": np.array([len(row) for row in ids], dtype=np.int64),
        "piece_words": grid(owners, -1),
    }
