"""The benchmark of the audit: injected errors, and suggestions that concern them."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.audit import Error, by_confidence, find_errors, found_by_kind, put_errors, score
from fencepost.analysis.audit.suggestions import Suggestion
from fencepost.data import read
from fencepost.data.entity import Entity

A, B, C = (Entity(start, start + 1, "T") for start in range(3))
WIDER = Entity(0, 2, "T", 0.9)
ERRORS = [
    Error("boundary", 0, A.key, WIDER.key),
    Error("removal", 1, B.key, None),
    Error("type", 2, C.key, (2, 3, "U")),
]
RANKED = [
    Suggestion("boundary", 0, WIDER, A, 0.9, 0.1),  # right, and corrected
    Suggestion("missing", 3, None, B, 0.8),  # wrong
    Suggestion("missing", 1, None, B, 0.7),  # right, and corrected
    Suggestion("missing", 0, None, A, 0.6),  # about the first error again
    Suggestion("spurious", 2, Entity(2, 3, "U"), None, 0.5, 0.3),  # right, but not corrected
]


def test_suggestions_are_matched_to_errors_and_scored():
    assert find_errors(RANKED, ERRORS) == [ERRORS[0], None, ERRORS[1], None, ERRORS[2]]
    scores = score(RANKED, ERRORS)
    assert scores["precision_at_100"] == 3 / 5
    assert scores["recall"] == 1
    assert scores["average_precision"] == pytest.approx((1 + 2 / 3 + 3 / 5) / 3, abs=1e-4)
    assert scores["corrected"] == pytest.approx(2 / 3, abs=1e-4)
    assert score(RANKED[:2], ERRORS)["recall"] == pytest.approx(1 / 3, abs=1e-4)
    assert found_by_kind(RANKED[:2], ERRORS)["removal"] == {"recall": 0, "recall_at_500": 0}


def test_baseline_ranks_by_confidence():
    confident, missed = (
        Suggestion("missing", 0, None, WIDER, 0.1),
        Suggestion("spurious", 0, A, None, 0.9, 0.3),
    )
    assert by_confidence([missed, confident]) == [confident, missed]  # 0.9, and 1 - 0.3


def test_injected_errors_are_listed_and_have_the_expected_shares():
    sentences = list(read("sample:train"))
    noisy, errors = put_errors(sentences, 1)
    before, now = (
        {(n, entity.key) for n, one in enumerate(part) for entity in one.entities}
        for part in (sentences, noisy)
    )
    assert before - now == {(error.sentence, error.before) for error in errors}
    assert now - before == {(error.sentence, error.now) for error in errors if error.now is not None}
    shares = {kind: count / len(before) for kind, count in Counter(error.kind for error in errors).items()}
    assert shares == pytest.approx({"boundary": 0.05, "type": 0.02, "removal": 0.02}, abs=0.01)
    assert put_errors(sentences, 1) == (noisy, errors)
    assert put_errors(sentences, 2)[1] != errors
