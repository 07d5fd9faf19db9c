"""From entities to noisy spans: how often each entity occurs, and how much noise is added."""

from __future__ import annotations

import math
from collections import Counter

import pytest
import torch
from torch import Tensor

from fencepost.methods.diffusion.network import Diffusion
from fencepost.methods.diffusion.process import decode_spans
from tests.methods.diffusion.cases import BATCH, LENGTHS, Ends, Key, gold_of, method_of, noised, words_of
from tests.methods.diffusion.slow import slow_alpha_bar, slow_numbers


def without_noise(**settings) -> Diffusion:
    """Return a method without noise: the network sees the spans to which noise would be added."""
    method = method_of(**settings).train()
    method.alpha_bar.fill_(1.0)
    return method


def ends_of(keys: list[Key]) -> list[Ends]:
    return [(start, end - 1) for start, end, _ in keys]


def spans_in(left: Tensor, right: Tensor, index: int, draw: int = 0) -> list[Ends]:
    return list(zip(left[index, draw].tolist(), right[index, draw].tolist(), strict=True))


@pytest.mark.parametrize("spans", [1, 3, 5, 8, 14])
@pytest.mark.parametrize("coordinates", ["left-width", "left-right"])
def test_each_entity_is_repeated_equally_often(monkeypatch, spans: int, coordinates: str) -> None:
    """Each at least once; a sentence with more entities than `spans` has more spans."""
    method = without_noise(spans=spans, draws=4, coordinates=coordinates)
    torch.manual_seed(spans)
    for _ in range(10):
        numbers, left, right, *_ = noised(monkeypatch, method, words_of(LENGTHS), BATCH)
        there = max(spans, 5)
        assert left.shape == right.shape == (5, 4, there)
        for index, keys in enumerate(BATCH):
            for draw in range(4):
                counts = Counter(spans_in(left, right, index, draw))
                # two types of one span are two entities
                expected = Counter(ends_of(keys) or [(0, LENGTHS[index] - 1)])
                assert counts.keys() == expected.keys()
                entities = sum(expected.values())
                least, more = divmod(there, entities)
                for span, count in counts.items():
                    assert least * expected[span] <= count <= (least + bool(more)) * expected[span]
                assert sum(counts.values()) == there
        row = torch.tensor(slow_numbers((0, 3), 4, method.settings))
        torch.testing.assert_close(numbers[3].float(), row.expand(4, there, 2))


def test_single_entity_fills_all_spans(monkeypatch) -> None:
    sample = noised(monkeypatch, without_noise(spans=6), words_of([9, 9]), [[(2, 5, 1)], [(8, 9, 0)]])
    assert spans_in(sample.left, sample.right, 0) == [(2, 4)] * 6
    assert spans_in(sample.left, sample.right, 1) == [(8, 8)] * 6


def test_extra_repetitions_and_order_are_random(monkeypatch) -> None:
    """Three entities, eight spans: one of the three occurs only twice."""
    method = without_noise(spans=8, draws=300)
    torch.manual_seed(0)
    keys: list[Key] = [(0, 1, 0), (2, 4, 1), (5, 9, 2)]
    sample = noised(monkeypatch, method, words_of([9, 3]), [keys, [(1, 2, 0)]])
    rarest: Counter[Ends] = Counter()
    places: Counter[tuple[int, Ends]] = Counter()
    for draw in range(300):
        spans = spans_in(sample.left, sample.right, 0, draw)
        rarest[min(set(spans), key=spans.count)] += 1
        places.update(enumerate(spans))
    deviation = math.sqrt(300 * 2 / 9)
    for span in ends_of(keys):
        assert abs(rarest[span] - 100) < 5 * deviation
        for place in range(8):
            assert abs(places[place, span] - 100) < 5 * deviation


def test_draws_of_a_step_differ(monkeypatch) -> None:
    """They have other repetitions, other noise and other times."""
    torch.manual_seed(0)
    method = method_of(spans=8, draws=20).train()
    _, left, _, time, _ = noised(monkeypatch, method, words_of(LENGTHS), BATCH)
    assert time.shape == (5, 20)
    assert all(len(set(row.tolist())) > 15 for row in time)
    assert len({tuple(row) for row in left[2].tolist()}) > 15
    exact = noised(monkeypatch, without_noise(spans=8, draws=20), words_of(LENGTHS), BATCH)
    assert len({tuple(row) for row in exact.left[2].tolist()}) > 15


@pytest.mark.parametrize("spans", [2, 5, 9])
@pytest.mark.parametrize("scale", [1.0, 2.5])
def test_random_expansion_has_each_entity_once(monkeypatch, spans: int, scale: float) -> None:
    method = without_noise(spans=spans, draws=3, expansion="random", scale=scale)
    torch.manual_seed(1)
    for _ in range(5):
        numbers = noised(monkeypatch, method, words_of(LENGTHS), BATCH).numbers
        assert numbers.shape == (5, 3, max(spans, 5), 2)
        assert numbers.abs().max() <= scale
        for index, keys in enumerate(BATCH):
            ends = ends_of(keys) or [(0, LENGTHS[index] - 1)]
            expected = Counter(slow_numbers(span, LENGTHS[index], method.settings) for span in ends)
            for draw in range(3):
                rows = numbers[index, draw].tolist()
                exact = [
                    pair
                    for pair in expected
                    for row in rows
                    if math.dist(row, pair) < 1e-5 * method.settings.scale
                ]
                assert Counter(exact) == expected


