"""The network that removes noise, compared with loops over spans and words."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from fencepost.encoder.encoder import Words
from fencepost.methods.diffusion import denoiser
from fencepost.methods.diffusion.denoiser import Pointer, SpanLayer
from fencepost.methods.diffusion.loss import DenoisedScores
from fencepost.methods.diffusion.network import Diffusion
from tests.methods.diffusion.cases import (
    BATCH,
    LENGTHS,
    NETWORKS,
    Ends,
    alone,
    assert_same,
    method_of,
    noised,
    said_in,
    sampled,
    settings_of,
    words_of,
)
from tests.methods.diffusion.slow import SlowDenoiser, slow_learnt

networks = pytest.mark.parametrize("settings", NETWORKS.values(), ids=NETWORKS.keys())


def spans_for(lengths: list[int], draws: int, spans: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Return random spans of the sentences: `[B, R, K]` each."""
    generator = torch.Generator().manual_seed(seed)
    shares = torch.rand(2, len(lengths), draws, spans, generator=generator)
    ends = (shares * torch.tensor(lengths)[:, None, None]).long()
    return ends.amin(dim=0), ends.amax(dim=0)


def denoise(method: Diffusion, words: Words, ends: tuple[Tensor, Tensor], time: Tensor) -> DenoisedScores:
    """Return the scores of spans `[B, R, K]` at times `[B, R]`: each draw is a row of the batch."""
    draws = time.shape[1]
    rows = Words(words.vectors.repeat_interleave(draws, 0), words.lengths.repeat_interleave(draws))
    left, right = (end.flatten(0, 1) for end in ends)
    types, boundaries = method.denoiser(left, right, time.flatten(), *method.denoiser.read(rows))
    return DenoisedScores(types=types, boundaries=boundaries, noisy=(left, right), lengths=rows.lengths)


@networks
@torch.no_grad()
def test_network_equals_a_simple_loop(settings: dict) -> None:
    """The expected scores are of each draw of each sentence alone, so others and padding have no effect."""
    method = method_of(**settings)
    words = words_of(LENGTHS)
    left, right = spans_for(LENGTHS, 2, 4)
    time = torch.randint(1000, left.shape[:2], generator=torch.Generator().manual_seed(0))
    scores = denoise(method, words, (left, right), time)
    assert scores.types.shape == (5 * 2, 4, 4)
    assert scores.boundaries.shape == (2, 5 * 2, 4, 12)
    assert scores.types.dtype == scores.boundaries.dtype == torch.float32
    expected = {}
    for index in range(len(LENGTHS)):
        slow = SlowDenoiser(method, words, index)
        for draw in range(2):
            ends = list(zip(left[index, draw].tolist(), right[index, draw].tolist(), strict=True))
            expected[index, draw] = slow(ends, int(time[index, draw]))
    assert_same(said_in(scores, 2), expected, atol=1e-4)


@torch.no_grad()
def test_training_scores_are_those_of_the_noised_spans(monkeypatch) -> None:
    method = method_of(draws=3, positions=True)
    words = words_of(LENGTHS, seed=1)
    sample = noised(monkeypatch, method, words, BATCH)
    assert_same(said_in(sample.scores, 3), slow_learnt(method, words, sample), atol=1e-4)
    assert sample.scores.lengths.tolist() == [length for length in LENGTHS for _ in range(3)]


def said_about(
    method: Diffusion, ends: list[Ends], time: int = 500, words: Words | None = None
) -> tuple[Tensor, Tensor]:
    """Score spans of one sentence of nine words: types `[K, C + 1]` and boundaries `[2, K, T]`."""
    left, right = torch.tensor(ends).T
    words = words_of([9]) if words is None else words
    scores = denoise(method, words, (left[None, None], right[None, None]), torch.tensor([[time]]))
    return scores.types[0], scores.boundaries[:, 0]


@networks
@torch.no_grad()
def test_scores_do_not_depend_on_the_batch(settings: dict) -> None:
    method = method_of(**settings)
    words = words_of(LENGTHS)
    ends = spans_for(LENGTHS, 2, 4)
    time = torch.tensor([[5, 900]] * 5)
    together = said_in(denoise(method, words, ends, time), 2)
    for index in range(len(LENGTHS)):
        own = tuple(end[index : index + 1] for end in ends)
        apart = said_in(denoise(method, alone(words, index), own, time[:1]), 2)
        expected = {(0, draw): together[index, draw] for draw in (0, 1)}
        assert_same(apart, expected)


@networks
@torch.no_grad()
def test_padding_has_no_effect(settings: dict) -> None:
    method = method_of(**settings)
    words = words_of(LENGTHS)
    ends, time = spans_for(LENGTHS, 2, 4), torch.tensor([[5, 900]] * 5)
    expected = denoise(method, words, ends, time)
    other = words.vectors.clone()
    other[~words.mask] = 1e4
    longer = torch.cat((other, torch.full((5, 3, other.shape[2]), -1e4)), dim=1)
    assert_same(said_in(denoise(method, Words(longer, words.lengths), ends, time)), said_in(expected))


