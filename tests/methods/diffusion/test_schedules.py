"""How noise is added and removed, compared with the diffusers library and with values by hand."""

from __future__ import annotations

import itertools
import math
import os
import warnings

import numpy as np
import pytest
import torch

from fencepost.methods.diffusion import process
from fencepost.methods.diffusion.process import compute_sampling_times, take_ddim_step
from fencepost.methods.diffusion.settings import DiffusionPredict
from tests.methods.diffusion.cases import decoder_of, method_of, predict_of, sampled, words_of
from tests.methods.diffusion.slow import slow_alpha_bar, slow_move, slow_times


def compute_alpha_bar(schedule: str, times: int) -> torch.Tensor:
    return torch.from_numpy(process.compute_alpha_bar(schedule, times))


def draw_noise(predict: DiffusionPredict, length: int, steps: int) -> torch.Tensor:
    return torch.from_numpy(process.draw_noise(predict, length, steps))


@pytest.fixture(scope="module", name="Scheduler")
def scheduler():
    """Return the class of diffusers; warnings of its import do not matter, and it needs no network."""
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("ignore")
        patch.setitem(os.environ, "HF_HUB_OFFLINE", "1")
        return pytest.importorskip("diffusers").DDIMScheduler


NAMES = {"cosine": "squaredcos_cap_v2", "linear": "linear"}

schedules = pytest.mark.parametrize("schedule", NAMES)


def theirs(scheduler, schedule: str, times: int = 1000):
    return scheduler(
        num_train_timesteps=times,
        beta_start=1e-4,
        beta_end=0.02,
        beta_schedule=NAMES[schedule],
        prediction_type="sample",
        clip_sample=False,
        timestep_spacing="trailing",
    )


@schedules
@pytest.mark.parametrize("times", [2, 10, 1000, 1500])
def test_alpha_bar_equals_that_of_diffusers(Scheduler, schedule, times) -> None:  # noqa: N803
    values = compute_alpha_bar(schedule, times)
    assert values.shape == (times,)
    alpha_bar = theirs(Scheduler, schedule, times).alphas_cumprod
    torch.testing.assert_close(values.float(), alpha_bar, rtol=0, atol=1e-6)


@schedules
@pytest.mark.parametrize("times", [2, 3, 7, 200, 1000, 4000])
def test_alpha_bar_is_the_product_of_its_definition(schedule: str, times: int) -> None:
    """Even where it is almost 0."""
    values = compute_alpha_bar(schedule, times)
    torch.testing.assert_close(
        values, torch.tensor(slow_alpha_bar(schedule, times)).double(), rtol=1e-5, atol=1e-30
    )
    assert (values.diff() < 0).all()
    assert ((values > 0) & (values < 1)).all()


@pytest.mark.parametrize(
    ("schedule", "time", "expected"),
    [
        # f(t) = cos^2((t/1000 + 0.008) / 1.008 * pi/2): f(1)/f(0), f(500)/f(0), and f(999)/f(0) / 1000
        ("cosine", 0, 0.9999587),
        ("cosine", 499, 0.4938436),
        ("cosine", 998, 2.428767e-06),
        ("cosine", 999, 2.428767e-09),
        ("linear", 0, 0.9999),
        ("linear", 1, 0.9999 * (1 - 1e-4 - 0.0199 / 999)),
        ("linear", 999, 4.035830e-05),
    ],
)
def test_alpha_bar_equals_the_values_by_hand(schedule: str, time: int, expected: float) -> None:
    assert compute_alpha_bar(schedule, 1000)[time].item() == pytest.approx(expected, rel=1e-6, abs=0)


def test_method_and_decoder_have_the_schedule() -> None:
    for schedule in NAMES:
        method = method_of(schedule=schedule, times=50)
        expected = torch.tensor(slow_alpha_bar(schedule, 50)).double()
        torch.testing.assert_close(method.alpha_bar, expected)
        torch.testing.assert_close(torch.tensor(decoder_of(method).alpha_bar).double(), expected)
        assert "alpha_bar" not in method.state_dict()


