"""The loss along a direction, compared with simple loops; the model must not change."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch

from fencepost.analysis.landscape import Losses, analyze_landscape, compute_losses, make_points
from fencepost.data.entity import Sentence
from fencepost.errors import UsageError
from fencepost.methods.model import Model
from tests.analysis.files import assert_labelled, legend_of, lines_of
from tests.methods.running import loss_of
from tests.runtime import models

DATA = {"train": models.NESTED, "dev": [*models.NESTED[1:], Sentence([])]}
PLACES = [-1.0, -0.25, 0.0, 0.25, 1.0]
State = dict[str, torch.Tensor]


@pytest.fixture(params=models.METHODS, scope="module")
def model(request: pytest.FixtureRequest) -> Model:
    """Model with dropout, so that a test fails if it is on."""
    return models.random_model(request.param, method={"dropout": 0.4})


@pytest.fixture(scope="module")
def plain() -> Model:
    return models.random_model("boundary-smoothing", method={"dropout": 0.4})


def state(model: Model) -> State:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def assert_untouched(model: Model, before: State) -> None:
    after = model.state_dict()
    assert after.keys() == before.keys()
    for name, tensor in before.items():
        assert tensor.numpy().tobytes() == after[name].numpy().tobytes(), name  # including -0.0 and NaN


# Each method


def test_loss_at_0_is_that_of_the_unchanged_model(model: Model) -> None:
    before = state(model)
    losses = compute_losses(model, DATA, PLACES)
    assert_untouched(model, before)
    assert not model.training
    assert list(losses) == ["train", "dev"]
    for name, sentences in DATA.items():
        assert len(losses[name]) == len(PLACES)
        assert losses[name][2] == pytest.approx(loss_of(model, sentences), rel=1e-5)
        assert len(set(losses[name])) == len(PLACES)  # otherwise nothing has moved
        assert np.isfinite(losses[name]).all()


def test_same_seed_gives_the_same_curve(model: Model) -> None:
    """The global random state and the training mode have no effect."""
    torch.manual_seed(1)
    once = compute_losses(model, DATA, PLACES, seed=3)
    torch.manual_seed(2)
    model.train()
    try:
        assert compute_losses(model, DATA, PLACES, seed=3) == once
        assert model.training
    finally:
        model.eval()
    other = compute_losses(model, DATA, PLACES, seed=4)
    assert other["train"][0] != once["train"][0]
    assert other["train"][2] == once["train"][2]  # at the model itself, the seed has no effect


def test_loss_at_a_point_does_not_depend_on_other_points(model: Model) -> None:
    whole = compute_losses(model, DATA, PLACES)
    alone = compute_losses(model, {"dev": DATA["dev"]}, [0.25])
    assert alone["dev"] == [whole["dev"][3]]
    twice = compute_losses(model, DATA, [0.25, 0.25, 0.0, 0.0])
    assert twice["dev"][0] == twice["dev"][1]
    assert twice["dev"][2] == twice["dev"][3]


# One method


def seen_at(model: Model, places: list[float], monkeypatch: pytest.MonkeyPatch) -> list[list[torch.Tensor]]:
    """Return the weights with which the loss is computed at each point."""
    weights = []
    forward = Model.forward

    def watched(self: Model, batch: Any) -> Any:
        assert not any(module.training for module in self.modules())  # dropout is off
        assert not torch.is_grad_enabled()
        weights.append([weight.detach().clone() for weight in self.parameters()])
        return forward(self, batch)

    with monkeypatch.context() as patch:
        patch.setattr(Model, "forward", watched)
        compute_losses(model, {"train": models.NESTED}, places)
    return weights


def test_direction_has_the_norm_of_each_weight(plain: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    own = [weight.detach().clone() for weight in plain.parameters()]
    back, half, here, forth = seen_at(plain, [-1.0, 0.5, 0.0, 1.0], monkeypatch)
    angles = []
    for weight, *moved in zip(own, back, half, here, forth, strict=True):
        backwards, halfway, nowhere, forwards = (one - weight for one in moved)
        assert forwards.norm().item() == pytest.approx(weight.norm().item(), rel=1e-4)
        assert torch.allclose(backwards, -forwards, atol=1e-5)
        assert torch.allclose(halfway, forwards / 2, atol=1e-5)
        assert not nowhere.any()
        if weight.numel() > 50 and weight.norm() > 0:
            angles.append((forwards.flatten() @ weight.flatten() / weight.norm() ** 2).item())
            numbers = forwards.flatten() / forwards.std()
            assert abs(numbers.mean().item()) < 4 / len(numbers) ** 0.5
    assert max(map(abs, angles)) < 0.5  # the direction is random


def test_zero_weights_stay_0(monkeypatch: pytest.MonkeyPatch) -> None:
    model = models.random_model("boundary-smoothing")
    with torch.no_grad():
        [*_, last] = model.parameters()
        last.zero_()
    [moved] = seen_at(model, [1.0], monkeypatch)
    assert not moved[-1].any()


def test_losses_equal_a_simple_loop(plain: Model) -> None:
    """The loop goes sentence by sentence, since the loss of this method is a mean over sentences."""
    before = state(plain)
    generator = torch.Generator().manual_seed(7)
    direction = []
    for name, weight in plain.named_parameters():
        step = torch.randn(weight.shape, generator=generator)
        if name in ("encoder.embedder.words.weight", "encoder.embedder.characters.embedding.weight"):
            step[0] = 0  # padding; otherwise a loss would depend on the batch
        direction.append(step / step.norm() * weight.norm())
    expected = []
    for place in PLACES:
        plain.load_state_dict(before)
        with torch.no_grad():
            for weight, step in zip(plain.parameters(), direction, strict=True):
                weight += place * step
            alone = [plain(plain.collate([sentence]))["loss"].item() for sentence in models.NESTED]
        expected.append(sum(alone) / len(alone))
    plain.load_state_dict(before)
    losses = compute_losses(plain, DATA, PLACES, seed=7)
    assert losses["train"] == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("training", [False, True])
def test_errors_leave_the_model_unchanged(plain: Model, error: type[BaseException], training: bool) -> None:
    before = state(plain)
    plain.train(training)
    chance = torch.random.get_rng_state()
    count = 0

    def advance() -> None:
        nonlocal count
        count += 1
        if count == 2:
            raise error

    try:
        with pytest.raises(error):
            compute_losses(plain, DATA, PLACES, advance=advance)
        assert plain.training is training
    finally:
        plain.eval()
    assert count == 2
    assert_untouched(plain, before)
    assert torch.equal(torch.random.get_rng_state(), chance)


def test_mode_of_each_module_is_restored(plain: Model) -> None:
    plain.train()
    plain.encoder.eval()
    try:
        modes = [module.training for module in plain.modules()]
        compute_losses(plain, DATA, [0.0])
        assert [module.training for module in plain.modules()] == modes
    finally:
        plain.eval()


def test_global_random_state_and_gradients_are_unchanged(model: Model) -> None:
    chance = torch.random.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002
    compute_losses(model, DATA, [0.5])
    assert torch.equal(torch.random.get_rng_state(), chance[0])
    assert random.getstate() == chance[1]
    assert np.random.get_state()[1].tolist() == chance[2]  # noqa: NPY002
    assert torch.is_grad_enabled()
    assert all(weight.requires_grad and weight.grad is None for weight in model.parameters())


def test_progress_is_reported_once_per_point(plain: Model) -> None:
    calls: list[int] = []
    compute_losses(plain, DATA, PLACES, advance=lambda: calls.append(1))
    assert len(calls) == len(PLACES)


@pytest.mark.parametrize("sentences", [[], [Sentence([])]])
def test_refuses_data_without_sentences(plain: Model, sentences: list[Sentence]) -> None:
    with pytest.raises(UsageError, match="no sentences to compute a loss on"):
        compute_losses(plain, {"train": models.NESTED, "dev": sentences}, PLACES)


def test_loss_without_entities_is_finite(model: Model) -> None:
    some = [Sentence(["Ada", "met", "nobody"])]
    assert np.isfinite(compute_losses(model, {"a": some}, PLACES)["a"]).all()


# Points and figure


@pytest.mark.parametrize("count", [3, 5, 51, 101, 7, 23])
def test_points_are_evenly_spaced_and_include_0(count: int) -> None:
    points = make_points(count)
    assert points == pytest.approx(np.linspace(-1, 1, count).tolist())
    assert (points[0], points[count // 2], points[-1]) == (-1.0, 0.0, 1.0)
    assert points == [-place for place in reversed(points)]


@pytest.mark.parametrize("count", [0, 1, 2, 4, 50, -3])
def test_refuses_even_or_too_few_points(count: int) -> None:
    with pytest.raises(UsageError, match="must be odd and at least 3"):
        make_points(count)


LOSSES: dict[str, Losses] = {
    "a_$b$": {"train": [9.0, 2.0, 1.0, 2.0, 7.0], "_dev": [8.0, 3.0, 2.0, 3.0, 6.0]},
    "b": {"train": [1.0] * 5, "_dev": [1.0] * 5},
}


def test_table_and_summary_equal_the_values_by_hand() -> None:
    result = analyze_landscape(LOSSES, PLACES, {"seed": 1})
    assert result.content == {"seed": 1, "points": PLACES, "models": LOSSES}
    assert len(result.table.rows) == 20
    assert result.table.rows[1] == ("a_$b$", "train", -0.25, 2.0)
    assert result.summary is not None
    # nothing but the middle within 0.2; three points within 0.5, (2 + 1 + 2) / 3 - 1; all, 21 / 5 - 1
    assert result.summary.rows[0] == ("a_$b$", "train", 1.0, None, pytest.approx(2 / 3), pytest.approx(3.2))
    assert result.summary.rows[2] == ("b", "train", 1.0, None, 0.0, 0.0)


def test_figure_shows_the_numbers() -> None:
    figure = analyze_landscape(LOSSES, PLACES, {}).figure
    assert_labelled(figure)
    first, second = figure.axes
    assert lines_of(first)["train"] == (PLACES, LOSSES["a_$b$"]["train"])
    assert legend_of(second) == ["train", " _dev"]
    assert first.get_title() == r"a_\$b\$"
    assert first.get_yscale() == second.get_yscale() == "log"
    assert first.get_ylim() == second.get_ylim()
