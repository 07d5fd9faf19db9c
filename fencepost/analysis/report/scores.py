"""Scores of a report with their confidence intervals, and the confusion of types."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from fencepost.analysis.report.contents import Contents
from fencepost.evaluation import (
    ErrorAnalysis,
    Evaluation,
    Matches,
    Score,
    Scores,
    classify_errors,
    compute_intervals,
    match,
)

LENGTHS = (1, 2, 3, 4, 5, 6, 8, 11, 16)
"""The smallest length of each group; the last group has no upper limit."""

TYPES, CONFUSED = 100, 24
"""Maximum number of types in the tables, and in the confusion matrix."""


class ScoreRow(NamedTuple):
    """Row of a table of scores."""

    name: str
    score: Score
    bounds: Scores | None


class Confusion(NamedTuple):
    """Counts by gold type (row) and predicted type (column); the last row and column are "no entity"."""

    names: Sequence[str | None]  # "" for the rarer types, None for no entity
    counts: Sequence[Sequence[int]]
    others: int  # number of types that share a row and a column


@dataclass(frozen=True, slots=True)
class ReportScores:
    """Scores of a report; without the sentences, only the saved ones."""

    evaluation: Evaluation
    bounds: Mapping[str | None, Scores] = field(default_factory=dict)
    length_bounds: Mapping[str | None, Scores] = field(default_factory=dict)
    errors: ErrorAnalysis | None = None

    @classmethod
    def of(cls, contents: Contents) -> ReportScores | None:
        """Compute the scores; return None if there are neither predictions nor saved scores."""
        if contents.gold is None or contents.predicted is None:
            return None if contents.evaluation is None else cls(contents.evaluation)
        matches = match(contents.gold, contents.predicted)
        evaluation = Evaluation.of(matches)
        errors = classify_errors(contents.gold, contents.predicted)
        if not matches.sentences:
            return cls(evaluation, errors=errors)
        groups = tuple(evaluation.by_length_group(LENGTHS))
        by_length = compute_intervals(_group_by_length(matches, groups))
        return cls(evaluation, compute_intervals(matches), by_length, errors)

    def score_types(self) -> list[ScoreRow]:
        """Return a row for each type, the most frequent first."""
        ranked = sorted(self.evaluation.by_type.items(), key=lambda item: (-item[1].support, item[0]))
        return [ScoreRow(name, score, self.bounds.get(name)) for name, score in ranked]

    def score_lengths(self) -> list[ScoreRow]:
        """Return a row for each group of lengths that has entities."""
        groups = self.evaluation.by_length_group(LENGTHS).items()
        return [
            ScoreRow(name, score, self.length_bounds.get(name)) for name, score in groups if any(score.counts)
        ]

    def count_confusions(self) -> Confusion | None:
        """Count the predicted types of each gold type; the rarer types share a row and a column."""
        if self.errors is None or not self.evaluation.by_type:
            return None
        ranked = [row.name for row in self.score_types()]
        listed = ranked if len(ranked) <= CONFUSED + 1 else ranked[:CONFUSED]
        others = len(ranked) - len(listed)
        names: list[str | None] = [*listed, *([""] if others else []), None]
        index: dict[str | None, int] = {name: names.index(name if name in listed else "") for name in ranked}
        index |= {None: len(names) - 1}
        counts = Counter(self.errors.count_confusions())
        counts.update({(name, name): score.true_positives for name, score in self.evaluation.by_type.items()})
        table = np.zeros((len(names), len(names)), dtype=np.int64)
        for (gold, predicted), count in counts.items():
            table[index[gold], index[predicted]] += count
        return Confusion(names, table.tolist(), others)


def _group_by_length(matches: Matches, groups: tuple[str, ...]) -> Matches:
    """Return the matches with groups of lengths instead of types."""
    gold, predicted = (
        replace(side, type=np.searchsorted(LENGTHS, side.length, side="right").astype(np.int32) - 1)
        for side in (matches.gold, matches.predicted)
    )
    return replace(matches, types=groups, gold=gold, predicted=predicted)
