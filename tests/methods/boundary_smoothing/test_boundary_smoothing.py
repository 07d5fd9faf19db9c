"""Boundary smoothing, compared with slow loops that follow the formulas of the paper and SPEC."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from fencepost.data.entity import Entity, Sentence
from fencepost.encoder.encoder import Words
from fencepost.methods.boundary_smoothing import network as boundary_smoothing
from fencepost.methods.boundary_smoothing.decode import SpanDecoder
from fencepost.methods.boundary_smoothing.loss import make_targets, smooth
from fencepost.methods.boundary_smoothing.network import BoundarySmoothing, SpanScores
from fencepost.methods.boundary_smoothing.settings import BoundarySmoothingSettings
from fencepost.methods.candidates import Candidates
from fencepost.methods.decoder import is_span
from fencepost.methods.network import Gold
from fencepost.methods.settings import PredictSettings
from tests.methods.running import arrays_of, graphs_of
from tests.strategies import entities, nested_entities

torch.set_num_threads(1)

TYPES = ("A", "B", "C")
WIDTH = 5  # of word vectors


def gold_of(sentences: list[Sentence]) -> Gold:
    rows = [
        (index, start, end, TYPES.index(type_))
        for index, sentence in enumerate(sentences)
        for start, end, type_ in sorted({entity.key for entity in sentence.entities})
    ]
    return Gold.from_columns(torch.tensor(rows, dtype=torch.long).view(-1, 4))


def lengths_of(sentences: list[Sentence]) -> Tensor:
    return torch.tensor([len(sentence) for sentence in sentences])


def method_of(types: tuple[str, ...] = TYPES, **settings) -> BoundarySmoothing:
    """Return a small method with random weights in double precision."""
    torch.manual_seed(0)
    settings = {"size": 4, "width_size": 3, "widest": 3, "dropout": 0.0} | settings
    method = BoundarySmoothing(BoundarySmoothingSettings(**settings), WIDTH, types)
    with torch.no_grad():
        method.b.normal_()
        if method.settings.inside:
            method.word_scores.weight.normal_()
    return method.double().eval()


def words_of(lengths: list[int], seed: int = 0) -> Words:
    """Return random vectors, also for padding, which must have no effect."""
    generator = torch.Generator().manual_seed(seed)
    vectors = torch.randn(len(lengths), max(lengths), WIDTH, generator=generator, dtype=torch.float64)
    return Words(vectors, torch.tensor(lengths))


def scores_of(grid: Tensor, lengths: Tensor) -> SpanScores:
    """Return factors whose product is this grid `[B, C + 1, T, T]`."""
    batch, classes, length, _ = grid.shape
    return SpanScores(
        start=grid,
        start_bias=torch.zeros(batch, classes, length, 1, dtype=grid.dtype),
        end=torch.eye(length, dtype=grid.dtype).expand(batch, length, length),
        end_bias=None,
        width=torch.zeros(classes, 1, dtype=grid.dtype),
        lengths=lengths,
    )


def targets_of(method: BoundarySmoothing, gold: Gold, lengths: Tensor, length: int) -> Tensor:
    return make_targets(gold, lengths, length, len(method.types), method.settings)


@st.composite
def batches(draw) -> list[Sentence]:
    """Draw up to three sentences of different lengths, with entities that nest, cross and share spans."""
    sizes = draw(st.lists(st.integers(1, 7), min_size=1, max_size=3))
    return [Sentence(["w"] * size, draw(entities(size, st.sampled_from(TYPES)))) for size in sizes]


epsilons = st.sampled_from([0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9])
sizes = st.sampled_from([1, 2, 3])
alphas = st.sampled_from([0.0, 0.1, 0.5])


# Targets: section 3.2


def slow_mass(length: int, start: int, last: int, epsilon: float, size: int) -> np.ndarray:
    """Return the probability that one entity adds to each cell: `[T, T]`, start by last word."""
    mass = np.zeros((length, length))
    mass[start, last] += 1 - epsilon
    for distance in range(1, size + 1):
        cells = [
            (i, j)
            for i in range(start - distance, start + distance + 1)
            for j in range(last - distance, last + distance + 1)
            if abs(i - start) + abs(j - last) == distance
        ]
        assert len(cells) == 4 * distance
        for i, j in cells:
            if not 0 <= i <= j < length:
                i, j = start, last  # it goes back to the entity's own cell
            mass[i, j] += epsilon / (4 * distance * size)
    return mass


def slow_targets(sentence: Sentence, epsilon: float, size: int, alpha: float) -> np.ndarray:
    """`[C + 1, T, T]`."""
    length = len(sentence)
    targets = np.zeros((1 + len(TYPES), length, length))
    for start, end, type_ in {entity.key for entity in sentence.entities}:
        targets[1 + TYPES.index(type_)] += slow_mass(length, start, end - 1, epsilon, size)
    for i in range(length):
        for j in range(length):
            of_types = [min(1.0, mass) for mass in targets[1:, i, j]]
            if sum(of_types) > 1:
                of_types = [mass / sum(of_types) for mass in of_types]
            total = sum(of_types)
            targets[0, i, j] = 1 - total
            for number, mass in enumerate(of_types, start=1):
                targets[number, i, j] = (1 - alpha) * mass + alpha * total / len(TYPES)
    return targets


@given(batches(), epsilons, sizes, alphas)
def test_targets_equal_a_simple_loop(sentences, epsilon, size, alpha) -> None:
    method = method_of(epsilon=epsilon, smoothing_size=size, label_smoothing=alpha)
    lengths = lengths_of(sentences)
    longest = int(lengths.max())
    targets = targets_of(method, gold_of(sentences), lengths, longest).numpy()
    assert targets.shape == (len(sentences), 1 + len(TYPES), longest, longest)
    for sentence, of_sentence in zip(sentences, targets, strict=True):
        words = len(sentence)
        expected = slow_targets(sentence, epsilon, size, alpha)
        np.testing.assert_allclose(of_sentence[:, :words, :words], expected, atol=1e-6)
        assert (of_sentence[1:, words:] == 0).all()
        assert (of_sentence[1:, :, words:] == 0).all()


@given(batches(), epsilons, sizes, alphas)
def test_targets_are_probabilities(sentences, epsilon, size, alpha) -> None:
    method = method_of(epsilon=epsilon, smoothing_size=size, label_smoothing=alpha)
    lengths = lengths_of(sentences)
    targets = targets_of(method, gold_of(sentences), lengths, int(lengths.max()))
    assert (targets >= 0).all()
    assert (targets <= 1).all()
    torch.testing.assert_close(targets.sum(dim=1), torch.ones_like(targets[:, 0]))


@given(st.data(), epsilons, st.integers(1, 5))
def test_probabilities_of_an_entity_add_up_to_1(data, epsilon, size) -> None:
    length = data.draw(st.integers(1, 9))
    start = data.draw(st.integers(0, length - 1))
    end = data.draw(st.integers(start + 1, length))
    gold = Gold.from_columns(torch.tensor([[0, start, end, 1]]))
    mass = smooth(gold, torch.tensor([length]), length, len(TYPES), epsilon, size)
    assert math.isclose(mass.sum(), 1, rel_tol=1e-5)
    assert (mass[0, [0, 2]] == 0).all()
    assert (mass[0, 1].tril(-1) == 0).all()
    assert mass[0, 1, start, end - 1] >= 1 - epsilon - 1e-6


@given(batches())
def test_targets_with_epsilon_0_are_the_entities(sentences) -> None:
    lengths = lengths_of(sentences)
    mass = smooth(gold_of(sentences), lengths, int(lengths.max()), len(TYPES), 0.0, 2)
    ones = {(index, TYPES[type_], i, j + 1) for index, type_, i, j in mass.nonzero().tolist()}
    assert ones == {(index, e.type, e.start, e.end) for index, s in enumerate(sentences) for e in s.entities}
    assert set(mass.unique().tolist()) <= {0.0, 1.0}


# Figure 1: ten words, the entities (1, 2) and (3, 7) with inclusive ends, of different types. With
# epsilon 0.16 all shares are whole hundredths: 4 for each neighbour with D = 1; with D = 2 it is 2 at
# distance 1 and 1 at distance 2. Rows are starts, columns last words, a dot is 0 (or no span).
RED_1 = """
    .  .  4  .  .  .  .  .  .  .
    .  4 84  4  .  .  .  .  .  .
    .  .  4  .  .  .  .  .  .  .
    .  .  .  .  .  .  .  .  .  .
    .  .  .  .  .  .  .  .  .  .
    .  .  .  .  .  .  .  .  .  .
    .  .  .  .  .  .  .  .  .  .
    .  .  .  .  .  .  .  .  .  .
    .  .  .  .  .  .  .  .  .  .
    .  .  .  .  .  .  .  .  .  .
