"""Character spans to words: every span is kept exactly."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.data.entity import Entity
from fencepost.data.text import CharSpan, align, make_splitter
from tests import strategies

SPLITTERS = {"en": make_splitter("en"), "white space": make_splitter("en", pretokenized=True)}


@st.composite
def annotated_texts(draw):
    text = "".join(
        draw(st.lists(st.sampled_from(["Ada ", "x.", " ", "\n", "\n\n"]) | strategies.odd_words, max_size=12))
    )
    spans = []
    for _ in range(draw(st.integers(0, 5))):
        start, end = sorted(draw(st.tuples(st.integers(0, len(text)), st.integers(0, len(text)))))
        if text[start:end].strip():
            spans.append(CharSpan(start, end, draw(strategies.plain_types), draw(strategies.scores)))
    return text, spans


@pytest.mark.parametrize("name", SPLITTERS)
@settings(max_examples=50)
@given(annotated=annotated_texts())
def test_every_span_is_an_entity_with_the_same_characters(name, annotated):
    text, spans = annotated
    document = align(text, spans, SPLITTERS[name].split(text))
    entities = sorted(
        (offsets[e.start][0], offsets[e.end - 1][1], e.type, e.score)
        for sentence, offsets in zip(document.sentences, document.offsets, strict=True)
        for e in sentence.entities
    )
    assert entities == sorted((*trimmed(text, span), span.type, span.score) for span in spans)
    words = list(itertools.chain.from_iterable(document.offsets))
    assert "".join(text[a:b] for a, b in words) == "".join(text.split())
    for sentence, offsets in zip(document.sentences, document.offsets, strict=True):
        assert list(sentence.words) == [text[a:b] for a, b in offsets]
        before_next = [one[1] < two[0] for one, two in itertools.pairwise(offsets)]
        assert before_next == list((sentence.space_after or [True] * len(sentence))[:-1])


def trimmed(text, span):
    inside = [i for i in range(span.start, span.end) if not text[i].isspace()]
    return inside[0], inside[-1] + 1


@settings(max_examples=100)
@given(annotated_texts())
def test_only_spans_across_sentences_join_them(annotated):
    text, spans = annotated
    before = SPLITTERS["en"].split(text)
    starts = {words[0][0] for words in align(text, spans, before).offsets}
    edges = [trimmed(text, span) for span in spans]
    for beginning in (words[0][0] for words in before):
        assert (beginning in starts) != any(start < beginning < end for start, end in edges)


def test_span_inside_a_word_splits_it():
    document = align("pre-Columbian art", [CharSpan(4, 13, "X")], [[(0, 13), (14, 17)]])
    [sentence] = document.sentences
    assert sentence.words == ("pre-", "Columbian", "art")
    assert sentence.entities == (Entity(1, 2, "X"),)
    assert sentence.space_after == (False, True, False)
    assert document.words_split == 1


def test_white_space_around_spans_is_trimmed():
    [sentence] = align("a  b  c", [CharSpan(1, 6, "X")], [[(0, 1), (3, 4), (6, 7)]]).sentences
    assert sentence.entities == (Entity(1, 2, "X"),)


@pytest.mark.parametrize(
    ("span", "message"),
    [
        (CharSpan(0, 9, "X"), r"the span X \[0, 9\) is empty or lies outside the text's 4 characters"),
        (CharSpan(-1, 2, "X"), r"\[-1, 2\) is empty or lies outside"),
        (CharSpan(2, 2, "X"), r"\[2, 2\) is empty"),
        (CharSpan(1, 3, "X"), r"\[1, 3\) contains only white space"),
    ],
)
def test_refuses_spans_without_characters(span, message):
    with pytest.raises(ValueError, match=message):
        align("a  b", [span], [[(0, 1), (3, 4)]])


def test_aligns_20000_spans_across_20000_sentences():
    text = "a.\n" * 20_000
    sentences = [[(start, start + 2)] for start in range(0, len(text), 3)]
    document = align(text, [CharSpan(0, len(text), "X")] * 20_000, sentences)
    assert len(document.sentences) == 1
