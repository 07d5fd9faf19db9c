"""`fencepost suggest`, as a user runs it."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path

import pytest

from fencepost.data import read, write
from fencepost.data.writer import RepresentationError
from fencepost.runtime import chunks
from fencepost.runtime.recogniser import Recogniser
from fencepost.runtime.suggestion import choose
from fencepost.runtime.suggestion.checkpoint import SUFFIX

SENTENCES = list(islice(read("sample:train"), 24))
TEXTS = [sentence.text for sentence in SENTENCES]


@pytest.fixture
def source(tmp_path) -> Path:
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def suggest(run, exported_model, source):
    """Run the command on the texts; the output is beside them."""

    def invoke(*options, output="next.jsonl", code=0):
        named = () if output is None else ("--output", source.parent / output)
        return run("suggest", exported_model, source, *named, *options, code=code)

    return invoke


def test_writes_the_best_sentences_with_entities_and_ranks(suggest, source, exported_model):
    import fencepost

    messages = suggest("--count", 5).stderr
    assert "5 sentences of 24, with " in messages
    assert " (uncertainty) -> " in messages
    suggestions = list(read(source.with_name("next.jsonl")))
    expected = choose(fencepost.load(exported_model), TEXTS, 5)
    assert [sentence.meta["suggest"]["rank"] for sentence in suggestions] == [1, 2, 3, 4, 5]
    assert [sentence.words for sentence in suggestions] == [sentence.words for sentence in expected]
    assert [s.entities for s in suggestions] == [s.entities for s in expected]
    assert not source.with_name(f"next.jsonl{SUFFIX}").exists()


def test_writes_other_formats_and_standard_output(suggest, source):
    suggest("--count", 3, "--to", "label-studio", output="tasks.json")
    tasks = json.loads(source.with_name("tasks.json").read_text())
    assert len(tasks) == 3
    scores = [result["score"] for task in tasks for one in task["predictions"] for result in one["result"]]
    assert scores
    assert all(0 < score < 1 for score in scores)
    lines = suggest(
        "--count", 3, "--exclude", source.with_name("tasks.json"), output=None
    ).stdout.splitlines()
    assert len(lines) == 3
    sentences = {"".join(json.loads(line)["words"]) for line in lines}  # unfinished tasks are excluded, too
    assert not sentences & {"".join(task["data"]["text"].split()) for task in tasks}
    assert "suggest" in json.loads(lines[0])["meta"]
    refused = suggest("--count", 3, output="next.conll", code=2).stderr
    assert "conll cannot represent overlapping entities" in refused
    suggest("--count", 3, "--overlaps", "outermost", output="next.conll")
    assert len(list(read(source.with_name("next.conll")))) == 3


def test_json_has_counts(suggest, source):
    write(SENTENCES[:4], source.with_name("train.jsonl"))
    result = suggest("--count", 30, "--exclude", source.with_name("train.jsonl"), "--json")
    figures = json.loads(result.stdout)
    assert (figures["texts"], figures["sentences"], figures["excluded"]) == (24, 24, 4)
    assert figures["suggested"] == len(list(read(source.with_name("next.jsonl")))) == 20
    assert "only 20 different sentences can be suggested" in result.stderr
    words = {sentence.words for sentence in read(source.with_name("next.jsonl"))}
    assert not words & {sentence.words for sentence in SENTENCES[:4]}
    assert len(words) == 20


def test_default_model_is_the_shipped_one(run, tmp_path):
    (tmp_path / "a.csv").write_text('body\n"Ada met Charles in London."\n')
    run("suggest", tmp_path / "a.csv", "--text-column", "body", "--output", tmp_path / "b.jsonl")
    (sentence,) = read(tmp_path / "b.jsonl")
    assert {sentence.phrase(entity) for entity in sentence.entities} >= {"Ada", "London"}


@pytest.mark.parametrize("strategy", ["uncertainty", "random"])
def test_resumed_run_equals_an_uninterrupted_one(suggest, source, strategy, monkeypatch):
    monkeypatch.setattr(chunks, "TEXTS", 4)
    options = ("--count", 3, "--strategy", strategy)
    suggest(*options, output="whole.jsonl")
    unfinished = source.with_name(f"next.jsonl{SUFFIX}")
    prepare, prepared = Recogniser.prepare, []

    def interrupt(self, text, limit=None):
        prepared.append(text)
        if len(prepared) == 10:
            raise KeyboardInterrupt
        return prepare(self, text, limit)

    monkeypatch.setattr(Recogniser, "prepare", interrupt)
    message = suggest(*options, code=130).stderr
    assert (
        f"interrupted; continue with the same command and --resume (the progress is in {unfinished})"
        in message
    )
    assert unfinished.exists()
    assert not source.with_name("next.jsonl").exists()
    assert "belongs to an interrupted run; use --resume to continue it" in suggest(*options, code=2).stderr
    assert "was made with other options" in suggest("--count", 4, "--resume", code=2).stderr
    prepared.clear()
    monkeypatch.setattr(Recogniser, "prepare", lambda *rest: prepared.append(1) or prepare(*rest))
    suggest(*options, "--resume")
    assert len(prepared) == len(TEXTS) - 8  # those of whole blocks are finished
    assert source.with_name("next.jsonl").read_bytes() == source.with_name("whole.jsonl").read_bytes()
    assert not unfinished.exists()
    assert "already complete" in suggest(*options, "--resume").stderr


def test_resume_after_a_refused_format_computes_nothing_again(suggest, source, monkeypatch):
    """A format refuses, for example, crossing entities."""

    def refuse(*_, **__):
        raise RepresentationError("this format cannot represent them")

    with monkeypatch.context() as patch:
        patch.setattr("fencepost.cli.suggestion.write_corpus", refuse)
        assert "this format cannot represent them" in suggest("--count", 3, code=1).stderr
    assert source.with_name(f"next.jsonl{SUFFIX}").exists()
    monkeypatch.setattr(Recogniser, "compute", None)
    suggest("--count", 3, "--resume")
    assert len(list(read(source.with_name("next.jsonl")))) == 3


def test_existing_files_are_overwritten_only_with_force(suggest, source):
    out = source.with_name("next.jsonl")
    out.write_text("precious\n")
    assert "already exists; use --resume to continue" in suggest("--count", 2, code=2).stderr
    assert out.read_text() == "precious\n"
    assert "give only one of them" in suggest("--count", 2, "--force", "--resume", code=2).stderr
    suggest("--count", 2, "--force")
    assert len(list(read(out))) == 2
    for more in (["--exclude", out], []):
        message = suggest("--force", *more, output="next.jsonl" if more else source.name, code=2).stderr
        assert "would overwrite the input" in message
    assert len(source.read_text().splitlines()) == len(TEXTS)


def test_refuses_wrong_arguments(run, suggest, source, exported_model, tmp_path):
    assert "--count" in suggest("--count", 0, code=2).stderr
    assert "--strategy" in suggest("--strategy", "best", code=2).stderr
    assert "there is no folder" in suggest(output="no/where.jsonl", code=2).stderr
    assert "cannot both use standard output" in suggest("--json", output=None, code=2).stderr
    assert "--resume needs --output FILE" in suggest("--resume", output=None, code=2).stderr
    assert "leave it out" in suggest("--keep-rejected", code=2).stderr
    assert "give the texts after it" in run("suggest", exported_model, code=2).stderr
    assert "not a model folder" in run("suggest", tmp_path, source, code=2).stderr
    assert "one file of texts" in run("suggest", exported_model, source, source, code=2).stderr
    (tmp_path / "empty.txt").write_text("")
    out = tmp_path / "out.jsonl"
    message = run("suggest", exported_model, tmp_path / "empty.txt", "--output", out, code=2).stderr
    assert "empty.txt: nothing to suggest: it contains no sentences" in message
    write(SENTENCES, tmp_path / "train.jsonl")
    message = suggest("--exclude", tmp_path / "train.jsonl", output="out.jsonl", code=2).stderr
    assert "nothing to suggest: all sentences are excluded" in message
    assert not out.exists()
    assert not Path(f"{out}{SUFFIX}").exists()


def test_invalid_texts_are_refused_or_skipped(run, exported_model, tmp_path):
    path = tmp_path / "texts.jsonl"
    path.write_text('{"text": "Ada met him."}\n{"text": 1}\n{"text": "He met Ada."}\n')
    out = tmp_path / "out.jsonl"
    assert "texts.jsonl:2:" in run("suggest", exported_model, path, "--output", out, code=2).stderr
    run("suggest", exported_model, path, "--output", out, "--skip-invalid", "--force")
    assert len(list(read(out))) == 2
