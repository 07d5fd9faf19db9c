"""Values of training settings that are `auto`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.config import TrainingSettings
from fencepost.runtime.folder import CONFIG_FILE
from tests.training.runs import DEV, LEARNT, config, run


@pytest.mark.parametrize(
    ("sentences", "epochs"),
    [(1, 60), (48, 60), (400, 60), (401, 60), (1000, 24), (1765, 14), (3000, 8), (4000, 6), (100_000, 6)],
)
def test_number_of_epochs_equals_the_value_by_hand(sentences: int, epochs: int) -> None:
    """24,000 sentences in total, but 6 to 60 epochs."""
    assert TrainingSettings().count_epochs(sentences) == epochs


@given(st.integers(1, 100_000))
def test_more_sentences_never_have_more_epochs(sentences: int) -> None:
    settings = TrainingSettings()
    assert settings.count_epochs(sentences + 1) <= settings.count_epochs(sentences)
    assert sentences * settings.count_epochs(sentences) >= min(24_000, 60 * sentences)


def test_explicit_values_replace_automatic_ones() -> None:
    settings = TrainingSettings(epochs=7, encoder_learning_rate=0.0)
    assert settings.count_epochs(48) == 7
    assert settings.compute_encoder_rate(384) == 0.0
    assert settings.count_patience(7) is None
    assert TrainingSettings(patience=2).count_patience(60) == 2


def test_wider_encoders_have_lower_learning_rates() -> None:
    rates = [TrainingSettings().compute_encoder_rate(width) for width in (384, 768, 1024)]
    assert rates == [1e-4, 3.5e-5, 2.3e-5]


def test_patience_is_a_third_of_the_epochs() -> None:
    settings = TrainingSettings()
    assert [settings.count_patience(epochs) for epochs in (6, 9, 14, 60)] == [3, 3, 5, 20]


def test_saved_config_has_the_chosen_values(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("fencepost.config._SENTENCES", 90)
    monkeypatch.setattr("fencepost.config._LEAST_EPOCHS", 1)
    outcome = run(tmp_path / "model", config(epochs="auto", batch_size=4), dev=False)
    assert outcome.model.config.training.epochs == 4
    saved = json.loads((tmp_path / "model" / CONFIG_FILE).read_text(encoding="utf-8"))["config"]["training"]
    assert (saved["epochs"], saved["encoder_learning_rate"]) == (
        4,
        outcome.model.config.training.encoder_learning_rate,
    )
    assert isinstance(saved["encoder_learning_rate"], float)


def test_epochs_with_f1_0_do_not_use_up_patience(tmp_path: Path, monkeypatch) -> None:
    """In the first epochs F1 is often 0."""
    monkeypatch.setattr(
        "fencepost.training.trainer.score_development",
        lambda *_: {"dev_f1": 0.0, "dev_loss": 1.0, "dev_precision": 0.0, "dev_recall": 0.0},
    )
    outcome = run(tmp_path / "model", config(epochs=3, patience=1))
    assert len(outcome.epochs) == 3
    assert len(LEARNT) > len(DEV)