"""
# At distance 2 the cells (-1, 2), (3, 2), (1, 0) and (2, 1) are no spans: their 4 go back to (1, 2).
RED_2 = """
    .  1  2  1  .  .  .  .  .  .
    .  2 88  2  1  .  .  .  .  .
    .  .  2  1  .  .  .  .  .  .
    .  .  .  .  .  .  .  .  .  .
    .  .  .  .  .  .  .  .  .  .
    .  .  .  .  .  .  .  .  .  .
    .  .  .  .  .  .  .  .  .  .
    .  .  .  .  .  .  .  .  .  .
    .  .  .  .  .  .  .  .  .  .
    .  .  .  .  .  .  .  .  .  .
"""
BLUE_1 = """
    .  .  .  .  .  .  .  .  .  .
    .  .  .  .  .  .  .  .  .  .
    .  .  .  .  .  .  .  4  .  .
    .  .  .  .  .  .  4 84  4  .
    .  .  .  .  .  .  .  4  .  .
    .  .  .  .  .  .  .  .  .  .
    .  .  .  .  .  .  .  .  .  .
    .  .  .  .  .  .  .  .  .  .
    .  .  .  .  .  .  .  .  .  .
    .  .  .  .  .  .  .  .  .  .
"""
BLUE_2 = """
    .  .  .  .  .  .  .  .  .  .
    .  .  .  .  .  .  .  1  .  .
    .  .  .  .  .  .  1  2  1  .
    .  .  .  .  .  1  2 84  2  1
    .  .  .  .  .  .  1  2  1  .
    .  .  .  .  .  .  .  1  .  .
    .  .  .  .  .  .  .  .  .  .
    .  .  .  .  .  .  .  .  .  .
    .  .  .  .  .  .  .  .  .  .
    .  .  .  .  .  .  .  .  .  .
