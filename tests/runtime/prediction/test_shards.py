"""Files that are split into parts, without prediction."""

from __future__ import annotations

import hashlib
import json
import os
from decimal import Decimal
from pathlib import Path

import pytest
from pyarrow import StructArray, Table, array, date32, list_, parquet, table

from fencepost.data.formats.format import ReadOptions
from fencepost.errors import DataError, UsageError
from fencepost.runtime.prediction.shards import PartReader, Shard, ShardPart, find_files, plan_shard
from fencepost.runtime.prediction.text import Text
from fencepost.runtime.prediction.texts import Texts, open_texts

LINES = ["Ada", "", "met", "Charles Babbage", "日本 ß", "\ufeffmarked", "x" * 30, "in", "London\x85here", "."]


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch) -> None:
    monkeypatch.setattr("fencepost.runtime.chunks.TEXTS", 3)
    monkeypatch.setattr("fencepost.runtime.chunks.CHARACTERS", 20)


def shard(path: Path, format_: str | None = None, *, skip: bool = False, column: str | None = None) -> Shard:
    on_invalid = (lambda _: None) if skip else None
    with open_texts(str(path), format_, ReadOptions(), on_invalid, column) as texts:
        return plan_shard(texts)


def read_back(of: Shard) -> list[list[str]]:
    reader = PartReader()
    return [[text.text for text in reader.read(of.file, part)] for part in of.parts]


EXPECTED = [["Ada", "", "met"], ["Charles Babbage", "日本 ß"], ["\ufeffmarked"], ["x" * 30]]
EXPECTED += [["in", "London\x85here", "."]]


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", [True, False])
def test_splits_text_files_into_parts(tmp_path, mark, end, last):
    path = tmp_path / "a.txt"
    path.write_bytes(mark + (end.join(LINES) + end * last).encode())
    cut = shard(path)
    assert read_back(cut) == EXPECTED
    assert cut.texts == len(LINES)
    assert cut.file.size == cut.parts[-1].end == path.stat().st_size
    assert cut.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert cut.parts[0].start == len(mark)


def test_splits_json_lines_with_blank_and_invalid_ones(tmp_path):
    path = tmp_path / "a.jsonl"
    lines = [json.dumps({"n": number, "text": line}) for number, line in enumerate(LINES)]
    lines[0:0] = [""]
    lines[4:4] = ['{"text": 1}', "", '\ufeff{"text": "with a mark"}']
    path.write_bytes("\n".join([*lines, "no JSON", "\udcff"]).encode("utf-8", "surrogateescape"))
    with pytest.raises(DataError, match=r"a\.jsonl:5: 'text' is missing"):
        shard(path)
    cut = shard(path, skip=True)
    assert read_back(cut) == EXPECTED
    carried = [text.fields for part in cut.parts for text in PartReader().read(cut.file, part)]
    assert carried == [{"n": number} for number in range(len(LINES))]


@pytest.mark.parametrize("size", [1, 2, 4, 100])
def test_splits_parquet_into_parts(tmp_path, size, monkeypatch):
    monkeypatch.setattr("fencepost.data.formats.parquet._BATCH", 2)
    path = tmp_path / "a.parquet"
    texts = [*LINES[:4], None, *LINES[4:]]
    parquet.write_table(table({"text": texts, "n": range(11)}), path, row_group_size=size)
    with pytest.raises(DataError, match=r"a\.parquet:5: 'text' is missing"):
        shard(path)
    cut = shard(path, skip=True)
    assert read_back(cut) == EXPECTED
    reader = PartReader()
    backwards = [[t.text for t in reader.read(cut.file, part)] for part in reversed(cut.parts)]
    assert backwards == EXPECTED[::-1]
    assert [t.fields for t in reader.read(cut.file, cut.parts[-1])] == [{"n": n} for n in (8, 9, 10)]


