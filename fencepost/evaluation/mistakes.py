"""Kinds of mistakes: wrong predictions, and entities that were missed.

A wrong prediction is often near an entity, and differs from it by a word or by its type. So wrong predictions
and missed entities are first paired, each with at most one of the other side, in this order:

1. the same words with another type (`type`);
2. the same type, with an overlap of at least a quarter of the words of both: the `start`, the `end`, or both
   are wrong; if the prediction has exactly the words of another entity, which contains the one of the pair
   or is inside it, it is the `wrong level`;
3. another type and other words, with an overlap of at least a half (`boundary and type`).

The nearest pairs come first. A prediction without a pair is an `extra level` if it contains, or is inside, a
prediction that is correct or paired; else `spurious`. An entity without a pair is a `missing level` if it
contains, or is inside, an entity that is found or paired; else `missed`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from fencepost.evaluation.strict import Score, sentence_pairs

if TYPE_CHECKING:
    from fencepost.data.entity import Entity, Sentence

Kind = Literal[
    "start",
    "end",
    "start and end",
    "type",
    "boundary and type",
    "wrong level",
    "extra level",
    "missing level",
    "spurious",
    "missed",
]
KINDS: tuple[Kind, ...] = get_args(Kind)
GROUPS: dict[str, tuple[Kind, ...]] = {
    "boundary": ("start", "end", "start and end"),
    "type": ("type",),
    "boundary and type": ("boundary and type",),
    "nested level": ("wrong level", "extra level", "missing level"),
    "spurious": ("spurious",),
    "missed": ("missed",),
}

_OVERLAP, _OVERLAP_OF_TYPES = 0.25, 0.5
"""Smallest overlap (words in both / words in either) of a pair with the same type, and with two types.

