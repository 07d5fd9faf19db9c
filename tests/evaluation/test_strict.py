from __future__ import annotations

import json
import warnings
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from seqeval.metrics import classification_report
from seqeval.scheme import IOB2

from fencepost.data.entity import Entity, Sentence
from fencepost.errors import UsageError
from fencepost.evaluation import Evaluation, Matches, Score, Temperature, evaluate, fit_threshold, match
from fencepost.evaluation.calibration import BoolArray, FloatArray

Pair = tuple[Sentence, Sentence]


def sentence(length: int, *entities: Entity) -> Sentence:
    return Sentence([f"w{index}" for index in range(length)], entities)


def compare(pairs: list[Pair]) -> Matches:
    return match((gold for gold, _ in pairs), (predicted for _, predicted in pairs))


def test_scores_by_length_group_equal_those_by_hand() -> None:
    gold = sentence(30, Entity(0, 1, "A"), Entity(2, 6, "A"), Entity(0, 5, "A"), Entity(3, 30, "A"))
    predicted = sentence(30, Entity(0, 1, "A"), Entity(2, 6, "B"), Entity(3, 30, "A"), Entity(4, 30, "A"))
    result = evaluate([gold], [predicted])
    assert result.by_length_group([1, 4, 5]) == {
        "1-3": Score.of(1, 1, 1),
        "4": Score.of(0, 1, 1),
        "5 or more": Score.of(1, 2, 2),
    }
    assert result.by_length_group([6, 30]) == {"6-29": Score.of(1, 2, 1), "30 or more": Score.of(0, 0, 0)}


# --- The fitted threshold --------------------------------------------------------------------------------


def scored(gold: int, *predictions: tuple[float, bool]) -> Matches:
    """Match one sentence with this number of entities and predictions with confidence and correctness."""
    length = gold + len(predictions) + 1
    right = iter(range(gold))
    wrong = iter(range(gold, length))
    true = sentence(length, *(Entity(i, i + 1, "A") for i in range(gold)))
    predicted = [Entity(i := next(right if hit else wrong), i + 1, "A", score) for score, hit in predictions]
    return compare([(true, sentence(length, *predicted))])


def test_fitted_threshold_is_half_of_the_best_f1_once_calibrated() -> None:
    # F1 after each: 2/5, 4/6, 4/7, 6/8, 6/9
    predictions = ((0.9, True), (0.8, True), (0.7, False), (0.5, True), (0.3, False))
    threshold = fit_threshold(scored(4, *predictions))
    temperature = Temperature.fit(*zip(*predictions, strict=True))
    assert temperature.apply(np.array([threshold]))[0] == pytest.approx(6 / 8 / 2)
    assert fit_threshold(scored(3, (0.9, False))) is None
    assert fit_threshold(scored(3)) is None


def test_fitted_threshold_does_not_depend_on_the_order_of_equal_confidences() -> None:
    empty, entity = sentence(1), Entity(0, 1, "A")
    pairs = [(sentence(1, entity), sentence(1, replace(entity, score=0.9)))] * 5
    pairs += [(empty, sentence(1, replace(entity, score=score))) for score in [0.9] * 5 + [0.2] * 20]
    first, last = fit_threshold(compare(pairs)), fit_threshold(compare(pairs[::-1]))
    assert first == pytest.approx(last)


def test_fitted_threshold_leaves_a_correct_prediction() -> None:
    """A few predictions among many are not enough to calibrate them."""
    assert fit_threshold(scored(1, (0.995, False), (0.99, True), *[(0.98, False)] * 500)) == 0.99


@pytest.mark.parametrize(("power", "missed"), [(1, 0), (1.5, 0), (1, 400), (0.3, 100)])
def test_fitted_threshold_has_the_best_f1_of_many_other_predictions(power: float, missed: int) -> None:
    """Of confidences that are the probabilities of being correct, and of others that only grow with these."""
    random = np.random.default_rng(0)

    def draw(count: int) -> tuple[FloatArray, BoolArray]:
        probability = random.random(count)
        logit = 3 * np.log(probability / (1 - probability)) - 1
        return 1 / (1 + np.exp(-power * logit)), random.random(count) < probability

    confidence, correct = draw(500)
    gold = int(correct.sum()) + missed
    threshold = fit_threshold(scored(gold, *zip(confidence.tolist(), correct.tolist(), strict=True)))
    assert threshold is not None
    confidence, correct = draw(100_000)
    gold = int(correct.sum()) + 200 * missed

    def f1(minimum: float) -> float:
        is_predicted = confidence >= minimum
        return Score.of(int(correct[is_predicted].sum()), int(is_predicted.sum()), gold).f1

    assert (
        f1(threshold)
        >= max(f1(minimum) for minimum in np.quantile(confidence, np.arange(0, 1, 0.01))) - 0.005
    )


