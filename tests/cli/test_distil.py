"""`fencepost distil`: from a teacher, raw text and annotations to a model."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path

import pytest

from fencepost.data import read, write
from fencepost.runtime.loading import load
from tests.runtime.models import save_bert

OPTIONS = ("--encoder", "scratch", "--set", "encoder.lstm.size=16", "--epochs", "1", "--no-report")


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "train.jsonl"
    write(islice(read("sample:train"), 40), path)  # the training data of the teacher, which has all types
    return path


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    path = tmp_path / "texts.csv"
    lines = [f'{number},"{sentence.text}"' for number, sentence in enumerate(islice(read("sample:test"), 12))]
    path.write_text("\n".join(["id,body", *lines]))
    return path


def test_distilled_model_works_in_other_commands(
    run, small_model: Path, corpus: Path, texts: Path, tmp_path: Path
) -> None:
    out = tmp_path / "student"
    result = run(
        *("distil", small_model, texts, "--text-column", "body", "--train", corpus, "--dev", "sample:dev"),
        *("--sentences", "10", "--out", out, "--json", tmp_path / "result.json", *OPTIONS),
    )
    assert "annotates up to 10 sentences" in result.stderr
    assert "1 epoch over 50 sentences" in result.stderr
    assert f"the model is in {out}" in result.stdout.replace("\n", "")
    saved = json.loads((tmp_path / "result.json").read_text())
    assert saved["raw_sentences"]["read"] >= 12
    assert saved["raw_sentences"]["drawn"] == 10
    run("check", out)
    run("predict", out, "Ada met Charles in London.")
    again = run("distil", small_model, texts, "--train", corpus, "--out", out, code=2)
    assert "already exists" in again.stderr


def test_layers_reduces_the_encoder(run, small_model: Path, corpus: Path, tmp_path: Path) -> None:
    encoder = save_bert(tmp_path / "encoder", num_hidden_layers=3)
    command = ("distil", small_model, "sample:dev", "--train", corpus, "--encoder", encoder, "--epochs", "1")
    small = ("--set", "encoder.lstm.size=8", "--set", "method.size=8", "--no-report", "--sentences", "5")
    run(*command, *small, "--layers", "1", "--out", tmp_path / "student")
    names = load_names(tmp_path / "student")
    assert any("layer.0." in name for name in names)
    assert not any("layer.1." in name for name in names)
    assert load(tmp_path / "student").method == "boundary-smoothing"
    wrong = run(*command, *small, "--layers", "4", "--out", tmp_path / "wrong", code=2)
    assert "encoder.depth is 4, but" in wrong.stderr
    assert "has 3 layers" in wrong.stderr


def load_names(folder: Path) -> list[str]:
    from safetensors import safe_open

    with safe_open(folder / "model.safetensors", "pt") as file:
        return list(file.keys())


def test_refuses_wrong_arguments(run, small_model: Path, corpus: Path, texts: Path, tmp_path: Path) -> None:
    out = ("--out", tmp_path / "out")
    assert "--train" in run("distil", small_model, texts, *out, code=2).stderr
    nowhere = run("distil", tmp_path, texts, "--train", corpus, *out, code=2)
    assert "not a model folder" in nowhere.stderr
    empty = tmp_path / "empty.txt"
    empty.write_text("")
    assert "give other texts" in run("distil", small_model, empty, "--train", corpus, *out, code=2).stderr
    other = tmp_path / "other.jsonl"
    other.write_text('{"words": ["a"], "entities": [{"start": 0, "end": 1, "type": "GENE"}]}\n')
    wrong = run("distil", small_model, texts, "--text-column", "body", "--train", other, *out, code=2)
    assert "must have the same types" in wrong.stderr
    missing = run("distil", small_model, tmp_path / "none.txt", "--train", corpus, *out, code=2)
    assert "none.txt" in missing.stderr
    assert not (tmp_path / "out").exists()