@pytest.mark.parametrize("steps", [1, 2, 4, 5, 8, 10, 20, 25, 50, 100, 125, 200, 250, 500, 1000])
def test_times_equal_those_of_diffusers(Scheduler, steps: int) -> None:  # noqa: N803
    scheduler = theirs(Scheduler, "cosine")
    scheduler.set_timesteps(steps)
    assert compute_sampling_times(1000, steps) == scheduler.timesteps.tolist()


def test_times_equal_the_values_by_hand() -> None:
    assert compute_sampling_times(1000, 5) == [999, 799, 599, 399, 199]
    assert compute_sampling_times(1000, 1) == [999]
    assert compute_sampling_times(1000, 3) == [999, 666, 332]
    assert compute_sampling_times(4, 4) == [3, 2, 1, 0]
    assert compute_sampling_times(4, 9) == [3, 2, 1, 0]  # each step is used once


def test_times_decrease_in_even_steps() -> None:
    for times in (2, 3, 17, 100, 999):
        for steps in range(1, times + 3):
            numbers = compute_sampling_times(times, steps)
            assert numbers[0] == times - 1
            assert numbers[-1] >= 0
            assert numbers == sorted(set(numbers), reverse=True)
            assert len(numbers) == min(steps, times)
            exact = [times - 1 - point * times / len(numbers) for point in range(len(numbers))]
            assert max(abs(a - b) for a, b in zip(numbers, exact, strict=True)) <= 0.5
    assert compute_sampling_times(1000, 7) == slow_times(1000, 7)