@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet"])
def test_parts_read_the_chosen_text_column(tmp_path, name):
    path = tmp_path / name
    if name.endswith(".jsonl"):
        path.write_text("".join(json.dumps({"body": line}) + "\n" for line in LINES))
    else:
        parquet.write_table(table({"body": LINES}), path)
    assert read_back(shard(path, column="body")) == EXPECTED


def test_refuses_unusable_parquet(tmp_path):
    path = tmp_path / "a.parquet"
    parquet.write_table(table({"texts": ["a"]}), path)
    with pytest.raises(DataError, match=r"there must be one column 'text'; the columns are texts"):
        shard(path)
    parquet.write_table(table({"text": [1]}), path)
    with pytest.raises(DataError, match=r"the column 'text' is int64, not string"):
        shard(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-6])
    with pytest.raises(DataError, match=r"a\.parquet: the Parquet file cannot be read"):
        shard(path)
    broken = array([b"Ada", b"\xff\xfe"]).cast("string", safe=False)
    parquet.write_table(table({"text": broken}), path)
    with pytest.raises(DataError, match=r"a\.parquet:1: this row, or one close after it, cannot be read"):
        shard(path)


def test_empty_file_has_no_parts(tmp_path):
    (tmp_path / "a.txt").touch()
    parquet.write_table(table({"text": array([], "string")}), tmp_path / "a.parquet")
    assert shard(tmp_path / "a.txt").parts == shard(tmp_path / "a.parquet").parts == []


@pytest.mark.parametrize("content", [b"", b"\n", b" \r\n\n\t\n", b"\xef\xbb\xbf\n"])
def test_blank_file_is_not_a_corpus(tmp_path, content):
    for name, kind in (("a.jsonl", "json"), ("a.JSON", "json"), ("a.txt", "text"), ("a", "text")):
        (tmp_path / name).write_bytes(content)
        cut = shard(tmp_path / name)
        assert cut.file.kind == kind
        assert cut.texts == (content.count(b"\n") if kind == "text" else 0)
    (tmp_path / "a.conll").write_bytes(content)
    with pytest.raises(UsageError, match=r"is a corpus \(conll\)"):
        shard(tmp_path / "a.conll")


def noted(path: Path) -> tuple[list[Text], list[str]]:
    """Return the texts of a file and the notes about it."""
    with open_texts(str(path), None, ReadOptions(), None) as texts:
        result = list(texts)
        return result, [str(note).removeprefix(f"{path}") for note in texts.source.notes.values()]


def test_skips_columns_that_json_cannot_represent(tmp_path):
    path = tmp_path / "a.parquet"
    columns = {
        "text": array(["Ada", "met"]),
        "n": array([1, 2]),
        "when": array([2**62, 0], "timestamp[ms]"),  # Python has no such year
        "price": array([Decimal("1.5"), None]),
        "took": array([1, 2], "duration[ns]"),
        "raw": array([b"x", None]),
        "days": array([[0], []], list_(date32())),
        "deep": array([{"a": b"x"}, None]),
        "a": array([{"b": 1, "c": [2]}, None]),
        "a.b": array([b"x", b"y"]),
        "word": array(["x", "x"]).dictionary_encode(),
    }
    names = [*columns, "twice", "twice"]
    arrays = [*columns.values(), array([1, 2]), array([3, 4])]
    parquet.write_table(Table.from_arrays(arrays, names=names), path)
    texts, notes = noted(path)
    assert [text.fields for text in texts] == [
        {"n": 1, "a": {"b": 1, "c": [2]}, "word": "x"},
        {"n": 2, "a": None, "word": "x"},
    ]
    left_out = ("'when' (timestamp", "'price' (decimal", "'took' (duration", "'raw' (binary", "'days' (list<")
    left_out += ("'deep' (struct<", "'a.b' (binary")
    assert len(notes) == len(left_out) + 1
    for note, column in zip(notes, left_out, strict=False):
        assert note.startswith(f": what JSON cannot represent is not in the output: column {column}")
    assert notes[-1] == ": columns with the same name are not in the output: 'twice'"


