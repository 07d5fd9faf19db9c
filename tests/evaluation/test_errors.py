"""Kinds of errors: examples by hand, and properties that hold for all predictions."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.data.entity import Entity, Sentence
from fencepost.errors import UsageError
from fencepost.evaluation import GROUPS, KINDS, ErrorCase, ErrorKind, Score, classify_errors, evaluate
from tests.strategies import entities

WORDS = tuple("abcdefghijkl")
Key = tuple[int, int, str]
Summary = tuple[str, Key | None, Key | None]
Pair = tuple[list[Sentence], list[Sentence]]
few = settings(max_examples=50)


def sentence(*of: Key | Entity) -> Sentence:
    return Sentence(WORDS, [one if isinstance(one, Entity) else Entity(*one) for one in of])


def classify(gold: list[Key], predicted: list[Key]) -> list[Summary]:
    """Return the kind, the prediction and the gold entity of each error in one sentence."""
    errors = classify_errors([sentence(*gold)], [sentence(*predicted)])
    return [summarize(one) for one in errors.all]


def summarize(one: ErrorCase) -> Summary:
    return one.kind, one.predicted.key if one.predicted else None, one.gold.key if one.gold else None


# By hand

OUTER, MIDDLE, INNER = (0, 6, "ORG"), (2, 6, "ORG"), (4, 6, "LOC")


@pytest.mark.parametrize(
    ("gold", "predicted", "expected"),
    [
        pytest.param([], [], [], id="nothing"),
        pytest.param([OUTER, INNER], [INNER, OUTER], [], id="all right"),
        pytest.param([(2, 5, "A")], [(1, 5, "A")], [("start", (1, 5, "A"), (2, 5, "A"))], id="start"),
        pytest.param([(2, 5, "A")], [(2, 6, "A")], [("end", (2, 6, "A"), (2, 5, "A"))], id="end"),
        pytest.param(
            [(2, 5, "A")], [(3, 6, "A")], [("start and end", (3, 6, "A"), (2, 5, "A"))], id="moved on"
        ),
        pytest.param(
            [(2, 5, "A")], [(1, 6, "A")], [("start and end", (1, 6, "A"), (2, 5, "A"))], id="too wide"
        ),
        pytest.param(
            [(0, 4, "A")],
            [(3, 4, "A")],
            [("start", (3, 4, "A"), (0, 4, "A"))],
            id="a quarter of the words shared",
        ),
        pytest.param(
            [(0, 5, "A")],
            [(4, 5, "A")],
            [("missed", None, (0, 5, "A")), ("spurious", (4, 5, "A"), None)],
            id="less than a quarter of the words shared",
        ),
        pytest.param([(2, 5, "A")], [(2, 5, "B")], [("type", (2, 5, "B"), (2, 5, "A"))], id="type"),
        pytest.param(
            [(0, 3, "A")], [(0, 2, "B")], [("boundary and type", (0, 2, "B"), (0, 3, "A"))], id="both"
        ),
        pytest.param(
            [(0, 4, "A")],
            [(0, 2, "B")],
            [("boundary and type", (0, 2, "B"), (0, 4, "A"))],
            id="half is enough for both",
        ),
        pytest.param(
            [(0, 5, "A")],
            [(0, 2, "B")],
            [("spurious", (0, 2, "B"), None), ("missed", None, (0, 5, "A"))],
            id="less than half is another",
        ),
        pytest.param(
            [(0, 2, "A")],
            [(2, 4, "A")],
            [("missed", None, (0, 2, "A")), ("spurious", (2, 4, "A"), None)],
            id="touching is not overlapping",
        ),
        pytest.param([(1, 2, "A")], [], [("missed", None, (1, 2, "A"))], id="missed"),
        pytest.param([], [(1, 2, "A")], [("spurious", (1, 2, "A"), None)], id="spurious"),
        pytest.param([OUTER, INNER], [OUTER], [("missing level", None, INNER)], id="inner missed"),
        pytest.param([OUTER, INNER], [INNER], [("missing level", None, OUTER)], id="outer missed"),
        pytest.param(
            [OUTER, MIDDLE, INNER], [MIDDLE], [("missing level", None, OUTER), ("missing level", None, INNER)]
        ),
        pytest.param([OUTER], [OUTER, INNER], [("extra level", INNER, None)], id="inner too many"),
        pytest.param([INNER], [OUTER, INNER], [("extra level", OUTER, None)], id="outer too many"),
        pytest.param(
            [OUTER, INNER],
            [],
            [("missed", None, OUTER), ("missed", None, INNER)],
            id="no level was found: missed",
        ),
        pytest.param(
            [],
            [OUTER, INNER],
            [("spurious", OUTER, None), ("spurious", INNER, None)],
            id="no level is right: spurious",
        ),
        pytest.param(
            [OUTER, INNER],
            [(4, 6, "ORG"), INNER],
            [("wrong level", (4, 6, "ORG"), OUTER)],
            id="the outer's type on the inner's words",
        ),
        pytest.param(
            [OUTER, INNER],
            [OUTER, (0, 6, "LOC")],
            [("wrong level", (0, 6, "LOC"), INNER)],
            id="the inner's type on the outer's words",
        ),
        pytest.param(
            [OUTER, INNER],
            [(4, 6, "ORG")],
            [("missing level", None, OUTER), ("type", (4, 6, "ORG"), INNER)],
            id="the same words come before the same type",
        ),
        pytest.param(
            [(0, 4, "A"), (2, 6, "B")],
            [(2, 6, "A"), (2, 6, "B")],
            [("start and end", (2, 6, "A"), (0, 4, "A"))],
            id="crossing is no level",
        ),
        pytest.param(
            [(1, 4, "A")],
            [(0, 4, "A"), (1, 2, "B")],
            [("start", (0, 4, "A"), (1, 4, "A")), ("extra level", (1, 2, "B"), None)],
            id="a level inside a prediction that has its entity",
        ),
        pytest.param(
            [(1, 4, "A"), (1, 2, "B")],
            [(0, 4, "A")],
            [("start", (0, 4, "A"), (1, 4, "A")), ("missing level", None, (1, 2, "B"))],
            id="a level inside an entity that has its prediction",
        ),
        pytest.param(
            [(2, 5, "A")],
            [(2, 5, "A"), (2, 5, "B")],
            [("spurious", (2, 5, "B"), None)],
            id="a second type on the same words is no level",
        ),
        pytest.param(
            [(2, 5, "A"), (2, 5, "B")],
            [(2, 5, "A")],
            [("missed", None, (2, 5, "B"))],
            id="two types, one found",
        ),
        pytest.param(
            [(2, 5, "A"), (2, 5, "B")],
            [(2, 5, "C"), (2, 5, "D")],
            [("type", (2, 5, "C"), (2, 5, "A")), ("type", (2, 5, "D"), (2, 5, "B"))],
            id="two types, both wrong",
        ),
        pytest.param(
            [(2, 6, "A")],
            [(2, 5, "A"), (2, 4, "A")],
            [("extra level", (2, 4, "A"), None), ("end", (2, 5, "A"), (2, 6, "A"))],
            id="the nearest has it",
        ),
        pytest.param(
            [(0, 4, "A"), (5, 9, "A")],
            [(3, 9, "A")],
            [("missed", None, (0, 4, "A")), ("start", (3, 9, "A"), (5, 9, "A"))],
            id="one prediction has one entity",
        ),
        pytest.param(
            [(0, 2, "A"), (0, 3, "B")],
            [(0, 2, "B")],
            [("type", (0, 2, "B"), (0, 2, "A")), ("missing level", None, (0, 3, "B"))],
            id="type before boundary",
        ),
    ],
)
def test_error_kinds_equal_those_by_hand(
    gold: list[Key], predicted: list[Key], expected: list[Summary]
) -> None:
    assert classify(gold, predicted) == expected


def test_errors_have_the_numbers_of_their_sentences() -> None:
    gold = [Sentence([]), sentence(), sentence((0, 2, "A")), Sentence([])]
    predicted = [Sentence([]), sentence((3, 4, "B")), sentence((0, 3, "A")), Sentence([])]
    errors = classify_errors(gold, predicted)
    assert [(one.kind, one.sentence) for one in errors.all] == [("spurious", 1), ("end", 2)]
    assert (errors.sentences, len(errors)) == (4, 2)
    assert errors.score == Score.of(0, 2, 1)
    nothing = classify_errors([], [])
    assert (nothing.all, nothing.sentences, nothing.score) == ((), 0, Score.of(0, 0, 0))
    assert set(nothing.count_kinds().values()) == {0}
    assert nothing.compute_f1_without(*KINDS) == 0.0
    assert nothing.count_shifts() == {"start": {}, "end": {}}


def test_most_confident_of_equal_predictions_is_reported() -> None:
    twice = sentence(Entity(0, 2, "A", 0.3), Entity(0, 2, "A", 0.8), Entity(0, 2, "A", 0.5))
    [one] = classify_errors([sentence()], [twice]).all
    assert one.predicted is not None
    assert one.predicted.score == 0.8


def test_boundary_shifts_are_counted() -> None:
    errors = classify_errors(
        [sentence((2, 5, "A")), sentence((2, 5, "A")), sentence((2, 5, "A")), sentence((2, 5, "A"))],
        [sentence((1, 5, "A")), sentence((2, 9, "A")), sentence((1, 4, "A")), sentence((2, 6, "B"))],
    )
    assert [one.shift for one in errors.all] == [(-1, 0), (0, 4), (-1, -1), (0, 1)]
    assert errors.count_shifts() == {
        "start": {-1: 2},
        "end": {-1: 1, 4: 1},
    }  # with another type, it is not one
    assert list(errors.count_shifts()["end"]) == [-1, 4]
    [missed] = classify_errors([sentence((2, 5, "A"))], [sentence()]).all
    assert missed.span == (2, 5)
    with pytest.raises(ValueError, match="no boundaries to compare"):
        _ = missed.shift


def test_f1_without_some_kinds_equals_the_value_by_hand() -> None:
    """Of 3 entities 1 is correct, 1 has a wrong end, 1 is missed; 1 prediction is spurious: P 1/3, R 1/3."""
    errors = classify_errors(
        [sentence((0, 1, "A"), (3, 5, "A"), (7, 9, "A"))], [sentence((0, 1, "A"), (3, 6, "A"), (10, 11, "A"))]
    )
    assert errors.score.f1 == pytest.approx(1 / 3)
    assert errors.compute_f1_without() == pytest.approx(1 / 3)
    assert errors.compute_f1_without("end") == pytest.approx(2 / 3)  # 2 of 3, 2 of 3
    assert errors.compute_f1_without("missed") == pytest.approx(2 * 2 / (4 + 3))  # 2 of 4, 2 of 3
    assert errors.compute_f1_without("spurious") == pytest.approx(2 * 1 / (2 + 3))  # 1 of 2, 1 of 3
    assert errors.compute_f1_without("missed", "spurious") == pytest.approx(2 / 3)
    assert errors.compute_f1_without(*KINDS) == 1.0
    assert errors.compute_f1_without("type") == errors.score.f1


def test_confusions_of_types_are_counted() -> None:
    errors = classify_errors(
        [sentence((0, 2, "A"), (3, 5, "A"), (7, 9, "B"))], [sentence((0, 2, "B"), (3, 6, "A"), (10, 11, "C"))]
    )
    expected = {("A", "B"): 1, ("A", "A"): 1, ("B", None): 1, (None, "C"): 1}
    assert errors.count_confusions() == expected


def test_refuses_different_sentences() -> None:
    with pytest.raises(UsageError, match="different words"):
        classify_errors([Sentence(["a"])], [Sentence(["b"])])
    with pytest.raises(UsageError, match="numbers of sentences differ"):
        classify_errors([Sentence(["a"])], [])


def test_groups_have_each_kind_once_in_order() -> None:
    assert [kind for kinds in GROUPS.values() for kind in kinds] == list(KINDS)


# Properties of all predictions


@st.composite
def judged(draw: st.DrawFn) -> Pair:
    """Draw gold sentences and predictions with some of their entities, some of them moved, and others."""
    gold, predicted = [], []
    for length in draw(st.lists(st.integers(0, 8), max_size=3)):
        true = draw(entities(length))
        guessed = draw(entities(length, scores=st.floats(0, 1)))
        for entity in true:
            start = entity.start + draw(st.sampled_from([0, 0, 0, -1, 1]))
            end = entity.end + draw(st.sampled_from([0, 0, 0, -1, 1]))
            if draw(st.booleans()) and 0 <= start < end <= length:
                guessed.append(Entity(start, end, entity.type, draw(st.floats(0, 1))))
        gold.append(Sentence(WORDS[:length], true))
        predicted.append(Sentence(WORDS[:length], guessed))
    return gold, predicted


WITH_PREDICTION = set(KINDS) - {"missing level", "missed"}
WITH_GOLD = set(KINDS) - {"extra level", "spurious"}


@few
@given(judged())
def test_each_entity_is_correct_or_in_one_error(pair: Pair) -> None:
    gold, predicted = pair
    errors = classify_errors(gold, predicted)
    true = {(number, entity.key) for number, one in enumerate(gold) for entity in one.entities}
    guessed = {(number, entity.key) for number, one in enumerate(predicted) for entity in one.entities}
    wrong = [(one.sentence, one.predicted.key) for one in errors.all if one.predicted is not None]
    missed = [(one.sentence, one.gold.key) for one in errors.all if one.gold is not None]
    assert Counter(wrong) == Counter(guessed - true)
    assert Counter(missed) == Counter(true - guessed)
    for one in errors.all:
        assert (one.predicted is not None) == (one.kind in WITH_PREDICTION)
        assert (one.gold is not None) == (one.kind in WITH_GOLD)


@few
@given(judged())
def test_counts_agree_with_evaluate(pair: Pair) -> None:
    gold, predicted = pair
    errors = classify_errors(gold, predicted)
    overall = evaluate(gold, predicted).overall
    counts = errors.count_kinds()
    assert errors.score == overall
    assert errors.sentences == len(gold)
    assert list(counts) == list(KINDS)
    assert sum(counts.values()) == len(errors)
    assert sum(counts[kind] for kind in KINDS if kind in WITH_PREDICTION) == (
        overall.predicted - overall.true_positives
    )
    assert sum(counts[kind] for kind in KINDS if kind in WITH_GOLD) == (
        overall.support - overall.true_positives
    )
    assert sum(errors.count_confusions().values()) == len(errors)
    moved = errors.count_shifts()
    assert sum(moved["start"].values()) == counts["start"] + counts["start and end"]
    assert sum(moved["end"].values()) == counts["end"] + counts["start and end"]


@few
@given(judged())
def test_each_kind_matches_its_definition(pair: Pair) -> None:
    gold, predicted = pair
    for one in classify_errors(gold, predicted).all:
        if one.gold is None or one.predicted is None:
            continue
        start, end = one.shift
        assert max(one.gold.start, one.predicted.start) < min(one.gold.end, one.predicted.end)
        assert (one.kind == "type") == (one.gold.span == one.predicted.span)
        assert (one.gold.type != one.predicted.type) == (one.kind in ("type", "boundary and type"))
        spans = {entity.span for entity in gold[one.sentence].entities}
        if one.kind in GROUPS["boundary"]:
            assert one.kind == (" and ".join(["start"] * (start != 0) + ["end"] * (end != 0)))
        if one.kind == "wrong level":
            assert one.predicted.span in spans
            assert one.predicted.contains(one.gold) or one.gold.contains(one.predicted)


@few
@given(judged())
def test_unpaired_entities_could_not_be_paired(pair: Pair) -> None:
    """No spurious prediction and missed entity share enough words to be a pair."""
    gold, predicted = pair
    errors = classify_errors(gold, predicted)
    for wrong in errors.of("spurious", "extra level"):
        for missed in errors.of("missed", "missing level"):
            one, other = wrong.predicted, missed.gold
            if one is None or other is None or wrong.sentence != missed.sentence:
                continue
            shared = min(one.end, other.end) - max(one.start, other.start)
            assert one.span != other.span
            assert one.type != other.type or 4 * shared < _covered(one, other) or shared <= 0
            assert 2 * shared < _covered(one, other) or shared <= 0


def _covered(one: Entity, other: Entity) -> int:
    """Return the number of words of both together, if they share one."""
    return max(one.end, other.end) - min(one.start, other.start)


@few
@given(judged())
def test_levels_contain_or_are_inside_a_located_entity(pair: Pair) -> None:
    gold, predicted = pair
    errors = classify_errors(gold, predicted)
    for number, (true, guessed) in enumerate(zip(gold, predicted, strict=True)):
        keys = {entity.key for entity in true.entities}
        right = [entity for entity in guessed.entities if entity.key in keys]
        own = [one for one in errors.all if one.sentence == number]
        pairs = [(one.predicted, one.gold) for one in own if one.predicted and one.gold]
        for one in own:
            if one.gold is None and one.predicted is not None:
                located = right + [of for of, _ in pairs]
                level = any(one.predicted.contains(o) or o.contains(one.predicted) for o in located)
                assert one.kind == ("extra level" if level else "spurious")
            elif one.predicted is None and one.gold is not None:
                located = right + [of for _, of in pairs]
                level = any(one.gold.contains(o) or o.contains(one.gold) for o in located)
                assert one.kind == ("missing level" if level else "missed")


@few
@given(judged())
def test_correcting_errors_never_lowers_f1(pair: Pair) -> None:
    errors = classify_errors(*pair)
    assert errors.compute_f1_without(*KINDS) == (1.0 if errors.score.support else 0.0)
    assert errors.compute_f1_without() == errors.score.f1
    for kind, count in errors.count_kinds().items():
        f1 = errors.compute_f1_without(kind)
        assert f1 == pytest.approx(errors.score.f1) if not count else f1 >= errors.score.f1


@few
@given(judged(), st.randoms(use_true_random=False))
def test_order_and_duplicates_have_no_effect(pair: Pair, chance: Random) -> None:
    def stirred(of: list[Sentence]) -> list[Sentence]:
        some = []
        for one in of:
            twice = [*one.entities, *one.entities]
            chance.shuffle(twice)
            some.append(one.with_entities(twice))
        return some

    gold, predicted = pair
    plain, other = classify_errors(gold, predicted), classify_errors(stirred(gold), stirred(predicted))
    assert [summarize(one) for one in other.all] == [summarize(one) for one in plain.all]
    assert other.score == plain.score


def rename_types(sentences: list[Sentence], names: dict[str, str]) -> list[Sentence]:
    return [
        one.with_entities(Entity(e.start, e.end, names[e.type], e.score) for e in one.entities)
        for one in sentences
    ]


TYPES = ["PER", "ORG", "cell_line", "GPE.NAM"]


@few
@given(judged(), st.permutations(["x", "Y", "日本", "PER"]))
def test_type_names_have_no_effect_if_spans_have_one_type(pair: Pair, others: list[str]) -> None:
    """If several types on the same words fit equally well, the alphabet decides which remains."""
    names = dict(zip(TYPES, others, strict=True))
    gold, predicted = (
        [one.with_entities({entity.span: entity for entity in one.entities}.values()) for one in of]
        for of in pair
    )
    plain = classify_errors(gold, predicted)
    other = classify_errors(rename_types(gold, names), rename_types(predicted, names))
    assert other.count_kinds() == plain.count_kinds()
    assert other.count_shifts() == plain.count_shifts()


@few
@given(judged())
def test_type_names_of_the_same_order_have_no_effect(pair: Pair) -> None:
    names = dict(zip(sorted(TYPES), ["1", "2", "a", "ä"], strict=True))
    gold, predicted = pair
    plain = classify_errors(gold, predicted)
    other = classify_errors(rename_types(gold, names), rename_types(predicted, names))
    assert [one.kind for one in other.all] == [one.kind for one in plain.all]


@few
@given(judged())
def test_sentences_are_independent(pair: Pair) -> None:
    alone: Counter[ErrorKind] = Counter()
    for gold, predicted in zip(*pair, strict=True):
        alone.update(classify_errors([gold], [predicted]).count_kinds())
    assert classify_errors(*pair).count_kinds() == {kind: alone[kind] for kind in KINDS}