# --- Examples by hand -----------------------------------------------------------------------------


def test_scores_of_nested_entities_equal_those_by_hand() -> None:
    gold = [
        sentence(6, Entity(0, 6, "ORG"), Entity(3, 4, "LOC"), Entity(3, 4, "ORG")),
        sentence(3, Entity(0, 2, "PER")),
    ]
    predicted = [
        sentence(
            6,
            Entity(0, 6, "ORG", 0.9),  # correct
            Entity(3, 4, "LOC", 0.8),  # correct, one of two types on its span
            Entity(3, 4, "PER", 0.3),  # the right span with a wrong type
            Entity(3, 5, "ORG", 0.2),  # one word too many
        ),
        sentence(3, Entity(0, 2, "PER", 0.7)),  # correct
    ]
    result = evaluate(gold, predicted)
    assert result.overall == Score(3 / 5, 3 / 4, 2 * 3 / 9, 3, 5, 4)
    assert result.by_type == {
        "LOC": Score(1.0, 1.0, 1.0, 1, 1, 1),
        "ORG": Score(1 / 2, 1 / 2, 1 / 2, 1, 2, 2),
        "PER": Score(1 / 2, 1.0, 2 / 3, 1, 2, 1),
    }
    assert result.macro_f1 == pytest.approx((1 + 1 / 2 + 2 / 3) / 3)
    assert result.by_length == {
        1: Score(1 / 2, 1 / 2, 1 / 2, 1, 2, 2),
        2: Score(1 / 2, 1.0, 2 / 3, 1, 2, 1),
        6: Score(1.0, 1.0, 1.0, 1, 1, 1),
    }
    assert result.sentences == 2
    # Each prediction is alone in its bin: 0.9, 0.8 and 0.7 are correct, 0.3 and 0.2 are not.
    assert result.calibration.ece == pytest.approx((0.1 + 0.2 + 0.3 + 0.3 + 0.2) / 5)


def test_match_columns_equal_those_by_hand() -> None:
    gold = [sentence(0), sentence(4, Entity(0, 1, "B"), Entity(2, 4, "A"))]
    predicted = [sentence(0), sentence(4, Entity(2, 4, "A", 0.25), Entity(2, 4, "Z", 0.5))]
    matches = match(gold, predicted)
    assert matches.types == ("A", "B", "Z")
    assert matches.sentences == 2
    assert matches.gold.sentence.tolist() == [1, 1]
    assert matches.gold.start.tolist() == [0, 2]
    assert matches.gold.end.tolist() == [1, 4]
    assert matches.gold.length.tolist() == [1, 2]
    assert matches.gold.type.tolist() == [1, 0]
    assert matches.gold.matched.tolist() == [False, True]
    assert matches.predicted.type.tolist() == [0, 2]
    assert matches.predicted.score.tolist() == [0.25, 0.5]
    assert matches.predicted.matched.tolist() == [True, False]
    assert matches.count_by_sentence().tolist() == [[0, 0, 0], [1, 2, 2]]


def test_duplicates_count_once_with_the_highest_score() -> None:
    gold = [sentence(3, Entity(0, 2, "A"), Entity(0, 2, "A"))]
    predicted = [sentence(3, Entity(0, 2, "A", 0.2), Entity(0, 2, "A", 0.9), Entity(0, 2, "A", 0.4))]
    matches = match(gold, predicted)
    assert Evaluation.of(matches).overall == Score(1.0, 1.0, 1.0, 1, 1, 1)
    assert matches.predicted.score.tolist() == [0.9]


def test_same_entity_in_another_sentence_does_not_match() -> None:
    with_entity, without = sentence(2, Entity(0, 1, "A")), sentence(2)
    matches = match([with_entity, without], [without, with_entity])
    assert Evaluation.of(matches).overall == Score(0.0, 0.0, 0.0, 0, 1, 1)
    assert matches.count_by_sentence().tolist() == [[0, 0, 1], [0, 1, 0]]


@pytest.mark.parametrize(
    ("gold", "predicted", "expected"),
    [
        ([], [], Score(0.0, 0.0, 0.0, 0, 0, 0)),
        ([sentence(0), sentence(2)], [sentence(0), sentence(2)], Score(0.0, 0.0, 0.0, 0, 0, 0)),
        ([sentence(2)], [sentence(2, Entity(0, 1, "A"))], Score(0.0, 0.0, 0.0, 0, 1, 0)),
        ([sentence(2, Entity(0, 1, "A"))], [sentence(2)], Score(0.0, 0.0, 0.0, 0, 0, 1)),
    ],
)
def test_scores_without_entities_are_0(gold, predicted, expected: Score) -> None:
    result = evaluate(gold, predicted)
    assert result.overall == expected
    assert result.macro_f1 == 0.0
    assert result.calibration is None
    assert result.sentences == len(gold)
    assert match(gold, predicted).count_by_sentence().shape == (len(gold), 3)


