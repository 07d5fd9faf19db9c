"""CoNLL columns in their common variants: `conll`, `weibo` and `conll2012`."""

import pytest

from fencepost.data import ReadOptions
from fencepost.data.entity import Entity
from fencepost.errors import DataError, UsageError

CONLL2003 = """-DOCSTART- -X- O O

EU NNP I-NP I-ORG
rejects VBZ I-VP O
German JJ I-NP I-MISC
British JJ B-NP B-MISC

Peter NNP I-NP I-PER
Blackburn NNP I-NP I-PER

-DOCSTART- -X- O O

BRUSSELS NNP I-NP I-LOC
"""


def described(sentence):
    """Return each entity as `TYPE:words`."""
    return [f"{entity.type}:{sentence.phrase(entity)}" for entity in sentence.entities]


def test_conll2003_has_four_columns_iob1_and_documents(reading):
    reader = reading(CONLL2003, pos_column=2)
    sentences = list(reader)
    assert reader.format.name == "conll"
    assert [described(s) for s in sentences] == [
        ["ORG:EU", "MISC:German", "MISC:British"],
        ["PER:Peter Blackburn"],
        ["LOC:BRUSSELS"],
    ]
    assert [s.doc for s in sentences] == ["1", "1", "2"]
    assert sentences[1].pos == ("NNP", "NNP")
    assert not reader.notes


@pytest.mark.parametrize(
    "tags",
    [
        ["I-X", "I-X", "B-X", "O", "I-Y"],
        ["B-X", "I-X", "B-X", "O", "B-Y"],
        ["B-X", "E-X", "S-X", "O", "S-Y"],
        ["B-X", "L-X", "U-X", "O", "U-Y"],
    ],
)
@pytest.mark.parametrize(("separator", "end"), [("\t", "\n"), (" ", "\n"), ("   ", "\r\n"), ("\t", "\r\n")])
def test_schemes_separators_and_line_ends_have_no_effect(reading, tags, separator, end):
    lines = [f"w{number}{separator}{tag}" for number, tag in enumerate(tags)]
    reader = reading(end.join([*lines, "", *lines]))
    first, second = reader
    assert first == second
    assert first.words == ("w0", "w1", "w2", "w3", "w4")
    assert first.entities == (Entity(0, 2, "X"), Entity(2, 3, "X"), Entity(4, 5, "Y"))
    assert not reader.notes


def test_reads_bmes(reading):
    [sentence] = reading("高 B-TITLE\n级 M-TITLE\n师 E-TITLE\n在 O\n")
    assert sentence.entities == (Entity(0, 3, "TITLE"),)


def test_lone_tabs_on_blank_lines_separate_sentences(reading):
    assert [s.words for s in reading("a\tO\n\t\nb\tO\n \t \r\n\n\nc\tO")] == [("a",), ("b",), ("c",)]


def test_comments_are_skipped_and_the_word_hash_is_a_word(reading):
    reader = reading("# id = 1\n# text = a b\na\tO\nb\tB-X\n\n#\tB-X\n#tag\tO\n\n#tag\tO\nb\tO\n")
    assert [s.words for s in reader] == [("a", "b"), ("#", "#tag"), ("#tag", "b")]
    [note] = reader.notes
    assert (note.kind, note.count) == ("comment line skipped", 2)


@pytest.mark.parametrize(
    "words", [["# x"], ["#"], ["-DOCSTART-x"], ["[", "{"], ["<", "b"], ["<br/>"], ["{}"]]
)
def test_files_of_odd_words_are_read_as_columns(reading, words):
    [sentence] = reading("".join(f"{word}\tO\n" for word in words))
    assert sentence.words == tuple(words)


