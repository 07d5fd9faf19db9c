"""Report: what each member of a combination finds, and how often they are right if they agree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fencepost.data.entity import Sentence
from fencepost.evaluation import Score
from fencepost.methods.combination.decode import JoinedCandidates
from fencepost.methods.decoder import GoldArrays, Report, Row
from fencepost.methods.settings import PredictSettings


class AgreementReport(Report):
    """Scores of each member alone, of candidates by number of votes, and of members that differ.

    A member votes for a candidate that it gives a probability of at least 0.5. Candidates of all members are
    counted, whether they clash or not.
    """

    def __init__(self, decoder: Any, predict: PredictSettings) -> None:
        super().__init__(decoder, predict)
        self.members: Sequence[str] = decoder.settings.members
        self.support = 0
        # [2, 2, ..., 2], candidates that are entities or not by the votes of each member
        self.counts = np.zeros((2, *(2,) * len(self.members)), dtype=np.int64)

    def add(self, sentences: Sequence[Sentence], scores: JoinedCandidates, gold: GoldArrays) -> None:
        is_correct = scores.find_entities(gold, max(map(len, sentences), default=0)).astype(np.int64)
        votes = (np.nan_to_num(scores.probability) >= 0.5).astype(np.int64)  # [N, M]
        np.add.at(self.counts, (is_correct, *votes.T), 1)
        self.support += len(gold.start)

    def tables(self) -> dict[str, dict[str, Row]]:
        votes = np.indices(self.counts.shape[1:]).reshape(len(self.members), -1)  # [M, 2 ** M]
        wrong, right = self.counts.reshape(2, -1)  # [2 ** M]
        number = votes.sum(axis=0)

        def score(chosen: Any) -> Score:
            hits = int(right[chosen].sum())
            return Score.of(hits, hits + int(wrong[chosen].sum()), self.support)

        count = len(self.members)
        alone: dict[str, Row] = {
            name: score(vote == 1) for name, vote in zip(self.members, votes, strict=True)
        }
        at_least: dict[str, Row] = {
            _name_votes(least, count): score(number >= least) for least in range(1, count + 1)
        }
        confidence: dict[str, Row] = {
            f"{votes} of {count}": _describe(right[number == votes].sum(), wrong[number == votes].sum())
            for votes in range(count + 1)
        }
        only: dict[str, Row] = {
            f"only {name}": _describe(*(of[(vote == 1) & (number == 1)].sum() for of in (right, wrong)))
            for name, vote in zip(self.members, votes, strict=True)
        }
        missing: dict[str, Row] = {
            f"all but {name}": _describe(
                *(of[(vote == 0) & (number == count - 1)].sum() for of in (right, wrong))
            )
            for name, vote in zip(self.members, votes, strict=True)
        }
        return {
            "Members": alone,
            "Candidates by minimum number of votes": at_least,
            "Candidates by the number of votes": confidence,
            "Where the members disagree": only | missing if count > 2 else only,
        }


def _name_votes(least: int, count: int) -> str:
    return "1 (union)" if least == 1 else f"{least} (intersection)" if least == count else str(least)


def _describe(right: Any, wrong: Any) -> dict[str, int | float]:
    count = int(right + wrong)
    return {"candidates": count, "correct": int(right), "share": float(right / count) if count else 0.0}
