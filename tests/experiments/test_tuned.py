"""Without an explicit threshold, the best one on the development data is used."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import pytest

from fencepost.analysis.epochs import read_records
from fencepost.config import Config
from fencepost.evaluation import evaluate
from fencepost.methods.candidates import Candidates
from fencepost.methods.model import Model
from fencepost.methods.registry import METHODS, Method
from fencepost.methods.settings import MethodSettings, PredictSettings
from fencepost.runtime.pytorch import load_model, save_model
from fencepost.training import run as run_module
from fencepost.training import train
from fencepost.training import trainer as trainer_module
from fencepost.training.checkpoint import find_last_checkpoint
from tests.methods.doubles import DEFAULTS, Tagger, TaggerDecoder, Threshold
from tests.methods.running import predict
from tests.training.runs import DEV, LEARNT, STEPS, assert_same, before_step, scripted

HIGHEST = 0.3


class TunableSettings(MethodSettings):
    name: Literal["tunable"] = "tunable"
    bias: bool = True


class TunableDecoder(TaggerDecoder):
    """Decoder whose confidences are so low that none reaches an arbitrary threshold."""

    def candidates(self, scores: Any, predict: PredictSettings) -> Any:
        candidates = super().candidates(
            scores, Threshold(threshold=min(1.0, predict.lowest_threshold() / HIGHEST))
        )
        return Candidates(candidates.start, candidates.end, candidates.type, HIGHEST * candidates.confidence)


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    method = Method(TunableSettings, TunableDecoder, Tagger, PredictSettings, DEFAULTS)
    monkeypatch.setitem(METHODS, "tunable", method)


def settings(**predict: Any) -> Config:
    return Config.parse(
        {
            "method": {"name": "tunable"},
            "encoder": {
                "name": "scratch",
                "lstm": {"size": 16, "dropout": 0.1},
                "scratch": {"word_size": 16, "character_size": 8, "character_output": 8},
            },
            "training": {"epochs": 3, "batch_size": 2, "learning_rate": 0.01},
            "predict": predict,
        }
    )


def threshold(folder: Path) -> float | None:
    saved = json.loads((folder / "config.json").read_text())["config"]["predict"]["threshold"]
    if isinstance(saved, dict):  # the same for all types
        (saved,) = set(saved.values())
    return saved


def test_saved_model_has_the_threshold_of_its_score(tmp_path: Path) -> None:
    outcome = train(settings(), LEARNT, tmp_path / "model", DEV)
    assert outcome.best is not None
    assert outcome.best["dev_f1"] > 0
    best = threshold(tmp_path / "model")
    assert best is not None
    model = load_model(tmp_path / "model")
    assert outcome.model.config == model.config
    assert evaluate(DEV, predict(model, DEV)).overall.f1 == outcome.best["dev_f1"]
    for other in (0, best / 2, best * 0.9, best * 1.1, 1.0):
        assert evaluate(DEV, predict(model, DEV, threshold=other)).overall.f1 <= outcome.best["dev_f1"]


def test_best_epoch_restores_its_threshold(tmp_path: Path) -> None:
    thresholds = []

    def noted(model: Model, folder: Any) -> None:
        assert isinstance(model.config.predict.threshold, dict)
        thresholds.append(next(iter(model.config.predict.threshold.values())))
        save_model(model, folder)

    with pytest.MonkeyPatch.context() as patch, scripted(tmp_path / "model", [0.5, 0.2, 0.1]):
        patch.setattr(trainer_module, "save_model", noted)
        patch.setattr(run_module, "save_model", noted)
        train(settings(), LEARNT, tmp_path / "model", DEV)
    *epochs, last = thresholds
    assert len(set(epochs)) == 3
    assert threshold(tmp_path / "model") == last == epochs[0]


def test_explicit_threshold_is_kept(tmp_path: Path) -> None:
    train(settings(threshold=0.7), LEARNT, tmp_path / "model", DEV)
    assert threshold(tmp_path / "model") == 0.7


def test_threshold_is_unset_without_development_data(tmp_path: Path) -> None:
    train(settings(), LEARNT, tmp_path / "model")
    assert threshold(tmp_path / "model") is None


def test_threshold_is_unset_without_correct_predictions(tmp_path: Path) -> None:
    """The model cannot predict any entity of the development data: they all have two or more words."""
    long = [s.with_entities(e for e in s.entities if e.end - e.start > 1) for s in DEV]
    train(settings(), LEARNT, tmp_path / "model", long)
    assert threshold(tmp_path / "model") is None
    assert all(record.get("dev_f1", 0) == 0 for record in read_records(tmp_path / "model"))


def test_resumed_run_has_the_same_threshold(tmp_path: Path) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    with before_step(2 * STEPS + 3, interrupt), pytest.raises(KeyboardInterrupt):
        train(settings(), LEARNT, tmp_path / "resumed", DEV)
    checkpoint = find_last_checkpoint(tmp_path / "resumed" / "checkpoints")
    assert checkpoint is not None
    assert threshold(checkpoint) is not None
    train(settings(), LEARNT, tmp_path / "resumed", DEV, resume=True)
    train(settings(), LEARNT, tmp_path / "undisturbed", DEV)
    assert_same(tmp_path / "resumed", tmp_path / "undisturbed")
