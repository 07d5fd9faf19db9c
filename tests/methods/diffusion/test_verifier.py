"""The verifier: the type of a span from its ends, its training examples, and its decisions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from fencepost.methods.decoder import GraphMismatch, WordArrays
from fencepost.methods.diffusion.decode import Denoised, list_spans
from fencepost.methods.diffusion.loss import VerifiedSpans, collect_spans, compute_verifier_loss
from fencepost.runtime.pytorch import ModuleGraph
from tests.methods.diffusion.cases import (
    BATCH,
    LENGTHS,
    TYPES,
    WIDTH,
    Ends,
    Key,
    alone,
    decoder_of,
    found_in,
    gold_of,
    gradients_of,
    method_of,
    predict_of,
    scores_of,
    words_of,
)

MEAN = {"mean_count": lambda count: max(1, int(count))}


def verified(method, words, **predict) -> Denoised:
    graphs = {name: ModuleGraph(graph) for name, graph in method.eval().graphs(words).items()}
    arrays = WordArrays(words.vectors.numpy(), words.lengths.numpy())
    return decoder_of(method).score(arrays, graphs, predict_of(**predict))


@torch.no_grad()
def test_verifier_scores_use_the_ends_and_the_mean_of_the_words() -> None:
    verifier, words = method_of(verifier=True).verifier, words_of(LENGTHS)
    left, right = (
        torch.tensor([[0, 2], [0, 0], [3, 11], [1, 0], [5, 0]]),
        torch.tensor([[8, 2], [0, 0], [7, 11], [3, 3], [5, 5]]),
    )
    logits = verifier(words.vectors, left, right)
    for index, number in np.ndindex(5, 2):
        first, last = int(left[index, number]), int(right[index, number])
        of_word = verifier.of_words(words.vectors[index]).view(-1, 3, 16)
        span = of_word[first, 0] + of_word[last, 1] + of_word[first : last + 1, 2].mean(dim=0)
        torch.testing.assert_close(
            logits[index, number].double(), verifier.output(span), rtol=1e-5, atol=1e-5
        )


def test_only_a_model_with_verifier_has_its_weights_graph_and_loss() -> None:
    for verifier in (True, False):
        method = method_of(verifier=verifier)
        names = [name for name, _ in method.named_parameters() if name.startswith("verifier.")]
        assert bool(names) == verifier
        assert ("verify" in method.graphs(words_of([3]))) == verifier
        assert (
            "verifier_loss" in method.loss(method.score(words_of(LENGTHS), gold_of(BATCH)), gold_of(BATCH))
        ) == verifier


def pairs(boundaries: Tensor) -> set[Ends]:
    """Return the spans from the two most probable first to the two most probable last words: `[2, T]`."""
    left, right = boundaries.argsort(dim=1, descending=True)[:, :2].tolist()
    return set(itertools.product(left, right))


@pytest.mark.parametrize("draws", [1, 3])
def test_examples_are_entities_noisy_and_denoised_spans(draws: int) -> None:
    scores, gold = scores_of(LENGTHS, 4, draws=draws), gold_of(BATCH)
    spans, is_span = collect_spans(scores, gold, draws)
    for index, (entities, length) in enumerate(zip(BATCH, LENGTHS, strict=True)):
        expected = {(start, end - 1) for start, end, _ in entities}
        for row in range(index * draws, (index + 1) * draws):
            for proposal in range(4):
                ends = pairs(scores.boundaries[:, row, proposal, :length])
                expected |= {(left, max(left, right)) for left, right in ends}
            expected |= set(zip(*(end[row].tolist() for end in scores.noisy), strict=True))
        examples = list(zip(*spans[:, index, is_span[index]].tolist(), strict=True))
        assert len(examples) == len(set(examples))
        assert expected <= set(examples) <= expected | {(0, 0)}
    assert is_span.any(dim=0).all()


@pytest.mark.parametrize("batch", [BATCH, [[]] * 5], ids=["entities", "none"])
def test_loss_sums_all_spans_except_padding(batch: list[list[Key]]) -> None:
    gold = gold_of(batch)
    spans, is_span = collect_spans(scores_of(LENGTHS, 9), gold, 1)
    labels = torch.randn(*is_span.shape, 1 + len(TYPES), generator=torch.Generator().manual_seed(0))
    total = 0.0
    for index, number in is_span.nonzero().tolist():
        left, right = spans[:, index, number].tolist()
        classes = [type_ + 1 for start, end, type_ in batch[index] if (start, end - 1) == (left, right)]
        class_ = torch.tensor(max(classes, default=0))
        total += functional.cross_entropy(labels[index, number], class_).item()
    loss = compute_verifier_loss(VerifiedSpans(spans, is_span, labels), gold, **MEAN)
    assert loss.item() == pytest.approx(total / (len(gold.start) + len(batch)), rel=1e-5)


def test_verifier_loss_has_no_gradient_in_the_denoiser() -> None:
    method, words, gold = method_of(verifier=True), words_of(LENGTHS), gold_of(BATCH)
    words.vectors.requires_grad_()
    loss = method.loss(method.score(words, gold), gold)["verifier_loss"]
    for name, gradient in gradients_of(method, loss).items():
        assert gradient.any() == name.startswith("verifier."), name
    assert words.vectors.grad is not None
    assert words.vectors.grad[0].any()
    assert not words.vectors.grad[~words.mask].any()


@torch.no_grad()
def test_candidates_are_the_spans_of_all_steps_with_their_best_type() -> None:
    method, longest, others = method_of(verifier=True, positions=True), max(LENGTHS), 0
    for seed in range(8):
        words = words_of(LENGTHS, seed)
        scores, expected = verified(method, words, steps=3, spans=9), {}
        assert scores.spans.shape == (3, 2, len(LENGTHS), 9)
        for index, number in np.ndindex(len(LENGTHS), 9):
            ends = {tuple(scores.spans[step, :, index, number].tolist()) for step in range(3)}
            ends |= pairs(torch.from_numpy(scores.boundaries[:, index, number, : LENGTHS[index]]))
            for left, right in ends:
                if left <= right:
                    span = torch.tensor([[left]]), torch.tensor([[right]])
                    probability = method.verifier(words.vectors[index, None], *span)[0, 0].softmax(0)[1:]
                    type_ = int(probability.argmax())
                    of_types = torch.from_numpy(scores.types[index]).softmax(1)[:, 1 + type_]  # [K]
                    ends_at = torch.from_numpy(scores.boundaries[:, index]).sigmoid()  # [2, K, T]
                    denoised = max((of_types * ends_at[0, :, left] * ends_at[1, :, right]).tolist())
                    key = (index * longest + left, index * longest + right + 1, type_)
                    expected[key] = float(probability.max()) * (1 + denoised) / 2
        entities = found_in(decoder_of(method).candidates(scores, predict_of(threshold=0.0)))
        assert entities == pytest.approx(expected, abs=1e-5)
        above = found_in(decoder_of(method).candidates(scores, predict_of(threshold=0.3)))
        assert above == pytest.approx({key: p for key, p in expected.items() if p >= 0.3}, abs=1e-5)
        others += len(entities) - list_spans(scores.spans[-1:], longest).shape[1]
    assert others > 20


@torch.no_grad()
def test_candidates_do_not_depend_on_the_batch() -> None:
    method, count = method_of(verifier=True, positions=True), 0
    decoder, predict = decoder_of(method), predict_of()
    for seed in range(8):
        words = words_of(LENGTHS, seed)
        together = found_in(decoder.candidates(verified(method, words), predict))
        apart = {}
        for index in range(len(LENGTHS)):
            entities = found_in(decoder.candidates(verified(method, alone(words, index)), predict))
            offset = index * max(LENGTHS)
            apart |= {(start + offset, end + offset, type_): p for (start, end, type_), p in entities.items()}
        assert together == pytest.approx(apart, abs=1e-5)
        count += len(apart)
    assert count > 20


def test_sentence_without_valid_spans_has_no_candidates() -> None:
    method, words = method_of(verifier=True), words_of([4, 2])
    graphs = {name: ModuleGraph(graph) for name, graph in method.graphs(words).items()}
    step = graphs["step"]

    def backwards(**inputs):
        types, boundaries = step(**inputs)
        boundaries[:] = -9
        boundaries[0, 0, :, 2:4] = boundaries[1, 0, :, :2] = 5  # from the last words to the first
        return [types, boundaries]

    arrays, decoder = WordArrays(words.vectors.numpy(), words.lengths.numpy()), decoder_of(method)
    for chosen, count in (([0, 1], 1), ([0], 0)):
        scores = decoder.score(arrays.take(chosen), {**graphs, "step": backwards}, predict_of())
        entities = found_in(decoder.candidates(scores, predict_of()))
        assert {start // 4 for start, _, _ in entities} == {1} - {1 - count}


def test_refuses_a_missing_or_wrong_verifier_graph() -> None:
    method, words = method_of(verifier=True), words_of([3])
    graphs = {name: ModuleGraph(graph) for name, graph in method.graphs(words).items()}
    arrays = WordArrays(words.vectors.numpy(), words.lengths.numpy())
    wrong = {**graphs, "verify": lambda **inputs: [np.zeros((1, 1, WIDTH), dtype=np.float32)]}
    with pytest.raises(GraphMismatch, match="the outputs of the graph verify are"):
        decoder_of(method).score(arrays, wrong, predict_of())
    del graphs["verify"]
    with pytest.raises(GraphMismatch, match="the graph verify is missing"):
        decoder_of(method).score(arrays, graphs, predict_of())
