"""Classification of errors: wrong predictions and missed entities.

A wrong prediction often differs from a gold entity by a single word or only by its type. Therefore wrong
predictions and missed entities are paired first, each with at most one of the other side, in this order:

1. the same words with another type (`type`);
2. the same type, with an overlap of at least a quarter of the words of both: the `start`, the `end`, or both
   are wrong; if the prediction has exactly the words of another gold entity, which contains the one of the
   pair or is inside it, it is the `wrong level`;
3. another type and other words, with an overlap of at least a half (`boundary and type`).

Pairs with the largest overlap are formed first. A prediction without a pair is an `extra level` if it
contains, or is inside, a prediction that is correct or paired; otherwise it is `spurious`. A gold entity
without a pair is a `missing level` if it contains, or is inside, a gold entity that is predicted or paired;
otherwise it is `missed`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from fencepost.evaluation.strict import Score, pair_sentences

if TYPE_CHECKING:
    from fencepost.data.entity import Entity, Sentence

ErrorKind = Literal[
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
KINDS: tuple[ErrorKind, ...] = get_args(ErrorKind)
GROUPS: dict[str, tuple[ErrorKind, ...]] = {
    "boundary": ("start", "end", "start and end"),
    "type": ("type",),
    "boundary and type": ("boundary and type",),
    "nested level": ("wrong level", "extra level", "missing level"),
    "spurious": ("spurious",),
    "missed": ("missed",),
}

_OVERLAP, _OVERLAP_OF_TYPES = 0.25, 0.5
"""Minimum overlap (words in both / words in either) of a pair with the same type, and with two types.