def test_columns_can_be_chosen(reading):
    content = "1 Ada NNP B-PER x\n2 left VBD O y\n"
    [sentence] = reading(content, word_column=2, tag_column=-2, pos_column=3)
    assert sentence.words == ("Ada", "left")
    assert sentence.pos == ("NNP", "VBD")
    assert sentence.entities == (Entity(0, 1, "PER"),)


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ("a\nb\n", {}, r"corpus: unknown format: .* no line has a tag such as O or B-PER"),
        ("this is prose\n\nand more of it\n", {}, r"corpus: unknown format"),
        (b"\x1f\x8b\x08\x00 O\n", {}, r"corpus: this file is compressed with gzip; unpack it first"),
        (
            "a O\n",
            {"tag_column": 1},
            r"column 1 of 2 cannot have both the words and the tags; name the columns",
        ),
        ("a O\n", {"tag_column": 3}, r"corpus: there is no column 3; there are 2 columns"),
        ("a O\n", {"pos_column": -3}, r"corpus: there is no column -3; there are 2 columns"),
        ("a\tO\n\nb\tO\nc\n", {}, r"corpus:4: 1 columns where the file has 2, separated by tabs"),
        ("a O\n\nb X O\n", {}, r"corpus:3: 3 columns where the file has 2, separated by spaces"),
        ("a\tO\nb\tQ-X\n", {}, r"corpus:2: 'Q-X' is not a tag"),
        ("a\tO\n\tO\n", {}, r"corpus:2: the word is empty"),
        ("a\tO\nb\tI-X\n", {"scheme": "iob2"}, r"corpus:2: 'I-X' continues an entity, but none"),
        (b"a\tO\n\xe9\tO\n", {}, r"corpus:2: not UTF-8 at byte 1 of the line"),
        ("a\tO\nb\tB-X\nc\tO\n", {"scheme": "bioes"}, r"corpus:2: the entity of 'B-X' has no end"),
    ],
)
def test_names_the_line_of_malformed_columns(reading, content, options, message):
    with pytest.raises(DataError, match=message):
        list(reading(content, **options))


def test_irregular_tags_are_read_like_the_conll_scorer_with_a_note(reading):
    reader = reading("a\tB-X\nb\tI-X\n\nc\tO\nd\tI-X\n")
    assert [described(s) for s in reader] == [["X:a b"], ["X:d"]]
    [note] = reader.notes
    assert "corpus:5: sentence whose tags break the rules of iob2" in str(note)
    assert "times" not in str(note)


def test_skips_exactly_the_invalid_sentences(skipping):
    content = b"a\tO\n\nb\tO\nc\n\nd\tB-X\n\n\xff\tO\n\ne\tnonsense\n\nf\tO\n"
    reader, sentences, rejected = skipping(content)
    assert [s.words for s in sentences] == [("a",), ("d",), ("f",)]
    assert [(r.line, r.raw) for r in rejected] == [(4, "b\tO\nc"), (8, "\\xff\tO"), (10, "e\tnonsense")]
    assert (reader.sentences, reader.invalid) == (3, 3)


def test_place_is_that_of_the_last_sentence(reading):
    reader = reading("a\tO\n\nb\tO\n")
    places = [(reader.place.rpartition(":")[2], s.words) for s in reader]
    assert places == [("1", ("a",)), ("3", ("b",))]


# Weibo


def test_weibo_has_characters_with_positions(reading):
    reader = reading("科0\tB-ORG.NOM\n技1\tI-ORG.NOM\n10\tO\n好0\tO\n\n对0\tO\n")
    first, second = reader
    assert reader.format.name == "weibo"
    assert first.words == ("科", "技", "1", "好")
    assert first.meta == {"positions": [0, 1, 0, 0]}
    assert first.entities == (Entity(0, 2, "ORG.NOM"),)
    assert second.words == ("对",)


def test_weibo_is_detected_after_document_marks(reading):
    reader = reading("-DOCSTART-\tO\n\n科0\tO\n技1\tO\n")
    assert [s.words for s in reader] == [("科", "技")]


@pytest.mark.parametrize("words", [["A0"], ["A0", "B0"], ["Jan0", "科技1"], ["科1"], ["科0", "x"]])
def test_words_that_end_in_digits_are_not_weibo(reading, words):
    reader = reading("".join(f"{word}\tO\n" for word in words))
    assert [s.words for s in reader] == [tuple(words)]


def test_refuses_weibo_words_without_a_position(reading):
    with pytest.raises(DataError, match=r"corpus:2: '技' is not a character with its position after it"):
        list(reading("科0\tO\n技\tO\n", "weibo"))


# CoNLL-2012

