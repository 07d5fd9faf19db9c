"""Line breaks that end a sentence, and those that do not."""

import re
import textwrap
import time
from itertools import groupby, islice, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.data import ReadOptions, read
from fencepost.data.text import CharSpan, align, lines, make_splitter
from fencepost.data.text.lines import LINE_BREAK, find_sentence_ends
from fencepost.errors import UsageError
from tests import strategies

SPLITTERS = {mode: make_splitter("en", lines=mode) for mode in ("auto", "break", "join")}
PROSE = (
    "In the spring of that year the countess met Charles Babbage, who was then professor at the University "
    "of Cambridge, and they talked for many hours - mostly about his engine - before John F. Kennedy (who "
    "came from Boston) was born. She wrote a long letter to her mother about it, which is kept in the "
    "library of the Museum of London and was printed again in the 20th century; the members of the "
    "Royal Society read it with care. "
)
SONNET = """\
Shall I compare thee to a summer's day?
Thou art more lovely and more temperate
Rough winds do shake the darling buds of May,
And summer's lease hath all too short a date"""
ROADS = """\
Two roads diverged in a yellow wood, and sorry I could not
Travel both,
And be one traveller, long I stood and looked down one,
As far as I could, to where it bent in the long undergrowth;"""
TEXTS = st.lists(
    st.sampled_from(["\n", "\r\n", "\r", "\n\t\n", "\u2028", "\x0c", "\t"])
    | st.sampled_from(["- ", "1. ", "> ", "| ", "Name: ", "well-", "of", " ", "Ada Lovelace ", PROSE[:60]])
    | strategies.odd_words,
    max_size=40,
).map("".join)


def lines_of(text, mode="auto"):
    """Return the parts of the text between sentence ends."""
    places = [0, *find_sentence_ends(text, mode), len(text)]
    return [" ".join(text[a:b].split()) for a, b in pairwise(places) if text[a:b].strip()]


def sentences_of(text, mode="auto"):
    return [[text[a:b] for a, b in words] for words in SPLITTERS[mode].sentences(text)]


@pytest.mark.parametrize(
    "text",
    [
        "- Budget: $5m\n- Owner: Sarah Lee",
        "Please bring\n* milk\n* eggs",
        "• Toronto\n• London\n• Paris",
        "We need the following things from the shop before the guests come home\n- bread\n- butter",
        "1. Toronto\n2. London\n10. Paris",
        "a) Toronto\nb) London",
        "i. Toronto\nii. London",
        "# Introduction\nThe countess met Charles",
        "Dear all:\nthe meeting is moved",
        "Name: Sarah Lee\nEmployer: The Department of Natural Language Processing of the University\nAge: 36",
        "Sarah Lee\nSenior Engineer\nAcme Corp.\n12 Main Street\nToronto",
        "name\tborn\nAda Lovelace\t1815\nCharles Babbage\t1791",
        "name   | city\n-----  | ----\nAda    | London",
        "| Ada | London |\n|-----|-----|\n| Charles | Cambridge |",
        "Ada Lovelace           London\nCharles Babbage        Cambridge",
        SONNET,
        ROADS,
        "2024-01-01 10:00:01 the server of the University was started by Ada\n" * 4,
        f"{PROSE.strip()}\n{PROSE.strip()}\nParis",  # one paragraph per line
        "I shall be there.\n> Will you come\n>> Yes\n> Why\nBecause",
        "See you then\n-- \nAda Lovelace\nLondon",
    ],
)
def test_line_breaks_of_lists_headings_and_verse_end_sentences(text):
    assert lines_of(text) == [" ".join(line.split()) for line in text.split("\n") if line.strip()]
    assert lines_of(text.replace("\n", "\r\n")) == lines_of(text)
    assert lines_of(text.replace("\n", "\r")) == lines_of(text)


@pytest.mark.parametrize("width", [50, 60, 72, 100, 120])
@pytest.mark.parametrize(
    "paragraph", [PROSE, PROSE + PROSE.replace(" -", ","), PROSE[:150], f"{PROSE}It was Ada.", PROSE.lower()]
)
def test_wrapped_paragraph_is_not_split(paragraph, width):
    wrapped = textwrap.fill(paragraph, width)
    assert lines_of(wrapped) == [" ".join(wrapped.split())]
    assert lines_of(wrapped.replace("\n", "\r\n")) == [" ".join(wrapped.split())]
    indented = textwrap.indent(wrapped, "    ")
    assert lines_of(indented) == [" ".join(wrapped.split())]
    quoted = textwrap.indent(wrapped, "> ")
    assert lines_of(quoted) == [" ".join(quoted.split())]


@pytest.mark.parametrize(
    "text",
    [
        "The members of the inter-\nnational society",  # also in short lines
        "It was written and printed in the old town of London by Ada\nLovelace",
        "- an item that is\n  continued here",
        f"{'The committee of the University met and talked to Samuel':60}\nL. Jackson about the film.",
        f"{textwrap.fill(PROSE, 30)}",  # a narrow column
        "阿达在伦敦见到了查尔斯巴贝奇他当时是剑桥大学的教授他们谈了很多\n小时主要是关于他的机器然后她给母亲写了一封长信",
    ],
)
def test_line_breaks_inside_a_sentence_are_spaces(text):
    assert len(lines_of(text)) == 1


def test_splits_an_email():
    text = (
        "Hi Sarah,\n"
        "the meeting with Dr. Babbage of the University of Cambridge was moved to\n"
        "Thursday, since the room is taken. Please tell the office of the Royal\n"
        "Society.\n"
        "Best,\nAda Lovelace\nAcme Corp.\n\n"
        "On Monday, Sarah Lee wrote:\n"
        "> The members of the committee have come together in the Museum of\n"
        "> London, and wait for you.\n"
    )
    assert lines_of(text) == [
        "Hi Sarah,",
        " ".join(text.split("\n")[1:4]),
        "Best,",
        "Ada Lovelace",
        "Acme Corp.",
        "On Monday, Sarah Lee wrote:",
        "> The members of the committee have come together in the Museum of > London, and wait for you.",
    ]


