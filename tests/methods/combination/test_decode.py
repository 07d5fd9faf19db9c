"""Joined candidates of several members, compared with values by hand and with simple loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.data.entity import Entity, Sentence
from fencepost.errors import UsageError
from fencepost.methods.candidates import Candidates
from fencepost.methods.combination.decode import CombinationDecoder, join_candidates
from fencepost.methods.combination.report import AgreementReport
from fencepost.methods.combination.settings import FLOOR, CombinationSettings
from fencepost.methods.decoder import GoldArrays
from fencepost.methods.settings import PredictSettings
from fencepost.settings import validate_settings

Row = tuple[int, int, int, float]


def logit(p: float) -> float:
    return math.log(p / (1 - p))


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def make(rows: list[Row]) -> Candidates:
    columns = np.array([row[:3] for row in rows], dtype=np.int64).reshape(-1, 3).T
    return Candidates(*columns, np.array([row[3] for row in rows]))


ROWS = st.lists(
    st.tuples(st.integers(0, 4), st.integers(5, 8), st.integers(0, 2), st.floats(0.02, 1.0)), max_size=12
)


@given(st.lists(ROWS, min_size=1, max_size=4))
def test_joined_candidates_equal_a_simple_loop(members: list[list[Row]]) -> None:
    candidates = join_candidates([make(rows) for rows in members])
    expected: dict[tuple[int, int, int], dict[int, float]] = {}
    for number, rows in enumerate(members):
        for *key, confidence in rows:
            of_key = expected.setdefault(tuple(key), {})  # type: ignore[arg-type]
            of_key[number] = max(confidence, of_key.get(number, 0.0))
    keys = list(zip(*(column.tolist() for column in candidates[:3]), strict=True))
    assert keys == sorted(expected)
    for key, probabilities in zip(keys, candidates.probability.tolist(), strict=True):
        assert {n: p for n, p in enumerate(probabilities) if not math.isnan(p)} == expected[key]


def test_default_weights_average_the_logits() -> None:
    """A member without the candidate counts with the lowest probability that it could have."""
    candidates = join_candidates([make([(0, 2, 0, 0.9), (3, 4, 1, 0.6)]), make([(0, 2, 0, 0.7)])])
    settings = CombinationSettings.from_members(["a", "b"])
    both, one = candidates.combine(settings).tolist()
    assert both == pytest.approx(sigmoid((logit(0.9) + logit(0.7)) / 2))
    assert one == pytest.approx(sigmoid((logit(0.6) + logit(FLOOR)) / 2))


def test_fitted_weights_are_applied_to_the_logits() -> None:
    settings = CombinationSettings(members=("a", "b"), slopes=(2.0, 0.5), offsets=(1.0, -1.0), bias=-0.25)
    candidates = join_candidates([make([(0, 2, 0, 0.9)]), make([(0, 2, 0, 0.7), (1, 2, 0, 0.5)])])
    both, one = candidates.combine(settings).tolist()
    assert both == pytest.approx(sigmoid(2 * logit(0.9) + 0.5 * logit(0.7) - 0.25))
    assert one == pytest.approx(sigmoid(-1.25))


def test_probabilities_of_0_and_1_are_finite() -> None:
    scores = join_candidates([make([(0, 1, 0, 1.0), (1, 2, 0, 0.0)]), make([(0, 1, 0, 1.0)])])
    decoder = CombinationDecoder(CombinationSettings.from_members(["a", "b"]), ["X"])
    candidates = decoder.candidates(scores, PredictSettings(threshold=0.0))
    assert candidates.confidence[0] > 0.999
    assert len(candidates) == 2


def test_joins_members_without_candidates() -> None:
    scores = join_candidates([make([]), make([])])
    decoder = CombinationDecoder(CombinationSettings.from_members(["a", "b"]), ["X"])
    assert len(decoder.candidates(scores, PredictSettings())) == 0


def test_refuses_settings_without_weights_for_each_member() -> None:
    with pytest.raises(UsageError, match="one value for each member"):
        validate_settings(CombinationSettings, {"members": ["a", "b"], "slopes": [1.0], "offsets": [1.0]})


def test_agreement_report_counts_votes() -> None:
    """Two sentences of at most 3 words; votes counted by hand."""
    sentences = [
        Sentence(["a", "b", "c"], [Entity(0, 1, "X"), Entity(1, 3, "X")]),
        Sentence(["d"], [Entity(0, 1, "X")]),
    ]
    first = [(0, 1, 0, 0.9), (1, 3, 0, 0.6), (2, 3, 0, 0.8), (3, 4, 0, 0.3)]  # 3 is the fourth word: "d"
    second = [(0, 1, 0, 0.5), (3, 4, 0, 0.7)]
    decoder = CombinationDecoder(CombinationSettings.from_members(["first", "second"]), ["X"])
    report = AgreementReport(decoder, PredictSettings())
    candidates = join_candidates([make(first), make(second)])
    report.add(sentences, candidates, GoldArrays.from_sentences(sentences, ["X"]))
    tables = report.tables()
    counts = {name: score.counts for name, score in tables["Members"].items()}  # type: ignore[union-attr]
    assert counts == {"first": (2, 3, 3), "second": (2, 2, 3)}  # correct, predicted, gold
    votes = tables["Candidates by minimum number of votes"]
    assert votes["1 (union)"].counts == (3, 4, 3)  # type: ignore[union-attr]
    assert votes["2 (intersection)"].counts == (1, 1, 3)  # type: ignore[union-attr]
    assert tables["Candidates by the number of votes"]["1 of 2"] == {
        "candidates": 3,
        "correct": 2,
        "share": pytest.approx(2 / 3),
    }
    assert tables["Where the members disagree"]["only first"] == {"candidates": 2, "correct": 1, "share": 0.5}