def test_predictions_without_confidences_have_no_ece() -> None:
    gold = [sentence(4, Entity(0, 3, "A"), Entity(1, 2, "B"))]
    certain = evaluate(gold, [sentence(4, Entity(0, 3, "A"))])
    assert certain.calibration is None
    assert certain.to_dict()["ece"] is None
    unsure = evaluate(gold, [sentence(4, Entity(0, 3, "A"), Entity(0, 1, "B", 0.5))])
    assert unsure.to_dict()["ece"] == pytest.approx(0.25)


def test_to_dict_is_valid_json() -> None:
    gold = [sentence(4, Entity(0, 3, "A"))]
    predicted = [sentence(4, Entity(0, 3, "A", 0.75), Entity(1, 2, "B", 0.5))]
    result = evaluate(gold, predicted).to_dict()
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    perfect = {"precision": 1.0, "recall": 1.0, "f1": 1.0, "true_positives": 1, "predicted": 1, "support": 1}
    wrong = {**dict.fromkeys(perfect, 0), "predicted": 1}
    assert result.pop("reliability")[7] == {
        "lower": 0.7,
        "upper": 0.8,
        "count": 1,
        "confidence": 0.75,
        "accuracy": 1.0,
    }
    assert result == {
        "precision": 0.5,
        "recall": 1.0,
        "f1": 2 / 3,
        "macro_f1": 0.5,
        "true_positives": 1,
        "predicted": 2,
        "support": 1,
        "sentences": 1,
        "by_type": {"A": perfect, "B": wrong},
        "by_length": {"1": wrong, "3": perfect},
        "ece": pytest.approx((0.25 + 0.5) / 2),
    }


def test_scores_a_huge_sentence() -> None:
    """The product of positions exceeds 32 bits, and other sentences follow."""
    words = ("w",) * 300_000
    entities = [Entity(0, 300_000, "A"), Entity(299_999, 300_000, "A")]
    gold = [Sentence(words, entities)] * 3
    predicted = [gold[0], Sentence(words, entities[1:]), Sentence(words)]
    matches = match(gold, predicted)
    assert matches.count_by_sentence().tolist() == [[2, 2, 2], [1, 1, 2], [0, 0, 2]]
    assert list(Evaluation.of(matches).by_length) == [1, 300_000]


