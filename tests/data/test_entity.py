"""The data model: refusals, order, and text."""

import copy
import itertools
import json
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.data.entity import Entity, Sentence
from tests import strategies


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((2, 2, "PER"), r"0 <= start < end, but start is 2 and end is 2"),
        ((-1, 2, "PER"), r"start is -1"),
        ((3, 1, "PER"), r"start is 3 and end is 1"),
        ((0, 1, ""), r"the entity \[0, 1\) has no type"),
        ((0, 1, 5), r"the type of an entity is a string, not 5"),
        (("a", 1, "PER"), r"start and end of an entity are word indices, not 'a' and 1"),
        ((0, 1, "PER", 1.5), r"the score of PER \[0, 1\) is 1.5; a score is a probability"),
        ((0, 1, "PER", -0.1), r"-0.1"),
        ((0, 1, "PER", "high"), r"the score of an entity is a number, not 'high'"),
        ((0.0, 1, "PER"), r"word indices, not 0.0 and 1"),
        ((0, 1, "PER", float("nan")), r"nan"),
    ],
)
def test_refuses_an_invalid_entity(arguments, message):
    with pytest.raises(ValueError, match=message):
        Entity(*arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"entities": [Entity(1, 3, "PER")]}, r"PER \[1, 3\) ends after the sentence's 2 words"),
        ({"entities": [(0, 1, "PER")]}, r"must be a fencepost.Entity, not \(0, 1, 'PER'\)"),
        ({"entities": Entity(0, 1, "PER")}, r"entities must be a list of fencepost.Entity, not Entity\("),
        ({"pos": ["NN"]}, r"pos has 1 values for 2 words"),
        ({"space_after": [True] * 3}, r"space_after has 3 values for 2 words"),
    ],
)
def test_refuses_an_invalid_sentence(arguments, message):
    with pytest.raises(ValueError, match=message):
        Sentence(["Ada", "Lovelace"], **arguments)


@pytest.mark.parametrize("words", [None, ["Ada", 1], [b"Ada"], "Ada"])
def test_refuses_words_that_are_not_a_list_of_strings(words):
    with pytest.raises(ValueError, match="words must be a list of strings, not "):
        Sentence(words)


def test_numbers_of_numpy_become_json():
    entity = Entity(np.int64(0), np.int32(2), "PER", np.float32(0.5))
    assert json.dumps(entity.to_dict()) == '{"start": 0, "end": 2, "type": "PER", "score": 0.5}'


@pytest.mark.parametrize("instance", [Entity(0, 1, "PER"), Sentence(["Ada"])])
def test_entities_and_sentences_are_immutable(instance):
    with pytest.raises(FrozenInstanceError):
        instance.meta = {"a": 1}
    with pytest.raises(FrozenInstanceError):
        del instance.meta


def test_label_of_an_entity_is_its_type():
    assert Entity(0, 1, "PER").label == "PER"


def test_sequences_become_tuples():
    words = ["Ada", "Lovelace"]
    sentence = Sentence(words, [Entity(0, 2, "PER")], left=["a"], right=["b"], pos=["N", "N"])
    words.append("!")
    assert sentence.words == ("Ada", "Lovelace")
    assert all(isinstance(part, tuple) for part in (sentence.entities, sentence.left, sentence.right))
    assert sentence.pos == ("N", "N")
    assert len(sentence) == 2


def test_entities_are_sorted_by_position_and_score():
    expected = [
        Entity(0, 1, "B"),
        Entity(0, 2, "A", 0.9),
        Entity(0, 2, "A", 0.1),
        Entity(0, 2, "B"),
        Entity(1, 2, "A"),
    ]
    assert list(Sentence(["a", "b"], reversed(expected)).entities) == expected


@given(strategies.odd_sentences())
def test_deep_copies_and_reordered_entities_are_equal(sentence):
    assert copy.deepcopy(sentence) == sentence
    distinct = {entity.key: entity for entity in sentence.entities}.values()
    assert sentence.with_entities(distinct) == sentence.with_entities(reversed(distinct))


def test_sentences_and_entities_with_other_content_differ():
    sentence = Sentence(["a"], [Entity(0, 1, "X")])
    assert sentence != Sentence(["a"], [Entity(0, 1, "Y")])
    assert sentence != Sentence(["a"], [Entity(0, 1, "X")], id="1")
    assert Entity(0, 1, "X") != Entity(0, 1, "X", 0.5)
    assert len({Entity(0, 1, "X"), Entity(0, 1, "X"), Entity(0, 1, "Y")}) == 2


@given(strategies.odd_sentences())
def test_word_offsets_select_the_words_in_the_text(sentence):
    text, offsets = sentence.text, sentence.word_offsets()
    assert [text[start:end] for start, end in offsets] == list(sentence.words)
    assert text.replace(" ", "") == "".join(sentence.words).replace(" ", "")
    for index, ((_, end), (start, _)) in enumerate(itertools.pairwise(offsets)):
        assert start - end == (sentence.space_after is None or sentence.space_after[index])


def test_text_follows_space_after():
    sentence = Sentence(["Ada", "'s", "house"], space_after=[False, True, True])
    assert sentence.text == "Ada's house"
    assert Sentence(["Ada", "'s"]).text == "Ada 's"
    assert Sentence([]).text == ""
    assert sentence.phrase(Entity(0, 2, "X")) == "Ada 's"


SPANS = st.tuples(st.integers(0, 6), st.integers(1, 4)).map(lambda p: Entity(p[0], p[0] + p[1], "X"))


@given(SPANS, SPANS)
def test_contains_and_crosses_equal_those_of_sets_of_words(one, two):
    a, b = set(range(*one.span)), set(range(*two.span))
    assert one.contains(two) == (b < a)
    assert one.crosses(two) == bool(a & b and a - b and b - a) == two.crosses(one)
    assert len(one) == len(a)
    assert one.key == (*one.span, "X")


def test_refuses_a_string_as_words():
    with pytest.raises(ValueError, match="not the string 'Ada left'"):
        Sentence("Ada left")


def test_annotated_types_come_from_meta_and_entities():
    assert Sentence(["Ada"], [Entity(0, 1, "PER")]).annotated_types is None
    sentence = Sentence(["Ada"], [Entity(0, 1, "PER")], meta={"annotated_types": ["LOC"]})
    assert sentence.annotated_types == {"LOC", "PER"}
    for wrong in ("LOC", [1], {"LOC": 1}):
        with pytest.raises(ValueError, match="annotated_types must be a list of strings"):
            Sentence(["Ada"], meta={"annotated_types": wrong})
