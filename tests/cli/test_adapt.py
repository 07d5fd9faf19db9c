"""`fencepost adapt`: from a file of texts to an encoder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.encoder import tiny
from tests.runtime.models import save_bert


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_bert(tmp_path_factory.mktemp("bert"))


def test_adapts_to_texts_in_several_formats(run, encoder: Path, tmp_path: Path) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text("\n".join(tiny.TEXT * 3), encoding="utf-8")
    options = ["--epochs", 1, "--batch-size", 4]
    outcome = run("adapt", encoder, texts, "--out", tmp_path / "a", "--json", tmp_path / "a.json", *options)
    assert f"train a model with fencepost train --encoder {tmp_path / 'a'}" in outcome.stdout
    result = json.loads((tmp_path / "a.json").read_text())
    assert result["sentences"] + result["held_out"] == 36
    assert result["loss_after"] < result["loss_before"]
    run("adapt", encoder, "sample:dev", "--out", tmp_path / "b", "--quiet", *options)
    assert (tmp_path / "b" / "model.safetensors").is_file()


def test_refuses_empty_missing_and_unsuitable_input(run, encoder: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty.txt"
    empty.write_text("")
    assert "give more text" in run("adapt", encoder, empty, "--out", tmp_path / "out", code=2).stderr
    assert "nothing to adapt" in run("adapt", "scratch", empty, "--out", tmp_path / "out", code=2).stderr
    missing = run("adapt", encoder, tmp_path / "none.txt", "--out", tmp_path / "out", code=2)
    assert "none.txt" in missing.stderr
