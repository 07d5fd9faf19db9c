"""The threshold that is fitted on development data."""

from __future__ import annotations

from pathlib import Path

import pytest

import fencepost
from fencepost.errors import UsageError
from fencepost.evaluation import Temperature, evaluate, fit_threshold, match
from tests.training.runs import DEV, config, run


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    return run(tmp_path_factory.mktemp("thresholds") / "model", config(epochs=4, batch_size=4))


def f1_at(outcome, threshold: float) -> float:
    """Return the F1 of the model with another threshold."""
    model = fencepost.training.scoring.make_recogniser(outcome.model).with_options(threshold=threshold)
    return evaluate(DEV, model.predict(DEV)).overall.f1


def test_threshold_is_fitted_to_the_candidates_of_the_development_data(outcome, monkeypatch) -> None:
    """Before they are calibrated."""
    best = outcome.best
    assert best["dev_f1"] == pytest.approx(f1_at(outcome, best["dev_threshold"]))
    assert best["dev_f1_default_threshold"] == pytest.approx(f1_at(outcome, 0.4))
    monkeypatch.setattr(outcome.model, "calibration", Temperature())
    model = fencepost.training.scoring.make_recogniser(outcome.model).with_options(threshold=0.02)
    assert best["dev_threshold"] == pytest.approx(fit_threshold(match(DEV, model.predict(DEV))))


def test_fitted_threshold_is_set_for_each_type(outcome) -> None:
    threshold = outcome.model.config.predict.threshold
    assert threshold == dict.fromkeys(outcome.model.types, outcome.best["dev_threshold"])


def test_explicit_threshold_is_not_fitted(tmp_path: Path) -> None:
    outcome = run(tmp_path / "model", config({"predict": {"threshold": 0.25}}, epochs=1))
    assert outcome.model.config.predict.threshold == 0.25
    assert "dev_threshold" not in outcome.best


def test_threshold_can_be_set_for_one_type(outcome) -> None:
    """A type that does not exist is refused."""
    types = outcome.model.types
    model = fencepost.training.scoring.make_recogniser(outcome.model)
    recogniser = model.with_options(threshold={types[0]: 1.0})
    assert not [e for s in recogniser.predict(DEV) for e in s.entities if e.type == types[0] and e.score < 1]
    others = [[e for e in s.entities if e.type != types[0]] for s in model.predict(DEV)]
    assert sum(map(len, others)) > 0
    with pytest.raises(UsageError, match=r"predict\.threshold: there is no type 'nothing'; there are "):
        model.with_options(threshold={"nothing": 0.5})


def test_refuses_a_threshold_for_an_unknown_type(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"predict\.threshold: there is no type 'nothing'"):
        run(tmp_path / "model", config({"predict": {"threshold": {"nothing": 0.5}}}, epochs=1))
