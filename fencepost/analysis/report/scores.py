"""The scores of a report, with their intervals, and the confusion of types."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from fencepost.analysis.report.contents import Contents
from fencepost.evaluation import Evaluation, Matches, Mistakes, Score, Scores, intervals, match, mistakes

LENGTHS = (1, 2, 3, 4, 5, 6, 8, 11, 16)
"""The first length of each group; the last group has no end."""

TYPES, CONFUSED = 100, 24
"""Largest number of types in the tables, and in the table of confusions."""


class ScoreRow(NamedTuple):
    """A row of a table of scores."""

    name: str
    score: Score
    bounds: Scores | None


class Confusion(NamedTuple):
    """Counts by gold type (row) and predicted type (column); the last of both is no entity (None)."""

    names: Sequence[str | None]
    counts: Sequence[Sequence[int]]
    others: int  # number of types that share a row and a column


@dataclass(frozen=True, slots=True)
class ReportScores:
    """The scores of a report; without the sentences, only those that were saved."""

    evaluation: Evaluation
    bounds: Mapping[str | None, Scores] = field(default_factory=dict)
    length_bounds: Mapping[str | None, Scores] = field(default_factory=dict)
    mistakes: Mistakes | None = None

    @classmethod
    def of(cls, contents: Contents) -> ReportScores | None:
        """Compute the scores, or return None without predictions and saved scores."""
        if contents.gold is None or contents.predicted is None:
            return None if contents.evaluation is None else cls(contents.evaluation)
        matches = match(contents.gold, contents.predicted)
        evaluation = Evaluation.of(matches)
        found = mistakes(contents.gold, contents.predicted)
        if not matches.sentences:
            return cls(evaluation, mistakes=found)
        groups = tuple(evaluation.by_length_group(LENGTHS))
        return cls(evaluation, intervals(matches), intervals(_by_length(matches, groups)), found)

    def types(self) -> list[ScoreRow]:
        """Return a row for each type, the most frequent first."""
        ranked = sorted(self.evaluation.by_type.items(), key=lambda item: (-item[1].support, item[0]))
        return [ScoreRow(name, score, self.bounds.get(name)) for name, score in ranked]

    def lengths(self) -> list[ScoreRow]:
        """Return a row for each group of lengths that has entities."""
        groups = self.evaluation.by_length_group(LENGTHS).items()
        return [
            ScoreRow(name, score, self.length_bounds.get(name)) for name, score in groups if any(score.counts)
        ]

    def confusion(self) -> Confusion | None:
        """Count how often each gold type was taken for each type; the rarest types share the name ''."""
        if self.mistakes is None or not self.evaluation.by_type:
            return None
        ranked = [row.name for row in self.types()]
        shown = ranked if len(ranked) <= CONFUSED + 1 else ranked[:CONFUSED]
        others = len(ranked) - len(shown)
        names: list[str | None] = [*shown, *([""] if others else []), None]
        place = {name: names.index(name if name in shown else "") for name in ranked} | {None: len(names) - 1}
        counts = Counter(self.mistakes.confusion())
        counts.update({(name, name): score.true_positives for name, score in self.evaluation.by_type.items()})
        table = np.zeros((len(names), len(names)), dtype=np.int64)
        for (gold, predicted), count in counts.items():
            table[place[gold], place[predicted]] += count
        return Confusion(names, table.tolist(), others)


def _by_length(matches: Matches, groups: tuple[str, ...]) -> Matches:
    """Return the matches with the groups of lengths in place of the types."""
    gold, predicted = (
        replace(side, type=np.searchsorted(LENGTHS, side.length, side="right").astype(np.int32) - 1)
        for side in (matches.gold, matches.predicted)
    )
    return replace(matches, types=groups, gold=gold, predicted=predicted)
