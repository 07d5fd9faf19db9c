"""WebAnno TSV 3: layers, values with numbers and escapes, parts of words, and invalid sentences."""

from __future__ import annotations

import pytest

from fencepost.data import read, write
from fencepost.data.entity import Entity, Sentence
from fencepost.errors import DataError

NER = "#T_SP=de.tudarmstadt.ukp.dkpro.core.api.ner.type.NamedEntity|value"
POS = "#T_SP=de.tudarmstadt.ukp.dkpro.core.api.lexmorph.type.pos.POS|PosValue"
CUSTOM = "#T_SP=webanno.custom.Thing|kind"


def document(*blocks: str, layers: tuple[str, ...] = (NER,), version: str = "3.3") -> str:
    header = "\n".join([f"#FORMAT=WebAnno TSV {version}", *layers])
    return f"{header}\n\n\n" + "\n\n".join(blocks) + "\n"


def block(text: str, *rows: str) -> str:
    """Return a sentence; a space in a row stands for a tab."""
    return "\n".join([f"#Text={text}", *(row.replace(" ", "\t") + "\t" for row in rows)])


def keys(sentence: Sentence) -> list[tuple[str, str]]:
    return [(sentence.phrase(entity), entity.type) for entity in sentence.entities]


def notes(reader) -> dict[str, int]:
    return {note.kind: note.count for note in reader.notes}


HAAG = block(
    "Ms. Haag plays Elianti.",
    "1-1 0-3 Ms. PER[1]|TITLE[2]",
    "1-2 4-8 Haag PER[1]",
    "1-3 9-14 plays _",
    "1-4 15-22 Elianti OTH",
    "1-5 22-23 . _",
)


def test_numbers_join_words_and_separate_entities(skipping):
    reader, [sentence], rejected = skipping(document(HAAG), name="a.tsv")
    assert reader.format.name == "webanno"
    assert sentence.words == ("Ms.", "Haag", "plays", "Elianti", ".")
    assert keys(sentence) == [("Ms.", "TITLE"), ("Ms. Haag", "PER"), ("Elianti", "OTH")]
    assert sentence.space_after == (True, True, True, False, False)
    assert (rejected, reader.notes, reader.line) == ([], [], 6)


def test_accepts_lines_without_final_tab_and_with_carriage_returns(skipping):
    content = document(HAAG).replace("\t\n", "\n").replace("\n", "\r\n")
    _, [sentence], rejected = skipping(content)
    assert len(sentence.entities) == 3
    assert rejected == []


def test_offsets_are_utf16_units(skipping):
    content = document(block("I 😀 it", "1-1 7-8 I _", "1-2 9-11 😀 EMO", "1-3 12-14 it X"))
    _, [sentence], _ = skipping(content)
    assert keys(sentence) == [("😀", "EMO"), ("it", "X")]
    _, [], [rejected] = skipping(content.replace("9-11", "9-10").replace("😀\tEMO", "\tEMO"))
    assert "an offset is inside '😀'; use UTF-16 units" in rejected.reason


def test_unescapes_values_and_texts(skipping):
    value = r"\_a\[b\]\|c\->d\;e\*\\"
    content = document(block(r"C:\\x y", rf"1-1 0-4 C:\x {value}[7]|\*[8]", r"1-2 5-6 y \_"))
    _, [sentence], _ = skipping(content)
    assert sentence.words == (r"C:\x", "y")
    assert [entity.type for entity in sentence.entities] == ["*", "_a[b]|c->d;e*\\", "_"]


def test_unescapes_words(skipping):
    _, [sentence], _ = skipping(document(block(r"a\[b\]", r"1-1 0-4 a\[b\] X")))
    assert sentence.words == ("a[b]",)


def test_version_31_has_java_escapes(skipping):
    content = document(block(r"caf\u00E9 \uD83D\uDE00", "1-1 0-4 café X", "1-2 5-7 😀 _"), version="3.1")
    _, [sentence], _ = skipping(content)
    assert sentence.words == ("café", "😀")


