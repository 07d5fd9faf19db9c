"""The training data of spaCy 2: pairs in JSON and in Python, which is never run."""

from __future__ import annotations

import json

import pytest

from fencepost.data import read, write
from fencepost.data.entity import Entity, Sentence
from fencepost.data.formats import spacy_v2
from fencepost.errors import DataError

PAIRS = [
    ["Ada was born in London.", {"entities": [[0, 3, "PER"], [16, 22, "LOC"], [16, 22, "GPE"]]}],
    ["Nothing here.", {"entities": []}],
]
PYTHON = """\
# examples
TRAIN_DATA = [
    ("Ada was born in London.", {"entities": [(0, 3, 'PER'), (16, 22, "LOC"), (16, 22, "GPE")]}),
    ('Nothing '
     "here.", {'entities': []}),
]
"""
LINES = "".join(json.dumps(pair) + "\n" for pair in PAIRS)


@pytest.mark.parametrize(
    "content",
    [
        json.dumps(PAIRS),
        json.dumps(PAIRS, indent=1),
        LINES,
        LINES.replace("\n", "\r\n"),
        "\ufeff" + LINES,
        json.dumps(PAIRS[0]) + "\n\n" + json.dumps(PAIRS[1]),
        PYTHON,
        PYTHON.replace("TRAIN_DATA = ", ""),
        PYTHON.replace("TRAIN_DATA", "TRAIN_DATA: list[tuple[str, dict]]"),
        repr([tuple(pair) for pair in PAIRS]),
        repr(tuple(map(tuple, PAIRS))),
        repr(PAIRS),
    ],
)
def test_detects_and_reads_pairs(skipping, content):
    reader, sentences, rejected = skipping(content)
    assert reader.format.name == "spacy-v2"
    assert [sentence.text for sentence in sentences] == [pair[0] for pair in PAIRS]
    assert [entity.key for entity in sentences[0].entities] == [(0, 1, "PER"), (4, 5, "GPE"), (4, 5, "LOC")]
    assert (rejected, reader.notes) == ([], [])


def test_counts_other_annotations(skipping):
    pairs = [["Ada", {"cats": {"A": 1}, "links": {}, "entities": [[0, 3, "PER"]]}], ["Bob", {"cats": {}}]]
    reader, [one, two], _ = skipping(json.dumps(pairs))
    assert ([entity.type for entity in one.entities], two.entities) == (["PER"], ())
    counts = {note.kind: note.count for note in reader.notes}
    assert counts.pop("annotation of a text other than its entities, skipped") == 3
    assert list(counts.values()) == [1]  # the text without entities


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ({"text": "Ada"}, 'a pair ["text", {"entities": [...]}] was expected, not an object'),
        (["Ada"], "not a pair of a text and its annotations"),
        (["Ada", [[0, 3, "PER"]]], "not a pair of a text and its annotations"),
        (["Ada", {"entities": 3}], "'entities' is not a list"),
        (["Ada", {"entities": [[0, 3]]}], "entities[0] is neither an object nor [start, end, type]"),
        (["Ada", {"entities": [[0, 9, "PER"]]}], "lies outside the text's 3 characters"),
    ],
)
def test_broken_pair_rejects_only_itself(skipping, bad, reason):
    array = ",\n".join(map(json.dumps, (PAIRS[0], bad, PAIRS[1])))
    lines = "".join(json.dumps(pair) + "\n" for pair in (PAIRS[0], bad, PAIRS[1]))
    python = f"[\n{tuple(PAIRS[0])!r},\n{bad!r},\n{tuple(PAIRS[1])!r}]"
    for content, line in ((f"[{array}]", 2), (lines, 2), (python, 3)):
        _, sentences, [rejected] = skipping(content, "spacy-v2")
        assert len(sentences) == 2
        assert reason in rejected.reason
        assert rejected.line == line


@pytest.mark.parametrize("call", ["__import__('os').getcwd()", "f('x')", "[x for x in ()]", "f'{1}'", "..."])
def test_python_is_not_run(skipping, call):
    content = f"[('Ada', {{'entities': [(0, 3, 'PER')]}}),\n ('Bob', {{'entities': {call}}})]"
    _, [sentence], [rejected] = skipping(content)
    assert sentence.words == ("Ada",)
    assert rejected.line == 2


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (PYTHON + "print(1)\n", "corpus:7: not a single list of pairs in Python"),
        (PYTHON.removesuffix("]\n"), r"corpus:2: neither JSON nor a list in Python: '\[' was never closed"),
        ("[('a', {'entities': []}), " + "-" * 100_000 + "1]", "neither JSON nor a list in Python"),
        ("[('a', {'entities': []}), " + "(" * 1000 + "]", "too many nested parentheses"),
        ("# \udcff\n[('a', {'entities': []})]".encode("utf-8", "surrogateescape"), "not UTF-8"),
    ],
)
def test_names_the_line_of_broken_python(reading, content, reason):
    reader = reading(content, "spacy-v2")
    with pytest.raises(DataError, match=reason):
        list(reader)


def test_size_of_python_files_is_limited(reading, monkeypatch):
    monkeypatch.setattr(spacy_v2, "PYTHON_BYTES", 100)
    with pytest.raises(DataError, match="must be read whole, so split the file"):
        list(reading(PYTHON))


def test_refuses_lone_surrogates_in_python(skipping):
    _, [], [rejected] = skipping(r"[('a\ud800', {'entities': []})]", "spacy-v2")
    assert "half a character" in rejected.reason


@pytest.mark.parametrize("content", ['["one text", {"text": "another"}]', '["one", "two"]', "TRAIN = 3\n"])
def test_other_lists_are_not_detected_as_pairs(content):
    assert not spacy_v2.fits(content.encode())


def test_writes_pairs_as_lines_or_as_an_array(tmp_path):
    sentence = Sentence(["Ada", "left", "."], [Entity(0, 1, "PER")], space_after=[True, False, False])
    pair = ["Ada left.", {"entities": [[0, 3, "PER"]]}]
    write([sentence, sentence], tmp_path / "out", "spacy-v2")
    assert [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()] == [pair, pair]
    write([sentence, sentence], tmp_path / "out.json", "spacy-v2")
    assert json.loads((tmp_path / "out.json").read_text()) == [pair, pair]
    assert list(read(tmp_path / "out")) == [sentence, sentence]
