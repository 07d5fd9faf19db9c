"""The output folder: files that are kept, refused and removed."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from fencepost.data.entity import Entity, Sentence
from fencepost.errors import FencepostError, UsageError
from fencepost.runtime.document import Document
from fencepost.runtime.prediction.folder import OutputFolder, PartFile
from fencepost.runtime.prediction.results import PredictedText
from fencepost.runtime.prediction.text import Text


def make_texts(*names: str) -> list[PredictedText]:
    return [
        PredictedText(
            Text(name, {"id": name}),
            Document(name, [Sentence([name], [Entity(0, 1, "PER", 0.5)])], [[(0, len(name))]]),
        )
        for name in names
    ]


def job(*names: str, **changes: Any) -> dict[str, Any]:
    shards = [
        {"input": name, "format": "text", "input_bytes": 1, "input_sha256": "", "parts": 2, "rejected": 0}
        for name in names
    ]
    return {"fencepost": "1", "model": {"name": "m"}, "options": {"types": None}, "shards": shards, **changes}


def test_incomplete_or_damaged_part_is_not_read(tmp_path):
    part = PartFile(tmp_path / "0.part")
    assert part.read() is None
    assert [part.count_try(), part.count_try()] == [1, 2]
    summary = part.write(make_texts("Ada", "日本"))
    assert (summary.texts, summary.sentences, summary.entities) == (2, 2, 2)
    assert {path.name for path in tmp_path.iterdir()} == {"0.part"}
    same, lines = part.read()
    assert same == summary
    assert [json.loads(line)["id"] for line in lines.splitlines()] == ["Ada", "日本"]
    whole = part.path.read_bytes()
    for broken in (b"", whole[:-3], whole[:30], b"{}\n", b"[]\nx", whole.replace(b"Ada", b"Adb")):
        part.path.write_bytes(broken)
        assert part.read() is None


def filled(path: Path, content: dict[str, Any]) -> OutputFolder:
    """Return a folder with the parts of both shards, but no assembled file."""
    folder = OutputFolder(path, 2)
    folder.begin(content, resume=False)
    for shard in range(2):
        for part in range(2):
            folder.get_part(shard, part).write(make_texts(f"text {shard}{part}"))
    return folder


def test_parts_are_assembled_to_files_with_a_manifest(tmp_path):
    content = job("a", "b")
    folder = filled(tmp_path / "out", content)
    folder.get_part(0, 1).path.unlink()
    assert [list(folder.find_missing(shard, 2)) for shard in range(2)] == [[1], []]
    with pytest.raises(FencepostError, match="is missing or was changed; continue with --resume"):
        folder.assemble(0, 2)
    assert not folder.get_path(0).exists()
    folder.get_part(0, 1).write(make_texts("text 01"))
    assert folder.read_summary(0) is None
    summaries = [folder.assemble(shard, 2) for shard in range(2)]
    assert [folder.read_summary(shard) for shard in range(2)] == summaries
    assert not list(folder.unfinished.glob("*.part"))
    assert not folder.is_complete(content)
    folder.finish(content, summaries)
    assert folder.is_complete(content)
    assert {path.name for path in folder.path.iterdir()} == {
        *("manifest.json", "part-00000-of-00002.jsonl", "part-00001-of-00002.jsonl")
    }
    manifest = json.loads((folder.path / "manifest.json").read_text())
    assert (manifest["texts"], manifest["entities"], manifest["rejected"]) == (4, 4, 0)
    assert manifest["model"] == {"name": "m"}
    output = folder.get_path(1).read_bytes()
    assert manifest["shards"][1] == {
        **content["shards"][1],
        "output": "part-00001-of-00002.jsonl",
        "texts": 2,
        "sentences": 2,
        "entities": 2,
        "bytes": len(output),
        "sha256": hashlib.sha256(output).hexdigest(),
    }
    assert [json.loads(line)["text"] for line in output.splitlines()] == ["text 10", "text 11"]


def test_changed_file_must_be_made_again(tmp_path):
    folder = filled(tmp_path / "out", job("a", "b"))
    folder.assemble(0, 2)
    folder.get_path(0).write_bytes(b"other\n")
    assert folder.read_summary(0) is None
    assert list(folder.find_missing(0, 2)) == [0, 1]


def test_only_wrong_files_of_a_complete_output_are_made_again(tmp_path):
    content = job("a", "b", "c")
    folder = OutputFolder(tmp_path / "out", 3)
    folder.begin(content, resume=False)
    for shard in range(3):
        for part in range(2):
            folder.get_part(shard, part).write(make_texts(f"text {shard}{part}"))
    summaries = [folder.assemble(shard, 2) for shard in range(3)]
    folder.finish(content, summaries)
    manifest = (folder.path / "manifest.json").read_bytes()
    folder.get_path(0).write_bytes(folder.get_path(0).read_bytes().replace(b"text 00", b"text 99"))
    folder.get_path(2).unlink()
    assert not folder.is_complete(content)
    assert folder.begin(content, resume=True) == [folder.get_path(0), folder.get_path(2)]
    assert [folder.read_summary(shard) for shard in range(3)] == [None, summaries[1], None]
    assert not (folder.path / "manifest.json").exists()
    for shard in (0, 2):
        assert list(folder.find_missing(shard, 2)) == [0, 1]
        for part in range(2):
            folder.get_part(shard, part).write(make_texts(f"text {shard}{part}"))
        folder.assemble(shard, 2)
    folder.finish(content, summaries)
    assert (folder.path / "manifest.json").read_bytes() == manifest
    assert folder.is_complete(content)


@pytest.mark.parametrize("complete", [False, True])
def test_refuses_to_continue_another_job(tmp_path, complete):
    content = job("a", "b")
    folder = filled(tmp_path / "out", content)
    folder.get_part(0, 0).count_try()
    if complete:
        folder.finish(content, [folder.assemble(shard, 2) for shard in range(2)])
    folder.begin(content, resume=True)
    assert not list(folder.path.rglob("*.tries"))
    for other, what in (
        (job("a", "c"), "another input"),
        (job("a"), "another input"),
        (job("a", "b", options={"types": ["PER"]}), "other options"),
        (job("a", "b", model={"name": "n"}), "another model"),
        (job("a", "b", fencepost="2"), "another version of fencepost"),
    ):
        with pytest.raises(UsageError, match=f"was made with {what}, so it cannot be continued; use --force"):
            folder.begin(other, resume=True)
    folder.check(resume=True, force=False)
    folder.check(resume=False, force=True)
    with pytest.raises(UsageError, match="already exists; use --resume to continue"):
        folder.check(resume=False, force=False)


def test_force_removes_only_its_own_files(tmp_path):
    content = job("a", "b")
    folder = filled(tmp_path / "out", content)
    folder.finish(content, [folder.assemble(shard, 2) for shard in range(2)])
    (folder.path / "mine.txt").write_text("precious")
    other = OutputFolder(folder.path, 1)
    other.begin(job("c"), resume=False)
    assert {path.name for path in folder.path.iterdir()} == {"mine.txt", "unfinished"}
    (folder.path / "part-00000-of-00002.jsonl").write_text("precious")
    with pytest.raises(UsageError, match="already exists, and is not output of predict"):
        folder.begin(content, resume=False)


def test_refuses_unsuitable_output_folders(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "out").mkdir()
    for path, message in (
        (tmp_path / "file", "is a file, but several processes need a folder"),
        (tmp_path / "no" / "where", "cannot be written: there is no folder"),
    ):
        with pytest.raises(UsageError, match=message):
            OutputFolder(path, 1).check(resume=False, force=True)
    OutputFolder(tmp_path / "out", 1).check(resume=False, force=False)
    for manifest in (
        '{"name": "another tool"}',
        '{"command": "predict"}',
        '{"command": "predict", "fencepost": 1, "shards": []}',
        '{"command": "predict", "fencepost": "1", "shards": [1]}',
        '{"command": "predict", "fencepost": "1", "shards": {}}',
    ):
        (tmp_path / "out" / "manifest.json").write_text(manifest)
        for resume, force in ((False, False), (True, False), (False, True)):
            with pytest.raises(UsageError, match="already exists, and is not output of predict"):
                OutputFolder(tmp_path / "out", 1).check(resume=resume, force=force)


def test_keeps_foreign_files_in_the_unfinished_folder(tmp_path):
    content = job("a", "b")
    folder = filled(tmp_path / "out", content)
    for name in ("mine.txt", "1.json"):
        (folder.unfinished / name).write_text("precious")
    (folder.unfinished / ".fencepost-abcdefgh").mkdir()
    folder.get_part(0, 0).count_try()
    folder.begin(content, resume=False)
    assert {path.name for path in folder.unfinished.iterdir()} == {"job.json", "mine.txt", "1.json"}


def test_refuses_a_link_as_unfinished_folder(tmp_path):
    folder = filled(tmp_path / "out", job("a", "b"))
    folder.unfinished.rename(tmp_path / "elsewhere")
    folder.unfinished.symlink_to(tmp_path / "elsewhere")
    for resume, force in ((False, False), (True, False), (False, True)):
        with pytest.raises(UsageError, match="unfinished: is a link"):
            folder.check(resume=resume, force=force)


def test_refuses_before_anything_is_removed(tmp_path):
    content = job("a", "b")
    folder = filled(tmp_path / "out", content)
    folder.finish(content, [folder.assemble(shard, 2) for shard in range(2)])
    (folder.path / "part-00000-of-00001.jsonl").write_text("precious")
    with pytest.raises(UsageError, match="already exists, and is not output of predict"):
        OutputFolder(folder.path, 1).begin(job("c"), resume=False)
    assert folder.is_complete(content)
