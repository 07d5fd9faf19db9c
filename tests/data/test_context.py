"""Neighbouring sentences as context: only those of the same document, and at most the given number."""

from itertools import count, islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.data.context import add_context
from fencepost.data.entity import Entity, Sentence
from tests import strategies

# few documents, so that sentences of one follow each other; some sentences have their own context
words = st.lists(strategies.odd_words, max_size=3)
documents = st.lists(
    st.builds(
        Sentence,
        words,
        id=st.none() | st.just("an id"),
        doc=st.sampled_from([None, "a", "b", ""]),
        left=st.just(()) | words,
        right=st.just(()) | words,
        meta=strategies.metas,
    ),
    max_size=10,
)


def neighbours(sentences, index, step, number):
    """Return the words of the sentences beside one in the same document."""
    doc, neighbouring = sentences[index].doc, []
    at = index + step
    while (
        doc is not None
        and len(neighbouring) < number
        and 0 <= at < len(sentences)
        and sentences[at].doc == doc
    ):
        neighbouring.append(sentences[at].words)
        at += step
    return tuple(word for words in neighbouring[::step] for word in words)


@given(documents, st.integers(0, 4))
def test_context_equals_a_simple_loop(sentences, number):
    results = list(add_context(sentences, number))
    assert len(results) == len(sentences)
    for index, (before, after) in enumerate(zip(sentences, results, strict=True)):
        assert after.left == (before.left or neighbours(sentences, index, -1, number))
        assert after.right == (before.right or neighbours(sentences, index, +1, number))
        for name in ("words", "id", "doc", "meta"):
            assert getattr(after, name) == getattr(before, name)


@given(documents)
def test_no_context_is_added_by_default(sentences):
    assert list(add_context(sentences, 0)) == sentences


def test_context_equals_the_values_by_hand():
    sentences = [
        Sentence(["a", "b"], [Entity(0, 1, "X")], doc="1"),
        Sentence(["c"], doc="1"),
        Sentence(["d"], doc="1"),
        Sentence(["e"], doc="2"),
        Sentence(["f"], doc="1"),
        Sentence(["g"]),
        Sentence(["h"]),
    ]
    assert [s.entities for s in add_context(sentences, 1)] == [s.entities for s in sentences]
    around = [(s.left, s.right) for s in add_context(sentences, 1)]
    assert around == [((), ("c",)), (("a", "b"), ("d",)), (("c",), ()), *[((), ())] * 4]
    wide = [(s.left, s.right) for s in add_context(sentences, 9)]
    assert wide[:3] == [((), ("c", "d")), (("a", "b"), ("d",)), (("a", "b", "c"), ())]


@pytest.mark.parametrize("number", [1, 3])
def test_reads_only_the_needed_sentences_ahead(number):
    read = []

    def endless():
        for index in count():
            read.append(index)
            yield Sentence([str(index)], doc="a")

    stream = add_context(endless(), number)
    for index, sentence in enumerate(islice(stream, 100)):
        assert sentence.words == (str(index),)
        assert len(read) <= index + number + 1


def test_no_sentences_give_no_sentences():
    assert list(add_context([], 2)) == []