FULL = """#begin document (bc/cctv/00/cctv_0001); part 003
bc/cctv/00/cctv_0001   3   0   The  DT  (TOP(S(NP*  -  -  -  Speaker1  (ORG*  (ARG0*  -
bc/cctv/00/cctv_0001   3   1   Hong NNP (NP*        -  -  -  Speaker1  (GPE*  *  (12
bc/cctv/00/cctv_0001   3   2   Kong NNP *)          -  -  -  Speaker1  *)  *)  12)
bc/cctv/00/cctv_0001   3   3   bank NN  *))         -  -  -  Speaker1  *)  (V*)  -

bc/cctv/00/cctv_0001   3   0   #  SYM  *  -  -  -  Speaker1  *  *  *  *  -
bc/cctv/00/cctv_0001   3   1   Ada  NNP  *  -  -  -  Speaker1  (PERSON)  *  *  *  -

#end document
"""


def test_conll2012_has_twelve_columns_or_more_and_nested_brackets(reading):
    reader = reading(FULL)
    first, second = reader
    assert reader.format.name == "conll2012"
    assert first.words == ("The", "Hong", "Kong", "bank")
    assert first.pos == ("DT", "NNP", "NNP", "NN")
    assert first.entities == (Entity(0, 4, "ORG"), Entity(1, 3, "GPE"))
    assert first.doc == second.doc == "bc/cctv/00/cctv_0001#3"
    assert second.words == ("#", "Ada")
    assert second.entities == (Entity(1, 2, "PERSON"),)


def test_short_form_of_conll2012_has_brackets_last(reading):
    reader = reading("# about this file\nAda\t(PER(NAME*\nLovelace\t*))\n\n#\t(X)\n1\t*\n")
    first, second = reader
    assert reader.format.name == "conll2012"
    assert first.entities == (Entity(0, 2, "NAME"), Entity(0, 2, "PER"))
    assert second.words == ("#", "1")
    assert second.entities == (Entity(0, 1, "X"),)
    assert [str(note.kind) for note in reader.notes] == ["comment line skipped"]


def test_detects_conll2012_without_entities_and_with_odd_spaces(reading):
    with reading("a *\nb *\n") as reader:
        assert reader.format.name == "conll2012"
    reader = reading("x 0 0 a\xa0b - * - - - - (X) -\n")
    assert [s.words for s in reader] == [("a\xa0b",)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a (X*\nb *\n", r"corpus:1: the bracket \(X is never closed"),
        ("a *\nb *)\n", r"corpus:2: '\*\)' closes a bracket that was never opened"),
        ("a *\nb x\n", r"corpus:2: 'x' is not of the form \(TYPE\*"),
        ("a *\nb c *\n", r"corpus:2: 3 columns where the file has 2"),
        ("a *\n\tb\n", r"corpus:2: "),
        ("*\n", r"corpus:1: one column cannot have both the words and the brackets"),
        ("a\t*\n\t*\n", r"corpus:2: the word is empty"),
        (b"a *\n\xff *\n", r"corpus:2: not UTF-8"),
    ],
)
def test_names_the_line_of_malformed_brackets(reading, content, message):
    with pytest.raises(DataError, match=message):
        list(reading(content, "conll2012"))


def test_malformed_brackets_reject_only_their_sentence(skipping):
    _, sentences, rejected = skipping("a (X)\n\nb (X*\n\nc (X)\n", "conll2012")
    assert [s.words for s in sentences] == [("a",), ("c",)]
    assert [r.line for r in rejected] == [3]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"word_column": 0}, "columns are numbered from 1"),
        ({"scheme": "iob3"}, "no scheme to read 'iob3'; did you mean iob2. there are iob1, iob2, bioes"),
        ({"ends": "open"}, "ends must be inclusive or exclusive"),
    ],
)
def test_refuses_wrong_options(options, message):
    with pytest.raises(UsageError, match=message):
        ReadOptions(**options)


def test_refuses_too_many_lines_without_a_blank_line(reading, monkeypatch):
    monkeypatch.setattr("fencepost.data.formats.conll.SENTENCE_LINES", 10)
    with pytest.raises(DataError, match=r"corpus:11: more than 10 lines, or .* without a blank line"):
        list(reading("a\tO\n" * 20))


def test_refuses_too_many_characters_without_a_blank_line(reading, monkeypatch):
    monkeypatch.setattr("fencepost.data.formats.conll.SENTENCE_CHARACTERS", 100)
    with pytest.raises(
        DataError, match=r"corpus:3: more than .* lines, or 100 characters, without a blank line"
    ):
        list(reading(f"{'a' * 40}\tO\n" * 5))
