"""From noise to entities, compared with a loop over sentences; and which candidates are selected."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import pytest
import torch
from torch import Tensor

from fencepost.methods.decoder import GraphMismatch, WordArrays
from fencepost.methods.diffusion.loss import DenoisedScores
from fencepost.methods.diffusion.network import Diffusion
from fencepost.runtime.pytorch import ModuleGraph
from tests.methods.diffusion.cases import (
    LENGTHS,
    NETWORKS,
    TYPES,
    Ends,
    Found,
    alone,
    assert_same,
    candidates_of,
    decoder_of,
    denoised,
    found_in,
    method_of,
    predict_of,
    said_in,
    sampled,
    scores_of,
    words_of,
)
from tests.methods.diffusion.slow import slow_candidates, slow_steps

PREDICTS: dict[str, dict] = {
    "plain": {},
    "one-step": {"steps": 1},
    "three-steps": {"steps": 3, "seed": 4},
    "fresh-noise": {"eta": 1.0},
    "a-little-fresh-noise": {"eta": 0.4, "steps": 3},
    "one-span": {"spans": 1},
}

SAMPLERS: list[tuple[dict, dict]] = [
    (predict, {"positions": True, **more})
    for predict, more in (
        *((predict, {}) for predict in PREDICTS.values()),
        ({"steps": 4}, {"coordinates": "left-right", "scale": 2.0}),
        ({"steps": 4, "eta": 0.7}, {"schedule": "linear", "scale": 0.5}),
        ({"steps": 7}, {"times": 30, "pooling": "first+last"}),
    )
]


@contextmanager
def watched(method: Diffusion) -> Iterator[list[tuple[Tensor, Tensor, Tensor]]]:
    """Collect the inputs of the network, step by step."""
    calls: list[tuple[Tensor, Tensor, Tensor]] = []
    hook = method.denoiser.register_forward_pre_hook(lambda _, inputs: calls.append(inputs[:3]))
    yield calls
    hook.remove()


def assert_steps_equal_the_loop(method: Diffusion, lengths: list[int], predict: dict) -> list[set[Ends]]:
    """Compare the inputs and times of all steps and the last scores; return the spans of each step."""
    words = words_of(lengths)
    with watched(method) as calls:
        scores = sampled(method, words, **predict)
    expected = {}
    spans: list[set[Ends]] = [set() for _ in calls]
    for index in range(len(lengths)):
        steps = slow_steps(method, predict_of(**predict), words, index)
        assert len(steps) == len(calls) == predict_of(**predict).steps
        for step, (left, right, time), of_step in zip(steps, calls, spans, strict=True):
            assert time.tolist() == [step.time] * len(lengths)
            pairs = list(zip(left[index].tolist(), right[index].tolist(), strict=True))
            assert pairs == step.spans
            of_step.update(pairs)
        expected[index, 0] = steps[-1].scores
    assert_same(said_in(scores), expected, atol=1e-4)
    return spans


@pytest.mark.parametrize(("predict", "settings"), SAMPLERS, ids=str)
@torch.no_grad()
def test_each_step_equals_a_simple_loop(predict: dict, settings: dict) -> None:
    """The spans must change from step to step, or the test would prove little."""
    spans = assert_steps_equal_the_loop(method_of(**settings), [7, 1, 10], predict)
    for before, after in itertools.pairwise(spans):
        assert before != after


@pytest.mark.parametrize("settings", NETWORKS.values(), ids=NETWORKS.keys())
@torch.no_grad()
def test_steps_of_each_network_equal_a_simple_loop(settings: dict) -> None:
    """Prediction has one draw, for any number of draws in training."""
    method, predict = method_of(**settings), {"steps": 2, "spans": 4}
    assert_steps_equal_the_loop(method, [7, 1, 10], predict)
    assert sampled(method, words_of(LENGTHS), **predict).types.shape == (5, 4, 4)


@torch.no_grad()
def test_step_with_alpha_bar_1_scores_the_predicted_spans() -> None:
    """With alpha-bar 1, the last step has no noise."""
    method = method_of(times=2, positions=True)
    decoder = decoder_of(method)
    decoder.alpha_bar = [1.0, 0.3]
    with watched(method) as calls:
        first = sampled(method, words_of(LENGTHS), decoder, steps=1)
        sampled(method, words_of(LENGTHS), decoder, steps=2)
    left, right = first.boundaries.argmax(dim=3)
    ordered = left <= right
    assert 5 < ordered.sum() < ordered.numel() - 5
    assert torch.equal(calls[2][0], left)
    assert torch.equal(calls[2][1][ordered], right[ordered])
    assert torch.equal(calls[2][1][~ordered], left[~ordered])  # limited to one word


@pytest.mark.parametrize("steps", [1, 2, 5, 12])
@torch.no_grad()
def test_sentence_is_read_once_for_all_steps(steps: int) -> None:
    method = method_of(positions=True)
    words = words_of(LENGTHS)
    graphs = {name: ModuleGraph(graph) for name, graph in method.graphs(words).items()}
    arrays = WordArrays(words.vectors.numpy(), words.lengths.numpy())
    with (
        watched(method) as calls,
        patch.object(
            type(method.denoiser), "read", autospec=True, side_effect=type(method.denoiser).read
        ) as read,
    ):
        decoder_of(method).score(arrays, graphs, predict_of(steps=steps))
    assert (read.call_count, len(calls)) == (1, steps)


@pytest.mark.parametrize("name", ["read", "step"])
def test_names_a_missing_graph(name: str) -> None:
    words = words_of([3])
    graphs = {key: ModuleGraph(graph) for key, graph in method_of().graphs(words).items() if key != name}
    arrays = WordArrays(words.vectors.numpy(), words.lengths.numpy())
    with pytest.raises(GraphMismatch, match=f"the graph {name} is missing"):
        decoder_of(method_of()).score(arrays, graphs, predict_of())


@torch.no_grad()
def test_scores_do_not_depend_on_the_batch() -> None:
    for predict, settings in SAMPLERS:
        method = method_of(**settings)
        words = words_of(LENGTHS)
        together = said_in(sampled(method, words, **predict))
        for index in range(len(LENGTHS)):
            apart = said_in(sampled(method, alone(words, index), **predict))
            assert_same(apart, {(0, 0): together[index, 0]})


@torch.no_grad()
def test_prediction_does_not_use_the_global_random_state() -> None:
    method = method_of()
    state = torch.random.get_rng_state()
    scores = [sampled(method, words_of(LENGTHS), eta=1.0).types for _ in range(2)]
    assert torch.equal(*scores)
    assert torch.equal(torch.random.get_rng_state(), state)


@torch.no_grad()
def test_other_seed_gives_other_noise() -> None:
    types = [sampled(method_of(), words_of(LENGTHS), seed=seed).types for seed in (0, 0, 1)]
    assert torch.equal(types[0], types[1])
    assert not torch.isclose(types[0], types[2]).all()


@torch.no_grad()
def test_number_of_spans_does_not_change_the_first_ones() -> None:
    """This holds only without self-attention."""
    few, many = (
        sampled(method_of(self_attention=False, positions=True), words_of(LENGTHS), spans=spans)
        for spans in (3, 40)
    )
    assert many.types.shape[1] == 40
    torch.testing.assert_close(few.types, many.types[:, :3])
    torch.testing.assert_close(few.boundaries, many.boundaries[:, :, :3])
    seeing, seeing_many = (
        sampled(method_of(positions=True), words_of(LENGTHS), spans=spans) for spans in (3, 40)
    )
    assert not torch.isclose(seeing.types, seeing_many.types[:, :3]).all()


@pytest.mark.parametrize("spans", [1, 6, 60])
def test_candidates_equal_a_simple_loop(spans: int) -> None:
    """Scores are random; with many spans, boundaries occur several times, also with several types."""
    lengths = [4, 1, 7, 2]
    for seed in range(5):
        scores = scores_of(lengths, spans, seed=seed)
        expected: Found = {}
        for (index, _), of_sentence in said_in(scores).items():
            expected |= slow_candidates(of_sentence, index * max(lengths))
        candidates = candidates_of(scores)
        assert found_in(candidates) == pytest.approx(expected, abs=1e-6)
        assert len(candidates) == len(expected)
        assert not spans > 1 or len(expected) > spans / 5


def test_most_probable_boundary_wins_among_nearly_certain_ones() -> None:
    """Their probabilities are equal in single precision."""
    boundaries = torch.tensor([[[[[20.0, 30, 0]]]], [[[[0.0, 20, 30]]]]])
    scores = denoised(torch.tensor([[[[0.0, 9, 0]]]]), boundaries, [3])
    assert found_in(candidates_of(scores)).keys() == {(1, 3, 0)}


def make_scores(*rows: tuple[Ends, str, float, float, float], length: int = 6) -> DenoisedScores:
    """Make scores from boundaries, type, and the probabilities of the type, the start and the end."""
    types = torch.zeros(1, 1, len(rows), 1 + len(TYPES), dtype=torch.float64)
    boundaries = torch.full((2, 1, 1, len(rows), length), 0.01, dtype=torch.float64)
    for span, ((left, right), type_, of_type, of_left, of_right) in enumerate(rows):
        class_ = " ABC".index(type_)
        types[0, 0, span] = (1 - of_type) / len(TYPES)
        types[0, 0, span, class_] = of_type
        boundaries[0, 0, 0, span, left], boundaries[1, 0, 0, span, right] = of_left, of_right
    return denoised(types.log(), torch.logit(boundaries), [length])


def chosen(scores: DenoisedScores, **predict) -> Found:
    """Return the selected entities, as a predictor computes them."""
    return found_in(predict_of(**predict).select_entities(candidates_of(scores, **predict), TYPES))


def test_spans_that_end_before_they_start_are_not_candidates() -> None:
    scores = make_scores(
        ((0, 1), "A", 0.9, 0.8, 0.5), ((4, 3), "B", 0.9, 0.9, 0.9), ((5, 5), "C", 0.6, 0.5, 0.5)
    )
    assert chosen(scores) == pytest.approx({(0, 2, 0): 0.36, (5, 6, 2): 0.15})
    nothing = make_scores(((4, 3), "B", 0.9, 0.9, 0.9))
    assert len(candidates_of(nothing)) == 0
    assert chosen(nothing) == {}


def test_candidate_can_be_less_probable_than_no_entity() -> None:
    scores = make_scores(((2, 3), " ", 0.4, 0.5, 0.5))
    scores.types[0, 0, 2] += 0.5
    [(key, confidence)] = found_in(candidates_of(scores)).items()
    assert key == (2, 4, 1)
    assert confidence == pytest.approx(scores.types[0, 0].softmax(0)[2].item() / 4)
    assert chosen(scores, threshold=None) == {}


def test_duplicate_spans_count_once_per_type() -> None:
    """The highest product counts, not the highest probability of the type."""
    rows = [
        ((0, 1), "A", 0.6, 0.9, 0.9),
        ((0, 1), "A", 0.7, 0.5, 0.5),
        ((0, 1), "C", 0.5, 0.9, 0.9),
        ((0, 2), "A", 0.5, 0.5, 0.5),
    ]
    expected = {(0, 2, 0): 0.486, (0, 2, 2): 0.405, (0, 3, 0): 0.125}
    for order in (rows, rows[::-1], rows[2:] + rows[:2]):
        assert chosen(make_scores(*order)) == pytest.approx(expected)


def test_equal_boundaries_in_two_sentences_are_two_spans() -> None:
    one, other = make_scores(((0, 1), "A", 0.6, 0.9, 0.9)), make_scores(((0, 1), "B", 0.7, 0.5, 0.5))
    types, boundaries = torch.cat((one.types, other.types)), torch.cat((one.boundaries, other.boundaries), 1)
    scores = denoised(types[:, None], boundaries[:, :, None], [6, 6])
    assert chosen(scores) == pytest.approx({(0, 2, 0): 0.486, (6, 8, 1): 0.175})


def test_product_of_probabilities_must_reach_the_threshold() -> None:
    scores = make_scores(
        ((0, 0), "A", 0.9, 0.9, 0.9), ((1, 1), "A", 0.5, 0.9, 0.9), ((2, 2), "B", 0.6, 0.2, 0.3)
    )
    products = {(0, 1, 0): 0.729, (1, 2, 0): 0.405, (2, 3, 1): 0.036}
    for threshold in (0.0, 0.03, 0.04, 0.4, 0.41, 0.7, 0.73, 1.0):
        expected = {key: product for key, product in products.items() if product >= threshold}
        assert found_in(candidates_of(scores, threshold=threshold)) == pytest.approx(expected)
        assert chosen(scores, threshold=threshold) == pytest.approx(expected)
    by_type = {"A": 0.5, "B": 0.01}
    assert chosen(scores, threshold=by_type).keys() == {(0, 1, 0), (2, 3, 1)}


def test_confidence_of_huge_logits_is_1() -> None:
    sure = make_scores(((0, 1), "A", 0.5, 0.5, 0.5))
    boundaries = sure.boundaries[:, :, None].sign() * 900
    scores = denoised(torch.tensor([[[[0.0, 900, 0, 0]]]]), boundaries, [6])
    scores.boundaries[0, 0, 0, 0] = scores.boundaries[1, 0, 0, 1] = 900
    assert chosen(scores, threshold=1.0) == {(0, 2, 0): 1.0}


def test_most_confident_of_overlapping_candidates_are_selected() -> None:
    scores = make_scores(
        ((0, 3), "A", 0.9, 0.9, 0.9),
        ((1, 2), "B", 0.8, 0.8, 0.8),  # inside
        ((3, 5), "B", 0.7, 0.7, 0.7),  # crosses
        ((5, 5), "C", 0.6, 0.6, 0.6),
    )
    everything = {(0, 4, 0): 0.729, (1, 3, 1): 0.512, (3, 6, 1): 0.343, (5, 6, 2): 0.216}
    for select, gone in (
        ("keep-all", set()),
        ("nested", {(3, 6, 1)}),
        ("flat", {(1, 3, 1), (3, 6, 1)}),
    ):
        expected = {key: score for key, score in everything.items() if key not in gone}
        assert chosen(scores, select=select) == pytest.approx(expected)


def test_candidates_below_the_threshold_suppress_no_others() -> None:
    scores = make_scores(((0, 3), "A", 0.9, 0.7, 0.7), ((0, 1), "B", 0.6, 0.6, 0.6))
    assert chosen(scores, select="flat", threshold=0.4).keys() == {(0, 4, 0)}
    assert chosen(scores, select="flat", threshold=0.5) == {}


@torch.no_grad()
def test_one_word_sentence_has_one_span() -> None:
    """All spans are that word, so one candidate of each type is left."""
    results = [found_in(candidates_of(sampled(method_of(), words_of([1, 1], seed)))) for seed in range(6)]
    keys = {key[:2] for one in results for key in one}
    assert keys == {(0, 1), (1, 2)}
    assert all(len(one) <= 2 * len(TYPES) for one in results)
