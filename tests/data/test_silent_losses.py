"""Input from which words or entities were once lost without a message."""

import gzip
import json

import pytest
import spacy
from spacy.tokens import Doc, DocBin, Span

from fencepost.data import Reader, read
from fencepost.data.entity import Entity
from fencepost.errors import DataError

COLUMNS = "Ada B-PER\nLovelace I-PER\nwrote O\n\nRome B-LOC\n"
BRACKETS = "Ada\t(PER*\nof\t*\nRome\t(LOC))\n\nyes\t*\n"
WEIBO = "科0\tB-ORG.NAM\n技1\tI-ORG.NAM\n\n好0\tO\n"
OBJECTS = '{"words": ["Ada"], "entities": [{"start": 0, "end": 1, "type": "PER"}]}\n' * 2
TEXT = {"text": "Ada was born in London.", "spans": [{"start": 0, "end": 3, "label": "PER"}]}


def lines(*records):
    return "".join(json.dumps(record) + "\n" for record in records)


@pytest.mark.parametrize("content", [COLUMNS, BRACKETS, WEIBO, OBJECTS])
@pytest.mark.parametrize("line_end", ["\r", "\r\n", "\r\r\n"])
def test_other_line_ends_have_no_effect(reading, content, line_end):
    assert list(reading(content.replace("\n", line_end))) == list(reading(content))


def test_reads_mixed_line_ends_with_a_note(reading):
    reader = reading("Ada B-PER\rLovelace I-PER\rwrote O\n\nRome B-LOC\r\n")
    assert list(reader) == list(reading(COLUMNS))
    assert reader.line == 5
    assert str(reader.notes[0]).endswith("corpus:1: carriage return inside a line, read as a line end")


def test_head_may_end_between_cr_and_lf(reading, monkeypatch):
    monkeypatch.setattr("fencepost.data.source.HEAD_BYTES", COLUMNS.index("\n") + 1)
    first, second = reading(COLUMNS.replace("\n", "\r\n"), "conll")
    assert (len(first), len(second)) == (3, 1)


@pytest.mark.parametrize("separator", ["\x0b", "\x0c", "\x85", "\u2028"])
def test_refuses_other_separators_outside_words(reading, separator):
    with pytest.raises(DataError, match=rf"corpus:1: U\+{ord(separator):04X} in column 2; lines must end in"):
        list(reading(COLUMNS.replace("\n", separator)))
    [sentence, _] = reading(COLUMNS.replace("Ada", f"A{separator}da"))
    assert sentence.words[0] == f"A{separator}da"


def test_blank_lines_do_not_change_the_document(reading):
    content = "#begin document (x); part 000\n\nAda (PER)\n\n#end document\n\nBob (PER)\n"
    assert [sentence.doc for sentence in reading(content)] == ["x", None]


def test_notes_byte_order_marks_of_joined_files(reading):
    reader = reading(COLUMNS + "\n\ufeff" + COLUMNS)
    assert len(list(reader)) == 4
    assert "corpus:7: line that starts with a byte order mark" in str(reader.notes[0])


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (gzip.compress(COLUMNS.encode(), mtime=0), "compressed with gzip"),
        (COLUMNS.encode("utf-16"), "UTF-16; save it as UTF-8"),
        (COLUMNS.encode("utf-16-le"), "UTF-16 without a byte order mark"),
        (OBJECTS.encode("utf-16-be"), "UTF-16 without a byte order mark"),
        (b"PK\x03\x04" + COLUMNS.encode(), "a ZIP archive"),
    ],
)
@pytest.mark.parametrize("format_", [None, "conll", "jsonl"])
def test_names_the_kind_of_other_files(reading, content, kind, format_):
    with pytest.raises(DataError, match=f"corpus: this file is {kind}"):
        reading(content, format_)


@pytest.mark.parametrize("answer", ["reject", "ignore"])
def test_rejected_records_are_skipped_and_counted(reading, answer):
    content = lines({**TEXT, "answer": "accept"}, *[{**TEXT, "answer": answer}] * 2)
    reader = reading(content)
    assert len(list(reader)) == 1
    [note] = reader.notes
    assert (note.kind, note.count) == (
        f"record with answer {answer!r} skipped; use --keep-rejected to read it",
        2,
    )
    assert len(list(reading(content, keep_rejected=True))) == 3


def test_notes_spans_under_another_key(reading):
    reader = reading(
        lines({"words": ["Ada"], "entities": [], "ner": [{"start": 0, "end": 1, "type": "PER"}]})
    )
    assert len(list(reader)) == 1
    assert "a list of spans under another key" in str(reader.notes[0])
    assert str(reader.notes[0]).endswith(": 'ner'")
    with_text = reading(lines({"text": "Ada", "label": [], "mentions": [[0, 3, "PER"]]}))
    assert len(list(with_text)) == 1
    assert str(with_text.notes[0]).endswith(": 'mentions'")


