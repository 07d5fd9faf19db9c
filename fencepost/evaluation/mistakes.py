"""What kind of mistake each wrong prediction is, and each entity that was not found.

A prediction that is wrong often means a certain entity, and misses it by a word or by its type. So wrong
predictions and entities that were not found are first paired, each with at most one of the other side, in
this order:

1. the same words with another type (`type`);
2. the same type, and at least a quarter of all words that the two cover in common: the `start`, the `end`,
   or both are wrong; if the prediction has the very words of another entity that holds the one that was
   meant, or lies in it, it is the `wrong level`;
3. another type and other words, at least half of them in common (`boundary and type`).

The nearest pairs come first. What is left alone is an `extra level` if it holds, or lies in, a prediction
that is right or has its entity; a `missing level` if it holds, or lies in, an entity that is found or has
its prediction; else `spurious` or `missed`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
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

_SHARED, _SHARED_BY_OTHERS = 0.25, 0.5
"""Of the words that a prediction and an entity cover, so many must be in both; more if types differ.

A long phrase around a single word of the same type is no boundary mistake, where entities nest.
"""


@dataclass(frozen=True, slots=True)
class Mistake:
    """A wrong prediction, an entity that was not found, or a pair of the two."""

    kind: Kind
    sentence: int  # from 0
    predicted: Entity | None
    gold: Entity | None

    @property
    def span(self) -> tuple[int, int]:
        """From the first word that either covers to the end of the last."""
        spans = [entity.span for entity in (self.predicted, self.gold) if entity is not None]
        return min(start for start, _ in spans), max(end for _, end in spans)

    @property
    def shift(self) -> tuple[int, int]:
        """By how many words the start and the end lie to the right of where they should be."""
        if self.predicted is None or self.gold is None:
            raise ValueError(f"{self.kind} has no boundaries to compare")
        return self.predicted.start - self.gold.start, self.predicted.end - self.gold.end


@dataclass(frozen=True, slots=True)
class Mistakes:
    """All mistakes of a corpus, sentence by sentence, and the scores that they leave."""

    all: tuple[Mistake, ...]
    score: Score
    sentences: int

    def __len__(self) -> int:
        """The number of mistakes."""
        return len(self.all)

    def of(self, *kinds: Kind) -> list[Mistake]:
        """Those of these kinds."""
        return [mistake for mistake in self.all if mistake.kind in kinds]

    def counts(self) -> dict[Kind, int]:
        """How many there are of each kind."""
        found = Counter(mistake.kind for mistake in self.all)
        return {kind: found[kind] for kind in KINDS}

    def f1_without(self, *kinds: Kind) -> float:
        """The F1 if all mistakes of these kinds were mended and nothing else were changed."""
        mistakes = self.of(*kinds)
        found = sum(mistake.gold is not None for mistake in mistakes)
        added = sum(mistake.predicted is None for mistake in mistakes)
        removed = sum(mistake.gold is None for mistake in mistakes)
        score = self.score
        return Score.of(score.true_positives + found, score.predicted + added - removed, score.support).f1

    def shifts(self) -> dict[str, dict[int, int]]:
        """How many starts, and how many ends, are off by how many words, among the boundary mistakes.

        A boundary that is right is not counted. Below 0 the prediction's boundary is too far left.
        """
        moved = [mistake.shift for mistake in self.of(*GROUPS["boundary"])]
        sides = {"start": Counter(start for start, _ in moved), "end": Counter(end for _, end in moved)}
        return {
            side: {shift: counts[shift] for shift in sorted(counts) if shift}
            for side, counts in sides.items()
        }

    def confusion(self) -> dict[tuple[str | None, str | None], int]:
        """How often each gold type was taken for each predicted one; None stands for nothing at all.

        Boundaries that are off do not count against a type here.
        """
        return Counter(
            (
                mistake.gold.type if mistake.gold is not None else None,
                mistake.predicted.type if mistake.predicted is not None else None,
            )
            for mistake in self.all
        )


def mistakes(gold: Iterable[Sentence], predicted: Iterable[Sentence]) -> Mistakes:
    """Sorts all that is wrong in predictions of the same sentences, in the same order."""
    found: list[Mistake] = []
    right = wrong = missed = sentences = 0
    for true, guessed in sentence_pairs(gold, predicted):
        wanted = {entity.key: entity for entity in true.entities}
        offered = {entity.key: entity for entity in reversed(guessed.entities)}  # the surest of equals
        both = wanted.keys() & offered.keys()
        of_sentence = _Sorting(
            sentences,
            [entity for key, entity in sorted(offered.items()) if key not in both],
            [entity for key, entity in sorted(wanted.items()) if key not in both],
            [wanted[key] for key in sorted(both)],
            [entity.span for entity in wanted.values()],
        )
        found += of_sentence.mistakes()
        right += len(both)
        wrong += len(offered) - len(both)
        missed += len(wanted) - len(both)
        sentences += 1
    return Mistakes(tuple(found), Score.of(right, right + wrong, right + missed), sentences)


@dataclass(frozen=True, slots=True)
class _Sorting:
    """One sentence: its wrong predictions, what was not found, and what was."""

    number: int
    predicted: Sequence[Entity]
    gold: Sequence[Entity]
    right: Sequence[Entity]
    spans: Sequence[tuple[int, int]]  # of all gold entities

    def mistakes(self) -> list[Mistake]:
        pairs = self._pairs()
        taken = {index for index, _ in pairs}
        meant = {index for _, index in pairs}
        guessed = [*self.right, *(self.predicted[index] for index in taken)]
        located = [*self.right, *(self.gold[index] for index in meant)]
        found = [
            Mistake(self._kind(self.predicted[i], self.gold[j]), self.number, self.predicted[i], self.gold[j])
            for i, j in pairs
        ]
        for index, entity in enumerate(self.predicted):
            if index not in taken:
                kind: Kind = "extra level" if _nested(entity, guessed) else "spurious"
                found.append(Mistake(kind, self.number, entity, None))
        for index, entity in enumerate(self.gold):
            if index not in meant:
                kind = "missing level" if _nested(entity, located) else "missed"
                found.append(Mistake(kind, self.number, None, entity))
        return sorted(found, key=lambda mistake: (mistake.span, KINDS.index(mistake.kind)))

    def _pairs(self) -> list[tuple[int, int]]:
        """Which prediction means which entity: the nearest first, each at most once."""
        free_predicted, free_gold = set(range(len(self.predicted))), set(range(len(self.gold)))
        chosen = []
        for _, i, j in sorted(self._possible()):
            if i in free_predicted and j in free_gold:
                free_predicted.remove(i)
                free_gold.remove(j)
                chosen.append((i, j))
        return chosen

    def _possible(self) -> Iterator[tuple[tuple[int, float], int, int]]:
        """All pairs that may be, each with its rank: the order of kinds, then how little is shared."""
        for j, entity in enumerate(self.gold):
            for i, guess in enumerate(self.predicted):
                if guess.start >= entity.end:
                    break  # predictions are in the order of their starts
                shared = min(guess.end, entity.end) - max(guess.start, entity.start)
                if shared <= 0:
                    continue
                ratio = shared / (len(guess) + len(entity) - shared)
                if guess.span == entity.span:
                    yield (0, -ratio), i, j
                elif guess.type == entity.type and ratio >= _SHARED:
                    yield (1, -ratio), i, j
                elif guess.type != entity.type and ratio >= _SHARED_BY_OTHERS:
                    yield (2, -ratio), i, j

    def _kind(self, guess: Entity, entity: Entity) -> Kind:
        if guess.span == entity.span:
            return "type"
        if guess.type != entity.type:
            return "boundary and type"
        if guess.span in self.spans and (guess.contains(entity) or entity.contains(guess)):
            return "wrong level"
        if guess.start == entity.start:
            return "end"
        return "start" if guess.end == entity.end else "start and end"


def _nested(entity: Entity, others: Sequence[Entity]) -> bool:
    return any(entity.contains(other) or other.contains(entity) for other in others)
