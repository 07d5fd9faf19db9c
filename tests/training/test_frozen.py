"""Pretrained weights are frozen in the first epochs, while the others have a higher rate."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from torch import nn

from fencepost.config import Config
from fencepost.encoder.scratch import Scratch
from fencepost.methods.model import Model
from fencepost.runtime.pytorch import save_model
from fencepost.training import find_idle_settings
from fencepost.training import trainer as trainer_module
from fencepost.training.trainer import Trainer
from tests.training.runs import LEARNT, STEPS, assert_same, before_step, config, run

FROZEN = {"frozen_epochs": 1, "epochs": 3, "encoder_learning_rate": 0.01}


@pytest.fixture(autouse=True)
def _pretrained(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat the weights of the scratch encoder as pretrained ones."""

    def weights(self: Scratch) -> Iterable[nn.Parameter]:
        return self.parameters()

    monkeypatch.setattr(Scratch, "pretrained_weights", weights)


def epochs_of(out: Path, settings: Config, **more: Any) -> list[dict[str, torch.Tensor]]:
    """Return a copy of the weights at the end of each epoch."""
    copies = []

    def saved(model: Model, folder: Any) -> None:
        copies.append({name: value.clone() for name, value in model.state_dict().items()})
        save_model(model, folder)

    with patch.object(trainer_module, "save_model", saved):
        run(out, settings, dev=False, **more)
    return copies[: settings.training.epochs]


def compare_weights(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> dict[bool, set[bool]]:
    """Return whether the pretrained (True) and the other (False) weights have changed."""
    differences: dict[bool, set[bool]] = {True: set(), False: set()}
    for name, value in one.items():
        differences[name.startswith("encoder.embedder.")].add(not torch.equal(value, other[name]))
    return differences


def test_pretrained_weights_change_only_after_the_frozen_epochs(tmp_path: Path) -> None:
    torch.manual_seed(1)
    first, second, third = epochs_of(tmp_path / "one", config(**FROZEN | {"frozen_epochs": 2}))
    assert compare_weights(first, second) == {True: {False}, False: {True}}
    assert compare_weights(second, third) == {True: {True}, False: {True}}


def test_frozen_weights_have_no_gradient(tmp_path: Path) -> None:
    states: list[bool] = []
    loss = Trainer.compute_loss

    def noted(self: Trainer, *args: Any) -> Any:
        states.append(any(weight.requires_grad for weight in self.model.encoder.pretrained_weights()))
        return loss(self, *args)

    with patch.object(Trainer, "compute_loss", noted):
        run(tmp_path / "model", config(**FROZEN), dev=False)
    assert states == [False] * STEPS + [True] * 2 * STEPS


def test_permanently_frozen_weights_stay_frozen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build = Model.build

    def half_frozen(*args: Any) -> Model:
        model = build(*args)
        next(iter(model.encoder.pretrained_weights())).requires_grad_(requires_grad=False)
        return model

    monkeypatch.setattr(Model, "build", half_frozen)
    outcome = run(tmp_path / "model", config(**FROZEN), dev=False)
    learn = [weight.requires_grad for weight in outcome.model.encoder.pretrained_weights()]
    assert learn[0] is False
    assert all(learn[1:])


@pytest.mark.parametrize("schedule", ["linear", "cosine", "constant"])
def test_frozen_epochs_have_their_own_learning_rates(schedule: str, tmp_path: Path) -> None:
    """In the frozen epochs 0 for the encoder and a multiple for the head, then the usual schedule."""

    def rates(name: str, **changes: Any) -> list[tuple[float, float]]:
        pairs: list[tuple[float, float]] = []
        step = torch.optim.AdamW.step

        def noted(self: torch.optim.AdamW, *args: Any, **kwargs: Any) -> Any:
            pairs.append((self.param_groups[0]["lr"], self.param_groups[2]["lr"]))
            return step(self, *args, **kwargs)

        with patch.object(torch.optim.AdamW, "step", noted):
            settings = FROZEN | {"schedule": schedule, "encoder_learning_rate": 0.001} | changes
            run(tmp_path / name, config(**settings), dev=False)
        return pairs

    usual = rates("usual", frozen_epochs=0)
    assert len(usual) == 3 * STEPS
    for factor in (2.0, 1.5):
        expected = [
            (0.0, factor * head) if step < STEPS else (encoder, head)
            for step, (encoder, head) in enumerate(usual)
        ]
        pairs = rates(f"frozen {factor}", frozen_rate=factor)
        assert pairs == [pytest.approx(pair) for pair in expected]


@pytest.mark.parametrize("step", [pytest.param(STEPS // 2 + STEPS, marks=pytest.mark.slow), STEPS + 1])
def test_resumed_run_unfreezes_at_the_same_step(step: int, tmp_path: Path) -> None:
    """Interrupted in the middle of the frozen epochs, and at the end of the first."""

    def interrupt() -> None:
        raise KeyboardInterrupt

    settings = config(**FROZEN | {"frozen_epochs": 2, "epochs": 4})
    with before_step(step, interrupt), pytest.raises(KeyboardInterrupt):
        run(tmp_path / "resumed", settings)
    run(tmp_path / "resumed", settings, resume=True)
    run(tmp_path / "undisturbed", settings)
    assert_same(tmp_path / "resumed", tmp_path / "undisturbed")


def test_weights_can_be_frozen_in_all_epochs(tmp_path: Path) -> None:
    first, *_, last = epochs_of(tmp_path / "model", config(**FROZEN | {"frozen_epochs": 9}))
    assert compare_weights(first, last) == {True: {False}, False: {True}}


def test_returned_model_has_no_frozen_weights(tmp_path: Path) -> None:
    outcome = run(tmp_path / "model", config(**FROZEN | {"frozen_epochs": 9}), dev=False)
    assert all(weight.requires_grad for weight in outcome.model.parameters())


def test_reports_frozen_settings_without_effect() -> None:
    messages = list(find_idle_settings(config(frozen_epochs=2), LEARNT, None))
    assert messages == ["training.frozen_epochs has no effect: the encoder scratch has no pretrained weights"]
    assert not list(find_idle_settings(config(), LEARNT, None))
    messages = list(find_idle_settings(config(frozen_rate=3), LEARNT, None))
    assert messages == ["training.frozen_rate has no effect: training.frozen_epochs is 0"]
    never = config({"encoder": {"name": "minilm"}}, epochs=2, frozen_epochs=2)
    messages = [one for one in find_idle_settings(never, LEARNT, None) if "frozen" in one]
    assert messages == [
        "training.frozen_epochs is not below training.epochs: the pretrained weights are never trained"
    ]
