"""What text looks like: its scripts, and its most frequent words, which tell its language."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache

FREQUENT = 50
"""Number of words that are remembered."""

_ENOUGH = 5_000  # words of text
_USUAL = 0.05  # share of the letters of training data from which on a script is one of its own


@lru_cache(maxsize=10_000)
def script_of(letter: str) -> str:
    """Return the script of a letter, as the Unicode name of the letter begins: `LATIN`, `CJK`."""
    return unicodedata.name(letter, "").partition(" ")[0]


def count_scripts(words: Iterable[str]) -> Counter[str]:
    """Return the number of letters of each script."""
    counts: Counter[str] = Counter()
    for word in words:
        if word.isascii():
            counts["LATIN"] += sum(map(str.isalpha, word))
        else:
            counts.update(script_of(letter) for letter in word if letter.isalpha())
    return counts


def usual_scripts(words: Iterable[str]) -> list[str]:
    """Return the scripts of text, without those of a few letters."""
    counts = count_scripts(words)
    return sorted(script for script, count in counts.items() if count >= _USUAL * counts.total())


def frequent_words(words: Iterable[str]) -> tuple[list[str], float]:
    """Return the most frequent words of text, in lower case, and their share of all words of letters.

    There are none if the text is too short to tell.
    """
    counts = Counter(word.lower() for word in words if word.isalpha())
    if counts.total() < _ENOUGH:
        return [], 0.0
    common = counts.most_common(FREQUENT)
    return [word for word, _ in common], sum(count for _, count in common) / counts.total()
