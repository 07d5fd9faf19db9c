"""Files that doccano and Prodigy import."""

from __future__ import annotations

import json

import pytest

from fencepost.data import Reader, read, write
from fencepost.data.entity import Entity, Sentence

SENTENCE = Sentence(
    ["The", "mayor", "of", "Rome", "."],
    [Entity(0, 4, "PER"), Entity(3, 4, "LOC", 0.75)],
    id="7",
    doc="news",
    space_after=[True, True, True, False, False],
    meta={"page": 3},
)


def write_record(path, name):
    account = write([SENTENCE, SENTENCE], path, name)
    lines = path.read_text().splitlines()
    assert len(lines) == 2
    return json.loads(lines[0]), dict(account.parts_lost)


def test_doccano_has_triples_with_character_offsets(tmp_path):
    record, lost = write_record(tmp_path / "out.jsonl", "doccano")
    assert record == {
        "id": "7",
        "doc": "news",
        "text": "The mayor of Rome.",
        "label": [[0, 17, "PER"], [13, 17, "LOC"]],
        "meta": {"page": 3},
    }
    assert lost == {"score": 2}


def test_prodigy_has_tokens_and_spans_of_tokens(tmp_path):
    record, lost = write_record(tmp_path / "out.jsonl", "prodigy")
    assert record["tokens"][3:] == [
        {"id": 3, "text": "Rome", "start": 13, "end": 17, "ws": False},
        {"id": 4, "text": ".", "start": 17, "end": 18, "ws": False},
    ]
    assert record["spans"] == [
        {"start": 0, "end": 17, "label": "PER", "token_start": 0, "token_end": 3},
        {"start": 13, "end": 17, "label": "LOC", "score": 0.75, "token_start": 3, "token_end": 3},
    ]
    assert record["meta"] == {"page": 3}
    assert lost == {}


def test_prodigy_tokens_have_a_space_except_the_last(tmp_path):
    write([Sentence(["a", "b", "c"])], tmp_path / "out", "prodigy")
    tokens = json.loads((tmp_path / "out").read_text())["tokens"]
    assert [token["ws"] for token in tokens] == [True, True, False]


@pytest.mark.parametrize("format_", [None, "prodigy", "jsonl-text"])
def test_prodigy_is_read_back_without_token_indices(tmp_path, format_):
    write([SENTENCE], tmp_path / "out", "prodigy")
    assert list(read(tmp_path / "out", format_)) == [SENTENCE]


def test_doccano_is_read_by_name_and_detected_as_jsonl_text(tmp_path):
    write([SENTENCE], tmp_path / "out", "doccano")
    for format_, name in ((None, "jsonl-text"), ("doccano", "doccano")):
        reader = Reader(tmp_path / "out", format_)
        [sentence] = reader
        assert reader.format.name == name
        assert sentence.words == SENTENCE.words
        assert [entity.key for entity in sentence.entities] == [entity.key for entity in SENTENCE.entities]
        assert (sentence.id, sentence.doc, sentence.meta) == ("7-1", "news", {"page": 3})