@schedules
@pytest.mark.parametrize("eta", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("steps", [2, 5, 10, 50])
def test_step_equals_that_of_diffusers(Scheduler, schedule, eta: float, steps: int) -> None:  # noqa: N803
    """This also holds in single precision if the schedule has double precision."""
    scheduler = theirs(Scheduler, schedule)
    scheduler.alphas_cumprod = torch.tensor(slow_alpha_bar(schedule, 1000), dtype=torch.float64)
    scheduler.set_timesteps(steps)
    generator = torch.Generator().manual_seed(steps)
    noisy = torch.randn(3, 1, 7, 2, generator=generator, dtype=torch.float64)
    times = compute_sampling_times(1000, steps)
    for time, then in itertools.pairwise(times):
        clean, fresh = torch.randn(2, *noisy.shape, generator=generator, dtype=torch.float64).clamp(-1, 1)
        step = scheduler.step(clean, time, noisy, eta=eta, variance_noise=fresh if eta else None)
        alpha_bar, next_alpha_bar = scheduler.alphas_cumprod[[time, then]].tolist()
        sample = take_ddim_step(noisy, clean, alpha_bar, next_alpha_bar, eta, fresh)
        torch.testing.assert_close(sample, step.prev_sample, rtol=0, atol=1e-9)
        single = take_ddim_step(
            noisy.float(), clean.float(), alpha_bar, next_alpha_bar, eta, fresh.float()
        ).double()
        torch.testing.assert_close(single, step.prev_sample, rtol=0, atol=1e-6)
        noisy = sample


def test_step_equals_the_value_by_hand() -> None:
    """A step from 0.8 with alpha-bar 0.25 to alpha-bar 0.5, towards 0.2."""
    numbers = [*(torch.tensor(number).double() for number in (0.8, 0.2)), 0.25, 0.5]
    noise = (0.8 - 0.5 * 0.2) / math.sqrt(0.75)
    expected = math.sqrt(0.5) * 0.2 + math.sqrt(0.5) * noise
    assert take_ddim_step(*numbers, 0.0, torch.tensor(9.0)).item() == pytest.approx(expected, rel=1e-6)
    variance = 0.5 / 0.75 * (1 - 0.25 / 0.5)  # that of q(x_s | x_t, x_0): 1/3
    expected = math.sqrt(0.5) * 0.2 + math.sqrt(0.5 - variance) * noise + math.sqrt(variance) * 0.7
    assert take_ddim_step(*numbers, 1.0, torch.tensor(0.7)).item() == pytest.approx(expected, rel=1e-6)
    for eta in (0.0, 0.4, 1.0):
        number = take_ddim_step(*numbers, eta, torch.tensor(0.7)).item()
        assert number == pytest.approx(slow_move(0.8, 0.2, 0.25, 0.5, eta, 0.7), rel=1e-6)


def test_step_with_eta_0_keeps_the_noise() -> None:
    """If x_0 is predicted, x_t moves along the curve on which it was noised (Eq. 4)."""
    alpha_bar = compute_alpha_bar("cosine", 1000)
    clean, noise = torch.randn(2, 50, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    noised = [at.sqrt() * clean + (1 - at).sqrt() * noise for at in alpha_bar]
    for time, then in ((999, 799), (799, 1), (1, 0)):
        moved = take_ddim_step(
            noised[time], clean, alpha_bar[time].item(), alpha_bar[then].item(), 0.0, torch.zeros(50)
        )
        torch.testing.assert_close(moved, noised[then])


@schedules
@pytest.mark.parametrize("eta", [0.0, 1.0])
@pytest.mark.parametrize("times", [2, 3, 200, 1000, 20_000])
def test_every_step_is_finite(schedule: str, eta: float, times: int) -> None:
    """Even if almost no signal is left."""
    alpha_bar = compute_alpha_bar(schedule, times).tolist()
    one = torch.ones(3)
    for steps in (2, 3, 5, 50):
        points = compute_sampling_times(times, steps)
        for time, then in itertools.pairwise(points):
            numbers = take_ddim_step(one, -one, alpha_bar[time], alpha_bar[then], eta, one)
            assert numbers.isfinite().all(), (time, then)


def test_noise_depends_only_on_length_and_seed() -> None:
    noise = draw_noise(predict_of(spans=400), 7, 5)
    assert noise.shape == (1, 400, 2)
    assert noise.dtype == torch.float32
    assert torch.equal(noise, draw_noise(predict_of(spans=400), 7, 9))
    expected = np.random.default_rng((0, 7)).standard_normal((400, 2), dtype=np.float32)
    assert torch.equal(noise[0], torch.from_numpy(expected))
    others = [
        draw_noise(predict_of(spans=400), 8, 5),
        draw_noise(predict_of(spans=400, seed=1), 7, 5),
    ]
    for one, other in ((noise, others[0]), (noise, others[1]), (others[0], others[1])):
        assert (one != other).float().mean() > 0.99
    assert abs(noise.mean()) < 5 / math.sqrt(800)
    assert abs(noise.var() - 1) < 5 * math.sqrt(2 / 800)


def test_number_of_spans_does_not_change_the_first_noise() -> None:
    for eta in (0.0, 1.0):
        few, many = (draw_noise(predict_of(spans=spans, eta=eta), 7, 5)[0] for spans in (3, 60))
        assert torch.equal(few, many[:3])


def test_each_step_has_its_own_fresh_noise() -> None:
    noise = draw_noise(predict_of(spans=50, eta=0.5), 7, 4)
    assert noise.shape == (4, 50, 2)
    assert len({row.sum().item() for row in noise}) == 4
    assert torch.equal(noise[:1], draw_noise(predict_of(spans=50), 7, 4))
    assert torch.equal(noise[:2], draw_noise(predict_of(spans=50, eta=0.1), 7, 2))


@torch.no_grad()
def test_number_of_steps_is_limited_to_the_times() -> None:
    words = words_of([5, 3])
    for eta in (0.0, 1.0):
        many = sampled(method_of(times=4), words, steps=9, eta=eta)
        all_of_them = sampled(method_of(times=4), words, steps=4, eta=eta)
        assert torch.equal(many.types, all_of_them.types)
