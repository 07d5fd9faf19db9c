"""`predict --output FILE.jsonl`: only whole lines, and resuming after them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from fencepost.data import read, write
from fencepost.data.entity import Entity
from fencepost.runtime.prediction import lines as lines_module
from fencepost.runtime.prediction.lines import cut_to_whole_lines
from fencepost.runtime.pytorch import save_model
from fencepost.runtime.recogniser import Recogniser
from tests.cli.conftest import heed_ctrl_c
from tests.runtime import models

TEXTS = [sentence.text for sentence in islice(read("sample:train"), 30)]


@pytest.fixture
def source(tmp_path) -> Path:
    path = tmp_path / "in.txt"
    path.write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def whole(run, small_model, source) -> bytes:
    """Output of an uninterrupted run."""
    run("predict", small_model, "--input", source, "--output", source.with_name("whole.jsonl"))
    return source.with_name("whole.jsonl").read_bytes()


def test_existing_output_is_overwritten_only_with_force(run, small_model, source):
    out = source.with_name("out.jsonl")
    out.write_text("precious\n")
    arguments = ["predict", small_model, "--input", source, "--output", out]
    message = run(*arguments, code=2).stderr
    assert "already exists; use --resume to continue or --force to overwrite it" in message
    assert "is not output of fencepost predict" in run(*arguments, "--resume", code=2).stderr
    assert out.read_text() == "precious\n"
    run(*arguments, "--force")
    assert len(out.read_bytes().splitlines()) == len(TEXTS)


def test_empty_output_file_can_be_written(run, small_model, source, whole):
    out = source.with_name("out.jsonl")
    out.touch()
    run("predict", small_model, "--input", source, "--output", out)
    assert out.read_bytes() == whole


def test_refuses_to_overwrite_the_input(run, small_model, tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_text('{"text": "a"}\n')
    for more in ("--force", "--resume"):
        message = run("predict", small_model, "--input", path, "--output", path, more, code=2).stderr
        assert "the output would overwrite the input" in message
    (tmp_path / "same.jsonl").hardlink_to(path)
    arguments = ["predict", small_model, "--input", path, "--output", tmp_path / "same.jsonl", "--force"]
    assert "the output would overwrite the input" in run(*arguments, code=2).stderr
    assert path.read_text() == '{"text": "a"}\n'


@pytest.mark.parametrize("torn", [0, 1, 15])
def test_resume_predicts_the_remaining_chunks(run, small_model, source, whole, torn, monkeypatch):
    monkeypatch.setattr("fencepost.runtime.chunks.TEXTS", 5)
    out = source.with_name("out.jsonl")
    lines = whole.splitlines(keepends=True)
    out.write_bytes(b"".join(lines[:12]) + lines[12][:torn])
    predicted = []
    annotate = Recogniser.annotate

    def watched(self, texts):
        return annotate(self, (predicted.append(text) or text for text in texts))

    monkeypatch.setattr(Recogniser, "annotate", watched)
    result = run("predict", small_model, "--input", source, "--output", out, "--resume")
    assert predicted == TEXTS[10:]
    assert out.read_bytes() == whole
    assert "18 texts, 18 sentences, " in result.stderr
    assert "(after 12 texts of an earlier run)" in result.stderr
    again = run("predict", small_model, "--input", source, "--output", out, "--resume")
    assert "already complete, with 30 texts" in again.stderr
    assert out.read_bytes() == whole


@pytest.mark.parametrize("count", [1, 5, 12, 29])
def test_resumed_output_equals_an_uninterrupted_one(run, small_model, source, count, monkeypatch):
    """This holds although the entities of a text depend on those computed with it."""

    def compute(_, parts, watch=None):
        score = sum(len(part.sentence.words) for part in parts) / 1000
        return [[Entity(0, 1, "place", score)] for _ in parts]

    monkeypatch.setattr("fencepost.runtime.chunks.TEXTS", 5)
    monkeypatch.setattr(Recogniser, "compute", compute)
    out = source.with_name("out.jsonl")
    arguments = ["predict", small_model, "--input", source, "--output", out]
    run(*arguments)
    whole = out.read_bytes()
    assert len({json.loads(line)["entities"][0]["score"] for line in whole.splitlines()}) > 3
    out.write_bytes(b"".join(whole.splitlines(keepends=True)[:count]))
    run(*arguments, "--resume")
    assert out.read_bytes() == whole


@pytest.fixture(scope="module")
def exported(tmp_path_factory) -> Path:
    bert = models.save_bert(tmp_path_factory.mktemp("bert"))
    model = models.random_model("boundary-smoothing", {"name": str(bert), "layers": 1})
    return models.saved(model, tmp_path_factory.mktemp("model"), int8=True)


@pytest.mark.parametrize("engine", ["onnx", "int8", "pytorch"])
def test_entities_do_not_depend_on_where_a_run_was_interrupted(run, tmp_path, source, exported, engine):

    def predict(name: str, *more: object) -> list[dict[str, Any]]:
        out = tmp_path / name
        run("predict", exported, "--engine", engine, "--input", source, "--output", out, *more)
        return [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]

    whole = predict("whole.jsonl")
    predict("parts.jsonl", "--limit", 7)
    parts = predict("parts.jsonl", "--resume")
    scores = [
        [entity.pop("score") for record in records for entity in record["entities"]]
        for records in (whole, parts)
    ]
    assert len(scores[0]) > len(TEXTS) / 2
    assert parts == whole
    assert scores[1] == pytest.approx(scores[0], rel=0, abs=1e-5)


def test_corpus_resumes_at_the_next_sentence(run, small_model, tmp_path):
    arguments = ["predict", small_model, "--input", "sample:dev", "--output", tmp_path / "out.jsonl"]
    run(*arguments, "--limit", 3)
    message = run(*arguments, "--limit", 8, "--resume").stderr
    assert "5 texts, 5 sentences" in message
    texts = [json.loads(line)["text"] for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert texts == [sentence.text for sentence in islice(read("sample:dev"), 8)]


def test_resume_without_an_earlier_run_starts(run, small_model, source, whole):
    out = source.with_name("out.jsonl")
    run("predict", small_model, "--input", source, "--output", out, "--resume")
    assert out.read_bytes() == whole


def test_limit_includes_finished_texts(run, small_model, source, whole):
    out = source.with_name("out.jsonl")
    arguments = ["predict", small_model, "--input", source, "--output", out]
    run(*arguments, "--limit", 5)
    run(*arguments, "--limit", 9, "--resume")
    assert out.read_bytes() == b"".join(whole.splitlines(keepends=True)[:9])


def test_refuses_to_resume_the_output_of_another_input(run, small_model, source, whole):
    out = source.with_name("out.jsonl")
    out.write_bytes(whole)
    other = source.with_name("other.txt")
    other.write_text("\n".join([*TEXTS[:-1], "something else"]))
    message = run("predict", small_model, "--input", other, "--output", out, "--resume", code=2).stderr
    assert f"{out}:30: does not match text 30 of the input" in message
    other.write_text("\n".join(TEXTS[:-1]))
    message = run("predict", small_model, "--input", other, "--output", out, "--resume", code=2).stderr
    assert "has 30 lines, which is more than there are texts to predict" in message
    assert out.read_bytes() == whole


@pytest.mark.parametrize("precious", [b'{"mine": 1}', b'{"mine": 1}\n{"mine": 2}', b'{"text": "another'])
@pytest.mark.parametrize("count", [0, 3, 30])
def test_resume_does_not_truncate_other_files(run, small_model, source, whole, precious, count):
    out = source.with_name("out.jsonl")
    before = b"".join(whole.splitlines(keepends=True)[:count]) + precious
    out.write_bytes(before)
    run("predict", small_model, "--input", source, "--output", out, "--resume", code=2)
    assert out.read_bytes() == before


def test_resume_compares_the_other_fields_of_records(run, small_model, tmp_path):
    source, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text('{"id": 1, "text": "a"}\n{"id": 2, "text": "a", "x": 0.1}\n{"id": 3, "text": "a"}\n')
    run("predict", small_model, "--input", source, "--output", out, "--limit", 2)
    run("predict", small_model, "--input", source, "--output", out, "--resume")
    assert [json.loads(line)["id"] for line in out.read_text().splitlines()] == [1, 2, 3]
    source.write_text('{"id": 1, "text": "a"}\n{"id": 2, "text": "a"}\n{"id": 4, "text": "a"}\n')
    message = run("predict", small_model, "--input", source, "--output", out, "--resume", code=2).stderr
    assert "does not match text 3" in message


def test_incomplete_last_line_is_removed(run, small_model, source, monkeypatch):
    out = source.with_name("out.jsonl")
    encode = lines_module.encode
    count = 0

    def torn(value):
        nonlocal count
        count += 1
        if count == 4:
            with out.open("ab") as stream:
                stream.write(b'{"text": "half')  # like on a full disk
            raise OSError("No space left on device")
        return encode(value)

    monkeypatch.setattr(lines_module, "encode", torn)
    message = run("predict", small_model, "--input", source, "--output", out, code=1).stderr
    assert "No space left" in message
    assert [json.loads(line)["text"] for line in out.read_text().splitlines()] == TEXTS[:3]


def test_cut_to_whole_lines_keeps_only_complete_lines(tmp_path):
    path = tmp_path / "x"
    for content, expected in (
        (b"", (0, b"")),
        (b"torn", (0, b"")),
        (b"a\n", (1, b"a\n")),
        (b"a\nbcd\n", (2, b"bcd\n")),
        (b"a\n\nbcdefgh\ntorn", (3, b"bcdefgh\n")),
        (b"\n\n", (2, b"\n")),
    ):
        path.write_bytes(content)
        assert cut_to_whole_lines(path) == expected
        assert path.read_bytes() == content.removesuffix(b"torn")


def test_ctrl_c_leaves_whole_lines_and_suggests_resume(run, exported_model, source):
    """The model has graphs, since a process that imports PyTorch takes seconds to start."""
    out = source.with_name("out.jsonl")
    run("predict", exported_model, "--input", source, "--output", source.with_name("whole.jsonl"))
    whole = source.with_name("whole.jsonl").read_bytes()
    script = (
        "import time; from fencepost.cli import main; from fencepost.runtime.prediction import lines\n"
        "from fencepost.runtime import chunks\n"
        "chunks.TEXTS = 4\n"
        "encode = lines.encode\n"
        "lines.encode = lambda value: (time.sleep(0.1), encode(value))[1]\n"
        "main()"
    )
    arguments = ["predict", str(exported_model), "--input", str(source), "--output", str(out)]
    process = subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        preexec_fn=heed_ctrl_c,
    )
    deadline = time.monotonic() + 120
    while not (out.exists() and out.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, messages = process.communicate(timeout=60)
    assert process.returncode == 130, messages
    assert "Traceback" not in messages
    assert (
        f"interrupted; continue with the same command and --resume ({out} has the finished texts)" in messages
    )
    content = out.read_bytes()
    assert 0 < content.count(b"\n") < len(TEXTS)
    assert whole.startswith(content)
    assert content.endswith(b"\n")
    run(*arguments, "--resume")
    assert out.read_bytes() == whole


def test_csv_resumes_after_the_last_row(run, small_model, tmp_path):
    source, out = tmp_path / "in.csv", tmp_path / "out.jsonl"
    rows = "".join(f'{number},"{text}\r\n"\r\n' for number, text in enumerate(TEXTS))
    source.write_text(f"id,body\r\n{rows}", newline="")
    arguments = ["predict", small_model, "--input", source, "--output", out, "--text-column", "body"]
    run(*arguments)
    whole = out.read_bytes()
    assert [json.loads(line)["id"] for line in whole.splitlines()] == [str(n) for n in range(len(TEXTS))]
    assert json.loads(whole.splitlines()[0])["text"] == f"{TEXTS[0]}\r\n"
    out.write_bytes(b"".join(whole.splitlines(keepends=True)[:7]) + b'{"id": "7", "te')
    run(*arguments, "--resume")
    assert out.read_bytes() == whole


def test_full_disk_message_names_the_file_and_suggests_resume(run, small_model, source):
    out = source.with_name("full.jsonl")
    out.symlink_to("/dev/full")
    message = run("predict", small_model, "--input", source, "--output", out, code=1).stderr
    assert "full.jsonl: cannot be written: No space left on device; when it is writable again" in message
    assert "--resume" in message


@pytest.mark.parametrize("changes", [{"block": 40}, {"context": 1}])
def test_resumed_run_reads_the_context_of_its_first_sentence(run, tmp_path, changes):
    bert = {"name": str(models.save_bert(tmp_path / "bert")), "lstm": {"size": 0}}
    save_model(models.random_model("boundary-smoothing", bert | changes), tmp_path / "model")
    write(models.sentences(40), tmp_path / "in.jsonl")
    out = tmp_path / "out.jsonl"
    arguments = ["predict", tmp_path / "model", "--input", tmp_path / "in.jsonl", "--output", out]

    def predict(*more: object) -> list[dict[str, Any]]:
        run(*arguments, *more)
        records = map(json.loads, out.read_text(encoding="utf-8").splitlines())
        return [entity for record in records for entity in record["entities"]]

    whole = predict()
    lines = out.read_text(encoding="utf-8").splitlines(keepends=True)
    for count in (2, 13, 29, 35):
        out.write_text("".join(lines[:count]), encoding="utf-8")
        for ours, theirs in zip(predict("--resume"), whole, strict=True):
            assert ours == theirs | {"score": pytest.approx(theirs["score"], abs=1e-5)}