def test_text_of_several_lines_with_an_id_is_one_sentence(skipping):
    content = document("#Sentence.id=s-1\n#Text=One\n" + block("two", "1-1 0-3 One X[1]", "1-2 4-7 two X[1]"))
    _, [sentence], _ = skipping(content)
    assert (sentence.id, sentence.words, keys(sentence)) == ("s-1", ("One", "two"), [("One two", "X")])


def test_entity_across_sentences_joins_them(skipping):
    blocks = (
        block("a b", "1-1 0-1 a _", "1-2 2-3 b X[1]"),
        block("c", "2-1 4-5 c X[1]|Y[2]"),
        block("d e", "3-1 6-7 d X[1]", "3-2 8-9 e Z[2]"),
        block("f", "4-1 10-11 f X[1]"),
    )
    _, [first, last], _ = skipping(document(*blocks))
    assert first.words == ("a", "b", "c", "d", "e")
    assert keys(first) == [("b c d", "X"), ("c", "Y"), ("e", "Z")]
    assert keys(last) == [("f", "X")]


def test_entity_into_an_invalid_sentence_rejects_its_own(skipping):
    one, broken = block("a", "1-1 0-1 a X[1]"), block("b c", "2-1 2-3 b X[1]", "2-2 9-9 c Y[2]")
    two, three = block("d", "3-1 6-7 d Y[2]"), block("e", "4-1 8-9 e Z[2]")
    _, [last], rejected = skipping(document(one, broken, two, three))
    assert last.words == ("e",)
    assert [part.line for part in rejected] == [6, 10, 12]
    assert ["which is invalid" in part.reason for part in rejected] == [True, False, True]
    _, sentences, _ = skipping(document(one.replace("X[1]", "X[7]"), broken, three))
    assert len(sentences) == 2


def test_limits_the_length_of_joined_sentences(reading, monkeypatch):
    monkeypatch.setattr("fencepost.data.formats.webanno.SENTENCE_LINES", 3)
    blocks = [block("a", f"{n}-1 {n}-{n + 1} a X[1]") for n in range(9)]
    with pytest.raises(DataError, match="more than 3 words in sentences that are joined by entities"):
        list(reading(document(*blocks)))


def test_annotations_without_a_value_do_not_join_sentences(skipping):
    _, sentences, _ = skipping(document(block("a", "1-1 0-1 a *[1]"), block("b", "2-1 2-3 b *[1]")))
    assert [sentence.words for sentence in sentences] == [("a",), ("b",)]


def test_annotated_parts_of_words_split_them(skipping):
    content = document(
        block("aaa bbb", "1-1 0-3 aaa _", "1-1.1 1-3 aa X[1]", "1-2 4-7 bbb _", "1-2.1 4-5 b X[1]")
    )
    reader, [sentence], _ = skipping(content)
    assert sentence.words == ("a", "aa", "b", "bb")
    assert keys(sentence) == [("aa b", "X")]
    [(kind, count)] = notes(reader).items()
    assert kind.startswith("word split")
    assert count == 2


def test_counts_annotations_that_are_not_entities(skipping):
    layers = (
        POS,
        NER.replace("|value", "|identifier|value"),
        "#T_SP=webanno.custom.Frame|FE|ROLE_webanno.custom.Frame:Roles_Link|uima.tcas.Annotation",
        "#T_CH=webanno.custom.Link|referenceType|referenceRelation",
        "#T_RL=webanno.custom.Rel|BT_webanno.custom.Frame",
    )
    rows = (
        "1-1 0-1 a NN http://x[1] PER[1] _ _ _ pr[1] coref->1-1 _",
        "1-2 2-3 b NN * * _ _ _ _ _ 1-1[1_0]",
        "1-2.1 2-2  _ * X _ _ _ _ _ _",
    )
    reader, [sentence], rejected = skipping(document(block("a b", *rows), layers=layers))
    assert rejected == []
    assert keys(sentence) == [("a", "PER")]
    assert notes(reader) == {
        "feature of the entities' layer other than the one that is read": 1,
        "word with an annotation of another layer, which is skipped": 2,
        "word with a coreference chain, which is skipped": 1,
        "word with a relation, which is skipped": 1,
        "annotation without a value, and so without a type, skipped": 1,
        "annotation of no characters, skipped": 1,
    }