Where entities nest, a long phrase around a single word of the same type is not a boundary error.
"""


@dataclass(frozen=True, slots=True)
class ErrorCase:
    """A wrong prediction, a missed entity, or a pair of the two."""

    kind: ErrorKind
    sentence: int  # from 0
    predicted: Entity | None
    gold: Entity | None

    @property
    def span(self) -> tuple[int, int]:
        """Smallest span that covers both entities."""
        spans = [entity.span for entity in (self.predicted, self.gold) if entity is not None]
        return min(start for start, _ in spans), max(end for _, end in spans)

    @property
    def shift(self) -> tuple[int, int]:
        """Predicted minus gold start, and predicted minus gold end, in words; above 0 is too far right."""
        if self.predicted is None or self.gold is None:
            raise ValueError(f"{self.kind} has no boundaries to compare")
        return self.predicted.start - self.gold.start, self.predicted.end - self.gold.end


@dataclass(frozen=True, slots=True)
class ErrorCount:
    """Number of errors of some kinds, their share of all errors, and the F1 without them."""

    count: int
    share: float
    f1_if_corrected: float


@dataclass(frozen=True, slots=True)
class ErrorAnalysis:
    """All errors in the predictions for a corpus, sentence by sentence, and the scores."""

    all: tuple[ErrorCase, ...]
    score: Score
    sentences: int

    def __len__(self) -> int:
        """Return the number of errors."""
        return len(self.all)

    def of(self, *kinds: ErrorKind) -> list[ErrorCase]:
        """Return the errors of these kinds."""
        return [error for error in self.all if error.kind in kinds]

    def count_kinds(self) -> dict[ErrorKind, int]:
        """Return the number of errors of each kind."""
        counts = Counter(error.kind for error in self.all)
        return {kind: counts[kind] for kind in KINDS}

    def count(self, *kinds: ErrorKind) -> ErrorCount:
        """Return the number of errors of these kinds, their share, and the F1 without them."""
        number = len(self.of(*kinds))
        return ErrorCount(number, number / max(1, len(self)), self.compute_f1_without(*kinds))

    def list_counts(self) -> list[tuple[str, bool, ErrorCount]]:
        """Return (name, is a kind, count) of each group, followed by its kinds if it has several."""
        rows = []
        for group, kinds in GROUPS.items():
            rows.append((group, False, self.count(*kinds)))
            if len(kinds) > 1:
                rows += [(kind, True, self.count(kind)) for kind in kinds]
        return rows

    def compute_f1_without(self, *kinds: ErrorKind) -> float:
        """Return the F1 if all errors of these kinds were corrected and nothing else changed."""
        errors = self.of(*kinds)
        corrected = sum(error.gold is not None for error in errors)
        added = sum(error.predicted is None for error in errors)
        removed = sum(error.gold is None for error in errors)
        score = self.score
        return Score.of(score.true_positives + corrected, score.predicted + added - removed, score.support).f1

    def count_shifts(self) -> dict[str, dict[int, int]]:
        """Count the shifts of starts and of ends among the boundary errors, except 0.

        A negative shift means that the predicted boundary is too far left.
        """
        shifts = [error.shift for error in self.of(*GROUPS["boundary"])]
        return {
            side: dict(sorted(Counter(shift[index] for shift in shifts if shift[index]).items()))
            for index, side in enumerate(("start", "end"))
        }

    def count_confusions(self) -> dict[tuple[str | None, str | None], int]:
        """Count the errors by gold type and predicted type; None means no entity.

        A pair of the same type with a wrong boundary counts as that type.
        """
        pairs = ((error.gold, error.predicted) for error in self.all)
        return Counter((gold.type if gold else None, guess.type if guess else None) for gold, guess in pairs)


def classify_errors(gold: Iterable[Sentence], predicted: Iterable[Sentence]) -> ErrorAnalysis:
    """Classify all errors in predictions for the same sentences, in the same order."""
    errors: list[ErrorCase] = []
    totals = [0, 0, 0]  # true positives, predicted, gold
    number = -1
    for number, (annotated, guessed) in enumerate(pair_sentences(gold, predicted)):
        entities = {entity.key: entity for entity in annotated.entities}
        guesses = {entity.key: entity for entity in reversed(guessed.entities)}  # the first of equal ones
        both = entities.keys() & guesses.keys()
        errors += _classify(
            number,
            [guesses[key] for key in sorted(guesses.keys() - both)],
            [entities[key] for key in sorted(entities.keys() - both)],
            [entities[key] for key in sorted(both)],
        )
        totals = [sum(pair) for pair in zip(totals, map(len, (both, guesses, entities)), strict=True)]
    return ErrorAnalysis(tuple(errors), Score.of(*totals), number + 1)


def _classify(
    number: int, predicted: Sequence[Entity], gold: Sequence[Entity], correct: Sequence[Entity]
) -> list[ErrorCase]:
    """Return the errors of a sentence, from its wrong predictions, missed entities and correct ones."""
    pairs = _pair(predicted, gold)
    spans = {entity.span for entity in (*gold, *correct)}
    errors = [
        ErrorCase(_classify_pair(predicted[i], gold[j], spans), number, predicted[i], gold[j])
        for i, j in pairs.items()
    ]
    near_gold = [*correct, *(predicted[i] for i in pairs)]
    for i, entity in enumerate(predicted):
        if i not in pairs:
            kind: ErrorKind = "extra level" if _is_nested(entity, near_gold) else "spurious"
            errors.append(ErrorCase(kind, number, entity, None))
    near_predicted = [*correct, *(gold[j] for j in pairs.values())]
    for j, entity in enumerate(gold):
        if j not in pairs.values():
            kind = "missing level" if _is_nested(entity, near_predicted) else "missed"
            errors.append(ErrorCase(kind, number, None, entity))
    return sorted(errors, key=lambda error: (error.span, KINDS.index(error.kind)))


def _pair(predicted: Sequence[Entity], gold: Sequence[Entity]) -> dict[int, int]:
    """Pair each prediction (by index) with at most one gold entity, in the order of the ranks."""
    pairs: dict[int, int] = {}
    paired_gold: set[int] = set()
    for _, i, j in sorted(_rank_pairs(predicted, gold)):
        if i not in pairs and j not in paired_gold:
            pairs[i] = j
            paired_gold.add(j)
    return pairs


def _rank_pairs(
    predicted: Sequence[Entity], gold: Sequence[Entity]
) -> Iterator[tuple[tuple[int, float], int, int]]:
    """Yield the possible pairs with their rank: the order of kinds, then the larger overlap."""
    for j, entity in enumerate(gold):
        for i, guess in enumerate(predicted):
            if guess.start >= entity.end:
                break  # predictions are sorted by their starts
            shared = min(guess.end, entity.end) - max(guess.start, entity.start)
            if shared <= 0:
                continue
            ratio = shared / (len(guess) + len(entity) - shared)
            same_type = guess.type == entity.type
            if guess.span == entity.span:
                yield (0, -ratio), i, j
            elif ratio >= (_OVERLAP if same_type else _OVERLAP_OF_TYPES):
                yield (1 if same_type else 2, -ratio), i, j


def _classify_pair(guess: Entity, entity: Entity, spans: Collection[tuple[int, int]]) -> ErrorKind:
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
