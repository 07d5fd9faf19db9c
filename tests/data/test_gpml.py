"""The XML of GENIA."""

import pytest

from fencepost.data.entity import Entity
from fencepost.errors import DataError

GENIA = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE set SYSTEM "gpml.dtd">
<set>
<article>
<articleinfo><bibliomisc>MEDLINE:95369245</bibliomisc></articleinfo>
<title><sentence id="s1"><cons lex="x" sem="G#other_name"><cons sem="G#DNA"><w c="NN">IL-2</w>
<w c="NN">gene</w></cons> <w c="NN">expression</w></cons>
<w c="CC">and</w> <w c="NN">NF-&amp;kappa;B</w></sentence></title>
<abstract>
<sentence><cons sem="(AND G#DNA G#RNA G#DNA)"><cons lex="x*"><w c="NN">x</w></cons> <w c="NN">y</w></cons>
<w c=".">.</w></sentence>
</abstract></article>
<article><articleinfo/><abstract><sentence><w>z</w></sentence></abstract></article>
</set>
"""


def test_reads_words_nested_constructs_coordinations_and_articles(reading):
    reader = reading(GENIA)
    first, second, third = reader
    assert reader.format.name == "gpml"
    assert first.words == ("IL-2", "gene", "expression", "and", "NF-&kappa;B")
    assert first.entities == (Entity(0, 2, "DNA"), Entity(0, 3, "other_name"))
    assert first.pos == ("NN", "NN", "NN", "CC", "NN")
    assert (first.id, first.doc, second.doc) == ("s1", "MEDLINE:95369245", "MEDLINE:95369245")
    assert second.entities == (Entity(0, 2, "DNA"), Entity(0, 2, "RNA"))
    assert (third.words, third.pos, third.doc) == (("z",), None, None)


def test_sentences_without_word_elements_are_split(reading):
    content = '<set><sentence>The <cons sem="G#protein">IL-2 receptor</cons>s bind.</sentence></set>'
    reader = reading(content)
    [sentence] = reader
    assert sentence.words == ("The", "IL-2", "receptor", "s", "bind", ".")
    assert sentence.entities == (Entity(1, 3, "protein"),)
    assert "word split" in reader.notes[0].kind


def test_empty_sentences_are_kept(reading):
    assert [s.words for s in reading("<set><sentence/><sentence> </sentence></set>")] == [(), ()]


@pytest.mark.parametrize(
    ("inside", "message"),
    [
        ("<w>a</w> b", r"corpus:3: 'b' is outside the <w> elements"),
        ("<w>a<w>b</w></w>", "a <w> is inside another"),
        ("<sentence>x</sentence>", "a <sentence> is inside another"),
        ('<cons sem="G#"><w>a</w></cons>', "sem='G#' has no type"),
        ('<cons sem="(AND)"><w>a</w></cons>', r"sem='\(AND\)' has no type"),
        ('<w>a</w><cons sem="G#x"></cons>', "0 <= start < end"),
        ('a <cons sem="G#x"> </cons> b', "contains only white space"),
    ],
)
def test_malformed_sentence_rejects_only_itself(reading, skipping, inside, message):
    good = "<sentence><w>x</w></sentence>"
    content = f"<set>{good}\n\n<sentence>{inside}</sentence>\n{good}</set>"
    with pytest.raises(DataError, match=message):
        list(reading(content))
    _, sentences, rejected = skipping(content)
    assert [s.words for s in sentences] == [("x",), ("x",)]
    assert [r.line for r in rejected] == [3]


def test_broken_xml_keeps_earlier_sentences(skipping):
    content = (
        "<set>\n<sentence><w>a</w></sentence>\n<sentence><w>b</sentence>\n<sentence><w>c</w></sentence></set>"
    )
    _, sentences, [rejected] = skipping(content)
    assert [s.words for s in sentences] == [("a",)]
    assert (rejected.line, rejected.reason) == (
        3,
        "not XML: mismatched tag; the rest of the file cannot be read",
    )


@pytest.mark.parametrize("cut", [len(GENIA) // 2, len(GENIA) - 10])
def test_refuses_a_truncated_file(reading, cut):
    with pytest.raises(DataError, match=r"corpus:\d+: not XML: "):
        list(reading(GENIA[:cut]))


def test_refuses_declared_xml_entities(reading):
    laughs = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
    declared = f'<!DOCTYPE set [<!ENTITY l0 "ha">{laughs}]>'
    bomb = f'<?xml version="1.0"?>\n{declared}\n<set><sentence>&l9;</sentence></set>'
    with pytest.raises(DataError, match=r"corpus:2: .*it declares the entity 'l0'; declarations are not"):
        list(reading(bomb))


def test_undefined_xml_entity_rejects_its_sentence(skipping):
    content = '<!DOCTYPE set SYSTEM "x.dtd"><set><sentence>&beta;</sentence><sentence>b</sentence></set>'
    _, sentences, [rejected] = skipping(content)
    assert [s.words for s in sentences] == [("b",)]
    assert "the entity &beta; is not defined in the file" in rejected.reason


def test_refuses_other_xml_and_accepts_an_empty_set(reading):
    with pytest.raises(DataError, match="corpus: XML without a <sentence>: not GPML"):
        list(reading("<html><body/></html>"))
    assert list(reading("<set></set>")) == []


def test_refuses_unknown_encodings(reading):
    with pytest.raises(DataError, match=r"corpus:1: (not|the file cannot be read)"):
        list(reading('<?xml version="1.0" encoding="klingon"?><set/>'))


def test_refuses_a_sentence_that_is_too_long(reading, monkeypatch):
    monkeypatch.setattr("fencepost.data.formats.gpml.SENTENCE_CHARACTERS", 10)
    with pytest.raises(DataError, match="a sentence of more than 10 characters"):
        list(reading("<set><sentence>12345678901</sentence></set>"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("<set><sentence>" + "<cons></cons>" * 1000, "it has a sentence longer than 0 MB"),
        ('<set><sentence id="' + "x" * 5000, "it has a tag longer than 0 MB"),
        ("<set><sentence><w>a</w></sentence><x " + " " * 5000, "it has a tag longer than 0 MB"),
        ("<set>" + "<x>" * 1000, "its elements are nested more than 1,000 deep"),
        ("<set><bibliomisc>" + "x" * 70_000, "it has a <bibliomisc> of more than 65,536 characters"),
    ],
)
def test_refuses_endless_elements(reading, monkeypatch, content, message):
    monkeypatch.setattr("fencepost.data.formats.gpml.LINE_BYTES", 1000)
    monkeypatch.setattr("fencepost.data.formats.gpml.TAG_BYTES", 1000)
    with pytest.raises(DataError, match=message):
        list(reading(content, "gpml"))
