"""Scores, their intervals and the kinds of mistakes, as the tables of a report have them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fencepost.analysis.report.contents import Contents
from fencepost.evaluation import (
    GROUPS,
    Evaluation,
    Kind,
    Matches,
    Mentions,
    Mistakes,
    Score,
    Scores,
    evaluate,
    intervals,
    match,
    mistakes,
)

LENGTHS = (1, 2, 3, 4, 5, 6, 8, 11, 16)
"""Where each group of lengths begins; the last has no end."""

TYPES, CONFUSED = 100, 24
"""How many types the tables show at most, and the table of confusions."""


@dataclass(frozen=True, slots=True)
class Row:
    """A line of a table of scores."""

    name: str
    score: Score
    bounds: Scores | None


@dataclass(frozen=True, slots=True)
class MistakeRow:
    """How many mistakes there are of a group or a kind, and the F1 without them."""

    name: str
    kinds: tuple[Kind, ...]
    count: int
    share: float
    f1_without: float
    inner: bool = False  # a kind within a group


@dataclass(frozen=True, slots=True)
class Confusion:
    """Rows are gold types, columns predicted ones; the last of both is nothing at all (None)."""

    names: Sequence[str | None]
    counts: Sequence[Sequence[int]]
    others: int  # types that share a row and a column

    def share(self, row: int, column: int) -> float:
        """Of a row."""
        return self.counts[row][column] / max(1, sum(self.counts[row]))


@dataclass(frozen=True, slots=True)
class Judged:
    """The scores of a report; without the sentences, only those that were kept."""

    evaluation: Evaluation
    bounds: Mapping[str | None, Scores] = field(default_factory=dict)
    length_bounds: Mapping[str | None, Scores] = field(default_factory=dict)
    mistakes: Mistakes | None = None

    @classmethod
    def of(cls, contents: Contents) -> Judged | None:
        if contents.gold is None or contents.predicted is None:
            return None if contents.evaluation is None else cls(contents.evaluation)
        evaluation = evaluate(contents.gold, contents.predicted)
        matches = match(contents.gold, contents.predicted)
        found = mistakes(contents.gold, contents.predicted)
        if not matches.sentences:
            return cls(evaluation, mistakes=found)
        groups = list(evaluation.by_length_group(LENGTHS))
        return cls(evaluation, *_bounds(matches, groups), found)

    def types(self) -> list[Row]:
        """The most frequent first."""
        ranked = sorted(self.evaluation.by_type.items(), key=lambda item: (-item[1].support, item[0]))
        return [Row(name, score, self.bounds.get(name)) for name, score in ranked]

    def lengths(self) -> list[Row]:
        """Groups of lengths, those that have entities."""
        groups = self.evaluation.by_length_group(LENGTHS)
        return [
            Row(name, score, self.length_bounds.get(name))
            for name, score in groups.items()
            if score.support or score.predicted
        ]

    def mistake_rows(self) -> list[MistakeRow]:
        """Each group, followed by its kinds if it has several."""
        if self.mistakes is None:
            return []
        rows = []
        for group, kinds in GROUPS.items():
            rows.append(self._mistake_row(group, kinds))
            if len(kinds) > 1:
                rows += [self._mistake_row(kind, (kind,), inner=True) for kind in kinds]
        return rows

    def _mistake_row(self, name: str, kinds: tuple[Kind, ...], *, inner: bool = False) -> MistakeRow:
        assert self.mistakes is not None  # noqa: S101 - asked before
        counts = self.mistakes.counts()
        count = sum(counts[kind] for kind in kinds)
        share = count / max(1, len(self.mistakes))
        return MistakeRow(name, kinds, count, share, self.mistakes.f1_without(*kinds), inner)

    def confusion(self) -> Confusion | None:
        """What each gold type was taken for. Types beyond the most frequent share the name ''."""
        if self.mistakes is None or not self.evaluation.by_type:
            return None
        ranked = [row.name for row in self.types()]
        kept = ranked if len(ranked) <= CONFUSED + 1 else ranked[:CONFUSED]
        others = len(ranked) - len(kept)
        names: list[str | None] = [*kept, *([""] if others else []), None]
        place: dict[str | None, int] = {name: names.index(name if name in kept else "") for name in ranked}
        place[None] = len(names) - 1
        counts = Counter(self.mistakes.confusion())
        counts.update({(name, name): score.true_positives for name, score in self.evaluation.by_type.items()})
        table = np.zeros((len(names), len(names)), dtype=np.int64)
        for (gold, predicted), count in counts.items():
            table[place[gold], place[predicted]] += count
        return Confusion(names, table.tolist(), others)


def _bounds(
    matches: Matches, groups: Sequence[str]
) -> tuple[dict[str | None, Scores], dict[str | None, Scores]]:
    """The intervals over all (None) and by type, and those by group of lengths, from the same draws.

    Each entity is there twice, with its type and with its group in the type's place. So drawing, which
    takes the time, is done once; over all, shares of twice as many are the same.
    """
    names = [("type", name) for name in matches.types] + [("length", name) for name in groups]
    found = intervals(
        Matches(
            tuple(" ".join(name) for name in names),
            matches.sentences,
            _twice(matches.gold, len(matches.types)),
            _twice(matches.predicted, len(matches.types)),
        )
    )
    by_type: dict[str | None, Scores] = {None: found[None]}
    by_length: dict[str | None, Scores] = {}
    for kind, name in names:
        (by_type if kind == "type" else by_length)[name] = found[f"{kind} {name}"]
    return by_type, by_length


def _twice(mentions: Mentions, types: int) -> Mentions:
    """The entities with their types, and again with the groups of their lengths, numbered from `types` on."""
    group = np.searchsorted(LENGTHS, mentions.length, side="right").astype(np.int32) - 1 + types
    return Mentions(
        sentence=np.tile(mentions.sentence, 2),
        start=np.tile(mentions.start, 2),
        end=np.tile(mentions.end, 2),
        type=np.concatenate((mentions.type, group)),
        score=np.tile(mentions.score, 2),
        matched=np.tile(mentions.matched, 2),
    )