ROW = "1-1 0-1 a"


@pytest.mark.parametrize(
    ("layers", "cells", "key", "types"),
    [
        ((POS, NER), "NN PER", None, ["PER"]),
        ((POS, CUSTOM), "NN X", None, ["X"]),
        (("#T_SP=webanno.custom.Thing|note|value",), "n X", None, ["X"]),
        ((CUSTOM, "#T_SP=webanno.custom.Other|kind"), "X Y", "Other", ["Y"]),
        ((CUSTOM, "#T_SP=webanno.custom.Other|kind"), "X Y", "webanno.custom.Thing", ["X"]),
        (("#T_SP=webanno.custom.Thing|one|two",), "X Y", "Thing.two", ["Y"]),
        ((NER, CUSTOM), "X Y", "webanno.custom.Thing.kind", ["Y"]),
        ((POS,), "NN", "POS", ["NN"]),
        ((POS,), "NN", None, []),
        ((), "", None, []),
    ],
)
def test_entity_layer_is_detected_or_chosen(skipping, layers, cells, key, types):
    content = document(block("a", f"{ROW} {cells}".rstrip()), layers=layers)
    reader, [sentence], _ = skipping(content, spans_key=key)
    assert [entity.type for entity in sentence.entities] == types
    assert any("no layer with entities" in note.kind for note in reader.notes) == (not types)


@pytest.mark.parametrize(
    ("layers", "key", "reason"),
    [
        ((CUSTOM, "#T_SP=x.Other|kind"), None, r"does not show which layer .* are: .*Thing \(kind\); x.O"),
        (("#T_SP=x.Thing|one|two",), None, r"name it with --spans-key as LAYER or LAYER.F.*\(one, two\)"),
        (("#T_SP=x.Thing|",), None, r"x.Thing \(no features\)"),
        ((NER,), "Typo", r"'Typo' is not the name of one span layer and feature; .*NamedEntity \(value\)"),
        ((), "Typo", "there are: none"),
        (("#T_XX=a|b",), None, "corpus:2: not the declaration of a layer: '#T_XX=a|b'"),
    ],
)
def test_refuses_headers_that_do_not_show_the_layer(reading, layers, key, reason):
    reader = reading(document(block("a", f"{ROW} X"), layers=layers), spans_key=key)
    with pytest.raises(DataError, match=reason):
        list(reader)


def test_refuses_other_versions(reading):
    with pytest.raises(
        DataError, match=r"corpus:1: the first line must be #FORMAT=WebAnno TSV 3.1, 3.2 or 3.3"
    ):
        list(reading(document(HAAG, version="4.0")))


