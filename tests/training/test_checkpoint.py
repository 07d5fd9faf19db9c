from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import torch
from torch import nn
from transformers import get_linear_schedule_with_warmup

from fencepost.training.checkpoint import (
    load_optimizer,
    load_random_state,
    save_optimizer,
    save_random_state,
)


def draw() -> list[float]:
    """Draw from every generator that a training run may use; those of Gaussians store a second number."""
    return [
        random.random(),  # noqa: S311
        random.gauss(0, 1),
        np.random.rand(),  # noqa: NPY002
        np.random.randn(),  # noqa: NPY002
        torch.rand(()).item(),
        torch.randn(()).item(),
    ]


def test_random_state_is_restored_for_each_process(tmp_path: Path) -> None:
    draw()
    save_random_state(tmp_path / "new", process=0)
    expected = [draw(), draw()]
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002
    torch.manual_seed(0)
    save_random_state(tmp_path / "new", process=1)
    load_random_state(tmp_path / "new", process=0)
    assert [draw(), draw()] == expected
    load_random_state(tmp_path / "new", process=1)
    other = [draw(), draw()]
    assert other != expected
    load_random_state(tmp_path / "new", process=1)
    load_random_state(tmp_path / "new", process=2)  # has no saved state
    assert [draw(), draw()] == other


class Learner:
    """A network with its optimiser and schedule; one weight never gets a gradient."""

    def __init__(self) -> None:
        torch.manual_seed(1)
        self.network = nn.ModuleDict({"used": nn.Linear(3, 2), "unused": nn.Linear(2, 2)})
        groups = [
            {"name": name, "lr": rate, "params": list(self.network[name].parameters())}
            for name, rate in (("used", 0.1), ("unused", 0.2))
        ]
        self.optimizer = torch.optim.AdamW(groups, fused=True)
        self.schedule = get_linear_schedule_with_warmup(self.optimizer, 2, 10)

    def step(self, seed: int) -> None:
        torch.manual_seed(seed)
        self.network["used"](torch.randn(4, 3)).square().sum().backward()
        self.optimizer.step()
        self.schedule.step()
        self.optimizer.zero_grad()


def test_optimiser_and_schedule_are_restored(tmp_path: Path) -> None:
    one, other = Learner(), Learner()
    for seed in range(4):
        one.step(seed)
    save_optimizer(tmp_path, one.optimizer, one.schedule)
    other.network.load_state_dict(one.network.state_dict())
    load_optimizer(tmp_path, other.optimizer, other.schedule)
    assert other.schedule.get_last_lr() == one.schedule.get_last_lr()
    for seed in range(4, 8):
        one.step(seed)
        other.step(seed)
    for name, weight in one.network.state_dict().items():
        assert torch.equal(weight, other.network.state_dict()[name])
    assert [group["lr"] for group in one.optimizer.param_groups] == [
        group["lr"] for group in other.optimizer.param_groups
    ]


def test_saves_only_safetensors_and_json(tmp_path: Path) -> None:
    learner = Learner()
    learner.step(1)
    save_optimizer(tmp_path, learner.optimizer, learner.schedule)
    save_random_state(tmp_path, process=0)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "optimizer.safetensors",
        "random-0.json",
        "schedule.json",
    ]
    saved = json.loads((tmp_path / "schedule.json").read_text())
    assert [group["name"] for group in saved["groups"]] == ["used", "unused"]
    assert saved["schedule"]["last_epoch"] == 1
