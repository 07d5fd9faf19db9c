"""A run without success warns, and names the reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fencepost.data.entity import Entity, Sentence
from fencepost.training import train
from fencepost.training.folder import RESULT_FILE
from tests.training.runs import LEARNT, config, run

CLEAR = [Sentence(["we", "saw", name, "today"], [Entity(2, 3, "PER")]) for name in ("Ada", "Bob", "Eve")] * 4
"""Sentences that a small model learns in a few steps."""


def learnt_well(tmp_path: Path, dev: list[Sentence] | None, sentences: list[Sentence] = CLEAR) -> list[str]:
    return list(train(config(epochs=12), sentences, tmp_path / "model", dev).warnings)


def test_successful_run_has_no_warnings(tmp_path: Path) -> None:
    assert learnt_well(tmp_path / "a", CLEAR[:3]) == []
    assert learnt_well(tmp_path / "b", None) == []


@pytest.mark.parametrize("dev", [True, False])
def test_warns_of_too_few_steps(tmp_path: Path, dev: bool) -> None:
    outcome = run(tmp_path / "model", config(epochs=1, learning_rate=1e-9), dev=dev)
    first, *reasons = outcome.warnings
    assert first.startswith("the model has not learnt to predict the entities: F1 on ")
    assert ("the development data" in first) == dev
    assert reasons[0].startswith("too few steps: 12 in 1 epochs; ")
    assert json.loads((tmp_path / "model" / RESULT_FILE).read_text(encoding="utf-8"))["warnings"] == [
        first,
        *reasons,
    ]


def test_warns_of_a_low_learning_rate(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("fencepost.training.diagnosis._FEW_STEPS", 10)
    _, *reasons = run(tmp_path / "model", config(epochs=1, learning_rate=1e-9)).warnings
    assert reasons[0].startswith("the learning rate: training.learning_rate is 1e-09 and ")


def test_warns_of_different_types(tmp_path: Path) -> None:
    dev = [sentence.with_entities([Entity(2, 3, "person")]) for sentence in CLEAR[:3]]
    _, *reasons = learnt_well(tmp_path, dev)
    assert reasons[0] == (
        "different types: most types of the development data are not in the training data (person)"
    )
    assert reasons[-1].startswith("training and development data differ")


def test_warns_of_development_data_without_entities(tmp_path: Path) -> None:
    _, *reasons = learnt_well(tmp_path, [Sentence(["we", "saw", "rain"])])
    assert reasons[0] == "the development data has no entities: check its file and format"


def test_warns_of_a_column_that_has_no_types(tmp_path: Path) -> None:
    wrong = [s.with_entities([Entity(0, 1, f"TYPE-{number}")]) for number, s in enumerate(LEARNT)]
    outcome = train(config(epochs=1), wrong, tmp_path / "model")
    assert any(
        reason.startswith("a wrong column: 24 entities have 24 different types")
        for reason in outcome.warnings
    )
