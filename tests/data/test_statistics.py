"""The statistics of a corpus, compared with loops over all pairs."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.data import read, statistics
from fencepost.data.entity import Entity, Sentence
from tests import strategies


@st.composite
def annotated(draw):
    length = draw(st.integers(0, 8))
    types = st.sampled_from(["A", "B"])
    return Sentence(["w"] * length, draw(strategies.entities(length, types, max_size=12)))


def depth(entities, inside=None):
    """Return the length of the longest chain of entities, each inside the one before."""
    return max(
        (1 + depth(entities, entity) for entity in entities if inside is None or inside.contains(entity)),
        default=0,
    )


@given(st.lists(annotated(), max_size=4))
def test_statistics_equal_loops_over_all_pairs(sentences):
    def count(holds):
        return sum(
            any(holds(other, entity) for other in sentence.entities)
            for sentence in sentences
            for entity in sentence.entities
        )

    result = statistics(sentences)
    spans = [
        {entity.span: {e.type for e in s.entities if e.span == entity.span} for entity in s.entities}
        for s in sentences
    ]
    assert result.nested == count(lambda other, entity: other.contains(entity))
    assert result.nested_same_type == count(lambda o, e: o.contains(e) and o.type == e.type)
    assert result.crossing == count(lambda other, entity: other.crosses(entity))
    assert result.duplicates == sum(len(s.entities) - len({e.key for e in s.entities}) for s in sentences)
    assert result.same_span_conflicts == sum(len(types) > 1 for by in spans for types in by.values())
    assert result.depth == max((depth(set(s.entities)) for s in sentences), default=0)
    assert result.sentences == len(sentences)
    assert result.tokens == sum(map(len, sentences))
    assert result.longest_sentence == max(map(len, sentences), default=0)
    assert result.sentences_without_entities == sum(not s.entities for s in sentences)
    assert result.by_type == Counter(e.type for s in sentences for e in s.entities)
    assert result.by_length == Counter(len(e) for s in sentences for e in s.entities)
    assert result.entities == sum(result.by_type.values())


def test_documents_are_counted_by_their_changes():
    docs = [None, "a", "a", "b", None, "b"]
    assert statistics(Sentence(["w"], doc=doc) for doc in docs).documents == 3


def test_statistics_have_means_shares_and_json():
    sentences = [
        Sentence(["a", "b", "c"], [Entity(0, 3, "X"), Entity(0, 1, "Y"), Entity(1, 2, "Y")]),
        Sentence(["a"]),
    ]
    result = statistics(sentences)
    assert result.mean_sentence_length == 2
    assert result.mean_entity_length == pytest.approx(5 / 3)
    assert result.nested_share == pytest.approx(2 / 3)
    figures = result.to_dict()
    assert list(figures["by_type"]) == ["Y", "X"]
    assert figures["by_length"] == {"1": 2, "3": 1}
    assert figures["depth"] == 2
    assert not any(name.startswith("_") for name in figures)


def test_empty_corpus_has_statistics():
    result = statistics([])
    assert (result.mean_sentence_length, result.mean_entity_length, result.nested_share) == (0, 0, 0)


def test_counts_a_sentence_with_50000_entities():
    length = 5000
    crossing = [Entity(start, start + 3, "X") for start in range(length - 3) for _ in range(10)]
    result = statistics([Sentence(["w"] * length, crossing)])
    assert result.crossing == len(crossing)


@pytest.mark.corpora
def test_statistics_of_gum_equal_its_readme(shared_data):
    result = statistics(read(shared_data / "gum" / "train.jsonl"))
    assert (result.sentences, result.entities) == (10_330, 50_004)
    assert round(100 * result.nested_share) == 37
    assert round(100 * result.nested_same_type / result.entities) == 15
    assert result.depth == 8
    assert round(100 * sum(n for length, n in result.by_length.items() if length > 15) / result.entities) == 2
    assert len(result.by_type) == 10
