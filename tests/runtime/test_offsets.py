"""Offsets by UTF-16 unit and by byte."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost import Span, UsageError
from fencepost.runtime.offsets import convert_offsets

TEXT = "😀 Ada met Zoë in Łódź, 東京"
LETTERS = st.characters() | st.sampled_from("a😀é東\ud800\udfff")


@st.composite
def spans_of(draw, letters=LETTERS):
    text = draw(st.text(letters, max_size=30))
    places = st.integers(0, len(text))
    pairs = draw(st.lists(st.tuples(places, places).map(sorted), max_size=5))
    return text, [Span(start, end, "T", 0.5, text[start:end]) for start, end in pairs]


@pytest.mark.parametrize(("unit", "encoding", "size"), [("utf-16", "utf-16-le", 2), ("bytes", "utf-8", 1)])
@given(case=spans_of())
def test_converted_offsets_select_the_encoded_entity(unit, encoding, size, case):
    text, spans = case
    encoded = text.encode(encoding, "surrogatepass")
    converted = convert_offsets(text, spans, unit)
    for span, one in zip(spans, converted, strict=True):
        part = encoded[size * one.start : size * one.end]
        assert part == span.text.encode(encoding, "surrogatepass")
        assert (one.type, one.score, one.text) == (span.type, span.score, span.text)


@given(case=spans_of())
def test_character_offsets_are_unchanged(case):
    text, spans = case
    assert convert_offsets(text, iter(spans), "characters") == spans


def test_offsets_of_an_example_equal_those_by_hand():
    spans = [
        Span(start := TEXT.index(name), start + len(name), "T", 1.0, name) for name in ("Ada", "Zoë", "東京")
    ]
    assert [(s.start, s.end) for s in spans] == [(2, 5), (10, 13), (23, 25)]
    assert [(s.start, s.end) for s in convert_offsets(TEXT, spans, "utf-16")] == [(3, 6), (11, 14), (24, 26)]
    assert [(s.start, s.end) for s in convert_offsets(TEXT, spans, "bytes")] == [(5, 8), (13, 17), (30, 36)]
    assert convert_offsets("", [], "bytes") == []


def test_refuses_an_unknown_unit():
    with pytest.raises(UsageError, match=r"unit.*utf-8.*characters, utf-16, bytes"):
        convert_offsets("a", [], "utf-8")