"""


def read_picture(picture: str) -> Tensor:
    rows = [[float(cell.replace(".", "0")) for cell in row.split()] for row in picture.strip().splitlines()]
    return torch.tensor(rows) / 100


FIGURE_1 = [Sentence(["w"] * 10, [Entity(1, 3, "A"), Entity(3, 8, "B")])]


@pytest.mark.parametrize(("size", "red", "blue"), [(1, RED_1, BLUE_1), (2, RED_2, BLUE_2)])
def test_smoothed_targets_equal_figure_1(size: int, red: str, blue: str) -> None:
    method = method_of(types=("A", "B"), epsilon=0.16, smoothing_size=size)
    targets = targets_of(method, gold_of(FIGURE_1), torch.tensor([10]), 10)
    expected = torch.stack(
        (1 - read_picture(red) - read_picture(blue), read_picture(red), read_picture(blue))
    )
    torch.testing.assert_close(targets, expected[None])


def test_hard_targets_equal_figure_1() -> None:
    method = method_of(types=("A", "B"), epsilon=0)
    targets = targets_of(method, gold_of(FIGURE_1), torch.tensor([10]), 10)
    assert targets[0, 1:].nonzero().tolist() == [[0, 1, 2], [1, 3, 7]]
    assert targets[0, :, 1, 2].tolist() == [0, 1, 0]
    assert targets[0, :, 3, 7].tolist() == [0, 0, 1]
    assert targets[0, 0].sum() == 98


def test_entity_of_a_one_word_sentence_keeps_its_probability() -> None:
    mass = smooth(Gold.from_columns(torch.tensor([[0, 0, 1, 0]])), torch.tensor([1]), 1, 1, 0.3, 2)
    assert mass.tolist() == [[[[pytest.approx(1.0)]]]]


def test_overlapping_neighbourhoods_add_up_to_at_most_1() -> None:
    """The spans are [0, 1) and [0, 2) of one type; with D = 1 and epsilon 0.4 each gives the other 0.1."""
    gold = Gold.from_columns(torch.tensor([[0, 0, 1, 0], [0, 0, 2, 0]]))
    mass = smooth(gold, torch.tensor([3]), 3, 1, 0.4, 1)[0, 0]
    # [0, 1) keeps 0.6 and three shares of cells that are no spans, and gets 0.1; [0, 2) keeps 0.6 and one
    expected = [[1.0, 0.8, 0.1], [0.0, 0.1, 0.0], [0.0, 0.0, 0.0]]
    torch.testing.assert_close(mass, torch.tensor(expected))
    one = smooth(
        Gold.from_columns(torch.tensor([[0, 0, 1, 0], [0, 0, 1, 0]])), torch.tensor([1]), 1, 1, 0.4, 1
    )
    assert one.item() == 1.0


def test_span_with_two_types_shares_its_probability() -> None:
    sentence = Sentence(["w"] * 5, [Entity(1, 4, "A"), Entity(1, 4, "C")])
    method = method_of(epsilon=0.2)
    targets = targets_of(method, gold_of([sentence]), torch.tensor([5]), 5)[0]
    torch.testing.assert_close(targets[:, 1, 3], torch.tensor([0, 0.5, 0, 0.5]))  # of 0.8 + 0.8
    torch.testing.assert_close(targets[:, 1, 4], torch.tensor([0.9, 0.05, 0, 0.05]))  # nothing to normalise


def test_label_smoothing_keeps_the_probability_of_no_entity() -> None:
    sentence = Sentence(["w"] * 5, [Entity(1, 4, "A")])
    method = method_of(epsilon=0.2, label_smoothing=0.3)
    targets = targets_of(method, gold_of([sentence]), torch.tensor([5]), 5)[0]
    torch.testing.assert_close(targets[:, 1, 3], torch.tensor([0.2, 0.64, 0.08, 0.08]))  # 0.8 * (0.7 + 0.1)
    torch.testing.assert_close(targets[:, 1, 4], torch.tensor([0.95, 0.04, 0.005, 0.005]))
    torch.testing.assert_close(targets[:, 0, 0], torch.tensor([1.0, 0, 0, 0]))


# Scores: Eq. 1


def slow_score(method: BoundarySmoothing, vectors: Tensor, i: int, j: int) -> Tensor:
    """Return r_ij of one sentence `[T, d]`, with an explicit concatenation: `[C + 1]`."""
    hs = torch.relu(method.start_view.linear(vectors[i]))
    he = torch.relu(method.end_view.linear(vectors[j]))
    width = method.width_embedding.weight[min(j - i, method.width_embedding.num_embeddings - 1)]
    features = torch.cat((hs, he, width))
    scores = torch.stack(
        [hs @ method.U[c] @ he + method.W[c] @ features + method.b[c] for c in range(len(method.b))]
    )
    if method.settings.inside:
        scores += sum(method.word_scores(vectors[k]) for k in range(i, j + 1))
    return scores


@pytest.mark.parametrize(
    "settings",
    [{}, {"width_size": 0}, {"widest": None}, {"widest": 1}, {"widest": 50}, {"inside": True}],
)
def test_scores_equal_the_formula(settings) -> None:
    method = method_of(**settings)
    words = words_of([7, 1, 4])
    scores = method.score(words)
    rows = scores.compute_grid()
    assert rows.shape == (3, 1 + len(TYPES), 7, 7)
    for index, length in enumerate(words.lengths.tolist()):
        for i in range(length):
            for j in range(i, length):
                expected = slow_score(method, words.vectors[index], i, j)
                torch.testing.assert_close(rows[index, :, i, j], expected)


def test_valid_cells_are_the_spans_of_their_sentence() -> None:
    valid = is_span(np.array([4, 1, 3]), 4)
    spans = {
        (b, i, j)
        for b, n in enumerate([4, 1, 3])
        for i in range(4)
        for j in range(4)
        if i <= j and i < n and j < n
    }
    assert set(zip(*(axis.tolist() for axis in valid.nonzero()), strict=True)) == spans


def test_widths_beyond_the_widest_share_an_embedding() -> None:
    method = method_of(widest=3)
    with torch.no_grad():
        for parameter in (method.U, method.W, method.b):
            parameter.zero_()
        method.W[1, 2 * 4 :] = 1
    row = method.score(words_of([8])).compute_grid()[0, 1, 0]
    assert len(set(row[:3].tolist())) == 3
    assert set(row[2:].tolist()) == {row[2].item()}


@pytest.mark.parametrize("inside", [False, True])
def test_padding_has_no_effect(inside: bool) -> None:
    method = method_of(inside=inside)
    together = words_of([3, 8, 1, 5])
    rows = method.score(together).compute_grid()
    for index, length in enumerate(together.lengths.tolist()):
        alone = Words(together.vectors[index : index + 1, :length], together.lengths[index : index + 1])
        expected = method.score(alone).compute_grid()[0]
        torch.testing.assert_close(rows[index, :, :length, :length], expected)


def test_weights_are_initialised_like_those_of_the_authors() -> None:
    torch.manual_seed(0)
    method = BoundarySmoothing(BoundarySmoothingSettings(size=6, width_size=3, widest=2), WIDTH, TYPES)
    for weight in (method.U.flatten(1), method.W):
        torch.testing.assert_close(weight @ weight.T, torch.eye(1 + len(TYPES)), atol=1e-5, rtol=0)
    assert (method.b[1:] == 0).all()


@pytest.mark.parametrize("types", [("A",), TYPES, tuple(f"T{number}" for number in range(40))])
def test_initial_probability_of_an_entity_is_1_percent(types: tuple[str, ...]) -> None:
    method = BoundarySmoothing(BoundarySmoothingSettings(widest=2), WIDTH, types)
    assert method.b.softmax(dim=0)[1:].sum().item() == pytest.approx(0.01)


def test_weights_have_the_sizes_of_the_settings() -> None:
    method = BoundarySmoothing(BoundarySmoothingSettings(size=6, width_size=3, widest=2), WIDTH, TYPES)
    assert method.U.shape == (4, 6, 6)
    assert method.W.shape == (4, 15)


def test_dropout_is_only_used_in_training() -> None:
    method = method_of(dropout=0.5)
    words = words_of([5])
    assert torch.equal(method.score(words).compute_grid(), method.score(words).compute_grid())
    method.train()
    assert not torch.equal(method.score(words).compute_grid(), method.score(words).compute_grid())


# Loss: Eq. 3 and 4


def slow_loss(method: BoundarySmoothing, words: Words, sentences: list[Sentence]) -> Tensor:
    settings = method.settings
    total = torch.zeros((), dtype=torch.float64)
    for vectors, sentence in zip(words.vectors, sentences, strict=True):
        targets = slow_targets(sentence, settings.epsilon, settings.smoothing_size, settings.label_smoothing)
        for i in range(len(sentence)):
            for j in range(i, len(sentence)):
                log_p = torch.log_softmax(slow_score(method, vectors, i, j), dim=0)
                total = total - (torch.from_numpy(targets[:, i, j]) * log_p).sum()
    return total / len(sentences)


def fast_loss(method: BoundarySmoothing, words: Words, sentences: list[Sentence]) -> Tensor:
    terms = method.loss(method.score(words), gold_of(sentences))
    assert list(terms) == ["span_loss"]
    return terms["span_loss"]


@pytest.mark.parametrize(
    "settings",
    [{"epsilon": 0}, {"epsilon": 0.2}, {"epsilon": 0.3, "smoothing_size": 2, "label_smoothing": 0.1}],
)
def test_loss_and_gradients_equal_a_simple_loop(settings) -> None:
    sentences = [
        Sentence(["w"] * 5, [Entity(0, 3, "A"), Entity(1, 3, "B"), Entity(1, 3, "C"), Entity(4, 5, "A")]),
        Sentence(["w"] * 2),
        Sentence(["w"] * 3, [Entity(0, 3, "C"), Entity(2, 3, "C")]),
    ]
    method = method_of(**settings)
    words = words_of([5, 2, 3])
    gradients = []
    for function in (fast_loss, slow_loss):
        method.zero_grad()
        loss = function(method, words, sentences)
        loss.backward()
        gradients.append([loss.detach(), *(parameter.grad.clone() for parameter in method.parameters())])
    for fast, slow in zip(*gradients, strict=True):
        torch.testing.assert_close(fast.double(), slow, rtol=1e-4, atol=1e-5)  # ours is in single precision


@given(batches())
def test_loss_is_the_mean_of_the_losses_of_sentences(sentences) -> None:
    method = method_of(epsilon=0.2, smoothing_size=2)
    lengths = [len(sentence) for sentence in sentences]
    words = words_of(lengths)
    each = [
        fast_loss(method, Words(words.vectors[b : b + 1, :n], words.lengths[b : b + 1]), sentences[b : b + 1])
        for b, n in enumerate(lengths)
    ]
    torch.testing.assert_close(fast_loss(method, words, sentences), torch.stack(each).mean())


def test_batch_without_entities_has_a_loss_and_gradients() -> None:
    method = method_of()
    loss = fast_loss(method, words_of([3, 1]), [Sentence(["w"] * 3), Sentence(["w"])])
    loss.backward()
    assert loss > 0
    assert all(parameter.grad.isfinite().all() for parameter in method.parameters())


def test_loss_of_huge_scores_is_finite() -> None:
    grid = torch.full((1, 4, 3, 3), -1e4)
    grid[:, 1] = 1e4
    grid.requires_grad_()
    loss = method_of().loss(scores_of(grid, torch.tensor([3])), gold_of([Sentence(["w"] * 3)]))["span_loss"]
    loss.backward()
    assert loss.isfinite()
    assert grid.grad.isfinite().all()


def test_softmax_of_bfloat16_scores_is_float32() -> None:
    grid = torch.randn(1, 4, 3, 3, generator=torch.Generator().manual_seed(0)).bfloat16()
    gold, lengths = gold_of([Sentence(["w"] * 3, [Entity(0, 2, "A")])]), torch.tensor([3])
    low = method_of().loss(scores_of(grid, lengths), gold)["span_loss"]
    assert low.dtype == torch.float32
    torch.testing.assert_close(low, method_of().loss(scores_of(grid.float(), lengths), gold)["span_loss"])


def test_loss_is_minimal_if_probabilities_equal_targets() -> None:
    sentences = [Sentence(["w"] * 4, [Entity(0, 3, "A"), Entity(2, 3, "B")])]
    method = method_of(epsilon=0.3, smoothing_size=2)
    gold, lengths = gold_of(sentences), torch.tensor([4])
    grid = targets_of(method, gold, lengths, 4).clamp(min=1e-30).log().requires_grad_()
    method.loss(scores_of(grid, lengths), gold)["span_loss"].backward()
    assert grid.grad.abs().max() < 1e-6


# Candidates


def brute_force(grid: Tensor, lengths: Tensor, threshold: float = 0.4) -> dict[tuple[int, int, int], float]:
    """Return the confidence by (start, end, type), computed cell by cell, at positions `b * T + t`."""
    batch, _, longest, _ = grid.shape
    confidences = {}
    for b in range(batch):
        for i in range(int(lengths[b])):
            for j in range(i, int(lengths[b])):
                probabilities = grid[b, :, i, j].softmax(dim=0).tolist()
                best = max(range(1, len(probabilities)), key=probabilities.__getitem__)
                if probabilities[best] >= threshold:
                    confidences[b * longest + i, b * longest + j + 1, best - 1] = probabilities[best]
    return confidences


def candidates_of(method: BoundarySmoothing, words: Words, **predict) -> Candidates:
    """Return the candidates of the decoder."""
    decoder, predict = SpanDecoder(method.settings, method.types), PredictSettings(select="nested", **predict)
    return decoder.candidates(decoder.score(arrays_of(words), graphs_of(method, words), predict), predict)


def candidates_in(grid: Tensor, lengths: Tensor, **predict) -> Candidates:
    """Return the candidates of a method whose scores are this grid."""
    method = method_of()
    method.score = lambda _: scores_of(grid, lengths)
    return candidates_of(
        method, Words(torch.zeros(*grid.shape[:1], grid.shape[2], WIDTH), lengths), **predict
    )


@pytest.mark.parametrize("threshold", [None, 0.0, 0.2, 0.6, {"A": 0.6, "B": 0.1}])
def test_candidates_equal_a_simple_loop(threshold: float | dict[str, float] | None) -> None:
    """A candidate may be less probable than "no entity"; the lowest threshold holds for all types here."""
    method = method_of()
    words = words_of([7, 2, 5, 1])
    candidates = candidates_of(method, words, threshold=threshold)
    lowest = {None: 0.4}.get(threshold, threshold) if not isinstance(threshold, dict) else 0.1
    expected = brute_force(method.score(words).compute_grid(), words.lengths, lowest)
    assert len(expected) > 1
    keys = list(zip(*(c.tolist() for c in (candidates.start, candidates.end, candidates.type)), strict=True))
    assert len(keys) == len(set(keys))
    confidences = dict(zip(keys, candidates.confidence.tolist(), strict=True))
    assert confidences == pytest.approx(expected, abs=1e-6)


@given(batches(), st.integers(0, 2**32 - 1))
def test_candidates_are_spans_of_their_sentence(sentences, seed: int) -> None:
    lengths = lengths_of(sentences)
    longest = int(lengths.max())
    generator = torch.Generator().manual_seed(seed)
    grid = torch.randn(len(sentences), 4, longest, longest, generator=generator)
    candidates = candidates_in(grid, lengths, threshold=0.3)
    for start, end in zip(candidates.start.tolist(), candidates.end.tolist(), strict=True):
        assert start // longest == (end - 1) // longest
        assert (end - 1) % longest < lengths[start // longest]
    assert ((candidates.type >= 0) & (candidates.type < len(TYPES))).all()
    assert ((candidates.confidence >= 0.3) & (candidates.confidence <= 1)).all()


def test_candidate_can_be_less_probable_than_no_entity() -> None:
    grid = torch.zeros(2, 4, 3, 3)
    grid[:, 0] = 1  # 0.48, and each type 0.17
    lengths = torch.tensor([3, 2])
    assert len(candidates_in(grid, lengths)) == 0
    candidates = candidates_in(grid, lengths, threshold=0.1)
    assert len(candidates) == 6 + 3
    predict = PredictSettings(select="keep-all", threshold={"B": 0.1})
    assert len(predict.select_entities(candidates, TYPES)) == 0  # the first of equal types is the best


@given(st.data())
def test_perfect_scores_select_the_entities(data) -> None:
    """Entities may nest; a span has one best class, so only one type is drawn for a span."""
    sizes = data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=3))
    sentences = []
    for size in sizes:
        by_span = {e.span: e for e in data.draw(nested_entities(size, st.sampled_from(TYPES)))}
        sentences.append(Sentence(["w"] * size, by_span.values()))
    lengths, longest = torch.tensor(sizes), max(sizes)
    grid = torch.full((len(sizes), 4, longest, longest), 0.0)
    grid[:, 1:] = -20.0
    gold = gold_of(sentences)
    grid[gold.sentence, gold.type + 1, gold.start, gold.end - 1] = 20.0
    selection = PredictSettings(select="nested").select_entities(candidates_in(grid, lengths), TYPES)
    keys = set(zip(selection.start.tolist(), selection.end.tolist(), selection.type.tolist(), strict=True))
    shift = (gold.sentence * longest).tolist()
    expected = zip(shift, gold.start.tolist(), gold.end.tolist(), gold.type.tolist(), strict=True)
    assert keys == {(by + start, by + end, type_) for by, start, end, type_ in expected}
    assert (selection.confidence > 0.99).all()


LONG_SENTENCE = """
import resource
import torch
from fencepost.config import Config
from fencepost.data.entity import Entity, Sentence
from fencepost.methods.model import Model
from fencepost.runtime.pytorch import make_predictor
from fencepost.runtime.recogniser import Recogniser

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