def test_refuses_rows_that_python_cannot_represent(tmp_path):
    path = tmp_path / "a.parquet"
    twice = StructArray.from_arrays([array([1]), array([2])], names=["x", "x"])
    parquet.write_table(table({"text": ["Ada"], "pair": twice}), path)
    with pytest.raises(DataError, match=r"a\.parquet(:1)?: .*cannot be read"):
        noted(path)


@pytest.mark.parametrize("entities", ['["Ada"]', '"none"', "[]"])
def test_notes_that_entities_of_the_input_are_replaced(tmp_path, entities):
    path = tmp_path / "a.jsonl"
    path.write_text(f'{{"text": "Ada", "entities": {entities}}}\n' * 3)
    texts, notes = noted(path)
    assert [text.fields for text in texts] == [{}] * 3
    message = (
        ":1: 'entities' of the input are replaced by the predicted ones in the output (3 times, first here)"
    )
    assert notes == ([] if entities == "[]" else [message])


def test_refuses_corpora_and_json_arrays(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"words": ["Ada"], "entities": []}\n')
    with pytest.raises(UsageError, match=r"a\.jsonl: is a corpus \(jsonl\)"):
        shard(path)
    path.write_text('[{"text": "Ada"}]')
    with pytest.raises(UsageError, match=r"a\.jsonl: is one JSON array"):
        shard(path)


def test_refuses_a_file_that_changed_after_splitting(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("Ada\nmet\n")
    cut = shard(path)
    path.write_text("Ada\nmet\nhim\n")
    with pytest.raises(DataError, match=r"a\.txt: has changed since"):
        PartReader().read(cut.file, cut.parts[0])
    path.write_text("Adamet\n\n")
    assert [text.text for text in PartReader().read(cut.file, ShardPart(0, 8, 2))] == ["Adamet", ""]
    with pytest.raises(DataError, match="has changed since"):
        PartReader().read(cut.file, ShardPart(0, 7, 2))


@pytest.mark.parametrize("replaced", [False, True])
def test_refuses_a_file_that_changes_during_splitting(tmp_path, replaced):
    path = tmp_path / "a.txt"
    path.write_text("Ada\nmet\n")

    class Changing(Texts):
        def __iter__(self):
            yield from super().__iter__()
            if replaced:
                path.rename(tmp_path / "old.txt")
            path.write_text("Bob\nmet\n")  # with the same number of bytes and lines
            os.utime(path, ns=(1, 1))

    with open_texts(str(path), None, ReadOptions(), None) as texts:
        texts.__class__ = Changing
        with pytest.raises(DataError, match=r"a\.txt: has changed since"):
            plan_shard(texts)


def test_finds_files_by_folder_pattern_or_name(tmp_path):
    (tmp_path / "deep").mkdir()
    for name in ("b.txt", "a.txt", "c.jsonl", ".hidden", "_SUCCESS", "deep/d.txt"):
        (tmp_path / name).touch()

    def names(pattern: object) -> list[str]:
        return [str(path.relative_to(tmp_path)) for path in find_files(str(pattern))]

    assert names(tmp_path) == ["a.txt", "b.txt", "c.jsonl"]
    assert names(tmp_path / "*.txt") == ["a.txt", "b.txt"]
    assert names(tmp_path / "**" / "*.txt") == ["a.txt", "b.txt", "deep/d.txt"]
    assert names(tmp_path / "c.jsonl") == ["c.jsonl"]
    for pattern, message in (
        (tmp_path / "nowhere", "there is no such file or folder"),
        (tmp_path / "*.parquet", "no file matches this pattern"),
        ("-", "several processes need files"),
        ("sample:test", "several processes need files"),
        ("", "the file name is empty"),
    ):
        with pytest.raises(UsageError, match=message):
            find_files(str(pattern))
    (tmp_path / "deep" / "d.txt").unlink()
    with pytest.raises(UsageError, match="the folder has no files"):
        find_files(str(tmp_path / "deep"))
