from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from fencepost.cli.draw import Palette, draw, draw_text
from fencepost.data.entity import Entity, Sentence
from fencepost.data.text import make_splitter
from fencepost.runtime.document import Document


def draw_lines(sentence: Sentence, width: int = 80) -> list[str]:
    return draw(sentence, width, Palette()).plain.split("\n")


def test_nested_entities_are_drawn_below_each_other():
    words = ["The", "University", "of", "Toronto", "'s", "president"]
    sentence = Sentence(words, [Entity(3, 4, "place"), Entity(1, 4, "organization")])
    assert draw_lines(sentence) == [
        "The University of Toronto 's president",
        "    ╰─ organization ────╯",
        "                  ╰place╯",
        "",
    ]


def test_narrow_entity_has_label_and_score_after_it():
    assert draw_lines(Sentence(["A", "b"], [Entity(0, 1, "X", 0.5)]))[1] == "│ X 0.50"


def test_label_without_room_after_its_entity_is_before_it():
    assert draw_lines(Sentence(["aaaa", "bb"], [Entity(1, 2, "X")]), width=8)[1] == "   X ╰╯"


def test_labels_never_overlap():
    sentence = Sentence(["A", "b", "c"], [Entity(0, 1, "first"), Entity(1, 2, "second")])
    assert draw_lines(sentence)[1:] == ["│ first", "  │ second", ""]


def test_wide_characters_count_twice():
    assert draw_lines(Sentence(["科技", "好"], [Entity(1, 2, "X")]))[1] == "     ╰╯ X"


def test_entity_continues_after_a_line_end():
    lines = draw_lines(Sentence(["aaaa", "bbbb", "cccc"], [Entity(0, 3, "T")]), width=12)
    assert lines == ["aaaa bbbb", "╰─ T ───┄", "cccc", "┄T─╯", ""]


def drawn_text(text: str, *entities: tuple[str, str], width: int = 80) -> list[str]:
    """Draw a text with these phrases as entities."""
    offsets = make_splitter("en").split(text)
    sentences = []
    for words in offsets:
        starts, ends = [start for start, _ in words], [end for _, end in words]
        spans = [
            Entity(starts.index(at), ends.index(at + len(phrase)) + 1, type_)
            for phrase, type_ in entities
            if (at := text.index(phrase)) in starts
        ]
        sentences.append(Sentence([text[start:end] for start, end in words], spans))
    return draw_text(Document(text, sentences, offsets), width, Palette()).plain.split("\n")


def test_raw_text_is_drawn_with_its_own_spacing():
    text = "The University of  Toronto's\tpresident (Ada) left. He is back."
    assert drawn_text(
        text, ("University of  Toronto", "organization"), ("Toronto", "place"), ("He", "X")
    ) == [
        "The University of Toronto's president (Ada) left. He is back.",
        "    ╰─ organization ────╯                         ╰╯ X",
        "                  ╰place╯",
        "",
    ]


def test_raw_text_is_wrapped_at_white_space():
    assert drawn_text("one Toronto's, two", ("Toronto", "place"), width=12) == [
        "one",
        "Toronto's,",
        "╰place╯",
        "two",
        "",
    ]
    assert drawn_text("first line\n\nsecond") == ["first line", "second", ""]
    assert drawn_text("") == ["", ""]
    assert drawn_text("(((((((((((b", width=5) == ["(((((", "(((((", "(b", ""]


@given(
    st.lists(st.text(min_size=1, max_size=8), max_size=12),
    st.lists(st.tuples(st.integers(0, 11), st.integers(1, 12), st.sampled_from(["a", "person", "x" * 20]))),
    st.integers(1, 60),
)
def test_every_entity_is_drawn(words, spans, width):
    entities = [Entity(start, end, type_) for start, end, type_ in spans if start < end <= len(words)]
    lines = draw_lines(Sentence(words, entities), width)
    starts = sum(len(re.findall("[╰│]", line)) for line in lines)
    assert starts >= len(entities)
    assert all(cell_len(line) == cell_len(line.rstrip()) for line in lines if "╰" in line)
