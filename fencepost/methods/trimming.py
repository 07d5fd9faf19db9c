"""Trimming of possessive endings, quotes and brackets at the boundaries of candidates.

Corpora differ in whether an entity includes the `'s` after it, or the quotation marks around it. A model that
is not sure proposes both. So training counts what its entities include (`find_trims`), and prediction removes
what they do not include (`trim`), before it selects among the candidates.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
import numpy.typing as npt

from fencepost.data.entity import Sentence
from fencepost.methods.candidates import Candidates, IntArray

TrimKind = Literal["possessive", "quotes", "brackets"]

TRIM_KINDS: tuple[TrimKind, ...] = ("possessive", "quotes", "brackets")

_RARE = 0.05
"""Maximum share of entities that include such a word, among those that include it or are next to it."""

_DEEPEST = 50  # number of open quotes and brackets among which the partner of a closing one is searched

_POSSESSIVE = frozenset(("'s", "'S", "\N{RIGHT SINGLE QUOTATION MARK}s", "\N{RIGHT SINGLE QUOTATION MARK}S"))
_APOSTROPHES = frozenset(("'", "\N{RIGHT SINGLE QUOTATION MARK}"))  # after an s, possessive too
_OPENERS = {
    ")": "(",
    "]": "[",
    "}": "{",
    '"': '"',
    "'": "'",
    "\N{RIGHT DOUBLE QUOTATION MARK}": "\N{LEFT DOUBLE QUOTATION MARK}",
    "\N{RIGHT SINGLE QUOTATION MARK}": "\N{LEFT SINGLE QUOTATION MARK}",
    "\N{LEFT DOUBLE QUOTATION MARK}": "\N{DOUBLE LOW-9 QUOTATION MARK}",  # German
    "\N{LEFT SINGLE QUOTATION MARK}": "\N{SINGLE LOW-9 QUOTATION MARK}",
    "\N{RIGHT-POINTING DOUBLE ANGLE QUOTATION MARK}": "\N{LEFT-POINTING DOUBLE ANGLE QUOTATION MARK}",
    "\N{RIGHT CORNER BRACKET}": "\N{LEFT CORNER BRACKET}",  # Chinese and Japanese quotes
    "\N{FULLWIDTH RIGHT PARENTHESIS}": "\N{FULLWIDTH LEFT PARENTHESIS}",
    "''": "``",  # as treebanks write quotes
}
"""The opening quote or bracket of each closing one."""

_OPENING = frozenset(_OPENERS.values())
_BRACKETS = frozenset("()[]{}\N{FULLWIDTH LEFT PARENTHESIS}\N{FULLWIDTH RIGHT PARENTHESIS}")
_TRIMMABLE = _POSSESSIVE | _OPENING | _OPENERS.keys()


@dataclass(frozen=True, eq=False, slots=True)
class TrimmableWords:
    """The words of a batch that may be trimmed: their kinds, and the partners of quotes and brackets."""

    kind: npt.NDArray[np.int8]  # [B * T], 1 + index into `TRIM_KINDS`; 0 for other words
    partner: IntArray  # [B * T], -1 without a partner

    @classmethod
    def find(
        cls, sentences: Sequence[Sentence], length: int, kinds: Collection[TrimKind] = TRIM_KINDS
    ) -> Self | None:
        """Return the words of these kinds, in sentences padded to `length` words; None if there are none."""
        rows = [row for row, sentence in enumerate(sentences) if not _TRIMMABLE.isdisjoint(sentence.words)]
        if not kinds or not rows:
            return None
        kind = np.zeros(len(sentences) * length, dtype=np.int8)
        partner = np.full(len(kind), -1, dtype=np.int64)
        numbers = {1 + TRIM_KINDS.index(name) for name in kinds}
        for row in rows:
            for position, number, other in _pair_words(sentences[row].words):
                if number in numbers:
                    kind[row * length + position] = number
                    partner[row * length + position] = -1 if other < 0 else row * length + other
        return cls(kind, partner)

    def trim(self, candidates: Candidates) -> Candidates:
        """Return the candidates without such words at their boundaries; those that become empty are left out.

        A quote or bracket stays if its partner is in the candidate, unless the pair encloses the candidate.
        """
        start, end = candidates.start.copy(), candidates.end.copy()
        while (rest := start < end).any():
            first, last = np.where(rest, start, 0), np.where(rest, end - 1, 0)
            cut_last = rest & (self.kind[last] > 0) & self._is_loose(last, first, last)
            cut_first = rest & (self.kind[first] > 1) & self._is_loose(first, first, last)
            if not (cut_first | cut_last).any():
                break
            start, end = start + cut_first, end - cut_last
        full = start < end
        return Candidates(start[full], end[full], candidates.type[full], candidates.confidence[full])

    def _is_loose(self, position: IntArray, first: IntArray, last: IntArray) -> npt.NDArray[np.bool_]:
        """Return whether the partner is outside of the words up to `last`, or at their other boundary."""
        partner, other = self.partner[position], first + last - position
        return np.asarray((partner < first) | (partner > last) | (partner == other))


def _pair_words(words: Sequence[str]) -> Iterator[tuple[int, int, int]]:
    """Yield the position of each trimmable word, its kind and the position of its partner, or -1."""
    openers: list[int] = []  # without a partner yet
    pairs: dict[int, tuple[int, int]] = {}
    for position, word in enumerate(words):
        if word not in _TRIMMABLE:
            continue
        opener = next((at for at in openers[: -_DEEPEST - 1 : -1] if words[at] == _OPENERS.get(word)), None)
        kind = 3 if word in _BRACKETS else 2
        after_s = position > 0 and words[position - 1][-1:] in ("s", "S")
        if opener is not None:
            del openers[openers.index(opener, -_DEEPEST) :]
            pairs[opener], pairs[position] = (kind, position), (kind, opener)
        elif word in _POSSESSIVE or (word in _APOSTROPHES and after_s):
            pairs[position] = (1, -1)
        else:
            pairs[position] = (kind, -1)
            if word in _OPENING:
                openers.append(position)
    for position, (kind, partner) in pairs.items():
        yield position, kind, partner


def find_trims(sentences: Sequence[Sentence]) -> tuple[TrimKind, ...]:
    """Return the kinds of words that hardly any entity of the training data has at its boundaries."""
    inside, beside = dict.fromkeys(TRIM_KINDS, 0), dict.fromkeys(TRIM_KINDS, 0)
    for sentence in sentences:
        if not sentence.entities:
            continue
        spans = np.array([entity.span for entity in sentence.entities], dtype=np.int64)
        gold = Candidates(spans[:, 0], spans[:, 1], np.arange(len(spans)), np.ones(len(spans)))
        for kind in TRIM_KINDS:
            trimmable = TrimmableWords.find([sentence], len(sentence), [kind])
            if trimmable is None:
                continue
            trimmed = trimmable.trim(gold)
            unchanged = (trimmed.end - trimmed.start == (gold.end - gold.start)[trimmed.type]).sum()
            inside[kind] += len(gold) - int(unchanged)
            around = np.concatenate(([0], trimmable.kind, [0])) > 0
            beside[kind] += int((around[gold.end + 1] | (around[gold.start] & (kind != "possessive"))).sum())
    return tuple(kind for kind in TRIM_KINDS if inside[kind] <= _RARE * (inside[kind] + beside[kind]))
