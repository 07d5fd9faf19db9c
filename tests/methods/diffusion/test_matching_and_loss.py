"""Matches of spans and entities and the loss, compared with all permutations and simple loops."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from fencepost.encoder.encoder import Words
from fencepost.methods.diffusion.loss import DenoisedScores, match_proposals
from fencepost.methods.diffusion.network import Diffusion
from tests.methods.diffusion.cases import (
    BATCH,
    LENGTHS,
    NETWORKS,
    TYPES,
    Key,
    by_row,
    denoised,
    gold_of,
    gradients_of,
    method_of,
    noised,
    noisy_in,
    said_in,
    scores_of,
    settings_of,
    words_of,
)
from tests.methods.diffusion.slow import slow_learnt, slow_loss, slow_matches

both_targets = pytest.mark.parametrize("targets", ["repeat", "pad"])


Matches = dict[tuple[int, int], dict[int, Key]]  # by sentence and draw: by span its entity


def matches_of(scores: DenoisedScores, batch: list[list[Key]], draws: int = 1, **settings) -> Matches:
    gold = gold_of([keys for keys in batch for _ in range(draws)])
    row, span, entity = match_proposals(scores, gold, settings_of(**settings))
    assert not any(column.requires_grad for column in (row, span, entity))
    assert torch.equal(gold.sentence[entity], row)
    matches: Matches = {place: {} for place in said_in(scores, draws)}
    for index, number, which in zip(*map(Tensor.tolist, (row, span, entity)), strict=True):
        place = divmod(index, draws)
        assert number not in matches[place]
        matches[place][number] = (int(gold.start[which]), int(gold.end[which]), int(gold.type[which]))
    return matches


@both_targets
@pytest.mark.parametrize("distance", [0.0, 1.5, 50.0])
@pytest.mark.parametrize("spans", [5, 6])
def test_matching_is_the_best_of_all_permutations(targets: str, distance: float, spans: int) -> None:
    settings = settings_of(targets=targets, distance=distance)
    for seed in range(2):
        scores = scores_of(LENGTHS, spans, draws=2, seed=seed)
        matches = matches_of(scores, BATCH, 2, targets=targets, distance=distance)
        for place, noisy in noisy_in(scores, 2).items():
            keys = BATCH[place[0]]
            expected = slow_matches(settings, said_in(scores, 2)[place], noisy, keys)
            assert matches[place] == expected, place
            whole = (spans if keys else 0) if targets == "repeat" else len(keys)
            assert len(matches[place]) == whole
            assert set(matches[place].values()) == set(keys)
        assert scores.types.grad is None


def test_distance_from_the_noisy_span_reduces_the_profit() -> None:
    """All else equal, the nearest span is matched; a more probable one may be farther if it costs little."""
    types, boundaries = torch.zeros(1, 1, 3, 4), torch.zeros(2, 1, 1, 3, 11)
    noisy = torch.tensor([[[0, 4, 6]]]), torch.tensor([[[10, 4, 9]]])
    scores = by_row(types, boundaries, noisy, torch.tensor([11]))
    near: dict[int, Key] = {0: (1, 11, 0), 1: (3, 5, 0), 2: (6, 9, 0)}
    for span, key in near.items():
        assert matches_of(scores, [[key]], targets="pad", distance=0.1)[0, 0] == {span: key}
    assert matches_of(scores, [[*near.values()][::-1]], targets="repeat", distance=0.1)[0, 0] == near
    # to (3, 5), the whole sentence has to go 3 + 6 of 10 words, and the second span 1
    boundaries[0, 0, 0, 0, 3] = torch.logit(torch.tensor(0.7))  # 0.2 more than that of the others
    for distance, span in ((0.24, 0), (0.26, 1)):
        assert matches_of(scores, [[near[1]]], targets="pad", distance=distance)[0, 0] == {span: near[1]}


def test_entities_are_matched_equally_often() -> None:
    """The first ones are repeated once more if necessary; two types on one span are two entities."""
    keys: list[Key] = [(0, 2, 0), (0, 2, 1), (3, 4, 2)]
    matches = matches_of(scores_of([4], 8), [keys], targets="repeat")[0, 0]
    assert [list(matches.values()).count(key) for key in keys] == [3, 3, 2]
    one = matches_of(scores_of([4], 8), [keys[:1]], targets="repeat")[0, 0]
    assert one == dict.fromkeys(range(8), keys[0])


def test_matching_equals_the_result_by_hand() -> None:
    """The first span is the best for both entities; the second one fits only the first entity."""
    types = torch.full((1, 1, 3, 1 + len(TYPES)), -9.0)
    types[..., 0] = 0.0
    types[0, 0, 0, 1:3] = 6.0  # half A, half B
    types[0, 0, 1, 1] = 6.0  # A
    boundaries = torch.full((2, 1, 1, 3, 4), -9.0)
    boundaries[:, 0, 0, :2, 1] = 2.0
    scores = denoised(types, boundaries, [4])
    batch: list[list[Key]] = [[(1, 2, 0), (1, 2, 1)]]
    assert matches_of(scores, batch, targets="pad")[0, 0] == {1: (1, 2, 0), 0: (1, 2, 1)}
    for one, expected in (((1, 2, 0), 1), ((1, 2, 1), 0)):
        assert matches_of(scores, [[one]], targets="pad")[0, 0] == {expected: one}
    boundaries[0, 0, 0, 2, 3], boundaries[1, 0, 0, 2, 2] = 9.0, 9.0  # its end is before its start
    assert matches_of(scores, [[(2, 3, 2)]], targets="pad")[0, 0] == {2: (2, 3, 2)}
    assert matches_of(scores, [[(3, 4, 2)]], targets="pad")[0, 0] == {2: (3, 4, 2)}


@pytest.mark.parametrize("part", ["type", "left", "right"])
def test_matching_uses_type_left_and_right_probabilities(part: str) -> None:
    """All else equal, the span with the higher probability is matched."""
    for better in range(3):
        types, boundaries = torch.zeros(1, 1, 3, 4), torch.zeros(2, 1, 1, 3, 5)
        if part == "type":
            types[0, 0, better, 2] = 1.0
        else:
            boundaries[["left", "right"].index(part), 0, 0, better, {"left": 1, "right": 3}[part]] = 1.0
        scores = denoised(types, boundaries, [5])
        assert matches_of(scores, [[(1, 4, 1)]], targets="pad")[0, 0] == {better: (1, 4, 1)}


LOSSES: dict[str, dict] = {
    "repeat": {"targets": "repeat"},
    "pad": {"targets": "pad"},
    "weights": {"targets": "pad", "none_weight": 0.2, "boundary_weight": 3.0},
    "no-none": {"targets": "pad", "none_weight": 0.0},
    "distance": {"targets": "repeat", "distance": 2.0},
    "no-boundaries": {"targets": "repeat", "boundary_weight": 0.0},
}

BATCHES: dict[str, tuple[list[int], list[list[Key]]]] = {
    "some": (LENGTHS, BATCH),
    "one word": ([1, 1], [[(0, 1, 2)], []]),
    "no entity": ([4, 1, 7], [[], [], []]),
    "two types": ([3], [[(0, 2, 0), (0, 2, 1), (0, 2, 2), (2, 3, 0)]]),
    "all": ([5, 9], [[(0, 1, 0), (1, 2, 1), (2, 3, 2), (3, 4, 0), (4, 5, 1)], [(n, 9, 0) for n in range(5)]]),
}


@pytest.mark.parametrize("settings", LOSSES.values(), ids=LOSSES.keys())
@pytest.mark.parametrize("name", BATCHES)
def test_loss_and_gradients_equal_a_simple_loop(settings: dict, name: str) -> None:
    lengths, batch = BATCHES[name]
    for draws in (1, 2):
        method = method_of(draws=draws, **settings)
        scores = scores_of(lengths, 5, draws=draws, seed=draws)
        results = []
        outputs = said_in(scores, draws)
        for terms in (
            method.loss(scores, gold_of(batch)),
            slow_loss(method.settings, outputs, noisy_in(scores, draws), batch),
        ):
            inputs = (scores.types, scores.boundaries)
            gradients = torch.autograd.grad(sum(terms.values()), inputs, allow_unused=True)
            filled = [
                torch.zeros_like(of) if one is None else one
                for one, of in zip(gradients, inputs, strict=True)
            ]
            results.append([terms["type_loss"], terms["boundary_loss"], *filled])
            assert terms.keys() == {"type_loss", "boundary_loss"}
        for ours, theirs in zip(*results, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)
        assert results[0][0] > 0 or (name == "no entity" and settings.get("none_weight") == 0)


def test_loss_equals_the_value_by_hand() -> None:
    """Two words, two spans, one entity of the first word; all logits except one are 0."""
    types, boundaries = torch.zeros(1, 1, 2, 4), torch.zeros(2, 1, 1, 2, 2)
    boundaries[0, 0, 0, 1, 0] = torch.logit(torch.tensor(0.8))
    scores = denoised(types, boundaries, [2])
    gold = gold_of([[(0, 1, 2)]])
    log2, log4 = torch.tensor(2.0).log().item(), torch.tensor(4.0).log().item()
    of_second = -torch.tensor(0.8).log().item() + 3 * log2
    padded = method_of(targets="pad", none_weight=0.5, boundary_weight=2.0).loss(scores, gold)
    assert padded["type_loss"].item() == pytest.approx(log4 + 0.5 * log4, rel=1e-6)
    assert padded["boundary_loss"].item() == pytest.approx(2 * of_second, rel=1e-6)
    repeated = method_of(targets="repeat", none_weight=0.5, boundary_weight=2.0).loss(scores, gold)
    assert repeated["type_loss"].item() == pytest.approx(log4, rel=1e-6)
    assert repeated["boundary_loss"].item() == pytest.approx(2 * (of_second + 4 * log2) / 2, rel=1e-6)


def compute_loss(method: Diffusion, words: Words, batch: list[list[Key]]) -> Tensor:
    gold = gold_of(batch)
    return sum(method.loss(method.score(words, gold), gold).values())


@pytest.mark.parametrize("targets", ["repeat", "pad"])
@pytest.mark.parametrize("settings", NETWORKS.values(), ids=NETWORKS.keys())
def test_gradients_of_all_weights_equal_a_simple_loop(monkeypatch, settings: dict, targets: str) -> None:
    """From word vectors to the loss."""
    lengths, batch = [6, 1, 4], [[(1, 4, 0), (0, 6, 1), (0, 6, 2)], [(0, 1, 1)], []]
    method = method_of(**{**settings, "targets": targets, "spans": 4, "draws": settings.get("draws", 1)})
    words = words_of(lengths)
    sample = noised(monkeypatch, method, words, batch)
    terms = method.loss(sample.scores, gold_of(batch))
    noisy = noisy_in(sample.scores, method.settings.draws)
    expected = slow_loss(method.settings, slow_learnt(method, words, sample), noisy, batch)
    for name, term in expected.items():
        torch.testing.assert_close(terms[name].double(), term, rtol=1e-4, atol=1e-5, msg=name)
    ours, theirs = (gradients_of(method, sum(some.values())) for some in (terms, expected))
    for name, gradient in theirs.items():
        torch.testing.assert_close(ours[name], gradient, rtol=1e-3, atol=1e-4, msg=name)
    assert sum(bool(gradient.any()) for gradient in ours.values()) > len(ours) / 2


@both_targets
@pytest.mark.parametrize("expansion", ["repeat", "random"])
def test_all_of_more_entities_than_spans_are_matched(monkeypatch, targets: str, expansion: str) -> None:
    """The number of spans is raised to that of the entities."""
    keys: list[Key] = [(0, 1, 0), (0, 2, 1), (1, 4, 2), (3, 4, 0), (0, 4, 1)]
    method = method_of(spans=2, draws=2, targets=targets, expansion=expansion)
    words = words_of([4, 3])
    sample = noised(monkeypatch, method, words, [keys, [(0, 1, 0)]])
    assert sample.scores.types.shape == (2 * 2, 5, 4)
    matches = matches_of(sample.scores, [keys, [(0, 1, 0)]], 2, targets=targets)
    for draw in range(2):
        assert sorted(matches[0, draw].values()) == sorted(keys)
        assert len(matches[1, draw]) == (5 if targets == "repeat" else 1)
    terms = method.loss(sample.scores, gold_of([keys, [(0, 1, 0)]]))
    outputs, noisy = said_in(sample.scores, 2), noisy_in(sample.scores, 2)
    expected = slow_loss(method.settings, outputs, noisy, [keys, [(0, 1, 0)]])
    for name, term in expected.items():
        torch.testing.assert_close(terms[name].double(), term, rtol=1e-5, atol=1e-6)


@both_targets
def test_only_no_entity_is_learnt_without_entities(targets: str) -> None:
    method = method_of(targets=targets)
    words = words_of([4, 1, 7])
    gold = gold_of([[], [], []])
    terms = method.loss(method.score(words, gold), gold)
    assert terms["boundary_loss"] == 0
    assert terms["type_loss"] > 0
    gradients = gradients_of(method, sum(terms.values()))
    assert all(gradient.isfinite().all() for gradient in gradients.values())
    assert not any(gradient.any() for name, gradient in gradients.items() if "pointers" in name)
    assert gradients["denoiser.classifier.3.weight"].any()


def test_none_weight_affects_sentences_with_entities_only_with_pad() -> None:
    scores, gold = scores_of([6], 5), gold_of([[(0, 2, 1)]])
    for targets, learns in (("pad", True), ("repeat", False)):
        losses = [
            method_of(targets=targets, none_weight=weight).loss(scores, gold)["type_loss"]
            for weight in (0, 1)
        ]
        assert bool(losses[0] != losses[1]) == learns


def test_padding_has_no_gradient() -> None:
    method = method_of(positions=True)
    words = words_of(LENGTHS)
    words.vectors.requires_grad_()
    compute_loss(method, words, BATCH).backward()
    assert not words.vectors.grad[~words.mask].any()
    assert words.vectors.grad[words.mask].any(dim=1).all()


@both_targets
def test_confident_errors_have_a_finite_loss(targets: str) -> None:
    scores = scores_of(LENGTHS, 5)
    types, boundaries = (1000 * scores.types)[:, None], (1000 * scores.boundaries)[:, :, None]
    huge = denoised(types.float(), boundaries.float(), LENGTHS)
    method = method_of(targets=targets)
    loss = sum(method.loss(huge, gold_of(BATCH)).values())
    gradients = torch.autograd.grad(loss, (scores.types, scores.boundaries))
    assert loss.isfinite()
    assert all(gradient.isfinite().all() and gradient.any() for gradient in gradients)


def test_bfloat16_loss_is_close_to_float32() -> None:
    method = method_of(positions=True, proposal_codes=True).float()
    with torch.no_grad():
        for parameter in method.parameters():
            parameter.mul_(0.5)
    words = words_of(LENGTHS)
    words = Words(words.vectors.float(), words.lengths)
    expected = compute_loss(method, words, BATCH)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = compute_loss(method, words, BATCH)
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, expected, rtol=0.05, atol=0)
    assert not torch.equal(loss, expected)


def test_turn_decides_which_entity_is_repeated() -> None:
    """With 3 entities for 4 spans, one is matched twice: another one in each turn."""
    method = method_of(targets="repeat", spans=4, draws=1)
    batch = [[(0, 1, 0), (1, 3, 1), (2, 6, 0)]]
    scores = method.score(words_of([6]), gold_of(batch))
    twice = []
    for turn in range(3):
        matches = match_proposals(scores, gold_of(batch), method.settings, turn)
        counts = torch.bincount(matches.entity, minlength=3)
        assert sorted(counts.tolist()) == [1, 1, 2]
        twice.append(int(counts.argmax()))
    assert twice == [0, 1, 2]
