"""Annotations that contradict each other: examples by hand, and phrases compared with a simple loop."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.analysis.consistency import Inconsistency, count_checks, find_inconsistencies
from fencepost.analysis.phrases import PhraseCounts, PhraseIndex
from fencepost.data.entity import Entity, Sentence
from tests.strategies import odd_sentences


def annotate(text: str, **more: object) -> Sentence:
    """Return a sentence in which `[PER:Ada Lovelace]` is an entity; entities do not nest."""
    words: list[str] = []
    entities = []
    for token in text.split():
        if token.startswith("["):
            type_, _, token = token[1:].partition(":")
            entities.append((len(words), type_))
        words.append(token.rstrip("]") or token)
        if token.endswith("]"):
            start, type_ = entities.pop()
            entities.insert(0, Entity(start, len(words), type_))  # type: ignore[arg-type]
    return Sentence(words, entities, **more)  # type: ignore[arg-type]


def find(check: str, *texts: str) -> list[Inconsistency]:
    return [one for one in find_inconsistencies([annotate(text) for text in texts]) if one.check == check]


@pytest.mark.parametrize(
    ("check", "common", "rare", "suspect"),
    [
        ("article", "[ORG:the Club] met", "the [ORG:Club] met", "Club"),
        ("title", "Dr. [PER:Ada] met", "[PER:Dr. Ada] met", "Dr. Ada"),
        ("possessive", "[PER:Ada] 's house", "[PER:Ada 's] house", "Ada 's"),
        ("punctuation", "met [PER:Ada] .", "met [PER:Ada .]", "Ada ."),
    ],
)
def test_reports_inconsistent_words_at_boundaries(check, common, rare, suspect):
    [one] = find(check, common, rare, common.replace("Ada", "Eve").replace("Club", "Guild"))
    assert sorted(one.counts.values()) == [1, 2]
    [place] = one.suspects
    sentence = annotate(rare)
    assert place.sentence == 1
    assert " ".join(sentence.words[place.start : place.end]) == suspect
    assert one.to_dict([annotate(common), sentence])["suspects"][0]["text"] == suspect


def test_boundary_inside_a_larger_entity_is_not_compared():
    nested = Sentence(["the", "York", "Museum"], [Entity(0, 3, "ORG"), Entity(1, 2, "LOC")])
    assert not [
        one
        for one in find_inconsistencies([nested, annotate("[LOC:the Hague] sleeps")])
        if one.check == "article"
    ]


def test_verb_is_not_a_possessive():
    tagged = annotate("[PER:It] 's late", pos=["PRP", "VBZ", "JJ"])
    other = annotate("[PER:Ada 's] house")
    assert [one.check for one in find_inconsistencies([tagged, other])] == []


def test_reports_equal_words_with_two_types():
    [one] = find("type", "in [LOC:Jordan] today", "[PER:jordan] sleeps", "to [LOC:JORDAN]")
    assert one.subject == "jordan"
    assert one.counts == {"LOC": 2, "PER": 1}
    assert [(place.sentence, place.type) for place in one.suspects] == [(1, "PER")]


def test_reports_words_that_are_nearly_always_annotated():
    texts = ["[LOC:Rome] sleeps", "to [LOC:Rome]", "[LOC:Rome] again", "in Rome now"]
    [one] = find("annotated or not", *texts)
    assert one.counts == {"annotated": 3, "not annotated": 1}
    assert [(place.sentence, place.start, place.end, place.type) for place in one.suspects] == [
        (3, 1, 2, None)
    ]
    assert not find("annotated or not", *texts[2:])  # half and half says nothing
    assert not find("annotated or not", *texts[:3], "in [ORG:Rome FC]")  # part of another entity


def test_reports_inconsistent_plurals():
    [one] = find("plural", "a [CELL:T cell]", "two T cells", "the [CELL:T cell]")
    assert one.subject == "t cell"
    assert one.counts == {"CELL": 2, "not annotated": 1}
    assert [place.sentence for place in one.suspects] == [1]
    assert not find("plural", "a [CELL:T cell]", "two [CELL:T cells]")
    [other] = find("plural", "[A:body] here", "[A:body] there", "[B:bodies] here")
    assert other.counts == {"A": 2, "B": 1}


def test_reports_boundaries_inside_words():
    sentence = Sentence(["IL2", "R", "gene"], [Entity(0, 1, "protein")], space_after=[False, True, True])
    [one] = find_inconsistencies([sentence, annotate("[protein:IL3] here")])
    assert (one.check, one.counts) == ("cut word", {"whole words": 1, "cut words": 1})
    whole = Sentence(["IL2", "-", "R"], [Entity(0, 1, "protein")], space_after=[False, False, True])
    assert not find_inconsistencies([whole])


def test_reports_duplicates_that_differ():
    inconsistencies = find("duplicate", "[PER:Ada] met Eve", "[PER:Ada] met Eve", "[PER:Ada] met [PER:Eve]")
    assert [place.sentence for place in inconsistencies[0].suspects] == [2]
    assert sorted(inconsistencies[0].counts.values()) == [1, 2]
    assert not find("duplicate", "[PER:Ada] met Eve", "[PER:Ada] met Eve")


def test_counts_cases_by_check():
    inconsistencies = find_inconsistencies([annotate("[A:x y]"), annotate("[B:x y]"), annotate("[A:X y]")])
    counts = count_checks(inconsistencies)
    assert counts["type"] == (1, 1)
    assert counts["duplicate"] == (1, 1)
    assert counts["plural"] == (0, 0)


@given(st.lists(odd_sentences(), max_size=4))
def test_suspects_are_spans_of_their_sentence(corpus):
    for one in find_inconsistencies(corpus):
        assert len(one.counts) > 1
        assert one.suspects
        for place in one.suspects:
            assert 0 <= place.start < place.end <= len(corpus[place.sentence])


@given(st.lists(st.lists(st.sampled_from("abA"), max_size=6), max_size=5), st.data())
def test_phrase_counts_equal_a_simple_loop(words, data):
    corpus = []
    for one in words:
        spans = [(i, j) for i in range(len(one)) for j in range(i + 1, len(one) + 1)]
        chosen = data.draw(st.lists(st.sampled_from(spans), max_size=3, unique=True)) if spans else []
        corpus.append(Sentence(one, [Entity(i, j, "T") for i, j in chosen]))
    counts = PhraseCounts(corpus)
    lower = [[word.lower() for word in one.words] for one in corpus]
    every = Counter(
        tuple(one[i:j]) for one in lower for i in range(len(one)) for j in range(i + 1, len(one) + 1)
    )
    annotated = Counter(
        tuple(lower[n][entity.start : entity.end]) for n, one in enumerate(corpus) for entity in one.entities
    )
    assert counts.occurrences == {phrase: every[phrase] for phrase in annotated}
    for sentence in corpus:
        for entity in sentence.entities:
            phrase = tuple(word.lower() for word in sentence.words[entity.start : entity.end])
            same, other = counts.count_elsewhere(sentence, entity, annotated=True)
            assert (same, same + other) == (annotated[phrase] - 1, every[phrase] - 1)


def test_phrase_index_finds_overlapping_phrases():
    index = PhraseIndex([("a",), ("a", "b"), ("b", "a")])
    assert list(index.find(Sentence(["A", "b", "a"]))) == [
        (0, ("a",)), (0, ("a", "b")), (1, ("b", "a")), (2, ("a",))
    ]  # fmt: skip