def test_line_mode_decides_whether_a_break_ends_a_sentence():
    text = "- Budget: $5m\n- Owner: Sarah Lee"
    assert [words[-1] for words in sentences_of(text)] == ["m", "Lee"]
    assert [words[-1] for words in sentences_of(text, "join")] == ["Lee"]
    assert sentences_of("He met Ada\n\nLovelace", "join") == [["He", "met", "Ada"], ["Lovelace"]]


@pytest.mark.parametrize("mode", SPLITTERS)
@given(text=TEXTS)
@settings(max_examples=100)
def test_words_cover_all_characters_in_order(mode, text):
    sentences = SPLITTERS[mode].split(text)
    words = [word for sentence in sentences for word in sentence]
    assert all(sentences)
    assert words == sorted(words)
    assert "".join(text[start:end] for start, end in words) == "".join(text.split())


@given(text=TEXTS, mode=st.sampled_from(["auto", "break", "join"]))
@settings(max_examples=200)
def test_sentence_ends_are_line_starts_including_all_blank_lines(text, mode):
    beginnings = {match.end() for match in re.finditer("\r\n|" + LINE_BREAK.pattern, text)} | {len(text)}
    ends = list(find_sentence_ends(text, mode))
    assert ends == sorted(set(ends))
    assert set(ends) <= beginnings
    at = 0
    for line in text.splitlines(keepends=True):
        at += len(line)
        if not line.strip() and at < len(text):
            assert at in ends


@given(text=TEXTS)
@settings(max_examples=200)
def test_break_ends_a_sentence_at_every_line_break(text):
    assert lines_of(text, "break") == [" ".join(one.split()) for one in text.splitlines() if one.strip()]
    for words in SPLITTERS["break"].sentences(text):
        assert not LINE_BREAK.search(text[words[0][0] : words[-1][1]])


@given(text=TEXTS)
@settings(max_examples=200)
def test_join_treats_single_line_breaks_as_spaces(text):
    places = [0, *find_sentence_ends(text, "join"), len(text)]
    expected = []
    for start, end in pairwise(places):
        piece = LINE_BREAK.sub(" ", text[start:end])
        expected += [[(start + a, start + b) for a, b in words] for words in SPLITTERS["auto"].split(piece)]
    assert SPLITTERS["join"].split(text) == expected


@given(text=TEXTS, data=st.data())
@settings(max_examples=100)
def test_annotations_across_line_breaks_are_kept(text, data):
    solid = [index for index, letter in enumerate(text) if not letter.isspace()]
    ends = st.lists(st.sampled_from(solid), min_size=2, max_size=2).map(sorted) if solid else st.nothing()
    spans = [CharSpan(a, b + 1, "T") for a, b in data.draw(st.lists(ends, max_size=4))] if solid else []
    document = align(text, spans, SPLITTERS["auto"].split(text))
    entities = [
        (words[entity.start][0], words[entity.end - 1][1])
        for sentence, words in zip(document.sentences, document.offsets, strict=True)
        for entity in sentence.entities
    ]
    assert sorted(entities) == sorted((span.start, span.end) for span in spans)


def test_annotated_text_is_split_with_the_same_rules(tmp_path):
    path = tmp_path / "lists.jsonl"
    path.write_text('{"text": "- Budget: 5\\n- Owner: Sarah Lee", "spans": [[21, 30, "person"]]}\n')
    owner = ["-", "Owner", ":", "Sarah", "Lee"]
    assert [list(one.words) for one in read(path)] == [["-", "Budget", ":", "5"], owner]
    assert len(list(read(path, options=ReadOptions(lines="join")))) == 1
    with pytest.raises(UsageError, match=r"value of lines.*auto, break, join"):
        ReadOptions(lines="never")


@pytest.mark.parametrize(
    "line", ["a\n", "- a\n", f"{PROSE[:70]}\n", "Name: x\n", "\t\n", "> a\n>> b\n", "a" * 999]
)
def test_long_texts_are_read_lazily_and_within_15_seconds(line, monkeypatch):
    text = line * (300_000 // len(line))
    read = []
    monkeypatch.setattr(lines, "_TextLine", lambda *of: read.append(of) or Line(*of))
    list(islice(find_sentence_ends(text), 3))
    assert len(read) <= 102
    start = time.process_time()
    list(find_sentence_ends(text))
    assert time.process_time() - start < 15


Line = lines._TextLine


def test_limit_stops_reading(monkeypatch):
    read = []
    monkeypatch.setattr(lines, "_TextLine", lambda *of: read.append(of) or Line(*of))
    assert len(list(SPLITTERS["auto"].sentences("Ada met him.\n" * 100_000, limit=10))) == 3
    assert len(read) <= 102


@pytest.mark.corpora
@pytest.mark.parametrize("width", [60, 72, 100])
def test_hard_wrapped_documents_have_the_same_sentences(shared_data, width):
    same = total = 0
    for _, document in groupby(read(shared_data / "gum" / "test.jsonl"), key=lambda sentence: sentence.doc):
        text = " ".join(" ".join(sentence.text.split()) for sentence in document)
        wrapped = textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False)
        expected = set(map(tuple, SPLITTERS["join"].split(text)))
        same += len(expected & set(map(tuple, SPLITTERS["auto"].split(wrapped))))
        total += len(expected)
    assert same / total > 0.985
