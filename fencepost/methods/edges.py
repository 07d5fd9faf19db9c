"""Words at the edges of entities that belong to the sentence: possessive endings, quotes and brackets.

Corpora differ in whether an entity has the `'s` after it, or the quotation marks around it. A model that is
not sure proposes either. So training counts what its entities have (`find_trims`), and prediction cuts off
what they do not have (`trim`), before it decides which candidates are kept.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
import numpy.typing as npt

from fencepost.data.entity import Sentence
from fencepost.methods.candidates import Candidates, IntArray

Edge = Literal["possessive", "quotes", "brackets"]

EDGES: tuple[Edge, ...] = ("possessive", "quotes", "brackets")

_RARE = 0.05
"""Share of entities with such a word inside, of those that have one inside or beside them, to cut it off."""

_DEEPEST = 50  # open quotes and brackets among which the partner of a closing one is looked for

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
    "''": "``",  # of treebanks
}
"""By each quote or bracket that closes, the one that opens."""

_OPENING = frozenset(_OPENERS.values())
_BRACKETS = frozenset("()[]{}\N{FULLWIDTH LEFT PARENTHESIS}\N{FULLWIDTH RIGHT PARENTHESIS}")
_MARKS = _POSSESSIVE | _OPENING | _OPENERS.keys()


@dataclass(frozen=True, eq=False, slots=True)
class Marks:
    """Such words of a batch: their kinds, and where the quotes and brackets are that close or open them."""

    kind: npt.NDArray[np.int8]  # [B * T], 1 + index into `EDGES`; 0 is no such word
    partner: IntArray  # [B * T], -1 where there is none

    @classmethod
    def of(cls, sentences: Sequence[Sentence], length: int, kinds: Collection[Edge] = EDGES) -> Self | None:
        """Return the marks of these kinds, in sentences padded to `length` words; None if there are none."""
        having = [n for n, sentence in enumerate(sentences) if not _MARKS.isdisjoint(sentence.words)]
        if not kinds or not having:
            return None
        kind = np.zeros(len(sentences) * length, dtype=np.int8)
        partner = np.full(len(kind), -1, dtype=np.int64)
        wanted = {1 + EDGES.index(one) for one in kinds}
        for number in having:
            for place, found, other in _pairs(sentences[number].words):
                if found in wanted:
                    kind[number * length + place] = found
                    partner[number * length + place] = -1 if other < 0 else number * length + other
        return cls(kind, partner)

    def trim(self, candidates: Candidates) -> Candidates:
        """Return the candidates without marks at their edges; what is nothing else is left out.

        A quote or bracket stays if its partner is a word of the candidate, unless the pair encloses it.
        """
        start, end = candidates.start.copy(), candidates.end.copy()
        while (rest := start < end).any():
            first, last = np.where(rest, start, 0), np.where(rest, end - 1, 0)
            cut_last = rest & (self.kind[last] > 0) & self._is_loose(last, first, last)
            cut_first = rest & (self.kind[first] > 1) & self._is_loose(first, first, last)
            if not (cut_first | cut_last).any():
                break
            start, end = start + cut_first, end - cut_last
        kept = start < end
        return Candidates(start[kept], end[kept], candidates.type[kept], candidates.confidence[kept])

    def _is_loose(self, place: IntArray, first: IntArray, last: IntArray) -> npt.NDArray[np.bool_]:
        """Return whether the partner is outside of the words up to `last`, or at their other edge."""
        partner, other = self.partner[place], first + last - place
        return np.asarray((partner < first) | (partner > last) | (partner == other))


def _pairs(words: Sequence[str]) -> Iterator[tuple[int, int, int]]:
    """Yield the place of each mark, its kind and the place of its partner; -1 if it has none."""
    waiting: list[int] = []  # that opened
    found: dict[int, tuple[int, int]] = {}
    for place, word in enumerate(words):
        if word not in _MARKS:
            continue
        opener = next((at for at in waiting[: -_DEEPEST - 1 : -1] if words[at] == _OPENERS.get(word)), None)
        kind = 3 if word in _BRACKETS else 2
        if opener is not None:
            del waiting[waiting.index(opener, -_DEEPEST) :]
            found[opener], found[place] = (kind, place), (kind, opener)
        elif word in _POSSESSIVE or (word in _APOSTROPHES and place and words[place - 1][-1:] in ("s", "S")):
            found[place] = (1, -1)
        else:
            found[place] = (kind, -1)
            if word in _OPENING:
                waiting.append(place)
    for place, (kind, partner) in found.items():
        yield place, kind, partner


def find_trims(sentences: Sequence[Sentence]) -> tuple[Edge, ...]:
    """Return the kinds of words that hardly any entity of training data has at its edges."""
    inside, beside = dict.fromkeys(EDGES, 0), dict.fromkeys(EDGES, 0)
    for sentence in sentences:
        places = np.array([entity.span for entity in sentence.entities], dtype=np.int64).reshape(-1, 2)
        gold = Candidates(places[:, 0], places[:, 1], np.arange(len(places)), np.ones(len(places)))
        marks = [Marks.of([sentence], len(sentence), [one]) for one in EDGES] if len(gold) else []
        for one, of_kind in zip(EDGES, marks, strict=False):
            if of_kind is None:
                continue
            trimmed = of_kind.trim(gold)
            unchanged = (trimmed.end - trimmed.start == (gold.end - gold.start)[trimmed.type]).sum()
            inside[one] += len(gold) - int(unchanged)
            around = np.concatenate(([0], of_kind.kind, [0])) > 0
            beside[one] += int((around[gold.end + 1] | (around[gold.start] & (one != "possessive"))).sum())
    return tuple(one for one in EDGES if inside[one] <= _RARE * (inside[one] + beside[one]))
