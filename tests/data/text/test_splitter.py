"""Raw text to words: no characters are lost, and no text takes forever."""

import time
from itertools import pairwise

import pytest
import spacy
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy.lang.en import English

from fencepost.data.text.lines import LINE_BREAK, find_sentence_ends
from fencepost.data.text.splitter import LONG_WORD, WhitespaceSplitter, make_splitter
from fencepost.errors import UsageError
from tests import strategies

TEXTS = st.one_of(
    st.text(strategies.odd_characters, max_size=40),
    st.lists(
        st.sampled_from(
            ["Dr. Who", "u.s.a.", "can't", " ", "\n", "\n\n", "\r\n", ". ", "http://a.b/c?d=e", ":)", "…"]
        )
        | strategies.odd_words,
        max_size=12,
    ).map("".join),
)
SPLITTERS = {name: make_splitter(name) for name in ("en", "de", "zh", "xx")} | {
    "white space": make_splitter("en", pretokenized=True)
}


@pytest.mark.parametrize("name", SPLITTERS)
@settings(max_examples=50)
@given(text=TEXTS)
def test_words_cover_all_characters_in_order(name, text):
    sentences = SPLITTERS[name].split(text)
    words = [word for sentence in sentences for word in sentence]
    assert all(sentences)
    assert words == sorted(words)
    assert "".join(text[start:end] for start, end in words) == "".join(text.split())
    assert all(start < end for start, end in words)


@given(st.integers(1, 3 * LONG_WORD), st.sampled_from(["(", "😀", "a", "科", "a(", "x."]))
@settings(max_examples=30)
def test_words_cover_runs_of_any_length(count, piece):
    text = f"before {piece * count} behind"
    words = [word for sentence in SPLITTERS["en"].split(text) for word in sentence]
    assert "".join(text[start:end] for start, end in words) == "".join(text.split())


def test_long_run_is_split_inside_its_sentence():
    [sentence] = SPLITTERS["en"].split("It says " + "a" * (2 * LONG_WORD) + " there")
    assert [end - start for start, end in sentence] == [2, 4, LONG_WORD, LONG_WORD, 5]


@pytest.mark.parametrize(
    "text", ["(" * 20_000, "😀" * 20_000, "a." * 20_000, "\n" * 50_000, "\n " * 50_000, "a\n\n" * 20_000]
)
def test_hostile_texts_are_split_within_15_seconds(text):
    start = time.process_time()
    SPLITTERS["en"].split(text)
    assert time.process_time() - start < 15  # spaCy alone needs a minute for the first


@settings(max_examples=200)
@given(
    text=st.lists(
        st.sampled_from(
            ["Dr. Who", "He said:", "(No!)", "...", ".", "?!", '"', "a", " ", "  ", "\n", "\n \n", "\n\n"]
        )
        | strategies.odd_words,
        max_size=40,
    ).map(" ".join)
    | TEXTS,
    at_once=st.integers(1, 30),
)
def test_sentences_equal_those_of_spacy(text, at_once):
    """The sentencizer of spaCy reads each paragraph as one line; block sizes have no effect."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fencepost.data.text.splitter._AT_ONCE", at_once)
        sentences = make_splitter("en", lines="join").split(text)
    expected = []
    borders = [0, *find_sentence_ends(text, "join"), len(text)]
    for start, end in pairwise(borders):
        for sentence in SENTENCIZER(LINE_BREAK.sub(" ", text[start:end])).sents:
            words = [(start + t.idx, start + t.idx + len(t)) for t in sentence if not t.is_space]
            expected += [words] if words else []
    assert sentences == expected


SENTENCIZER = spacy.blank("en")
SENTENCIZER.add_pipe("sentencizer")


def test_limit_stops_after_the_first_word_above_it():
    text = "One two three. Four five\n\nsix seven."
    for name in ("en", "white space"):
        splitter = SPLITTERS[name]
        everything = [word for sentence in splitter.split(text) for word in sentence]
        for limit in range(len(everything) + 2):
            words = [word for sentence in splitter.sentences(text, limit) for word in sentence]
            assert words == everything[: limit + 1]


def test_sentences_and_words_equal_those_by_hand():
    text = "Dr. Who can't stay. She left!\n\nA heading\n\nMore text"
    words = [[text[a:b] for a, b in sentence] for sentence in SPLITTERS["en"].split(text)]
    assert words == [
        ["Dr.", "Who", "ca", "n't", "stay", "."],
        ["She", "left", "!"],
        ["A", "heading"],
        ["More", "text"],
    ]


def test_chinese_is_split_into_characters():
    text = "科技。好"
    assert [[text[a:b] for a, b in s] for s in SPLITTERS["zh"].split(text)] == [["科", "技", "。"], ["好"]]


def test_tokenised_text_has_one_sentence_per_line():
    text = "a b\u3000c\r\n\n d's \n"
    sentences = [[text[a:b] for a, b in s] for s in WhitespaceSplitter().split(text)]
    assert sentences == [["a", "b", "c"], ["d's"]]


def test_language_known_only_to_spacy_is_split_by_spacy(monkeypatch):
    """Another package may add such a language; the vocabulary has a limited size."""
    spacy.registry.languages.register("qqq", func=English)
    monkeypatch.setattr("fencepost.data.text.spacy_tokenizer._VOCABULARY", 2000)
    splitter = make_splitter("qqq")
    text = "Dr. Who can't stay. She left (now)!\n\nA heading"
    assert splitter.split(text) == SPLITTERS["en"].split(text)
    for chapter in range(20):
        splitter.split(" ".join(f"neverseen{chapter}and{number}" for number in range(500)))
        assert len(splitter._tokenize._nlp.vocab) < 4000


@pytest.mark.parametrize("language", ["klingon", "", "../x", "en.stop_words"])
def test_refuses_an_unknown_language(language):
    with pytest.raises(UsageError, match=r"no rules for the language .* such as en, de, zh or xx"):
        make_splitter(language)
