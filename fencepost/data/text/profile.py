"""Profile of a text: its scripts and its most frequent words, which show its language."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache

FREQUENT = 50
"""Number of words in a profile."""

_ENOUGH = 5_000  # words of a text that are needed for a profile
_USUAL = 0.05  # minimum share of a script among the letters of a text


@lru_cache(maxsize=10_000)
def find_script(letter: str) -> str:
    """Return the script of a letter, which is the first word of its Unicode name: `LATIN`, `CJK`."""
    return unicodedata.name(letter, "").partition(" ")[0]


def count_scripts(words: Iterable[str]) -> Counter[str]:
    """Return the number of letters of each script."""
    counts: Counter[str] = Counter()
    for word in words:
        if word.isascii():
            counts["LATIN"] += sum(map(str.isalpha, word))
        else:
            counts.update(find_script(letter) for letter in word if letter.isalpha())
    return counts


def find_usual_scripts(words: Iterable[str]) -> list[str]:
    """Return the scripts of a text, without those of only a few letters."""
    counts = count_scripts(words)
    return sorted(script for script, count in counts.items() if count >= _USUAL * counts.total())


def find_frequent_words(words: Iterable[str]) -> tuple[list[str], float]:
    """Return the most frequent words in lower case and their share of all; none if there are too few."""
    counts = Counter(word.lower() for word in words if word.isalpha())
    if counts.total() < _ENOUGH:
        return [], 0.0
    common = counts.most_common(FREQUENT)
    return [word for word, _ in common], sum(count for _, count in common) / counts.total()
