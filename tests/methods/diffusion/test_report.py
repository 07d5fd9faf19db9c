"""The report `stages` of given spans."""

from __future__ import annotations

import numpy as np
import pytest

from fencepost.methods.decoder import GoldArrays
from fencepost.methods.diffusion import METHOD
from fencepost.methods.diffusion.decode import Denoised
from fencepost.methods.diffusion.report import DiffusionReport
from tests.methods.diffusion.cases import TYPES, decoder_of, method_of, predict_of

LENGTH = 6

STEPS = [
    [[(0, 0), (3, 1), (2, 2), (5, 5)], [(0, 1), (0, 1), (0, 1), (2, 1)]],
    [[(0, 1), (0, 1), (2, 3), (4, 5)], [(0, 1), (1, 1), (0, 0), (1, 0)]],
]  # by step and sentence: the first and the last words of four proposals; some end before they start

CLASSES = [[1, 2, 3, 1], [1, 1, 1, 1]]  # of the last step

GOLD = [(0, 0, 2, 0), (0, 0, 2, 1), (0, 2, 6, 2), (0, 5, 6, 0)]  # the second sentence has none


def scores() -> Denoised:
    spans = np.array(STEPS).transpose(0, 3, 1, 2)  # [steps, 2, B, K]
    boundaries = np.full((2, 2, 4, LENGTH), -9, dtype=np.float32)
    types = np.zeros((2, 4, 1 + len(TYPES)), dtype=np.float32)
    for side, sentence, proposal in np.ndindex(2, 2, 4):
        boundaries[side, sentence, proposal, spans[-1, side, sentence, proposal]] = 9
        types[sentence, proposal, CLASSES[sentence][proposal]] = 9 if sentence == 0 else 0
    return Denoised(types, boundaries, spans)


def tables(gold: list[tuple[int, int, int, int]], scores: Denoised) -> dict:
    report = METHOD.reports["stages"](decoder_of(method_of()), predict_of(select="nested", threshold=0.5))
    assert isinstance(report, DiffusionReport)
    columns = np.array(gold, dtype=np.int64).reshape(-1, 4).T
    for _ in range(2):  # of two batches
        report.add([], scores, GoldArrays(*columns))
    return report.tables()


def test_report_has_spans_and_recall_after_each_step() -> None:
    """An entity with two types counts once, and so does a span that occurs several times."""
    rows = {
        name: (row["spans"], row["per entity"], row["recall"])
        for name, row in tables(GOLD, scores())["spans"].items()
    }
    assert rows == {
        "after step 1": (8, 8 / 6, pytest.approx(1 / 3)),
        "after step 2": (12, 2, pytest.approx(1 / 3)),
        "after any step": (18, 3, pytest.approx(2 / 3)),
        "selected": (6, 1, pytest.approx(1 / 3)),
    }


def test_report_counts_verified_and_selected_spans() -> None:
    spans = np.array([(0, 0, 1), (0, 2, 5), (1, 3, 3)]).T
    labels = np.array([(0, 0, 99, 0), (9, 0, 0, 5), (0, 99, 0, 0)], dtype=np.float32)
    rows = tables(GOLD, scores()._replace(verified=spans, labels=labels))["spans"]
    assert rows["verified"] == {"spans": 6, "per entity": 1, "recall": pytest.approx(2 / 3)}
    assert rows["selected"] == {"spans": 4, "per entity": 2 / 3, "recall": pytest.approx(1 / 3)}


def test_report_counts_correct_boundaries_of_proposals() -> None:
    """(2, 3) has the first word of (2, 5), and (4, 5) its last one; (0, 1) both, with either type."""
    rows = {
        name: row["proposals"] for name, row in tables(GOLD, scores())["proposals of the last step"].items()
    }
    assert rows == {
        "all": 14,
        "first word right": 6,
        "last word right": 6,
        "both right": 4,
        "type right, too": 4,
    }


def test_report_without_entities_has_recall_0() -> None:
    spans, proposals = tables([], scores()).values()
    assert [row["recall"] for row in spans.values()] == [0] * 4
    assert [row["proposals"] for row in proposals.values()] == [14, 0, 0, 0, 0]
