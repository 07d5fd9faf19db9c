"""`fencepost combine`: its result works in every command that takes a model."""

from __future__ import annotations

import json
import shutil
from itertools import islice
from pathlib import Path

import pytest

from fencepost.config import Config
from fencepost.data import read, write
from fencepost.runtime.loading import load
from fencepost.training import train


@pytest.fixture(scope="module")
def members(small_model: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The small model, and one of another seed with fewer epochs."""
    folder = tmp_path_factory.mktemp("other")
    config = Config.parse(json.loads((small_model / "config.json").read_text())["config"])
    update = {"seed": 2, "epochs": 8}
    config = config.model_copy(update={"training": config.training.model_copy(update=update)})
    train(config, list(islice(read("sample:train"), 40)), folder / "model")
    return [small_model, folder / "model"]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sentences that both models have learnt, so that they predict entities."""
    path = tmp_path_factory.mktemp("corpus") / "dev.jsonl"
    write(islice(read("sample:train"), 40), path)
    return path


@pytest.fixture
def combined(run, members: list[Path], corpus: Path, tmp_path: Path) -> Path:
    out = tmp_path / "combined"
    result = run("combine", *members, "--dev", corpus, "--out", out, "--json", tmp_path / "result.json")
    assert "boundary-smoothing 2" in result.stdout
    assert f"the model is in {out}" in result.stdout.replace("\n", "")
    return out


def test_combination_works_in_all_commands(
    run, combined: Path, members: list[Path], corpus: Path, tmp_path: Path
) -> None:
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["dev"]["f1"] >= max(member["f1"] for member in result["members"])
    run("evaluate", combined, corpus, "--json", tmp_path / "scores.json")
    assert json.loads((tmp_path / "scores.json").read_text())["f1"] == result["dev"]["f1"]
    run("check", combined)
    output = run("analyze", "method", combined, corpus, "--out", tmp_path / "analysis").stdout
    assert "Candidates by minimum number of votes" in output
    assert "2 (intersection)" in output
    run("compare", combined, members[1], "--data", corpus)
    run("report", combined, "--data", corpus, "--out", tmp_path / "report.html")
    text = " ".join(next(iter(read(corpus))).words)
    assert "Tamar Ford" in run("predict", combined, text, "--output", "-").stdout
    run("export", combined, "--check", corpus)
    assert load(combined).engine == "onnx"
    run("check", combined)
    run("evaluate", combined, corpus, "--json", tmp_path / "scores.json")
    assert json.loads((tmp_path / "scores.json").read_text())["f1"] == result["dev"]["f1"]


def test_members_have_equal_weights_without_development_data(
    run, members: list[Path], tmp_path: Path
) -> None:
    output = run("combine", *members, "--out", tmp_path / "out").stdout
    assert "all members have the same weight" in output


def test_refuses_wrong_arguments(run, members: list[Path], combined: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    wrong = ["combine", *members, "--out", tmp_path / "out"]
    assert "contains no sentences" in run(*wrong, "--dev", empty, code=2).stderr
    assert "not a model folder" in run("combine", members[0], tmp_path, "--out", "x", code=2).stderr
    train_from = ["train", "--train", "sample:dev", "--from", combined, "--out", tmp_path / "more"]
    assert "start from one of its members" in run(*train_from, code=2).stderr
    train_from[4] = "names"  # the installed model, not a folder
    assert "no weights (model.safetensors) to start from" in run(*train_from, code=2).stderr


def test_check_names_a_damaged_member(run, combined: Path) -> None:
    shutil.copyfile(
        combined / "members" / "1" / "config.json", combined / "members" / "2" / "vocabulary.json"
    )
    assert "members/2/vocabulary.json" in run("check", combined, code=1).stdout