@networks
@torch.no_grad()
def test_draws_are_independent(settings: dict) -> None:
    method = method_of(**settings)
    words = words_of(LENGTHS)
    left, right = spans_for(LENGTHS, 3, 4)
    time = torch.randint(1000, (5, 3), generator=torch.Generator().manual_seed(0))
    together = said_in(denoise(method, words, (left, right), time), 3)
    for draw in range(3):
        own = slice(draw, draw + 1)
        apart = said_in(denoise(method, words, (left[:, own], right[:, own]), time[:, own]))
        assert_same(apart, {(index, 0): together[index, draw] for index in range(5)})


@pytest.mark.parametrize("self_attention", [True, False])
@torch.no_grad()
def test_spans_affect_each_other_only_with_self_attention(self_attention: bool) -> None:
    method = method_of(self_attention=self_attention, positions=True)
    types, boundaries = said_about(method, [(0, 3), (2, 2), (4, 8)])
    other_types, other_boundaries = said_about(method, [(0, 3), (2, 2), (1, 5)])
    assert (types[:2] == other_types[:2]).all() != self_attention
    assert (boundaries[:, :2] == other_boundaries[:, :2]).all() != self_attention


@pytest.mark.parametrize("cross_attention", [True, False])
@torch.no_grad()
def test_all_words_affect_spans_only_with_cross_attention(cross_attention: bool) -> None:
    method = method_of(cross_attention=cross_attention, positions=True)
    words = words_of([9])
    others = Words(words.vectors.clone(), words.lengths)
    others.vectors[0, 7] += 1
    types, boundaries = said_about(method, [(0, 3), (2, 2)], words=words)
    other_types, other_boundaries = said_about(method, [(0, 3), (2, 2)], words=others)
    assert (types == other_types).all() != cross_attention
    same = (boundaries == other_boundaries).all(
        dim=1
    )  # the score of a pointer for a word depends only on this word
    assert not same[:, 7].any()
    assert same[:, :7].all() != cross_attention


@torch.no_grad()
def test_pooling_uses_only_words_of_the_span() -> None:
    """The mean uses all of them, `first+last` only two."""
    for pooling, matter in (("mean", [False, True, True, True, False]), ("first+last", [0, 1, 0, 1, 0])):
        method = method_of(pooling=pooling, layers=0)
        expected, _ = said_about(method, [(1, 3)], words=words_of([5]))
        for word, matters in enumerate(matter):
            words = words_of([5])
            words.vectors[0, word] += 1
            types, _ = said_about(method, [(1, 3)], words=words)
            assert bool((types != expected).any()) == bool(matters), (pooling, word)


@networks
@torch.no_grad()
def test_time_changes_types_and_boundaries(settings: dict) -> None:
    method = method_of(**settings)
    ends = [(0, 3), (2, 2), (4, 8)]
    first, again, later = (said_about(method, ends, time) for time in (20, 20, 21))
    for part in (0, 1):
        assert torch.equal(first[part], again[part])
        assert (first[part] != later[part]).float().mean() > 0.7  # the others are 0 after a ReLU


@torch.no_grad()
def test_each_draw_has_its_own_time() -> None:
    method = method_of()
    ends = torch.tensor([[[0, 2]] * 2]), torch.tensor([[[3, 8]] * 2])
    scores = denoise(method, words_of([9]), ends, torch.tensor([[100, 700]]))
    for draw, time in enumerate((100, 700)):
        expected = said_about(method, [(0, 3), (2, 8)], time)
        assert_same({0: said_in(scores, 2)[0, draw]}, {0: [part.double() for part in expected]})


@pytest.mark.parametrize("positions", [True, False])
@torch.no_grad()
def test_positions_distinguish_equal_words(positions: bool) -> None:
    """Two equal words at different places: without positions, the order of the words is unknown."""
    method = method_of(positions=positions)
    words = words_of([9])
    words.vectors[0, 6] = words.vectors[0, 2]
    types, boundaries = said_about(method, [(2, 2), (6, 6)], words=words)
    same_pointer = torch.isclose(boundaries[..., 2], boundaries[..., 6]).all()
    assert bool(torch.isclose(types[0], types[1], atol=1e-5).all()) != positions
    assert bool(same_pointer) != positions


@torch.no_grad()
def test_proposal_codes_distinguish_equal_spans() -> None:
    for codes in (True, False):
        types, _ = said_about(method_of(proposal_codes=codes, positions=True), [(2, 4)] * 3)
        assert bool(torch.isclose(types[0], types[1:], atol=1e-6).all()) != codes


@torch.no_grad()
def test_order_of_the_spans_has_no_effect() -> None:
    method = method_of(positions=True)
    ends = [(0, 3), (2, 2), (4, 8), (1, 5)]
    order = [2, 0, 3, 1]
    types, boundaries = said_about(method, ends)
    other_types, other_boundaries = said_about(method, [ends[index] for index in order])
    torch.testing.assert_close(other_types, types[order])
    torch.testing.assert_close(other_boundaries, boundaries[:, order])