@pytest.mark.parametrize(
    ("old", "new", "line", "reason"),
    [
        ("\tplays\t_\t", "\tplays", 8, "3 columns, separated by tabs, but the header declares 4"),
        ("\tplays", "\tpla\tys", 8, "5 columns"),
        ("1-3\t", "x\t", 8, "'x' is not the position of a word"),
        ("9-14", "9", 8, "'9' is not a pair of offsets"),
        ("9-14", "9-99", 8, "the offsets 9-99 are out of order or outside the text of the sentence"),
        ("9-14", "8-14", 8, "the word is 'plays', but the text has ' plays' at its offsets"),
        ("1-3\t9-14\tplays\t_\t\n", "", 8, "'plays' before this word is not part of a word"),
        ("1-5\t22-23\t.\t_\t\n", "", 9, "'.' at the end of the text is not part of a word"),
        ("1-3\t9-14\tplays", "1-3\t4-8\tHaag", 8, "starts before the end of the previous one"),
        ("1-3\t9", "1-3.1\t9", 8, "1-3.1 is a part of a word, but not of the previous word"),
        ("Haag\tPER[1]", "Haag\tORG[1]", 7, "'ORG[1]', but annotation [1] was 'PER' before"),
        ("OTH", "PER[1]", 9, "'PER[1]' is not on the previous word; an entity must be continuous"),
        ("OTH", "", 9, "'' is not a value"),
        ("OTH", "OTH\\", 9, "ends in a single backslash"),
        ("#Text=", "#", 5, "no line #Text= before the words"),
    ],
)
def test_broken_line_rejects_its_sentence(skipping, old, new, line, reason):
    good = block("Rome", "2-1 24-28 Rome LOC")
    content = document(HAAG, good)
    assert old in content
    _, [sentence], [rejected] = skipping(content.replace(old, new, 1))
    assert keys(sentence) == [("Rome", "LOC")]
    assert reason in rejected.reason
    assert rejected.line == line


def test_invalid_utf8_rejects_its_sentence(skipping):
    content = document(HAAG, block("Rome", "2-1 24-28 Rome LOC")).encode().replace(b"plays", b"pl\xffys")
    _, [sentence], [rejected] = skipping(content)
    assert (keys(sentence), rejected.line) == ([("Rome", "LOC")], 5)
    assert "not UTF-8" in rejected.reason


def test_words_may_differ_from_the_text_without_check_text(skipping):
    content = document(HAAG.replace("\tHaag", "\tHague"))
    assert skipping(content)[1] == []
    _, [sentence], _ = skipping(content, check_text=False)
    assert sentence.words[1] == "Haag"


def test_rejects_texts_without_words_and_notes_comments(skipping):
    reader, sentences, [rejected] = skipping(document("# a comment", "#Text=words", HAAG, "#Text= "))
    assert len(sentences) == 1
    assert "no words after the text" in rejected.reason
    assert notes(reader) == {"comment line skipped": 1}


def test_writes_the_format_of_inception(tmp_path):
    sentences = [
        Sentence(
            ["The", "😀", "mayor", "of", "New", "York", "."],
            [
                Entity(0, 6, "PER"),
                Entity(4, 6, "LOC"),
                Entity(4, 6, "a_b"),
                Entity(3, 5, "X"),
                Entity(1, 2, "E"),
            ],
            id="s1",
            space_after=[True, True, True, True, True, False, False],
        ),
        Sentence(["Rome", "\x07"], [Entity(0, 1, "LOC")]),
    ]
    write(sentences, tmp_path / "out.tsv", "webanno")
    assert (tmp_path / "out.tsv").read_text() == (
        "#FORMAT=WebAnno TSV 3.3\n"
        "#T_SP=de.tudarmstadt.ukp.dkpro.core.api.ner.type.NamedEntity|value\n\n\n"
        "#Sentence.id=s1\n"
        "#Text=The 😀 mayor of New York.\n"
        "1-1\t0-3\tThe\tPER[1]\t\n"
        "1-2\t4-6\t😀\tPER[1]|E[2]\t\n"
        "1-3\t7-12\tmayor\tPER[1]\t\n"
        "1-4\t13-15\tof\tPER[1]|X[3]\t\n"
        "1-5\t16-19\tNew\tPER[1]|X[3]|LOC[4]|a\\_b[5]\t\n"
        "1-6\t20-24\tYork\tPER[1]|LOC[4]|a\\_b[5]\t\n"
        "1-7\t24-25\t.\t_\t\n\n"
        "#Text=Rome \\\x07\n"
        "2-1\t26-30\tRome\tLOC\t\n"
        "2-2\t31-32\t\x07\t_\t\n"
    )
    assert list(read(tmp_path / "out.tsv")) == sentences