# --- Data that does not match ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gold", "predicted", "message"),
    [
        (2, 3, "sentence 3 is only in the predictions"),
        (3, 2, "sentence 3 is only in the gold"),
        (0, 1, "sentence 1 is only in the predictions"),
    ],
)
def test_refuses_different_numbers_of_sentences(gold: int, predicted: int, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        match([sentence(1)] * gold, (sentence(1) for _ in range(predicted)))


@pytest.mark.parametrize(
    ("gold", "predicted", "message"),
    [
        (Sentence(["a", "b", "c"], id="d-7"), Sentence(["a", "B", "c"]), r"2 \(d-7\).*2 is 'b'.*'B'"),
        (Sentence(["a"]), Sentence(["b"], id="p"), r"sentence 2 \(p\) .*word 1 is 'a'.*'b'"),
        (Sentence(["a"]), Sentence(["a", "b"]), r"sentence 2 has.*word 2 is missing.*'b' in the pr"),
        (Sentence(["a", "b"]), Sentence(["a"]), r"word 2 is 'b' in the gold and missing in"),
    ],
)
def test_refuses_different_words(gold: Sentence, predicted: Sentence, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        match([sentence(1), gold], [sentence(1), predicted])


# --- Comparison with sets -------------------------------------------------------------------------


@st.composite
def entities(draw: st.DrawFn, words: int) -> list[Entity]:
    result = []
    for _ in range(draw(st.integers(0, 6)) if words else 0):
        start = draw(st.integers(0, words - 1))
        end = draw(st.integers(start + 1, words))
        result.append(Entity(start, end, draw(st.sampled_from("CAB")), draw(st.floats(0, 1))))
    return result


@st.composite
def pair(draw: st.DrawFn) -> Pair:
    words = draw(st.integers(0, 5))
    gold = draw(entities(words))
    copied = draw(st.lists(st.sampled_from(gold))) if gold else []  # so that some are correct
    return sentence(words, *gold), sentence(words, *copied, *draw(entities(words)))


Key = tuple[int, int, int, str]  # sentence, start, end, type


def best_scores(sentences: list[Sentence]) -> dict[Key, float]:
    best: dict[Key, float] = {}
    for number, one in enumerate(sentences):
        for entity in one.entities:
            key = (number, *entity.key)
            best[key] = max(best.get(key, 0.0), entity.score)
    return best


def by(group, gold: set[Key], predicted: set[Key]) -> dict:
    """Return scores by `group(key)`, computed with sets and counters."""
    correct, all_predicted, all_gold = (
        Counter(map(group, keys)) for keys in (gold & predicted, predicted, gold)
    )
    return {
        name: Score.of(correct[name], all_predicted[name], all_gold[name])
        for name in all_predicted | all_gold
    }


@given(st.lists(pair(), max_size=6))
def test_scores_equal_those_of_sets(pairs: list[Pair]) -> None:
    best = best_scores([one for _, one in pairs])
    gold, predicted = set(best_scores([one for one, _ in pairs])), set(best)
    matches = compare(pairs)
    assert Evaluation.of(matches).overall == Score.of(len(gold & predicted), len(predicted), len(gold))
    assert Evaluation.of(matches).by_type == by(lambda key: key[3], gold, predicted)
    assert Evaluation.of(matches).by_length == by(lambda key: key[2] - key[1], gold, predicted)
    for number, row in enumerate(matches.count_by_sentence().tolist()):
        ours = {key for key in gold if key[0] == number}
        theirs = {key for key in predicted if key[0] == number}
        assert row == [len(ours & theirs), len(theirs), len(ours)]
    columns = matches.predicted
    keys = [
        (int(number), int(start), int(end), matches.types[type_])
        for number, start, end, type_ in zip(
            columns.sentence, columns.start, columns.end, columns.type, strict=True
        )
    ]
    assert keys == sorted(best)
    assert columns.score.tolist() == [best[key] for key in keys]
    assert columns.matched.tolist() == [key in gold for key in keys]


@given(st.lists(pair(), max_size=6))
def test_counts_by_sentence_add_up_to_the_overall_counts(pairs: list[Pair]) -> None:
    matches = compare(pairs)
    totals = matches.count_by_sentence().sum(axis=0)
    assert Score.of(*totals.tolist()) == Evaluation.of(matches).overall
    assert np.count_nonzero(matches.gold.matched) == np.count_nonzero(matches.predicted.matched)


# --- Comparison with seqeval ----------------------------------------------------------------------


def entities_from_tags(tags: list[str]) -> list[Entity]:
    """Read strict IOB2: an entity starts with B and continues with I of its own type."""
    spans = []
    for start, tag in enumerate(tags):
        if tag.startswith("B-"):
            end = start + 1
            while end < len(tags) and tags[end] == "I" + tag[1:]:
                end += 1
            spans.append(Entity(start, end, tag[2:]))
    return spans


tag = st.sampled_from(["O", "B-PER", "I-PER", "B-LOC", "I-LOC"])
tag_pairs = st.lists(st.tuples(tag, tag), min_size=1, max_size=12)


@given(st.lists(tag_pairs, min_size=1, max_size=6))
def test_scores_agree_with_seqeval(pairs: list[list[tuple[str, str]]]) -> None:
    gold_tags = [[gold for gold, _ in one] for one in pairs]
    predicted_tags = [[predicted for _, predicted in one] for one in pairs]
    gold = [sentence(len(tags), *entities_from_tags(tags)) for tags in gold_tags]
    predicted = [sentence(len(tags), *entities_from_tags(tags)) for tags in predicted_tags]
    result = evaluate(gold, predicted)
    assume(result.by_type)  # seqeval fails where there is no entity at all
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # seqeval warns of 0 / 0, which counts as 0 for it and for us
        report = classification_report(
            gold_tags, predicted_tags, mode="strict", scheme=IOB2, output_dict=True
        )

    def figures(row: dict[str, float]) -> list[float]:
        return pytest.approx([row["precision"], row["recall"], row["f1-score"], row["support"]])

    overall = result.overall
    assert [overall.precision, overall.recall, overall.f1, overall.support] == figures(
        report.pop("micro avg")
    )
    assert result.macro_f1 == pytest.approx(report.pop("macro avg")["f1-score"])
    del report["weighted avg"]
    assert set(report) == set(result.by_type)
    for name, one in result.by_type.items():
        assert [one.precision, one.recall, one.f1, one.support] == figures(report[name])


def test_predictions_of_types_without_annotation_do_not_count() -> None:
    gold = Sentence(["a", "b", "c"], [Entity(0, 1, "A")], meta={"annotated_types": ["A", "B"]})
    predicted = Sentence(["a", "b", "c"], [Entity(0, 1, "A"), Entity(1, 2, "B"), Entity(2, 3, "C")])
    assert evaluate([gold], [predicted]).overall == Score.of(1, 2, 1)
    assert evaluate([replace(gold, meta={})], [predicted]).overall == Score.of(1, 3, 1)