torch.set_num_threads(1)
torch.manual_seed(0)
learnt = [
    Sentence(["in", f"name{at}", f"place{at}", "there", "is", "nothing"], [Entity(1, 3, f"type{at}")])
    for at in range(12)
]
settings = {"encoder": {"name": "scratch", "lstm": {"size": 32, "dropout": 0}}, "method": {"size": 16}}
model = Model.build(Config.parse(settings), learnt)
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
for _ in range(60):
    optimizer.zero_grad()
    model(model.collate(learnt))["loss"].backward()
    optimizer.step()
ner = Recogniser(make_predictor(model.eval()))
long = Sentence(70 * [word for sentence in learnt for word in sentence.words])  # 5040 of them
list(ner.predict(learnt))
before = peak()
[found] = ner.predict([long])
print(peak() - before, len(long), len(found.entities))
"""


def test_sentence_of_5000_words_needs_limited_memory() -> None:
    """All its scores are 1.3 GB; only a few blocks of them may exist at a time."""
    run = subprocess.run(
        [sys.executable, "-c", LONG_SENTENCE], capture_output=True, text=True, check=True, timeout=120
    )
    growth, words, count = map(float, run.stdout.split())
    assert words == 5040
    assert count > 100
    assert growth < 600


# Settings


def of_lengths(lengths: list[int]) -> list[Sentence]:
    return [Sentence(["w"] * max(lengths), [Entity(0, length, "A")]) for length in lengths]


@pytest.mark.parametrize(
    ("lengths", "widest"), [([1], 2), ([4, 4, 4], 5), ([1] * 39 + [10], 11), ([3, 1], 4)]
)
def test_widest_is_one_more_than_the_longest_entity(lengths: list[int], widest: int) -> None:
    """Each entity length has its own embedding, and all longer spans share another one."""
    fitted = BoundarySmoothingSettings().fit_to(of_lengths(lengths))
    assert fitted == BoundarySmoothingSettings(widest=widest)


def test_widest_is_fitted_to_all_entities() -> None:
    sentences = [Sentence(["w"] * 9, [Entity(0, 9, "A"), Entity(2, 4, "B")]), Sentence(["w"])]
    assert BoundarySmoothingSettings().fit_to(sentences).widest == 10


def test_explicit_widest_is_kept() -> None:
    settings = BoundarySmoothingSettings(widest=7)
    assert settings.fit_to(of_lengths([1, 2])) is settings


def test_initial_word_scores_are_0() -> None:
    torch.manual_seed(0)
    method = BoundarySmoothing(BoundarySmoothingSettings(widest=2, inside=True), WIDTH, TYPES)
    assert (method.word_scores.weight == 0).all()
    assert not hasattr(BoundarySmoothing(BoundarySmoothingSettings(widest=2), WIDTH, TYPES), "word_scores")


def test_width_embedding_has_a_row_for_each_width() -> None:
    assert method_of(widest=7).width_embedding.weight.shape == (7, 3)


@pytest.mark.parametrize("inside", [False, True])
def test_scoring_a_long_sentence_separately_keeps_the_loss(monkeypatch, inside: bool) -> None:
    torch.manual_seed(0)
    lengths = torch.tensor([3, 40, 1, 7])
    words = Words(torch.randn(4, 40, 6, requires_grad=True), lengths)
    columns = [(0, 0, 2, 1), (1, 30, 40, 0), (1, 0, 1, 1), (3, 6, 7, 0), (2, 0, 1, 0), (3, 2, 5, 1)]
    gold = Gold.from_columns(torch.tensor(columns))
    settings = BoundarySmoothingSettings(widest=5, inside=inside)
    method = BoundarySmoothing(settings, 6, ["A", "B"]).eval()
    if inside:
        method.word_scores.weight.data.normal_()
    whole = method.loss(method.score(words), gold)["span_loss"]
    (expected,) = torch.autograd.grad(whole, words.vectors)
    sizes = []
    grid = SpanScores.compute_grid
    monkeypatch.setattr(SpanScores, "compute_grid", lambda s: sizes.append(s.end.shape) or grid(s))
    monkeypatch.setattr(boundary_smoothing, "_PAIRS_AT_ONCE", 150)
    parts = method.loss(method.score(words), gold)["span_loss"]
    (gradient,) = torch.autograd.grad(parts, words.vectors)
    assert sorted(shape[2] for shape in sizes) == [7, 40]  # the three short ones together
    torch.testing.assert_close(parts, whole)
    torch.testing.assert_close(gradient, expected)