def pointed(pointer: Pointer, words: Tensor, spans: Tensor) -> Tensor:
    return pointer(pointer.of_word(words), spans)


def test_pointer_equals_a_simple_loop() -> None:
    """`v' relu(W_w word + W_s span)`, for each span and word."""
    torch.manual_seed(0)
    pointer = Pointer(6, 5).double()
    words, spans = torch.randn(2, 7, 6).double(), torch.randn(2, 4, 6).double()
    scores = pointed(pointer, words, spans)
    assert scores.shape == (2, 4, 7)
    assert pointer.of_span.bias is None
    for index in range(2):
        for span in range(4):
            for word in range(7):
                of_word = pointer.of_word.weight @ words[index, word] + pointer.of_word.bias
                hidden = (of_word + pointer.of_span.weight @ spans[index, span]).clamp(min=0)
                expected = (pointer.output.weight[0] * hidden).sum() + pointer.output.bias[0]
                torch.testing.assert_close(scores[index, span, word], expected)


@pytest.mark.parametrize("at_once", [1, 2 * 7 * 5, 2 * 2 * 7 * 5, 3 * 2 * 7 * 5 + 1, 4 * 2 * 7 * 5 - 1])
def test_pointer_computed_in_parts_is_the_same(monkeypatch, at_once: int) -> None:
    """Values and gradients of a part of the spans at a time."""
    torch.manual_seed(0)
    pointer = Pointer(6, 5).double()
    weights = torch.randn(2, 4, 7).double()
    results, sizes = [], []
    whole = pointer._compute_logits

    def counted(of_words: Tensor, views: Tensor) -> Tensor:
        sizes.append(of_words.shape[1] * views.numel())
        return whole(of_words, views)

    for limit in (2 * 4 * 7 * 5, at_once):
        with monkeypatch.context() as patch:
            patch.setattr(denoiser, "_NUMBERS_AT_ONCE", limit)
            patch.setattr(pointer, "_compute_logits", counted)
            generator = torch.Generator().manual_seed(1)
            inputs = [
                torch.randn(2, length, 6, generator=generator).double().requires_grad_() for length in (7, 4)
            ]
            pointer.zero_grad()
            sizes.clear()
            scores = pointed(pointer, *inputs)
            pieces = list(sizes)
            (scores * weights).sum().backward()
            gradients = [tensor.grad for tensor in (*inputs, *pointer.parameters())]
            results.append((scores, *gradients))
        assert max(pieces) <= max(limit, 2 * 7 * 5)  # one span is the minimum
        assert (len(pieces) > 1) == (limit == at_once)
    assert all(tensor is not None and tensor.any() for tensor in results[0])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other)


@torch.inference_mode()
def test_network_computed_in_parts_is_the_same(monkeypatch) -> None:
    method, words = method_of(positions=True), words_of(LENGTHS)
    expected = sampled(method, words)
    monkeypatch.setattr(denoiser, "_NUMBERS_AT_ONCE", 700)
    scores = sampled(method, words)
    assert_same(said_in(scores), said_in(expected))


@pytest.mark.parametrize("dropout", [0.0, 0.5])
@torch.no_grad()
def test_dropout_is_only_used_in_training(dropout: float) -> None:
    method = method_of(dropout=dropout)
    ends = [(0, 3), (2, 2), (4, 8)]
    torch.manual_seed(0)
    expected = said_about(method, ends)[0]
    first, second = (said_about(method.train(), ends)[0] for _ in range(2))
    assert torch.equal(first, second) == (dropout == 0)
    assert torch.equal(first, expected) == (dropout == 0)
    assert torch.equal(said_about(method.eval(), ends)[0], expected)


def test_layer_has_only_the_configured_parts() -> None:
    whole = SpanLayer(settings_of(feed_forward=11))
    assert {type(layer) for layer in whole.feed_forward} == {nn.Linear, nn.ReLU, nn.Dropout}
    assert [layer.out_features for layer in whole.feed_forward if isinstance(layer, nn.Linear)] == [11, 8]
    assert whole.among is not None
    assert whole.across is not None
    assert SpanLayer(settings_of(self_attention=False)).among is None
    assert SpanLayer(settings_of(cross_attention=False)).across is None


@networks
def test_all_weights_and_no_padding_have_gradients(settings: dict) -> None:
    method = method_of(**settings)
    words = words_of(LENGTHS)
    words.vectors.requires_grad_()
    scores = denoise(method, words, spans_for(LENGTHS, 2, 4), torch.tensor([[5, 900]] * 5))
    inside = scores.boundaries.masked_fill(~words.mask.repeat_interleave(2, 0)[:, None], 0)
    (scores.types.sin().sum() + inside.sin().sum()).backward()
    for name, parameter in method.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.any() or name.endswith("key.bias"), name  # softmax cancels it
    assert not words.vectors.grad[~words.mask].any()
    assert words.vectors.grad[words.mask].any(dim=1).all()
