"""Files cut into parts, without anything that predicts."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from pyarrow import array, parquet, table

from fencepost.corpus.format import ReadOptions
from fencepost.errors import DataError, UsageError
from fencepost.prediction.shards import Part, Shard, Tables, planned, shard_files, texts_of
from fencepost.prediction.texts import opened_texts

LINES = ["Ada", "", "met", "Charles Babbage", "日本 ß", "\ufeffmarked", "x" * 30, "in", "London\x85here", "."]


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch) -> None:
    monkeypatch.setattr("fencepost.runtime.chunks.TEXTS", 3)
    monkeypatch.setattr("fencepost.runtime.chunks.CHARACTERS", 20)


def shard(path: Path, format_: str | None = None, *, skip: bool = False) -> Shard:
    with opened_texts(str(path), format_, ReadOptions(), (lambda _: None) if skip else None) as texts:
        return planned(texts)


def read_back(of: Shard) -> list[list[str]]:
    tables = Tables()
    return [[text.text for text in texts_of(of.file, part, tables)] for part in of.parts]


EXPECTED = [["Ada", "", "met"], ["Charles Babbage", "日本 ß"], ["\ufeffmarked"], ["x" * 30]]
EXPECTED += [["in", "London\x85here", "."]]


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", [True, False])
def test_lines_of_text(tmp_path, mark, end, last):
    path = tmp_path / "a.txt"
    path.write_bytes(mark + (end.join(LINES) + end * last).encode())
    cut = shard(path)
    assert read_back(cut) == EXPECTED
    assert cut.texts == len(LINES)
    assert cut.file.size == cut.parts[-1].end == path.stat().st_size
    assert cut.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert cut.parts[0].start == len(mark)


def test_json_lines_with_blank_and_invalid_ones(tmp_path):
    path = tmp_path / "a.jsonl"
    lines = [json.dumps({"n": number, "text": line}) for number, line in enumerate(LINES)]
    lines[0:0] = [""]
    lines[4:4] = ['{"text": 1}', "", '\ufeff{"text": "with a mark"}']
    path.write_bytes("\n".join([*lines, "no JSON", "\udcff"]).encode("utf-8", "surrogateescape"))
    with pytest.raises(DataError, match=r"a\.jsonl:5: 'text' is missing"):
        shard(path)
    cut = shard(path, skip=True)
    assert read_back(cut) == EXPECTED
    carried = [text.carried for part in cut.parts for text in texts_of(cut.file, part, Tables())]
    assert carried == [{"n": number} for number in range(len(LINES))]


@pytest.mark.parametrize("size", [1, 2, 4, 100])
def test_rows_of_parquet(tmp_path, size, monkeypatch):
    monkeypatch.setattr("fencepost.prediction.parquet._BATCH", 2)
    path = tmp_path / "a.parquet"
    texts = [*LINES[:4], None, *LINES[4:]]
    parquet.write_table(table({"text": texts, "n": range(11)}), path, row_group_size=size)
    with pytest.raises(DataError, match=r"a\.parquet:5: 'text' is missing"):
        shard(path)
    cut = shard(path, skip=True)
    assert read_back(cut) == EXPECTED
    tables = Tables()
    backwards = [[t.text for t in texts_of(cut.file, part, tables)] for part in reversed(cut.parts)]
    assert backwards == EXPECTED[::-1]
    assert [t.carried for t in texts_of(cut.file, cut.parts[-1], tables)] == [{"n": n} for n in (8, 9, 10)]


def test_parquet_that_cannot_be_used(tmp_path):
    path = tmp_path / "a.parquet"
    parquet.write_table(table({"texts": ["a"]}), path)
    with pytest.raises(DataError, match=r"there must be one column 'text'; the columns are texts"):
        shard(path)
    parquet.write_table(table({"text": [1]}), path)
    with pytest.raises(DataError, match=r"the column 'text' is int64, not string"):
        shard(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-6])
    with pytest.raises(DataError, match=r"a\.parquet: not Parquet that can be read"):
        shard(path)
    broken = array([b"Ada", b"\xff\xfe"]).cast("string", safe=False)
    parquet.write_table(table({"text": broken}), path)
    with pytest.raises(DataError, match=r"a\.parquet:1: this row, or one close behind it, cannot be read"):
        shard(path)


def test_an_empty_file_has_no_parts(tmp_path):
    (tmp_path / "a.txt").touch()
    parquet.write_table(table({"text": array([], "string")}), tmp_path / "a.parquet")
    assert shard(tmp_path / "a.txt").parts == shard(tmp_path / "a.parquet").parts == []


def test_what_only_one_process_can_read(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"words": ["Ada"], "entities": []}\n')
    with pytest.raises(UsageError, match=r"a\.jsonl: is a corpus \(jsonl\)"):
        shard(path)
    path.write_text('[{"text": "Ada"}]')
    with pytest.raises(UsageError, match=r"a\.jsonl: is one JSON array"):
        shard(path)


def test_a_file_that_changes_meanwhile(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("Ada\nmet\n")
    cut = shard(path)
    path.write_text("Ada\nmet\nhim\n")
    with pytest.raises(DataError, match=r"a\.txt: has changed since"):
        texts_of(cut.file, cut.parts[0], Tables())
    path.write_text("Adamet\n\n")
    assert [text.text for text in texts_of(cut.file, Part(0, 8, 2), Tables())] == ["Adamet", ""]
    with pytest.raises(DataError, match="has changed since"):
        texts_of(cut.file, Part(0, 7, 2), Tables())


def test_which_files_are_meant(tmp_path):
    (tmp_path / "deep").mkdir()
    for name in ("b.txt", "a.txt", "c.jsonl", ".hidden", "_SUCCESS", "deep/d.txt"):
        (tmp_path / name).touch()

    def names(given: object) -> list[str]:
        return [str(path.relative_to(tmp_path)) for path in shard_files(str(given))]

    assert names(tmp_path) == ["a.txt", "b.txt", "c.jsonl"]
    assert names(tmp_path / "*.txt") == ["a.txt", "b.txt"]
    assert names(tmp_path / "**" / "*.txt") == ["a.txt", "b.txt", "deep/d.txt"]
    assert names(tmp_path / "c.jsonl") == ["c.jsonl"]
    for given, told in (
        (tmp_path / "nowhere", "there is no such file or folder"),
        (tmp_path / "*.parquet", "no file fits it"),
        ("-", "several processes read files"),
        ("sample:test", "several processes read files"),
    ):
        with pytest.raises(UsageError, match=told):
            shard_files(str(given))
    (tmp_path / "deep" / "d.txt").unlink()
    with pytest.raises(UsageError, match="there is no file in it"):
        shard_files(str(tmp_path / "deep"))
