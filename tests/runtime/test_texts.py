"""Raw text of any kind: offsets of words and entities are correct, and no characters are lost."""

from __future__ import annotations

import re
import time
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fencepost.data.text.splitter import LONG_WORD
from fencepost.runtime.document import Document
from fencepost.runtime.recogniser import Recogniser
from tests import strategies
from tests.runtime.doubles import Double, everything, marking

ODD = (
    "Ada Lovelace",
    "👩\u200d👩\u200d👧\u200d👦",  # one family, seven characters
    "🏳️\u200d🌈",
    "👍🏽",
    "🇨🇭",
    "e\u0301",
    "\u0301",  # a mark on nothing
    "Z̸̡͌a̷͉͝l̴̰̇g̵̹͘o̴͎͝",
    "\r\n",
    "\r",
    "\t",
    "\n\n",
    "\u200b",
    "\u2060",
    "\ufeff",
    "\xad",
    "\u202eevil\u202c",
    "ירושלים",
    "القاهرة",
    "东京都",
    "ประเทศไทย",
    "\x00",
    "\x1b[31m",
    "\x7f",
    "\x85",
    "\u2028",
    "\u3000",
    ". ",
    "! ",
    "can't",
    "U.S.A.",
    "http://a.b/c?d=e",
    " ",
    "",
)
SURROGATES = st.sampled_from(["\ud800", "\udfff", "\udc00\ud800", "\ud83d\ude00"])
fragments = st.one_of(
    st.sampled_from(ODD), strategies.odd_words, st.text(strategies.odd_characters, max_size=5)
)
texts = st.lists(fragments, max_size=12).map("".join)
any_texts = st.lists(fragments | SURROGATES, max_size=12).map("".join)

ALL = {language: Recogniser(Double(everything, language=language)) for language in ("en", "zh", "ar", "xx")}


def assert_true_to(text: str, document: Document) -> None:
    """Assert that words and entities are ordered and match their offsets, and words cover all but spaces."""
    assert document.text == text
    offsets = [offset for of_sentence in document.offsets for offset in of_sentence]
    assert all(0 <= start < end <= len(text) for start, end in offsets)
    assert all(one[1] <= other[0] for one, other in pairwise(offsets))
    inside = {index for start, end in offsets for index in range(start, end)}
    assert all(character.isspace() for index, character in enumerate(text) if index not in inside)
    for sentence, of_sentence in zip(document.sentences, document.offsets, strict=True):
        assert sentence.words == tuple(text[start:end] for start, end in of_sentence)
        assert sentence.words
        assert (sentence.doc, sentence.left, sentence.right) == (None, (), ())
    spans = document
    for span in spans:
        assert span.start < span.end
        assert text[span.start : span.end] == span.text
        assert span.text.strip()
        assert 0 <= span.score <= 1
    assert [span.start for span in spans] == sorted(span.start for span in spans)


def assert_all_found(text: str, document: Document) -> None:
    """Assert that the spans are those of `everything`, computed from the offsets of words."""
    expected = []
    for of_sentence in document.offsets:
        ends = {(at, at + size) for size in (1, 2) for at in range(len(of_sentence) - size + 1)}
        ends.add((0, len(of_sentence)))
        expected += [(of_sentence[first][0], of_sentence[stop - 1][1]) for first, stop in sorted(ends)]
    assert [(span.start, span.end) for span in document] == expected
    assert bool(expected) == bool(text.strip())


@pytest.mark.parametrize("language", ALL)
@settings(max_examples=60)
@given(text=texts)
@example(text="".join(ODD))
@example(text=" ".join(ODD))
@example(text="\r\n\t\u3000 ")
@example(text="")
@example(text="\x00")
def test_offsets_of_words_and_entities_are_correct(language: str, text: str) -> None:
    (document,) = ALL[language].annotate([text])
    assert_true_to(text, document)
    assert_all_found(text, document)


@given(text=any_texts)
@example(text="Ada met \ud800 in \udfffLondon.")
@settings(max_examples=40)
def test_lone_surrogates_are_ordinary_characters(text: str) -> None:
    (document,) = ALL["en"].annotate([text])
    assert_true_to(text, document)
    assert_all_found(text, document)


@settings(max_examples=25)
@given(batch=st.lists(texts, max_size=6))
def test_texts_are_independent(batch: list[str]) -> None:
    """`pipe` predicts each text like a call with this text alone."""
    ner = ALL["en"]
    assert list(ner.pipe(batch)) == [ner(text) for text in batch]
    for text, document in zip(batch, ner.annotate(batch), strict=True):
        assert_true_to(text, document)


@pytest.mark.parametrize("engine", ["pytorch", "onnx"])
def test_model_predicts_entities_among_odd_characters(engine: str, request) -> None:
    ner = request.getfixturevalue(engine)
    assert ner.engine == engine
    for odd in ODD:
        text = f"{odd} Ada met Charles in London\r\n\r\n{odd}\tthe University of Toronto opened {odd}"
        (document,) = ner.annotate([text])
        assert_true_to(text, document)
        assert {"Ada", "Charles", "London", "Toronto"} & {span.text for span in document}, odd


@settings(max_examples=15)
@given(text=texts)
@pytest.mark.parametrize("engine", ["pytorch", "onnx"])
def test_model_predicts_any_text(engine: str, request, text: str) -> None:
    (document,) = request.getfixturevalue(engine).annotate(["Ada " + text])
    assert_true_to("Ada " + text, document)


@pytest.mark.parametrize("text", ["", " ", "\n", "\r\n \t\u3000", "\u2028\x85"])
def test_texts_without_words_have_no_entities(text: str, pytorch, onnx) -> None:
    for ner in (pytorch, onnx, ALL["en"]):
        assert ner(text) == []
        assert list(ner.pipe([text, "Ada", text]))[::2] == [[], []]


@pytest.mark.parametrize(
    "text",
    ["Lovelace" * 125_000, ("consequently " * 99 + "Ada ") * 780],
    ids=["no space", "no full stop"],
)
def test_predicts_a_megabyte_within_a_minute(text: str) -> None:
    """Each occurrence is predicted once, although the text is split."""
    piece = ("Lovelace" * 32)[:LONG_WORD]
    ner = Recogniser(Double(marking(("Ada",), (piece,))))
    started = time.process_time()
    (document,) = ner.annotate([text])
    spans = document
    assert time.process_time() - started < 60  # with room for a busy machine
    assert len(document.sentences) == 1
    if " " in text:
        assert [span.start for span in spans] == [match.start() for match in re.finditer("Ada", text)]
    else:
        assert [span.start for span in spans] == list(range(0, len(text), 4 * LONG_WORD))
    assert {span.text for span in spans} <= {"Ada", piece}


def test_model_predicts_around_a_huge_word(onnx) -> None:
    text = "Ada met Charles in London " + "x" * 100_000 + " Ada met Charles in London"
    (document,) = onnx.annotate([text])
    assert_true_to(text, document)
    assert {"Ada", "Charles", "London"} <= {span.text for span in document}
    assert max(span.end for span in document) == len(text)
