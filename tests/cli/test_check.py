"""`fencepost check`: exit codes, and messages about each file and engine."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from fencepost.runtime.folder import SUMS_FILE
from tests.runtime import models


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    return models.saved(models.trained(), tmp_path_factory.mktemp("whole"))


@pytest.fixture
def model(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "model"))


def test_unchanged_model_passes(run, model: Path) -> None:
    result = run("check", model)
    assert "model.safetensors: ok" in result.stdout.splitlines()
    assert result.stdout.splitlines()[-2:] == ["engine onnx: works", "engine pytorch: works"]
    report = json.loads(run("check", model, "--json").stdout)
    assert (report["ok"], report["checksums"]) == (True, True)
    assert report["engines"] == {"onnx": None, "pytorch": None}


def test_names_a_changed_file_and_loads_nothing(run, model: Path) -> None:
    path = model / "onnx" / "encoder.onnx"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    result = run("check", model, "--json", code=1)
    report = json.loads(result.stdout)
    assert report["files"]["onnx/encoder.onnx"] == "changed"
    assert (report["ok"], report["engines"]) == (False, {})
    assert "files have changed, so none was loaded" in result.stderr
    assert "onnx/encoder.onnx: changed" in run("check", model, code=1).stdout.splitlines()


def test_write_adds_checksums_to_a_working_model(run, model: Path) -> None:
    (model / SUMS_FILE).unlink()
    result = run("check", model)
    assert "has no checksums; use --write" in result.stderr
    assert not (model / SUMS_FILE).exists()
    run("check", model, "--write")
    assert (model / SUMS_FILE).is_file()
    assert json.loads(run("check", model, "--json").stdout)["checksums"]


def test_write_keeps_checksums_of_a_broken_model(run, model: Path) -> None:
    weights = model / "model.safetensors"
    save_file({name: value * float("nan") for name, value in load_file(weights).items()}, weights)
    before = (model / SUMS_FILE).read_bytes()
    result = run("check", model, "--write", code=1)
    assert "engine pytorch: " in result.stdout
    assert "the weights of this model contain NaN" in result.stdout
    assert (model / SUMS_FILE).read_bytes() == before


def test_refuses_a_folder_without_a_model(run, tmp_path: Path) -> None:
    assert "not a model folder" in run("check", tmp_path, code=2).stderr
    (tmp_path / "config.json").write_text("[", encoding="utf-8")
    assert "config.json: this file is not valid JSON" in run("check", tmp_path, code=2).stderr


def test_shipped_model_passes(run) -> None:
    assert run("check").stdout.splitlines()[-1] == "engine int8: works"