def test_empty_list_does_not_hide_entities(reading):
    [sentence] = reading(lines({"text": "Ada", "spans": [], "entities": [[0, 3, "PER"]]}))
    assert sentence.entities == (Entity(0, 1, "PER"),)


@pytest.mark.parametrize("spans", [{"start": 0, "end": 3, "label": "PER"}, '[[0, 3, "PER"]]'])
def test_refuses_spans_that_are_not_a_list(reading, spans):
    with pytest.raises(DataError, match="corpus:2: 'spans' is not a list"):
        list(reading(lines(TEXT, {"text": "Ada", "spans": spans})))


def test_notes_elements_that_are_not_annotations(reading):
    reader = reading(
        '<set><article><title><cons sem="G#DNA">x</cons></title><abstract><sentence><ne type="DNA"><w>a</w>'
        "</ne></sentence></abstract></article></set>"
    )
    assert len(list(reader)) == 1
    assert [str(note).partition(": ")[2] for note in reader.notes] == [
        "element outside a <sentence>, not read as an annotation: <cons>",
        "element inside a <sentence>, not read as an annotation: <ne>",
    ]


NLP = spacy.blank("en")


def documents(*, attributes=None, ents=(), group=None):
    doc = Doc(NLP.vocab, words=["Ada", "wrote"], sent_starts=[True, False])
    doc.set_ents([Span(doc, 0, 1, label=label) for label in ents])
    if group is not None:
        doc.spans["sc"] = group
    return (DocBin(docs=[doc]) if attributes is None else DocBin(attributes, docs=[doc])).to_bytes()


def test_notes_entities_beside_the_span_group(reading):
    reader = reading(documents(ents=["PER"], group=[]))
    assert [sentence.entities for sentence in reader] == [()]
    assert "entities in doc.ents that are not in its span group" in str(reader.notes[0])


@pytest.mark.parametrize("attributes", [["SENT_START"], ["SENT_START", "ENT_TYPE"]])
def test_notes_a_docbin_without_entities(reading, attributes):
    reader = reading(documents(attributes=attributes, ents=["PER"]))
    assert [sentence.entities for sentence in reader] == [()]
    assert "the file has no entities" in str(reader.notes[0])


def test_refuses_joined_docbins(reading):
    with pytest.raises(DataError, match="bytes after its end; were files joined"):
        list(reading(documents(ents=["PER"]) * 2))


def test_notes_folders_that_are_links(tmp_path):
    corpus = tmp_path / "corpus"
    (corpus / "sub").mkdir(parents=True)
    (corpus / "a.txt").write_text("Ada")
    (corpus / "a.ann").write_text("T1\tPER 0 3\tAda\n")
    (corpus / "sub" / "up").symlink_to(corpus)
    with Reader(corpus) as reader:
        assert len(list(reader)) == 1
    assert "folder that is a symbolic link skipped: up" in str(reader.notes[0])


@pytest.mark.parametrize("name", ["texts.csv", "TEXTS.CSV"])
def test_classes_of_texts_are_not_entities(tmp_path, name):
    (tmp_path / name).write_text("text,label\nAda was born O ,PER\nhe, O\n")
    with pytest.raises(DataError, match=r":2: 'label' is 'PER', not a list"):
        list(read(tmp_path / name))


@pytest.mark.parametrize("name", ["columns.csv", "columns.tsv"])
def test_columns_may_have_a_csv_or_tsv_suffix(tmp_path, name):
    (tmp_path / name).write_text(COLUMNS.replace(" ", "\t"))
    assert len(list(read(tmp_path / name))) == 2


@pytest.mark.parametrize(
    ("content", "format_"),
    [
        (f"a {'x' * 1_000_000}\n", "conll"),
        (lines({"words": ["a"], "entities": [{"start": 0, "end": 9, "type": "x" * 1_000_000}]}), None),
        (lines({"words": ["a"], "entities": [{"start": "1" * 1_000_000, "end": 9, "type": "x"}]}), None),
        (
            lines({"text": "a", "spans": [{"start": 0, "end": 1, "label": "X", "text": "x" * 1_000_000}]}),
            None,
        ),
        (f'{{"{"k" * 1_000_000}": 1, "{"k" * 1_000_000}": 2}}\n', None),
    ],
)
def test_messages_about_huge_values_are_short(reading, content, format_):
    with pytest.raises(DataError) as caught:
        list(reading(content, format_))
    assert len(str(caught.value)) < 1500