A long phrase around a single word of the same type is no boundary mistake, where entities nest.
"""


@dataclass(frozen=True, slots=True)
class Mistake:
    """A wrong prediction, a missed entity, or a pair of the two."""

    kind: Kind
    sentence: int  # from 0
    predicted: Entity | None
    gold: Entity | None

    @property
    def span(self) -> tuple[int, int]:
        """The smallest span that covers both."""
        spans = [entity.span for entity in (self.predicted, self.gold) if entity is not None]
        return min(start for start, _ in spans), max(end for _, end in spans)

    @property
    def shift(self) -> tuple[int, int]:
        """Words from the gold start and end to the predicted ones; above 0 is too far right."""
        if self.predicted is None or self.gold is None:
            raise ValueError(f"{self.kind} has no boundaries to compare")
        return self.predicted.start - self.gold.start, self.predicted.end - self.gold.end


@dataclass(frozen=True, slots=True)
class MistakeCount:
    """The number of mistakes of some kinds, their share of all mistakes, and the F1 without them."""

    count: int
    share: float
    f1_if_corrected: float


@dataclass(frozen=True, slots=True)
class Mistakes:
    """All mistakes of a corpus, sentence by sentence, and its scores."""

    all: tuple[Mistake, ...]
    score: Score
    sentences: int

    def __len__(self) -> int:
        """The number of mistakes."""
        return len(self.all)

    def of(self, *kinds: Kind) -> list[Mistake]:
        """Return the mistakes of these kinds."""
        return [mistake for mistake in self.all if mistake.kind in kinds]

    def counts(self) -> dict[Kind, int]:
        """Return the number of mistakes of each kind."""
        found = Counter(mistake.kind for mistake in self.all)
        return {kind: found[kind] for kind in KINDS}

    def count(self, *kinds: Kind) -> MistakeCount:
        """Return the number of mistakes of these kinds, and what they cost."""
        number = len(self.of(*kinds))
        return MistakeCount(number, number / max(1, len(self)), self.f1_without(*kinds))

    def rows(self) -> list[tuple[str, bool, MistakeCount]]:
        """Return (name, is a kind, count) of each group, followed by its kinds if it has several."""
        rows = []
        for group, kinds in GROUPS.items():
            rows.append((group, False, self.count(*kinds)))
            if len(kinds) > 1:
                rows += [(kind, True, self.count(kind)) for kind in kinds]
        return rows

    def f1_without(self, *kinds: Kind) -> float:
        """Return the F1 if all mistakes of these kinds were corrected and nothing else changed."""
        mistakes = self.of(*kinds)
        found = sum(mistake.gold is not None for mistake in mistakes)
        added = sum(mistake.predicted is None for mistake in mistakes)
        removed = sum(mistake.gold is None for mistake in mistakes)
        score = self.score
        return Score.of(score.true_positives + found, score.predicted + added - removed, score.support).f1

    def shifts(self) -> dict[str, dict[int, int]]:
        """Count the shifts of starts and of ends among the boundary mistakes, except 0.

        Below 0 the predicted boundary is too far left.
        """
        shifts = [mistake.shift for mistake in self.of(*GROUPS["boundary"])]
        return {
            side: dict(sorted(Counter(shift[place] for shift in shifts if shift[place]).items()))
            for place, side in enumerate(("start", "end"))
        }

    def confusion(self) -> dict[tuple[str | None, str | None], int]:
        """Count the mistakes by gold type and predicted type; None is no entity.

        A pair of the same type with a wrong boundary counts as that type.
        """
        pairs = ((mistake.gold, mistake.predicted) for mistake in self.all)
        return Counter((gold.type if gold else None, guess.type if guess else None) for gold, guess in pairs)


def mistakes(gold: Iterable[Sentence], predicted: Iterable[Sentence]) -> Mistakes:
    """Classify all mistakes in predictions of the same sentences, in the same order."""
    found: list[Mistake] = []
    counts = [0, 0, 0]  # true positives, predicted, gold
    number = -1
    for number, (true, guessed) in enumerate(sentence_pairs(gold, predicted)):
        wanted = {entity.key: entity for entity in true.entities}
        offered = {
            entity.key: entity for entity in reversed(guessed.entities)
        }  # the most confident of equals
        both = wanted.keys() & offered.keys()
        found += _classify(
            number,
            [offered[key] for key in sorted(offered.keys() - both)],
            [wanted[key] for key in sorted(wanted.keys() - both)],
            [wanted[key] for key in sorted(both)],
        )
        counts = [sum(pair) for pair in zip(counts, (len(both), len(offered), len(wanted)), strict=True)]
    return Mistakes(tuple(found), Score.of(*counts), number + 1)


def _classify(
    number: int, predicted: Sequence[Entity], gold: Sequence[Entity], correct: Sequence[Entity]
) -> list[Mistake]:
    """Return the mistakes of a sentence, from its wrong predictions, missed entities and correct ones."""
    pairs = _pair(predicted, gold)
    spans = {entity.span for entity in (*gold, *correct)}
    found = [
        Mistake(_kind_of_pair(predicted[i], gold[j], spans), number, predicted[i], gold[j])
        for i, j in pairs.items()
    ]
    guessed = [*correct, *(predicted[i] for i in pairs)]
    for i, entity in enumerate(predicted):
        if i not in pairs:
            kind: Kind = "extra level" if _is_nested(entity, guessed) else "spurious"
            found.append(Mistake(kind, number, entity, None))
    located = [*correct, *(gold[j] for j in pairs.values())]
    for j, entity in enumerate(gold):
        if j not in pairs.values():
            kind = "missing level" if _is_nested(entity, located) else "missed"
            found.append(Mistake(kind, number, None, entity))
    return sorted(found, key=lambda mistake: (mistake.span, KINDS.index(mistake.kind)))


def _pair(predicted: Sequence[Entity], gold: Sequence[Entity]) -> dict[int, int]:
    """Pair each prediction (by index) with at most one entity: nearest pairs first."""
    pairs: dict[int, int] = {}
    taken: set[int] = set()
    for _, i, j in sorted(_candidates(predicted, gold)):
        if i not in pairs and j not in taken:
            pairs[i] = j
            taken.add(j)
    return pairs


def _candidates(
    predicted: Sequence[Entity], gold: Sequence[Entity]
) -> Iterator[tuple[tuple[int, float], int, int]]:
    """Yield the possible pairs with their rank: the order of kinds, then the larger overlap."""
    for j, entity in enumerate(gold):
        for i, guess in enumerate(predicted):
            if guess.start >= entity.end:
                break  # predictions are in the order of their starts
            shared = min(guess.end, entity.end) - max(guess.start, entity.start)
            if shared <= 0:
                continue
            ratio = shared / (len(guess) + len(entity) - shared)
            same_type = guess.type == entity.type
            if guess.span == entity.span:
                yield (0, -ratio), i, j
            elif ratio >= (_OVERLAP if same_type else _OVERLAP_OF_TYPES):
                yield (1 if same_type else 2, -ratio), i, j


def _kind_of_pair(guess: Entity, entity: Entity, spans: Collection[tuple[int, int]]) -> Kind:
    """Return the kind of a pair; `spans` are those of all gold entities of the sentence."""
    if guess.span == entity.span:
        return "type"
    if guess.type != entity.type:
        return "boundary and type"
    if guess.span in spans and _is_nested(guess, [entity]):
        return "wrong level"
    if guess.start == entity.start:
        return "end"
    return "start" if guess.end == entity.end else "start and end"


def _is_nested(entity: Entity, others: Sequence[Entity]) -> bool:
    return any(entity.contains(other) or other.contains(entity) for other in others)
