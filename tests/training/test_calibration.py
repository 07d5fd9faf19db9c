"""The confidences of a trained model are calibrated on the development data."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fencepost.data import read
from fencepost.errors import DataError
from fencepost.evaluation import Temperature, evaluate, match
from fencepost.methods.model import Model
from fencepost.runtime.folder import read_saved_config
from fencepost.runtime.pytorch import load_model, save_model
from fencepost.runtime.recogniser import Recogniser
from fencepost.training import Outcome, train
from fencepost.training.run import make_model_card
from tests.methods.running import predict
from tests.training.runs import DEV, LEARNT, STEPS, assert_same, before_step, config, killed, result, run

TEST = list(read("sample:test"))[:12]
EPOCHS = 6  # enough for some predictions
WARM = Temperature(3.0, -1.0)


def ece(model: Model, sentences: list[Any]) -> float | None:
    calibration = evaluate(sentences, predict(model, sentences)).calibration
    return calibration.ece if calibration else None


def temperature_of(folder: Path) -> Temperature:
    return read_saved_config(folder).parse_calibration()


def saved_calibration(folder: Path) -> Any:
    return json.loads((folder / "config.json").read_text())["calibration"]


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Outcome]:
    """Run with development and test data; return its folder and its outcome."""
    folder = tmp_path_factory.mktemp("calibrated") / "model"
    return folder, run(folder, config(epochs=EPOCHS), test=TEST)


@pytest.fixture
def folder(calibrated: tuple[Path, Outcome]) -> Path:
    return calibrated[0]


@pytest.fixture
def outcome(calibrated: tuple[Path, Outcome]) -> Outcome:
    return calibrated[1]


# A model with a calibration


def test_calibration_changes_confidences_but_not_entities(folder: Path) -> None:
    model = load_model(folder)
    model.calibration = Temperature()
    raw = predict(model, TEST)
    model.calibration = WARM
    predicted = predict(model, TEST)
    keys = [[entity.key for entity in sentence.entities] for sentence in raw]
    assert [[entity.key for entity in sentence.entities] for sentence in predicted] == keys
    before = np.array([entity.score for sentence in raw for entity in sentence.entities])
    after = [entity.score for sentence in predicted for entity in sentence.entities]
    assert len(after) > 5
    assert after == WARM.apply(before).tolist() != before.tolist()


def test_calibration_is_saved_and_loaded(folder: Path, tmp_path: Path) -> None:
    model = load_model(folder)
    model.calibration = WARM
    save_model(model, tmp_path)
    assert saved_calibration(tmp_path) == {"temperature": 3.0, "shift": -1.0}
    again = load_model(tmp_path)
    assert again.calibration == temperature_of(tmp_path) == WARM
    assert predict(again, TEST) == predict(model, TEST)


def test_new_and_old_models_have_no_calibration(tmp_path: Path) -> None:
    model = Model.build(config(), LEARNT)
    assert model.calibration == Temperature()
    save_model(model, tmp_path)
    path = tmp_path / "config.json"
    tree = json.loads(path.read_text())
    del tree["calibration"]
    path.write_text(json.dumps(tree))
    assert load_model(tmp_path).calibration == Temperature()


@pytest.mark.parametrize(
    "broken",
    [
        "null",
        "1.5",
        "[1.0, 0.0]",
        "{}",
        '{"temperature": 1.0}',
        '{"temperature": "warm", "shift": 0.0}',
        '{"temperature": 1.0, "shift": "0"}',
        '{"temperature": null, "shift": 0.0}',
        '{"temperature": 0, "shift": 0.0}',
        '{"temperature": -1.0, "shift": 0.0}',
        '{"temperature": NaN, "shift": 0.0}',
        '{"temperature": 1.0, "shift": Infinity}',
        '{"temperature": 1.0, "shift": 1' + "0" * 400 + "}",
    ],
)
def test_refuses_invalid_calibration_and_names_the_file(broken: str, tmp_path: Path) -> None:
    save_model(Model.build(config(), LEARNT), tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"calibration": "?"}).replace('"?"', broken))
    with pytest.raises(DataError) as caught:
        load_model(tmp_path)
    assert str(caught.value).startswith(f"{path}: ")
    assert re.search("calibration|temperature|shift", str(caught.value))


# A run that calibrates its model


def test_calibration_is_fitted_to_the_best_epoch(outcome: Outcome, folder: Path) -> None:
    model = load_model(folder)
    model.calibration = Temperature()
    predictions = match(DEV, predict(model, DEV)).predicted
    assert len(predictions) > 5
    fitted = Temperature.fit(predictions.score, predictions.matched)
    assert fitted != Temperature()
    assert outcome.model.calibration == temperature_of(folder) == fitted
    assert predict(outcome.model, TEST) == predict(load_model(folder), TEST)


def test_result_has_ece_before_and_after_calibration(outcome: Outcome, folder: Path) -> None:
    calibration = result(folder)["calibration"]
    assert calibration == outcome.calibration
    assert list(calibration) == [
        "temperature",
        "shift",
        "dev_ece_before",
        "dev_ece_after",
        "test_ece_before",
        "test_ece_after",
    ]
    model = load_model(folder)
    assert {"temperature": calibration["temperature"], "shift": calibration["shift"]} == saved_calibration(
        folder
    )
    assert calibration["dev_ece_after"] == pytest.approx(ece(model, DEV))
    assert calibration["test_ece_after"] == pytest.approx(ece(model, TEST))
    assert result(folder)["test"]["ece"] == pytest.approx(calibration["test_ece_after"])
    model.calibration = Temperature()
    assert outcome.best is not None
    assert (
        calibration["dev_ece_before"]
        == pytest.approx(ece(model, DEV))
        == pytest.approx(outcome.best["dev_ece"])
    )
    assert calibration["test_ece_before"] == pytest.approx(ece(model, TEST))


def test_test_scores_are_those_of_the_saved_model(outcome: Outcome, folder: Path) -> None:
    again = evaluate(TEST, predict(load_model(folder), TEST))
    assert outcome.test is not None
    assert outcome.test.overall == again.overall
    assert outcome.test.calibration is not None
    assert again.calibration is not None
    counts = [one.count for one in again.calibration.bins]
    assert [one.count for one in outcome.test.calibration.bins] == counts


def test_each_part_is_predicted_once_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    predict = Recogniser.predict

    def noted(self: Recogniser, sentences: Any, *more: Any) -> Any:
        calls.append((len(sentences), self._predictor.calibration))
        return predict(self, sentences, *more)

    monkeypatch.setattr(Recogniser, "predict", noted)
    monkeypatch.setattr("fencepost.training.run.explain_failure", lambda *_: [])
    run(tmp_path / "model", config(epochs=2), test=TEST[:7])
    sizes = [len(DEV)] * 3 + [7]  # two epochs, the calibration, the test
    assert calls == [(size, Temperature()) for size in sizes]


def test_card_describes_the_calibration(outcome: Outcome, folder: Path) -> None:
    card = (folder / "README.md").read_text()
    calibration = outcome.calibration
    assert calibration is not None
    assert f"temperature {calibration['temperature']:.2f}, shift {calibration['shift']:z.2f}." in card
    for part, name in (("dev", "development"), ("test", "test")):
        before, after = calibration[f"{part}_ece_before"], calibration[f"{part}_ece_after"]
        assert (
            f"On the {name} data, calibration changes the expected calibration error from {before:.3f} to "
            in card
        )
        assert f" to {after:.3f}." in card
    without_test = {key: value for key, value in calibration.items() if not key.startswith("test_")}
    assert "On the test data" not in make_model_card(outcome.model, outcome.best, None, without_test)
    assert "are calibrated on" not in make_model_card(outcome.model, outcome.best, None)


def test_no_calibration_without_development_data(tmp_path: Path) -> None:
    outcome = run(tmp_path / "model", config(epochs=1), dev=False, test=TEST)
    assert outcome.calibration is None
    assert result(tmp_path / "model")["calibration"] is None
    assert outcome.model.calibration == temperature_of(tmp_path / "model") == Temperature()
    assert saved_calibration(tmp_path / "model") == {"temperature": 1.0, "shift": 0.0}
    assert "are calibrated on" not in (tmp_path / "model" / "README.md").read_text()


def test_calibration_without_predictions_is_the_identity(tmp_path: Path) -> None:
    wordless = [replace(sentence, words=(), entities=(), space_after=None) for sentence in DEV]
    outcome = train(config(epochs=1), LEARNT, tmp_path / "model", wordless)
    assert outcome.calibration == {
        "temperature": 1.0,
        "shift": 0.0,
        "dev_ece_before": None,
        "dev_ece_after": None,
    }
    assert "temperature 1.00, shift 0.00." in (tmp_path / "model" / "README.md").read_text()


# Runs that are resumed


def _interrupt() -> None:
    raise KeyboardInterrupt


def test_resumed_run_has_the_same_calibration(folder: Path, tmp_path: Path) -> None:
    with before_step(5 * STEPS + 3, _interrupt), pytest.raises(KeyboardInterrupt):
        run(tmp_path / "resumed", config(epochs=EPOCHS), test=TEST)
    for checkpoint in (tmp_path / "resumed" / "checkpoints").iterdir():
        assert saved_calibration(checkpoint) == {"temperature": 1.0, "shift": 0.0}
    run(tmp_path / "resumed", config(epochs=EPOCHS), test=TEST, resume=True)
    assert_same(tmp_path / "resumed", folder)
    assert temperature_of(folder) != Temperature()


@pytest.mark.slow
def test_run_killed_after_calibration_calibrates_again(folder: Path, tmp_path: Path) -> None:
    killed(tmp_path / "model", "before the result is saved", training={"epochs": EPOCHS})
    assert temperature_of(tmp_path / "model") == temperature_of(folder) != Temperature()
    run(tmp_path / "model", config(epochs=EPOCHS), test=TEST, resume=True)
    assert_same(tmp_path / "model", folder)