def test_random_spans_have_the_expected_mean_and_deviation(monkeypatch) -> None:
    """A half and a sixth of the sentence; values outside it, at three deviations, are cut off."""
    method = without_noise(spans=41, draws=200, expansion="random", scale=2.0)
    torch.manual_seed(2)
    sample = noised(monkeypatch, method, words_of([30, 20]), [[(3, 5, 0)], []])
    for index, own in ((0, (3, 4)), (1, (0, 19))):
        numbers = sample.numbers[index].double()
        of_entity = torch.tensor(slow_numbers(own, [30, 20][index], method.settings)).double()
        is_entity = (numbers - of_entity).norm(dim=2) < 1e-5
        assert is_entity.sum(dim=1).tolist() == [1] * 200
        shares = (numbers[~is_entity] / 2 + 1) / 2  # [8000, 2]
        assert shares.shape == (8000, 2)
        for column in shares.T:
            assert abs(column.mean() - 0.5) < 5 / 6 / math.sqrt(8000)
            assert abs(column.std() * 6 - 1) < 0.04
            assert column.min() >= 0
            assert column.max() <= 1
        assert abs(torch.corrcoef(shares.T)[0, 1]) < 5 / math.sqrt(8000)
        where = Counter(is_entity.long().argmax(dim=1).tolist())
        assert len(where) > 35  # an entity may be anywhere among them


@pytest.mark.parametrize("schedule", ["cosine", "linear"])
def test_noise_has_the_variance_of_its_time(monkeypatch, schedule: str) -> None:
    """Eq. 4 at each of five times; with one entity, the signal of each number is known."""
    method = method_of(schedule=schedule, times=5, spans=50, draws=60, scale=1.5).train()
    torch.manual_seed(3)
    lengths, keys = [20, 7, 1], [(4, 9, 0), (6, 7, 1), (0, 1, 0)]
    sample = noised(monkeypatch, method, words_of(lengths), [[key] for key in keys])
    alpha_bar = slow_alpha_bar(schedule, 5)
    last = torch.tensor(lengths)[:, None, None] - 1
    left, right = decode_spans(sample.numbers, last, method.settings)
    assert torch.equal(left, sample.left)
    assert torch.equal(right, sample.right)
    every = []
    for index, [ends] in enumerate(ends_of([key]) for key in keys):
        clean = torch.tensor(slow_numbers(ends, lengths[index], method.settings)).double()
        for time in range(5):
            numbers = sample.numbers[index][sample.time[index] == time].double()  # [draws, 50, 2]
            noise = (numbers - math.sqrt(alpha_bar[time]) * clean) / math.sqrt(1 - alpha_bar[time])
            assert len(noise) >= 3
            for column in noise.flatten(0, 1).T:
                count = len(column)
                assert abs(column.mean()) < 5 / math.sqrt(count)
                assert abs(column.var() - 1) < 5 * math.sqrt(2 / count)
            every.append(noise.flatten(0, 1))
    noise = torch.cat(every)
    assert len(noise) == 3 * 60 * 50
    assert abs(noise.mean()) < 5 / math.sqrt(2 * len(noise))
    assert abs(noise.var() - 1) < 5 / math.sqrt(len(noise))
    assert abs(torch.corrcoef(noise.T)[0, 1]) < 5 / math.sqrt(len(noise))


def test_times_are_equally_frequent(monkeypatch) -> None:
    method = method_of(times=6, spans=1, draws=200).train()
    torch.manual_seed(4)
    time = noised(monkeypatch, method, words_of([2] * 6), [[(0, 1, 0)]] * 6).time
    counts = Counter(time.flatten().tolist())
    assert counts.keys() == set(range(6))
    assert max(abs(count - 200) for count in counts.values()) < 5 * math.sqrt(1200 * 5 / 36)
    assert len({tuple(row) for row in time.tolist()}) == 6  # each sentence has its own


@pytest.mark.parametrize("expansion", ["repeat", "random"])
def test_evaluation_noise_is_deterministic(monkeypatch, expansion: str) -> None:
    method = method_of(expansion=expansion, spans=8, draws=2, dropout=0.3)
    words, gold = words_of(LENGTHS), gold_of(BATCH)
    state = torch.random.get_rng_state()
    losses = [sum(method.loss(method.score(words, gold), gold).values()).item() for _ in range(2)]
    assert losses[0] == losses[1]
    assert torch.equal(torch.random.get_rng_state(), state)
    first, second = (noised(monkeypatch, method, words, BATCH) for _ in range(2))
    assert torch.equal(first.numbers, second.numbers)


@pytest.mark.parametrize("expansion", ["repeat", "random"])
def test_training_noise_is_random(monkeypatch, expansion: str) -> None:
    method = method_of(expansion=expansion, spans=8).train()
    words, gold = words_of(LENGTHS), gold_of(BATCH)
    torch.manual_seed(5)
    first, second = (noised(monkeypatch, method, words, BATCH) for _ in range(2))
    assert (first.numbers != second.numbers).float().mean() > 0.99
    assert not torch.equal(first.time, second.time)
    losses = [sum(method.loss(method.score(words, gold), gold).values()).item() for _ in range(2)]
    assert losses[0] != losses[1]
    torch.manual_seed(5)
    assert torch.equal(noised(monkeypatch, method, words, BATCH).numbers, first.numbers)
