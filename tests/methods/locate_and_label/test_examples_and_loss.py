"""Examples and losses of locate-and-label, compared with the formulas of the paper."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from fencepost.encoder.encoder import Words
from fencepost.methods.locate_and_label.loss import (
    Examples,
    assign_classes,
    compute_filter_loss,
    compute_regressor_loss,
    compute_soft_weights,
)
from fencepost.methods.locate_and_label.network import ExampleScores, LocateAndLabel
from fencepost.methods.locate_and_label.settings import LocateAndLabelSettings
from fencepost.methods.locate_and_label.spans import Spans, pair_spans
from fencepost.methods.network import Gold
from tests.methods.locate_and_label.cases import (
    BATCH,
    LENGTHS,
    Key,
    Place,
    SlowNetwork,
    arrays_of,
    gold_of,
    gradients_of,
    network_of,
    places_of,
    random_batch,
    seeded,
    slow_adjusted,
    slow_class,
    slow_examples,
    slow_loss,
    slow_regression,
    slow_wanted,
    slow_weight,
    spans_of,
    words_for,
)

Row = tuple[int, int, int, int, int, int, bool]  # sentence, span, entity with type, whether positive


def rows_of(examples: Examples, gold: Gold) -> list[tuple[Row, float]]:
    columns = (examples.entity.tolist(), examples.positive.tolist(), examples.iou.tolist())
    entities = list(
        zip(*(column.tolist() for column in (gold.sentence, gold.start, gold.end, gold.type)), strict=True)
    )
    rows = []
    for place, index, positive, iou in zip(places_of(examples.spans), *columns, strict=True):
        sentence, *key = (place[0], -1, -1, -1) if index < 0 else entities[index]
        assert sentence == place[0]
        rows.append(((*place, *key, positive), iou))
    return rows


def slow_rows(
    settings: LocateAndLabelSettings, lengths: list[int], batch: list[list[Key]]
) -> dict[int, dict[Row, float]]:
    """Return all possible examples by sentence, with the IoU of each."""
    return {
        index: {
            (index, *span, *(entity or (-1, -1, -1)), positive): iou
            for span, entity, iou, positive in slow_examples(settings, keys, length)
        }
        for index, (length, keys) in enumerate(zip(lengths, batch, strict=True))
    }


SAMPLINGS: dict[str, dict] = {
    "some": {},
    "half": {"negatives": 0.5, "extra_negatives": 1},
    "none": {"negatives": 0.0, "extra_negatives": 0},
    "extra": {"negatives": 0.0, "extra_negatives": 3},
    "all": {"negatives": 1000.0, "extra_negatives": 1000},
    "near": {"near": 0.0},
    "exact": {"near": 1.0},
}


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("settings", SAMPLINGS.values(), ids=SAMPLINGS.keys())
def test_examples_are_entities_positive_and_some_negative_seeds(settings: dict, training: bool) -> None:
    network = network_of(**settings).train(training)
    chance = seeded(2)
    for number in range(15):
        lengths, batch = random_batch(chance)
        expected = slow_rows(network.settings, lengths, batch)
        gold = gold_of(batch, number)
        examples = rows_of(network.sample(gold, torch.tensor(lengths)), gold)
        assert len({row for row, _ in examples}) == len(examples)
        by_sentence: dict[int, list[Row]] = {index: [] for index in expected}
        for row, iou in examples:
            assert expected[row[0]][row] == pytest.approx(iou, abs=1e-6)
            by_sentence[row[0]].append(row)
        for index, rows in by_sentence.items():
            assert {row for row in rows if row[-1]} == {row for row in expected[index] if row[-1]}
            count = slow_wanted(
                network.settings, slow_examples(network.settings, batch[index], lengths[index])
            )
            assert sum(not row[-1] for row in rows) == count


def test_numbers_of_examples_equal_those_by_hand() -> None:
    """Two entities and two seeds near the longer one: four positives, so 2 * 4 + 1 negatives."""
    network = network_of(lengths=(1, 2, 3, 4), near=0.7, negatives=2.0, extra_negatives=1)
    batch: list[list[Key]] = [[(0, 4, 0), (6, 7, 1)], []]
    examples = network.sample(gold_of(batch), torch.tensor([7, 7]))
    spans = examples.spans
    positive = [place for place, yes in zip(places_of(spans), examples.positive, strict=True) if yes]
    assert sorted(positive) == [(0, 0, 3), (0, 0, 4), (0, 1, 4), (0, 6, 7)]  # 3/4 is above 0.7
    counts = Counter(
        (int(index), bool(yes)) for index, yes in zip(spans.sentence, examples.positive, strict=True)
    )
    assert counts == {(0, True): 4, (0, False): 9, (1, False): 1}


def test_entity_with_two_types_is_two_examples() -> None:
    gold = gold_of([[(0, 1, 2), (0, 1, 0)]])
    examples = network_of(negatives=0.0, extra_negatives=0).sample(gold, torch.tensor([1]))
    assert places_of(examples.spans) == [(0, 0, 1), (0, 0, 1)]
    assert sorted(gold.type[examples.entity].tolist()) == [0, 2]


def test_evaluation_examples_are_deterministic() -> None:
    network = network_of()
    state = torch.random.get_rng_state()
    draws = [places_of(network.sample(gold_of(BATCH), torch.tensor(LENGTHS)).spans) for _ in range(3)]
    assert draws[0] == draws[1] == draws[2]
    assert torch.equal(torch.random.get_rng_state(), state)


def test_negative_seeds_are_drawn_equally_often_in_training() -> None:
    network = network_of(negatives=1.0, extra_negatives=1).train()
    torch.manual_seed(0)
    draws = 600
    counts: Counter[Place] = Counter()
    gold, lengths = gold_of(BATCH), torch.tensor(LENGTHS)
    for _ in range(draws):
        examples = network.sample(gold, lengths)
        counts.update(
            place for place, yes in zip(places_of(examples.spans), examples.positive, strict=True) if not yes
        )
    for index, (keys, length) in enumerate(zip(BATCH, LENGTHS, strict=True)):
        examples = slow_examples(network.settings, keys, length)
        negatives = [example.span for example in examples if not example.positive]
        if not negatives:
            continue
        share = slow_wanted(network.settings, examples) / len(negatives)
        assert 0 < share < 1
        off = [counts[index, *span] - draws * share for span in negatives]
        variance = draws * share * (1 - share)
        assert max(map(abs, off)) < 5 * math.sqrt(variance)
        # the sum over all seeds is within five standard deviations of their number
        together = sum(one * one for one in off) / variance
        assert together < len(off) + 5 * math.sqrt(2 * len(off))


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans())), st.sampled_from([0.0, 0.5, 1.0, 2.0]))
def test_weights_equal_the_formula(rows: list[tuple[float, bool]], eta: float) -> None:
    iou = torch.tensor([row[0] for row in rows], dtype=torch.float64)
    positive = torch.tensor([row[1] for row in rows], dtype=torch.bool)
    expected = [slow_weight(*row, eta) for row in rows]
    assert compute_soft_weights(iou, positive, eta).tolist() == pytest.approx(expected)


def test_eta_0_weights_all_examples_equally() -> None:
    iou, positive = torch.tensor([0.0, 0.0, 0.4, 0.4, 1.0, 1.0]), torch.tensor([True, False] * 3)
    assert compute_soft_weights(iou, positive, 0.0).tolist() == [1.0] * 6
    assert compute_soft_weights(iou, positive, 1.0).tolist() == pytest.approx([0, 1, 0.4, 0.6, 1, 0])


@given(
    st.lists(st.tuples(st.floats(-30, 30), st.booleans()), min_size=1),
    st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.5]),
)
def test_focal_loss_equals_the_formula(rows: list[tuple[float, bool]], gamma: float) -> None:
    logits = torch.tensor([row[0] for row in rows], dtype=torch.float64)
    expected = []
    for logit, positive in rows:
        yes, no = 1 / (1 + math.exp(-logit)), 1 / (1 + math.exp(logit))
        expected.append(-(no**gamma) * math.log(yes) if positive else -(yes**gamma) * math.log(no))
    losses = compute_filter_loss(logits, torch.tensor([row[1] for row in rows]), gamma)
    assert losses.tolist() == pytest.approx(expected, rel=1e-6, abs=1e-8)


def test_focal_loss_of_huge_logits_is_finite() -> None:
    logits = torch.tensor([200.0, -200.0, 200.0, -200.0], requires_grad=True)
    losses = compute_filter_loss(logits, torch.tensor([True, False, False, True]), 2.0)
    assert losses.tolist() == pytest.approx([0, 0, 200, 200])
    losses.sum().backward()
    assert logits.grad.tolist() == pytest.approx([0, 0, 1, -1])


spans_within = st.tuples(st.integers(0, 9), st.integers(1, 9)).map(lambda pair: (pair[0], pair[0] + pair[1]))
small = st.sampled_from([-1.0, 0.0, 1.0, 2.5]) | st.floats(-6, 6)


@given(st.lists(st.tuples(spans_within, small, small, spans_within), max_size=12))
def test_regression_loss_equals_the_formulas(rows: list) -> None:
    offsets = torch.tensor([row[1:3] for row in rows], dtype=torch.float64).view(-1, 2)
    spans, entities = (spans_of([(0, *row[side]) for row in rows]) for side in (0, 3))
    losses = compute_regressor_loss(spans, offsets, entities)
    expected = [slow_regression(row[0], pair, row[3]).item() for row, pair in zip(rows, offsets, strict=True)]
    assert losses.tolist() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("offsets", "expected"),
    [
        ((0, 1), 0.0),  # exactly the entity
        ((0, 0), 0.5 + 1 - 2 / 3),  # one word too short: (1^2) / 2, and two of three words
        ((0.5, 1), 0.5 * 0.25 + 1 - 2.5 / 3),
        ((-2, 1), 1.5 + 1 - 3 / 5),  # two words too early: 2 - 1/2, and three of five
        ((5, 6), 2 * 4.5 + 1 + 2 / 8),  # two words after it: less than nothing is shared
    ],
)
def test_regression_loss_equals_the_values_by_hand(offsets: tuple[float, float], expected: float) -> None:
    """The span has the words 2 and 3, its entity the words 2 to 4."""
    losses = compute_regressor_loss(
        spans_of([(0, 2, 4)]), torch.tensor([offsets]).double(), spans_of([(0, 2, 5)])
    )
    assert losses.tolist() == pytest.approx([expected], abs=1e-6)


@pytest.mark.parametrize("hit", [1.0, 0.6, 0.3])
def test_classes_of_moved_spans_equal_those_of_the_paper(hit: float) -> None:
    """Seeds move at random: many miss, some hit their own entity, and some another one."""
    network = network_of(hit=hit)
    chance = seeded(3)
    outcomes: Counter[str] = Counter()
    for number in range(40):
        lengths, batch = random_batch(chance, longest=7)
        gold = gold_of(batch, number)
        examples, moved = network.sample(gold, torch.tensor(lengths)), []
        for index, *span in places_of(examples.spans):
            offsets = (chance.choice([-1.0, 0.0, 0.0, 1.0]), chance.choice([-1.0, 0.0, 0.0, 1.0]))
            moved.append((index, *slow_adjusted(tuple(span), offsets, lengths[index])))
        class_, iou = assign_classes(spans_of(moved), examples, hit)
        rows = rows_of(examples, gold)
        for (row, _), (index, *span), label, overlap in zip(
            rows, moved, class_.tolist(), iou.tolist(), strict=True
        ):
            entity = None if row[3] < 0 else row[3:6]
            expected = slow_class(tuple(span), entity, batch[index], hit)
            assert (label, overlap) == (expected[0], pytest.approx(expected[1], abs=1e-6))
            if not label:
                outcomes["none"] += 1
            elif entity is not None and tuple(span) == entity[:2]:
                outcomes["own"] += 1
            else:
                outcomes["other" if expected[1] == 1 else "near"] += 1
    assert min(outcomes[name] for name in ("own", "other", "none")) > 5
    assert (outcomes["near"] > 15) == (hit < 1)


def test_classes_equal_those_by_hand() -> None:
    keys: list[Key] = [(0, 4, 0), (5, 6, 1), (1, 4, 2)]
    cases = [  # the seed, where it was moved to, the class and the IoU that decides
        ((0, 0, 4), (0, 0, 4), 1, 1.0),  # the entity itself
        ((0, 0, 4), (0, 0, 5), 1, 0.8),  # near enough
        ((0, 0, 4), (0, 1, 4), 1, 0.75),  # exactly another one, but near enough to its own
        ((0, 0, 4), (0, 5, 6), 2, 1.0),  # exactly another one
        ((0, 0, 4), (0, 0, 2), 0, 0.5),  # not near enough
        ((0, 4, 5), (0, 0, 4), 1, 1.0),  # a negative one that lands on an entity
        ((0, 4, 5), (0, 5, 6), 2, 1.0),
        ((0, 4, 5), (0, 4, 6), 0, 0.0),  # only near another one: none
        ((1, 0, 2), (1, 0, 4), 0, 0.0),  # in a sentence without entities
    ]
    seeds, moved = (spans_of([case[at] for case in cases]) for at in (0, 1))
    gold = arrays_of(gold_of([keys, []]))
    entities = Spans(*(np.append(column, -1) for column in (gold.sentence, gold.start, gold.end)))
    entity, iou = pair_spans(seeds, entities)
    examples = Examples(seeds, entity, iou, iou > 0.6, entities, np.append(gold.type, -1))
    class_, iou = assign_classes(moved, examples, 0.75)
    assert class_.tolist() == [case[2] for case in cases]
    assert iou.tolist() == pytest.approx([case[3] for case in cases])


LOSSES: dict[str, dict] = {
    "plain": {},
    "near-hits": {"hit": 0.6, "near": 0.4},
    "no-filter": {"filter": False},
    "no-regressor": {"regressor": False},
    "neither": {"filter": False, "regressor": False, "hit": 0.5},
    "hard-examples": {"eta": 0.0, "near": 0.3},
    "squared-weights": {"eta": 2.0, "gamma": 1.0, "hit": 0.6},
    "focal-classifier": {"classifier_gamma": 2.0, "gamma": 0.0},
    "all-negatives": {"negatives": 100.0},
    "sentence-vector": {"sentence_vector": True, "lengths": (2, 4)},
}


def scores_of(network: LocateAndLabel, words: Words, batch: list[list[Key]]) -> ExampleScores:
    return network.score(words, gold_of(batch))


def loss_of(network: LocateAndLabel, words: Words, batch: list[list[Key]]) -> dict[str, Tensor]:
    return network.loss(scores_of(network, words, batch), gold_of(batch))


def total(terms: dict[str, Tensor]) -> Tensor:
    return torch.stack([term.double() for term in terms.values()]).sum()


@pytest.mark.parametrize("settings", LOSSES.values(), ids=LOSSES.keys())
def test_loss_and_gradients_equal_a_simple_loop(settings: dict) -> None:
    network = network_of(**settings)
    chance = seeded(4)
    for number, (lengths, batch) in enumerate(
        [(LENGTHS, BATCH), *(random_batch(chance, 8) for _ in range(3))]
    ):
        words = words_for(network, lengths, number)
        scores = scores_of(network, words, batch)
        terms = network.loss(scores, gold_of(batch))
        expected = slow_loss(network, words, batch, set(places_of(scores.examples.spans)))
        assert terms.keys() == expected.keys()
        for name, term in expected.items():
            torch.testing.assert_close(terms[name].double(), term, rtol=1e-4, atol=1e-6, msg=name)
        fast, slow = gradients_of(network, total(terms)), gradients_of(network, total(expected))
        for name, gradient in slow.items():
            torch.testing.assert_close(fast[name], gradient, rtol=1e-3, atol=1e-5, msg=name)


def test_loss_test_covers_moved_spans_and_changed_classes() -> None:
    """Otherwise the comparison of losses would prove little."""
    network = network_of(hit=0.6, near=0.4)
    scores = scores_of(network, words_for(network, LENGTHS), BATCH)
    class_, _ = assign_classes(scores.moved, scores.examples, 0.6)
    moved = [
        one != other
        for one, other in zip(places_of(scores.examples.spans), places_of(scores.moved), strict=True)
    ]
    assert 5 < sum(moved) < len(moved) - 5
    positive = scores.examples.positive
    assert min(int((positive & (class_ == 0)).sum()), int((positive & (class_ > 0)).sum())) > 0


def test_scores_of_examples_equal_the_formulas() -> None:
    network = network_of(sentence_vector=True)
    words = words_for(network, LENGTHS)
    scores = scores_of(network, words, BATCH)
    slow = [SlowNetwork(network, words, index) for index in range(len(LENGTHS))]
    columns = (
        places_of(scores.examples.spans),
        scores.near,
        scores.offsets,
        places_of(scores.moved),
        scores.labels,
    )
    for (index, *seed), near, offsets, (_, *moved), labels in zip(*columns, strict=True):
        of_sentence, span = slow[index], tuple(seed)
        torch.testing.assert_close(near.double(), of_sentence.near(span), rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(offsets.double(), of_sentence.offsets(span), rtol=1e-4, atol=1e-5)
        assert tuple(moved) == of_sentence.moved(span)
        torch.testing.assert_close(labels.double(), of_sentence.labels(tuple(moved)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("settings", LOSSES.values(), ids=LOSSES.keys())
def test_every_weight_has_a_gradient(settings: dict) -> None:
    network = network_of(**settings).train()
    gradients = gradients_of(network, total(loss_of(network, words_for(network, LENGTHS), BATCH)))
    for name, gradient in gradients.items():
        assert gradient.isfinite().all(), name
        assert gradient.any(), name


def test_words_and_prompts_have_gradients_and_padding_has_none() -> None:
    network = network_of(sentence_vector=True)
    words = words_for(network, LENGTHS)
    words.vectors.requires_grad_()
    words.prompts.requires_grad_()
    total(loss_of(network, words, BATCH)).backward()
    assert not words.vectors.grad[~words.mask].any()
    assert words.vectors.grad[words.mask].any(dim=1).float().mean() > 0.9
    assert words.prompts.grad.any(dim=2).all()


def test_weights_scale_the_terms_of_the_loss() -> None:
    plain = network_of(filter_weight=1, regressor_weight=1, classifier_weight=1)
    whole = loss_of(plain, words_for(plain, LENGTHS), BATCH)
    weights = {"filter": 0.5, "regressor": 0.25, "classifier": 2.0}
    network = network_of(**{f"{name}_weight": weight for name, weight in weights.items()})
    terms = loss_of(network, words_for(network, LENGTHS), BATCH)
    for name, weight in weights.items():
        torch.testing.assert_close(terms[f"{name}_loss"], weight * whole[f"{name}_loss"])


def test_disabled_parts_have_no_loss_term() -> None:
    words = words_for(network_of(), LENGTHS)
    names = {"filter_loss", "regressor_loss", "classifier_loss"}
    assert loss_of(network_of(), words, BATCH).keys() == names
    assert loss_of(network_of(filter=False), words, BATCH).keys() == names - {"filter_loss"}
    assert loss_of(network_of(regressor=False), words, BATCH).keys() == names - {"regressor_loss"}


def test_classifier_loss_has_no_gradient_in_filter_and_regressor() -> None:
    """Rounded offsets have no gradient."""
    network = network_of()
    gradients = gradients_of(network, loss_of(network, words_for(network, LENGTHS), BATCH)["classifier_loss"])
    assert not any(
        gradient.any() for name, gradient in gradients.items() if name.startswith(("filter", "regr"))
    )


def assert_learns(network: LocateAndLabel, lengths: list[int], batch: list[list[Key]]) -> dict[str, Tensor]:
    """Assert that the loss equals that of the loop, and that gradients are finite."""
    words = words_for(network, lengths)
    scores = scores_of(network, words, batch)
    terms = network.loss(scores, gold_of(batch))
    expected = slow_loss(network, words, batch, set(places_of(scores.examples.spans)))
    for name, term in expected.items():
        torch.testing.assert_close(terms[name].double(), term, rtol=1e-4, atol=1e-6, msg=name)
    gradients = gradients_of(network, total(terms))
    assert all(gradient.isfinite().all() for gradient in gradients.values())
    return terms


def test_batch_without_entities_trains_filter_and_classifier() -> None:
    terms = assert_learns(network_of(), [3, 1, 7], [[], [], []])
    assert terms["filter_loss"] > 0
    assert terms["classifier_loss"] > 0
    assert terms["regressor_loss"] == 0


def test_loss_without_examples_is_0() -> None:
    """A batch without entities has no examples if no extra negatives are configured."""
    terms = assert_learns(network_of(negatives=5.0, extra_negatives=0), [3, 1], [[], []])
    assert total(terms) == 0


def test_loss_is_correct_for_sentences_shorter_than_all_lengths() -> None:
    network = network_of(lengths=(4, 5))
    assert_learns(network, [3, 1], [[(0, 2, 1)], [(0, 1, 0)]])
    assert_learns(network, [3, 6, 1], [[(0, 2, 1)], [], []])
    terms = assert_learns(network, [3, 1], [[], []])
    assert total(terms) == 0


def test_entities_longer_than_all_lengths_are_examples() -> None:
    network = network_of(lengths=(1, 2), negatives=1.0, extra_negatives=0)
    batch: list[list[Key]] = [[(0, 9, 0), (2, 8, 1)]]
    examples = network.sample(gold_of(batch), torch.tensor([9]))
    assert sorted(places_of(examples.spans)[:2]) == [(0, 0, 9), (0, 2, 8)]
    assert (int(examples.positive.sum()), len(examples.spans.start)) == (2, 4)
    assert assert_learns(network, [9], batch)["regressor_loss"] > 0


@pytest.mark.parametrize("settings", [{"gamma": 0.5}, {"classifier_gamma": 0.5}, {"classifier_gamma": 1.5}])
def test_confident_examples_have_finite_gradients(settings: dict) -> None:
    """In single precision, probabilities can be exactly 0 and 1."""
    network = network_of(**settings)
    with torch.no_grad():
        for head in (network.filter, network.classifier):
            head.output.bias.mul_(1000)
            head.output.weight.mul_(1000)
    terms = loss_of(network, words_for(network, LENGTHS), BATCH)
    gradients = gradients_of(network, total(terms))
    assert all(gradient.isfinite().all() for gradient in gradients.values())


def test_bfloat16_loss_is_close_to_float32() -> None:
    network = network_of(regressor=False).float()
    words = words_for(network, LENGTHS)
    words = Words(words.vectors.float(), words.lengths)
    expected = loss_of(network, words, BATCH)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        terms = loss_of(network, words, BATCH)
        moving = loss_of(network_of().float(), words, BATCH)
    for name, term in expected.items():
        assert terms[name].dtype == torch.float32
        torch.testing.assert_close(terms[name], term, rtol=0.05, atol=0)
    assert all(term.dtype == torch.float32 and term.isfinite() for term in moving.values())
